"""Checks of the arguments of callers, before anything is done; everything wrong is an `InvalidInputError`.

Also finds the objects that a caller named. If one does not exist, the error suggests similar names.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from headgate.core.input.secrets import is_secret_name, looks_secret
from headgate.core.retention.kept_versions import is_expired, nearest_kept
from headgate.errors import CorruptLakeError, InvalidInputError, NotFoundError, UnsupportedError, shown
from headgate.model.identifiers import MAX_NUMBER, Version
from headgate.model.json_object import Json, JsonObject, encode
from headgate.model.named_object import Definition, Foreign, NamedObject, View
from headgate.model.record import AppBatch
from headgate.model.state import LakeState
from headgate.model.table import TableName, TableRef

T = TypeVar("T")

NO_CHECKS: Mapping[str, Callable[[str], object]] = MappingProxyType({})


def of_kind(what: str, value: object, kind: type[T]) -> T:
    """The value, if it is an instance of `kind`, one of Headgate's own types."""
    if not isinstance(value, kind):
        raise InvalidInputError(f"{what} must be a {kind.__name__}, not {shown(value)}")
    return value


def several(what: str, values: object, kind: type[T]) -> tuple[T, ...]:
    """The values as a tuple, if all are instances of `kind`. `what` names one of them in errors."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInputError(
            f"expected a list, each item of which is {what}, but got {shown(values)}", "give a list"
        )
    return tuple(of_kind(what, value, kind) for value in values)


def json_object(what: str, given: object) -> dict[str, Json]:
    """A mapping that can be stored as JSON."""
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"{what} must be a mapping of names to values, not {shown(given)}")
    try:
        return dict(JsonObject.parse(encode(dict(given)), what).fields)
    except (TypeError, ValueError, RecursionError, CorruptLakeError) as error:
        raise InvalidInputError(f"{what} cannot be written as JSON: {shown(given)}") from error


def texts(what: str, values: Iterable[str]) -> tuple[str, ...]:
    """The strings as a tuple, if none is empty. `what` names them in errors."""
    if isinstance(values, str):
        raise InvalidInputError(f"{what} must be a list of strings, not a string", f"write [{shown(values)}]")
    if not isinstance(values, Iterable):
        raise InvalidInputError(f"{what} must be a list of strings, not a {type(values).__name__}")
    given = tuple(values)
    for value in given:
        if not isinstance(value, str) or not value:
            raise InvalidInputError(f"{what} must be non-empty strings, but one is {shown(value)}")
        require_unicode(what, value)
    return given


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def text_by_name(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties whose names and values are strings, and whose names are not empty."""
    if not isinstance(properties, Mapping):
        raise InvalidInputError(f"properties must be a mapping, not a {type(properties).__name__}")
    texts("property names", properties)
    for name, value in properties.items():
        if not isinstance(value, str):
            raise InvalidInputError(
                f"the value of property {name!r} must be a string, not a {type(value).__name__}",
                "write it as a string, in quotes",
            )
        require_unicode(f"the value of property {name!r}", value)
    return dict(properties)


def tag_name(name: str) -> str:
    """The name of a tag: one line, without spaces around it."""
    (checked,) = texts("tag names", (name,))
    if checked != checked.strip() or not checked.isprintable():
        raise InvalidInputError(
            f"{name!r} is not a valid tag name", "remove spaces around it, and line breaks"
        )
    refuse_credential("the tag name", checked)
    return checked


def refuse_credential(what: str, text: str) -> None:
    """Rejects a string that looks like a credential: no later commit could remove it from the log again.

    `what` names it in the error, which does not show it.
    """
    if looks_secret(text):
        raise InvalidInputError(
            f"{what} looks like a credential, or contains one, and anybody who reads the lake could read it "
            "forever",
            "leave it out, and keep it outside of the lake",
        )


def refuse_credentials_in(what: str, value: Json) -> None:
    """The same for every string in a JSON value, at every depth."""
    match value:
        case str():
            refuse_credential(what, value)
        case list():
            for item in value:
                refuse_credentials_in(what, item)
        case dict():
            for name, item in value.items():
                refuse_credential(what, name)
                # As `name=value`, so that a name that announces a secret is recognised.
                refuse_credential(what, f"{name}={item}" if isinstance(item, str) else name)
                refuse_credentials_in(what, item)
        case _:
            return


def public_properties(
    properties: Mapping[str, str], checks: Mapping[str, Callable[[str], object]] = NO_CHECKS
) -> dict[str, str]:
    """Properties of a lake or table, which are stored forever and readable by everybody who reads the lake.

    Rejects names that announce a secret and values that look like one: no later commit could remove the value
    from the log again. `checks` are the checks of properties that have rules of their own, by name.
    """
    for name, value in text_by_name(properties).items():
        if name in checks:
            checks[name](value)
            continue
        if is_secret_name(name):
            raise InvalidInputError(
                f"the property name {name!r} says that its value is a credential, and everybody who can read "
                "the lake could read it forever",
                "keep it outside of the lake; if it is not a credential, choose another name",
            )
        refuse_credential("the property name", name)
        refuse_credential(f"the value of property {name!r}", value)
    return dict(properties)


