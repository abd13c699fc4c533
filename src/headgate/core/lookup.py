"""Finding what a caller named; when it is not there, the error names what is near."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from headgate.core.arguments import tag_name
from headgate.core.retention import is_expired, nearest_kept
from headgate.errors import InvalidInputError, NotFoundError
from headgate.model.identifiers import Version
from headgate.model.named_object import Definition, NamedObject, View
from headgate.model.state import LakeState
from headgate.model.table import TableName, TableRef


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, made longer until it is none of those that are taken, in whatever case."""
    known = {one.lower() for one in taken}
    while name.lower() in known:
        name += "_"
    return name


def nearest(name: str, known: Iterable[str]) -> str | None:
    """`did you mean …?`, or None if nothing is near."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=3)
    return f"did you mean {' or '.join(by_lower_case[match] for match in near)}?" if near else None


def unknown_column(name: str, known: Sequence[str]) -> InvalidInputError:
    """The error for a column that a table has not, with the nearest that it has."""
    near = difflib.get_close_matches(name, known, n=3)
    step = f"did you mean {' or '.join(near)}?" if near else f"columns: {', '.join(known)}"
    return InvalidInputError(f"there is no column {name!r}", step)


def found_table(state: LakeState, name: str) -> TableRef:
    """The table of this name."""
    found = found_name(state, name)
    if isinstance(found, NamedObject):
        raise not_a_table(name, found.definition)
    return found


def found_name(state: LakeState, name: str) -> TableRef | NamedObject:
    """The table, view or mount of this name."""
    TableName.parse(name)
    found = state.tables.get(name) or state.objects.get(name)
    if found is None:
        step = nearest(name, [*state.tables, *state.objects]) or "create it, or check the name"
        raise NotFoundError(f"there is no table {name} at version {state.version}", step)
    return found


def not_a_table(name: str, found: Definition) -> InvalidInputError:
    """The error for a view or a mount where only a table will do."""
    kind = found.kind if isinstance(found, View) else f"{found.kind} mount"
    return InvalidInputError(
        f"{name} is a {kind}, not a table: it has no rows of its own",
        "it can be read, replaced (replace=True), and dropped and renamed (drop_object, rename_object)",
    )


def require_kept(state: LakeState, version: int, divisor: int) -> None:
    """Refuses a version that cannot be read any more."""
    if not state.retention.keeps(version, divisor):
        near = nearest_kept(state.retention, version, divisor)
        raise is_expired("the lake", version, state.retention, [one for one in near if one is not None])


def found_tag(state: LakeState, name: str) -> Version:
    """The version that a tag names."""
    version = state.tags.get(tag_name(name))
    if version is None:
        every = f"tags: {', '.join(sorted(state.tags)) or 'none'}"
        raise NotFoundError(f"there is no tag {name!r}", nearest(name, state.tags) or every)
    return version
