"""What a commit did to the files of a table, as far as others need it to detect an overlap.

Its size is bounded, because it is part of the record. What does not fit is left out as a whole, and
comparisons must then assume the worst.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from headgate.errors import CorruptLakeError
from headgate.model.identifiers import is_key
from headgate.model.json_object import Json, JsonObject

MAX_PARTITIONS = 256
MAX_FILES = 512
"""The most marks in each list of files."""
MAX_READ_FILES = 64
"""The most marks of read files that a record has for each table, so that frequent readers do not fill it."""
MAX_POSITION_FILES = 256
MAX_KEY_BYTES = 256
"""The greatest length of a bound of a key."""

_DATA = "/data/L"

SpecPartition: TypeAlias = tuple[int, tuple[Any, ...]]
"""The id of a partition spec, and values of its fields."""
Marks: TypeAlias = frozenset[str] | None
"""Files by their marks; None if there were too many to list, so it can be any file."""


def below_table(path: str) -> str:
    """The path of a file of a table, relative to the directory of the table, such as `data/L0-<txid>/…`.

    So what a record says about files is also true in a replica of the lake, which has another root. Partition
    directories have a `=` in their names; none is called `data`.
    """
    _, found, rest = path.rpartition(_DATA)
    return f"{_DATA}{rest}"[1:] if found else path


def file_mark(path: str) -> str:
    """A short name of a data file. In practice, no two files of a table share it."""
    return hashlib.sha256(below_table(path).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Upserted:
    """Where an upsert by key looked: partitions (None: too many), and bounds of its keys by field id.

    A key column without bounds may have had any value, including null.
    """

    partitions: frozenset[SpecPartition] | None = None
    bounds: Mapping[int, tuple[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, partitions: Iterable[SpecPartition] | None, bounds: Mapping[int, tuple[Any, Any]]
    ) -> Upserted:
        """Bounded: long bounds are left out, and so are the partitions if there are many."""
        found = None if partitions is None else frozenset(partitions)
        return cls(
            found if found is None or len(found) <= MAX_PARTITIONS else None,
            {
                field_id: (low, high)
                for field_id, (low, high) in bounds.items()
                if len(repr(low)) <= MAX_KEY_BYTES and len(repr(high)) <= MAX_KEY_BYTES
            },
        )

    def to_json(self) -> dict[str, Json]:
        bounds: dict[str, Json] = {
            str(field_id): [_to_json(low), _to_json(high)] for field_id, (low, high) in self.bounds.items()
        }
        partitions = None if self.partitions is None else sorted_json(self.partitions)
        return {"partitions": partitions, "bounds": bounds}

    @classmethod
    def from_json(cls, source: JsonObject) -> Upserted:
        bounds = source.object("bounds")
        return cls(
            _partitions(source, "partitions"),
            {_field_id(name, bounds): _bounds(pair, bounds.origin) for name, pair in bounds.fields.items()},
        )


_MARKS = ("removed", "overwritten", "rewritten", "compacted", "deleted", "updated")


@dataclass(frozen=True, slots=True)
class FileFootprint:
    """What happened to the files of a table; None wherever there was too much to list.

    `added` are the partitions to which files were added. The others are marks of files: `removed` with all
    their rows; `overwritten`, those of them that were not deleted, so that other rows may replace theirs;
    `rewritten` by copy-on-write, so that their other rows are in other files; `compacted`, so that all of
    their rows are in other files; `deleted` and `updated`, files in which rows were changed by position.
    `upserted` is set by an upsert by key, and by a merge that inserts. `positions` are position files that
    are not in the table, by their paths relative to its directory.
    """

    added: frozenset[SpecPartition] | None = field(default_factory=frozenset)
    removed: Marks = frozenset()
    rewritten: Marks = frozenset()
    compacted: Marks = frozenset()
    deleted: Marks = frozenset()
    updated: Marks = frozenset()
    upserted: Upserted | None = None
    positions: tuple[str, ...] | None = ()
    overwritten: Marks = frozenset()

    @classmethod
    def of(
        cls,
        added: Iterable[SpecPartition],
        removed: Iterable[str] = (),
        *,
        overwritten: Iterable[str] = (),
        rewritten: Iterable[str] = (),
        compacted: Iterable[str] = (),
        deleted: Iterable[str] = (),
        updated: Iterable[str] = (),
        upserted: Upserted | None = None,
        positions: Sequence[str] = (),
    ) -> FileFootprint:
        """The footprint of files, given by their paths, with a bounded size."""
        partitions = frozenset(added)
        return cls(
            partitions if len(partitions) <= MAX_PARTITIONS else None,
            _marks(removed),
            _marks(rewritten),
            _marks(compacted),
            _marks(deleted),
            _marks(updated),
            upserted,
            tuple(map(below_table, positions)) if len(positions) <= MAX_POSITION_FILES else None,
            _marks(overwritten),
        )

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {}
        if self.added is None or self.added:
            fields["added"] = None if self.added is None else sorted_json(self.added)
        for name in _MARKS:
            marks: Marks = getattr(self, name)
            if marks is None or marks:
                fields[name] = None if marks is None else [*sorted(marks)]
        if "removed" in fields:
            # Means that `removed` files have no row left, and that `overwritten` are all those that were not
            # deleted; see `from_json`.
            fields.setdefault("rewritten", [])
            fields.setdefault("overwritten", [])
        if self.upserted is not None:
            fields["upserted"] = self.upserted.to_json()
        if self.positions is None or self.positions:
            fields["positions"] = None if self.positions is None else [*self.positions]
        return fields

    @classmethod
    def from_json(cls, source: JsonObject) -> FileFootprint:
        marks = {name: _texts(source, name) for name in _MARKS}
        if "rewritten" not in source.fields:
            # Written when removed and rewritten files were one list: each can be either.
            marks["rewritten"] = marks["removed"]
        if "overwritten" not in source.fields:
            # Likewise, from before deleted and overwritten files were distinguished.
            marks["overwritten"] = marks["removed"]
        upserted = source.optional_object("upserted")
        positions = source.fields.get("positions", [])
        return cls(
            added=_partitions(source, "added"),
            **marks,
            upserted=None if upserted is None else Upserted.from_json(upserted),
            positions=None if positions is None else _positions(source),
        )


def _positions(source: JsonObject) -> tuple[str, ...]:
    paths = source.texts("positions")
    for path in paths:
        # The path is appended to the directory of the table, and then read, copied or deleted.
        if not is_key(path):
            raise CorruptLakeError(
                f"{source.origin}: {path[:200]!r} is not the path of a file inside the table"
            )
    return paths


def reads_to_json(reads: Mapping[str, Marks]) -> dict[str, Json]:
    """The tables that a transaction has read, by uuid, with the marks of the files."""
    return {uuid: None if marks is None else [*sorted(marks)] for uuid, marks in sorted(reads.items())}


def reads_from_json(source: JsonObject, name: str) -> Mapping[str, Marks] | None:
    """The same, from JSON; None if the record was written before reads were recorded."""
    if name not in source.fields:
        return None
    reads = source.object(name)
    return {uuid: _texts(reads, uuid) for uuid in reads.fields}


def _marks(paths: Iterable[str]) -> Marks:
    marks = frozenset(file_mark(path) for path in paths)
    return marks if len(marks) <= MAX_FILES else None


def _texts(source: JsonObject, name: str) -> Marks:
    return None if source.fields.get(name, []) is None else frozenset(source.texts(name))


def _partitions(source: JsonObject, name: str) -> frozenset[SpecPartition] | None:
    given = source.fields.get(name, [])
    if given is None:
        return None
    if not isinstance(given, list):
        raise CorruptLakeError(f"{source.origin}: field {name!r} must be a list")
    return frozenset(_partition(item, source.origin) for item in given)


def _field_id(name: str, source: JsonObject) -> int:
    if not name.isdecimal():
        raise CorruptLakeError(f"{source.origin}: {name[:80]!r} is not a field id")
    return int(name)


def _bounds(pair: Json, origin: str) -> tuple[Any, Any]:
    match pair:
        case [low, high]:
            return _value(low, origin), _value(high, origin)
    raise CorruptLakeError(f"{origin}: {str(pair)[:80]} is not a pair of bounds")


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


def _partition(item: Json, origin: str) -> SpecPartition:
    # A commit to many partitions names them all, and most are plain values.
    if type(item) is list and item and type(item[0]) is int and _AS_THEY_ARE.issuperset(map(type, item)):
        return item[0], tuple(item[1:])
    match item:
        case [int() as spec_id, *values]:
            return spec_id, tuple(_value(value, origin) for value in values)
    raise CorruptLakeError(f"{origin}: {str(item)[:80]} is not a partition")


_AS_THEY_ARE = frozenset({type(None), bool, int, str})


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
    raise CorruptLakeError(f"{origin}: {str(value)[:80]} is not a partition value")


def shared_partitions(
    ours: Iterable[SpecPartition], theirs: Iterable[SpecPartition]
) -> frozenset[SpecPartition]:
    """Those of `ours` that are also in `theirs`, one of which may have been read from a record."""
    there = {_key(partition) for partition in theirs}
    return frozenset(partition for partition in ours if _key(partition) in there)


def _key(partition: SpecPartition) -> str:
    # As it is stored: then NaN equals itself, and values that are stored as strings are strings.
    spec_id, values = partition
    return repr([spec_id, *(_to_json(_unsigned_zero(value)) for value in values)])


def _unsigned_zero(value: Any) -> Any:
    """Zero is one key, regardless of its sign."""
    return 0.0 if isinstance(value, float) and value == 0 else value