def require_unicode(what: str, value: str) -> None:
    """Rejects half of a surrogate pair, as from a file name that is not UTF-8: it cannot be encoded."""
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInputError(f"{what}: {value!r} is not valid Unicode")


def app_batch(app: tuple[str, int]) -> AppBatch:
    """An application and the number of its batch, checked."""
    match app:
        case (str(name), int(batch)) if name and not isinstance(batch, bool) and 0 <= batch <= MAX_NUMBER:
            require_unicode("the application name", name)
            refuse_credential("the application name", name)
            return AppBatch(name, batch)
    raise InvalidInputError(
        f"app must be a name and a batch number from 0 to 2^63 - 1, not {shown(app)}",
        'write it as app=("loader", 42)',
    )


def version_number(version: int) -> Version:
    """A version that a caller named. Does not check whether the lake has it."""
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= MAX_NUMBER:
        raise InvalidInputError(f"a version must be an integer from 0 to 2^63 - 1, not {shown(version)}")
    return Version(version)


def whole_number(what: str, number: int) -> int:
    """An integer that is not a Boolean."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidInputError(f"{what} must be an integer, not {shown(number)}")
    return number


def checked_limit(limit: int | None) -> int | None:
    """The most rows or commits that a caller wants."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidInputError(f"limit must be a non-negative integer, not {shown(limit)}")
    return limit


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, extended until it is none of `taken`, ignoring case."""
    known = {one.lower() for one in taken}
    while name.lower() in known:
        name += "_"
    return name


def nearest(name: str, known: Iterable[str]) -> str | None:
    """`did you mean …?`, or None if there is no similar name."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=3)
    return f"did you mean {' or '.join(by_lower_case[match] for match in near)}?" if near else None


def unknown_column(name: str, known: Sequence[str]) -> InvalidInputError:
    """The error for a column that a table does not have, with the most similar ones that it has."""
    near = difflib.get_close_matches(name, known, n=3)
    step = f"did you mean {' or '.join(near)}?" if near else f"columns: {', '.join(known)}"
    return InvalidInputError(f"there is no column {name!r}", step)


def found_table(state: LakeState, name: str) -> TableRef:
    """The table with this name."""
    found = found_name(state, name)
    if isinstance(found, NamedObject):
        raise not_a_table(name, found.definition)
    return found


def found_name(state: LakeState, name: str) -> TableRef | NamedObject:
    """The table, view or mount with this name."""
    TableName.parse(name)
    found = state.tables.get(name) or state.objects.get(name)
    if found is None:
        step = nearest(name, [*state.tables, *state.objects]) or "create it, or check the name"
        raise NotFoundError(f"there is no table {name} at version {state.version}", step)
    return found


def not_a_table(name: str, found: Definition) -> InvalidInputError:
    """The error for a view or a mount where a table is required."""
    kind = found.kind if isinstance(found, View) else f"{found.kind} mount"
    return InvalidInputError(
        f"{name} is a {kind}, not a table: it has no rows of its own",
        "you can read it, replace it (replace=True), drop it (drop_object) and rename it (rename_object)",
    )


def require_version(newest: LakeState, version: Version) -> None:
    """Rejects a version that is not committed yet."""
    if version > newest.version:
        raise NotFoundError(
            f"version {version} does not exist; the newest is {newest.version}",
            _choice(0, newest.version.number),
        )


def require_commit(newest: LakeState, version: Version) -> None:
    """Rejects version 0, and a version that is not committed yet."""
    last = newest.version.number
    if 1 <= version.number <= last:
        return
    why = "does not exist yet" if version.number else "is the creation of the lake, without competing writers"
    none = "nothing has been committed to this lake yet; its first commit is version 1"
    raise InvalidInputError(f"version {version} {why}", _choice(1, last) if last else none)


def _choice(first: int, last: int) -> str:
    return f"choose a version from {first} to {last}" if first < last else f"choose version {last}"


def only_spark_reads(name: str, found: View | Foreign) -> UnsupportedError:
    """The error for a view without a Spark session, and for an object that this release cannot read."""
    if isinstance(found, Foreign):
        return UnsupportedError(f"a later release created {name}, a {found.kind}", "upgrade headgate")
    return UnsupportedError(f"{name} is a view, and only Spark can run its query", "use read(spark)")


def require_kept(state: LakeState, version: int, divisor: int) -> None:
    """Rejects a version that has expired."""
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


def check_callable(name: str, given: object) -> None:
    """Rejects a callback that cannot be called; None means that there is none."""
    if given is not None and not callable(given):
        raise InvalidInputError(
            f"{name} must be a function, not a {type(given).__name__}", "give a function, or leave it out"
        )
