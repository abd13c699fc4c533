"""What a commit did to the files of a table, as much as others need to see whether they meet it.

Bounded: it stands in the record. What does not fit is left out as a whole, and whoever compares must then
take the worst for granted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from headgate.errors import CorruptLakeError
from headgate.model.json_object import Json, JsonObject

MAX_PARTITIONS = 256
MAX_REMOVED = 512

SpecPartition: TypeAlias = tuple[int, tuple[Any, ...]]
"""The id of a partition spec, and values of its fields."""


def file_mark(path: str) -> str:
    """A short name of a data file: two files of one table never share it, for all that matters."""
    return hashlib.sha256(path.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FileFootprint:
    """Partitions that files were added to, and marks of files that were removed; None: too many to say."""

    added: frozenset[SpecPartition] | None = field(default_factory=frozenset)
    removed: frozenset[str] | None = frozenset()

    @classmethod
    def of(cls, added: Iterable[SpecPartition], removed: Iterable[str]) -> FileFootprint:
        """The footprint of files; `removed` are paths."""
        partitions, marks = frozenset(added), frozenset(file_mark(path) for path in removed)
        return cls(
            partitions if len(partitions) <= MAX_PARTITIONS else None,
            marks if len(marks) <= MAX_REMOVED else None,
        )

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {}
        if self.added is None or self.added:
            fields["added"] = None if self.added is None else sorted_json(self.added)
        if self.removed is None or self.removed:
            fields["removed"] = None if self.removed is None else [*sorted(self.removed)]
        return fields

    @classmethod
    def from_json(cls, source: JsonObject) -> FileFootprint:
        added, removed = source.fields.get("added", []), source.fields.get("removed", [])
        return cls(
            None
            if added is None
            else frozenset(_partition(item, source.origin) for item in _list(added, source)),
            None if removed is None else frozenset(source.texts("removed")),
        )


def sorted_json(partitions: frozenset[SpecPartition]) -> list[Json]:
    """The partitions in an order that does not depend on the process."""
    listed: list[list[Json]] = [
        [spec_id, *(_to_json(value) for value in values)] for spec_id, values in partitions
    ]
    return [*sorted(listed, key=repr)]


def _to_json(value: Any) -> Json:
    # JSON has neither bytes, nor exact decimals, nor NaN and infinity.
    match value:
        case bytes():
            return {"bytes": value.hex()}
        case Decimal():
            return {"decimal": str(value)}
        case float():
            return {"float": value.hex()}
        case None | bool() | int() | str():
            return value
        case _:
            return {"text": str(value)}


def _list(value: Json, source: JsonObject) -> list[Json]:
    if not isinstance(value, list):
        raise CorruptLakeError(f"{source.origin}: field 'added' should be a list")
    return value


def _partition(item: Json, origin: str) -> SpecPartition:
    match item:
        case [int() as spec_id, *values]:
            return spec_id, tuple(_value(value, origin) for value in values)
    raise CorruptLakeError(f"{origin}: {str(item)[:80]} is not a partition")


def _value(value: Json, origin: str) -> Any:
    match value:
        case {"bytes": str() as text}:
            return bytes.fromhex(text)
        case {"decimal": str() as text}:
            return Decimal(text)
        case {"float": str() as text}:
            return float.fromhex(text)
        case {"text": str() as text}:
            return text
        case None | bool() | int() | str():
            return value
    raise CorruptLakeError(f"{origin}: {str(value)[:80]} is not a value of a partition")
