"""Tables as the log knows them: a name, an identity, and the location of the current metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeGuard

from headgate.errors import CorruptLakeError, InvalidInputError, shown
from headgate.model.footprint import FileFootprint
from headgate.model.identifiers import ATTEMPTS, MAX_NUMBER, METADATA, Version, is_of_table, named_version
from headgate.model.json_object import Json, JsonObject

_PART = re.compile(r"[^\W_][\w\-]{0,99}|_[\w\-]{1,99}")
"""Letters of any script, digits, underscores and hyphens: safe in a path, a URL and an SQL name."""

HIDDEN_FROM_SPARK = "_spark_metadata"
"""Spark skips every file below a directory with this name."""


@dataclass(frozen=True, order=True, slots=True)
class TableName:
    """A namespace and a name in it, as in `sales.orders`."""

    namespace: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """The name that a caller gave; `InvalidInputError` says what is wrong with it."""
        if not isinstance(text, str):
            raise InvalidInputError(
                f"a table name must be a string such as 'sales.orders', not {shown(text)}"
            )
        parts = text.split(".")
        if len(parts) != 2:
            raise InvalidInputError(
                f"{text!r} is not a table name", "write it as namespace.table, for example 'sales.orders'"
            )
        for part in parts:
            if not _is_part(part):
                raise InvalidInputError(
                    f"{text!r} is not a table name: {part!r} is not allowed",
                    "use letters, digits, '_' and '-', at most 100 of them",
                )
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.table}"


def is_table_name(text: str) -> bool:
    """Whether a table, view or mount can have this name."""
    parts = text.split(".")
    return len(parts) == 2 and all(map(_is_part, parts))


def _is_part(text: str) -> bool:
    return text != HIDDEN_FROM_SPARK and _PART.fullmatch(text) is not None


def stored_name(text: str, origin: str) -> str:
    """A name of a table, view or mount that the lake contains, if it is valid; `origin` is the object.

    It becomes part of paths and of SQL, and is shown on terminals. Less strict than for callers: a name that
    an earlier release allowed stays readable.
    """
    parts = text.split(".")
    if len(parts) != 2 or not all(map(_PART.fullmatch, parts)):
        raise CorruptLakeError(f"{origin}: {text[:200]!r} is not a name")
    return text


@dataclass(frozen=True, slots=True)
class TableRef:
    """What the state of the lake says about a table.

    `location` and `metadata` are keys inside the lake: the directory of the table, and its current metadata
    file.
    """

    uuid: str
    location: str
    metadata: str

    def to_json(self) -> dict[str, Json]:
        return {"uuid": self.uuid, "location": self.location, "metadata": self.metadata}

    @classmethod
    def from_json(cls, source: JsonObject, newest: Version) -> TableRef:
        """A table in what the lake says about version `newest`."""
        found = cls(source.text("uuid"), source.text("location"), source.text("metadata"))
        # Files are opened and deleted by these names.
        # Earlier releases wrote the metadata of attempts next to what is published.
        if not is_of_table(found.metadata, found.location, ATTEMPTS, METADATA):
            raise CorruptLakeError(
                f"{source.origin}: a table at {found.location[:200]!r} with its metadata at "
                f"{found.metadata[:200]!r} is not inside the lake"
            )
        # What numbers in the table are compared with, when it is read.
        if (named_version(found.metadata) or 0) > newest.number:
            raise CorruptLakeError(
                f"{source.origin}: {found.metadata[:200]!r} is named after a later version than {newest}"
            )
        return found


class TableAction(Enum):
    """What a commit does to a table as a whole. The value is stored."""

    CREATE = "create"
    CHANGE = "change"
    DROP = "drop"
    RENAME = "rename"


class StructurePart(Enum):
    """The parts of a table that a schema change can change. The value is stored."""

    SCHEMA = "schema"
    SPEC = "partition-spec"
    SORT_ORDER = "sort-order"


@dataclass(frozen=True, slots=True)
class TableCommit:
    """A table in a record: where its metadata is after the commit, and what was changed.

    `name` is the name after the commit; `renamed_from` the one before, if it changed. `replaces_all`: every
    file that the table had was removed. `property_names` are the table properties that were set or removed.
    `footprint` says which files; None if there is none, or if the record was written before footprints
    existed. `structure` names the parts of the schema that were changed (values of `StructurePart`, or what a
    newer release calls its own), `dropped_fields` the ids of the columns that were dropped, at every depth.
    `verbs` are what the caller did to its rows, in the words of the interface (`append`, `overwrite`,
    `delete`, …); empty if nothing, or if the record was written before verbs existed.
    """

    name: str
    action: TableAction
    table: TableRef
    renamed_from: str | None = None
    snapshot_id: int | None = None
    operation: str | None = None
    replaces_all: bool = False
    property_names: frozenset[str] = frozenset()
    footprint: FileFootprint | None = None
    structure: frozenset[str] = frozenset()
    dropped_fields: frozenset[int] = frozenset()
    verbs: frozenset[str] = frozenset()
    unknown: Mapping[str, Json] = field(default_factory=dict)

    @property
    def only_appends(self) -> bool:
        """Whether at most rows were added, to a table that existed before and does not change otherwise."""
        stays = self.action is TableAction.CHANGE and not self.structure
        return stays and self.operation in (None, "append") and self.verbs <= {"append"}

    @property
    def bars_appends(self) -> bool:
        """Whether an append that was made before may no longer be possible: no such table, or such columns.

        Parts of the structure that a newer release knows count as well.
        """
        gone = self.action in (TableAction.DROP, TableAction.RENAME)
        return gone or bool(self.structure - {StructurePart.SPEC.value, StructurePart.SORT_ORDER.value})

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            **self.unknown,
            "name": self.name,
            "action": self.action.value,
            **self.table.to_json(),
        }
        if self.renamed_from is not None:
            fields["renamed_from"] = self.renamed_from
        if self.snapshot_id is not None:
            fields["snapshot_id"] = self.snapshot_id
            fields["operation"] = self.operation
        if self.replaces_all:
            fields["replaces_all"] = True
        if self.property_names:
            fields["property_names"] = [*sorted(self.property_names)]
        if self.footprint is not None:
            fields["footprint"] = self.footprint.to_json()
        if self.structure:
            fields["structure"] = [*sorted(self.structure)]
        if self.dropped_fields:
            fields["dropped_fields"] = [*sorted(self.dropped_fields)]
        if self.verbs:
            fields["verbs"] = [*sorted(self.verbs)]
        return fields

    @classmethod
    def from_json(cls, source: JsonObject, version: Version) -> TableCommit:
        """A table in the record of `version`."""
        action = source.text("action")
        if action not in {known.value for known in TableAction}:
            raise CorruptLakeError(f"{source.origin}: {action!r} is not a known action on a table")
        footprint, before = source.optional_object("footprint"), source.optional_text("renamed_from")
        return cls(
            name=stored_name(source.text("name"), source.origin),
            action=TableAction(action),
            table=TableRef.from_json(source, version),
            renamed_from=None if before is None else stored_name(before, source.origin),
            snapshot_id=source.optional_number("snapshot_id"),
            operation=source.optional_text("operation"),
            replaces_all=source.fields.get("replaces_all") is True,
            property_names=frozenset(source.texts("property_names")),
            footprint=None if footprint is None else FileFootprint.from_json(footprint),
            structure=frozenset(source.texts("structure")),
            dropped_fields=frozenset(source.numbers("dropped_fields")),
            verbs=frozenset(source.texts("verbs")),
            unknown=source.unknown(*_KNOWN_FIELDS),
        )


_KNOWN_FIELDS = (
    "name",
    "action",
    "uuid",
    "location",
    "metadata",
    "renamed_from",
    "snapshot_id",
    "operation",
    "replaces_all",
    "property_names",
    "footprint",
    "structure",
    "dropped_fields",
    "verbs",
)


@dataclass(frozen=True, slots=True)
class PathChange:
    """What a commit did at one virtual path."""

    files_added: int = 0
    rows_added: int = 0
    bytes_added: int = 0
    files_removed: int = 0
    rows_removed: int = 0
    bytes_removed: int = 0

    def __add__(self, other: PathChange) -> PathChange:
        return PathChange(
            self.files_added + other.files_added,
            self.rows_added + other.rows_added,
            self.bytes_added + other.bytes_added,
            self.files_removed + other.files_removed,
            self.rows_removed + other.rows_removed,
            self.bytes_removed + other.bytes_removed,
        )

    def to_json(self) -> dict[str, Json]:
        counts: dict[str, Json] = {
            "files_added": self.files_added,
            "rows_added": self.rows_added,
            "bytes_added": self.bytes_added,
            "files_removed": self.files_removed,
            "rows_removed": self.rows_removed,
            "bytes_removed": self.bytes_removed,
        }
        return {name: count for name, count in counts.items() if count}

    @classmethod
    def from_json(cls, source: JsonObject) -> PathChange:
        told = (name for name in _COUNTS if source.fields.get(name) is not None)
        return cls(**{name: source.number(name) for name in told})


def path_changes(source: JsonObject, name: str) -> dict[str, PathChange]:
    """What a commit did at each of its paths; a missing field is none.

    A commit to many partitions has as many paths, and opening a lake reads several such commits. So counts
    that are valid are read in one pass; all others go to `from_json`, which says what is wrong.
    """
    if name not in source.fields:
        return {}
    paths = source.object(name)
    return {
        path: PathChange(**told) if _are_counts(told) else PathChange.from_json(paths.object(path))
        for path, told in paths.fields.items()
    }


def _are_counts(told: Json) -> TypeGuard[dict[str, int]]:
    if type(told) is not dict or not told.keys() <= _COUNTS:
        return False
    counts: Any = told.values()
    whole = _WHOLE.issuperset(map(type, counts))
    return whole and min(counts, default=0) >= 0 and max(counts, default=0) <= MAX_NUMBER


_COUNTS = dict.fromkeys(count.name for count in fields(PathChange)).keys()
_WHOLE = frozenset({int})
NOTHING_CHANGED = PathChange()
