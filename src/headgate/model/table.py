"""Tables as the log knows them: a name, an identity, and where the current metadata lies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeGuard

from headgate.errors import CorruptLakeError, InvalidInputError
from headgate.model.footprint import FileFootprint
from headgate.model.identifiers import MAX_NUMBER
from headgate.model.json_object import Json, JsonObject

_PART = re.compile(r"[^\W_][\w\-]{0,99}|_[\w\-]{1,99}")
"""Letters of any script, digits, underscores and hyphens: safe in a path, a URL and an SQL name."""

HIDDEN_FROM_SPARK = "_spark_metadata"
"""Spark passes over every file below a directory of this name."""


@dataclass(frozen=True, order=True, slots=True)
class TableName:
    """A namespace and a name in it, as in `sales.orders`."""

    namespace: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """The name that a caller gave; `InvalidInputError` says what is wrong with it."""
        if not isinstance(text, str):
            raise InvalidInputError(f"a table name is a text such as 'sales.orders', not {text!r}")
        parts = text.split(".")
        if len(parts) != 2:
            raise InvalidInputError(
                f"{text!r} is not a table name", "write it as namespace.table, for example 'sales.orders'"
            )
        for part in parts:
            if part == HIDDEN_FROM_SPARK or not _PART.fullmatch(part):
                raise InvalidInputError(
                    f"{text!r} is not a table name: {part!r} is not allowed",
                    "use letters, digits, '_' and '-', at most 100 of them",
                )
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.table}"


@dataclass(frozen=True, slots=True)
class TableRef:
    """What the state of the lake holds of a table.

    `location` and `metadata` are keys inside the lake: the directory of the table, and its current metadata
    file.
    """

    uuid: str
    location: str
    metadata: str

    def to_json(self) -> dict[str, Json]:
        return {"uuid": self.uuid, "location": self.location, "metadata": self.metadata}

    @classmethod
    def from_json(cls, source: JsonObject) -> TableRef:
        return cls(source.text("uuid"), source.text("location"), source.text("metadata"))


class TableAction(Enum):
    """What a commit does to a table as a whole. The value is what stands on storage."""

    CREATE = "create"
    CHANGE = "change"
    DROP = "drop"
    RENAME = "rename"


class StructurePart(Enum):
    """What the structure of a table consists of. The value is what stands on storage."""

    SCHEMA = "schema"
    SPEC = "partition-spec"
    SORT_ORDER = "sort-order"


@dataclass(frozen=True, slots=True)
class TableCommit:
    """A table in a record: where its metadata is after the commit, and what of it was changed.

    `name` is the one after the commit; `renamed_from` the one before, if it is another. `replaces_all`: every
    file that the table had was removed. `property_names` are the table properties that were set or removed.
    `footprint` says which files; None if there is none, or if it was written before footprints were.
    `structure` names the parts of the structure that were changed (values of `StructurePart`, or what a newer
    release calls its own), `dropped_fields` the ids of the columns that went, at every depth. `verbs` are
    what the caller did to its rows, in the words of the interface (`append`, `overwrite`, `delete`, …); empty
    if nothing, or if it was written before verbs were.
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
    def from_json(cls, source: JsonObject) -> TableCommit:
        action = source.text("action")
        if action not in {known.value for known in TableAction}:
            raise CorruptLakeError(f"{source.origin}: {action!r} is not something that is done to a table")
        footprint = source.optional_object("footprint")
        return cls(
            name=source.text("name"),
            action=TableAction(action),
            table=TableRef.from_json(source),
            renamed_from=source.optional_text("renamed_from"),
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
    """What a commit did at each of its paths; an absent field is none.

    A commit to many partitions has as many, and opening a lake reads several such commits: counts that are
    as they should be are looked at once, all others by `from_json`, which says what is wrong.
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
