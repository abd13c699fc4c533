"""What a commit did to the files of a table, as much as others need to see whether they meet it.

Bounded: it stands in the record. What does not fit is left out as a whole, and whoever compares must then
take the worst for granted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from headgate.errors import CorruptLakeError
from headgate.model.json_object import Json, JsonObject

MAX_PARTITIONS = 256
MAX_FILES = 512
"""How many marks each list of files has at most."""
MAX_POSITION_FILES = 256
MAX_KEY_BYTES = 256
"""How long a bound of a key may be."""

_DATA = "/data/L"

SpecPartition: TypeAlias = tuple[int, tuple[Any, ...]]
"""The id of a partition spec, and values of its fields."""
Marks: TypeAlias = frozenset[str] | None
"""Files by their marks; None: too many to say, so it can be any."""


def below_table(path: str) -> str:
    """The path of a file of a table below the directory of the table, as `data/L0-<txid>/…`.

    So what is said of files in a record holds in a replica of the lake too, whose root is another. Partition
    directories have a `=` in their names; none is called `data`.
    """
    _, found, rest = path.rpartition(_DATA)
    return f"{_DATA}{rest}"[1:] if found else path


def file_mark(path: str) -> str:
    """A short name of a data file: two files of one table never share it, for all that matters."""
    return hashlib.sha256(below_table(path).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Upserted:
    """Where an upsert by key has looked: partitions (None: too many), and bounds of its keys by field id.

    A key column without bounds can have had any value, null among them.
    """

    partitions: frozenset[SpecPartition] | None = None
    bounds: Mapping[int, tuple[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, partitions: Iterable[SpecPartition] | None, bounds: Mapping[int, tuple[Any, Any]]
    ) -> Upserted:
        """Bounded: long bounds are left out, and so are the partitions if they are many."""
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


_MARKS = ("removed", "rewritten", "compacted", "deleted", "updated")


@dataclass(frozen=True, slots=True)
class FileFootprint:
    """What became of the files of a table; None wherever there was too much to say.

    `added`: partitions that files were added to. The rest are marks of files: `removed` with all their rows;
    `rewritten` by copy-on-write, the rest of their rows being in other files; `compacted`, all of their rows
    being in other files; `deleted` and `updated`, files in which rows were changed by position. `upserted` is
    given by an upsert by key. `positions` are position files that are not in the table, by their
    paths below its directory.
    """

    added: frozenset[SpecPartition] | None = field(default_factory=frozenset)
    removed: Marks = frozenset()
    rewritten: Marks = frozenset()
    compacted: Marks = frozenset()
    deleted: Marks = frozenset()
    updated: Marks = frozenset()
    upserted: Upserted | None = None
    positions: tuple[str, ...] | None = ()

    @classmethod
    def of(
        cls,
        added: Iterable[SpecPartition],
        removed: Iterable[str] = (),
        *,
        rewritten: Iterable[str] = (),
        compacted: Iterable[str] = (),
        deleted: Iterable[str] = (),
        updated: Iterable[str] = (),
        upserted: Upserted | None = None,
        positions: Sequence[str] = (),
    ) -> FileFootprint:
        """The footprint of files, given by their paths, in bounded size."""
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
            # Says that `removed` means files without any row left; see `from_json`.
            fields.setdefault("rewritten", [])
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
        upserted = source.optional_object("upserted")
        positions = source.fields.get("positions", [])
        return cls(
            added=_partitions(source, "added"),
            **marks,
            upserted=None if upserted is None else Upserted.from_json(upserted),
            positions=None if positions is None else source.texts("positions"),
        )


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
        raise CorruptLakeError(f"{source.origin}: field {name!r} should be a list")
    return frozenset(_partition(item, source.origin) for item in given)


def _field_id(name: str, source: JsonObject) -> int:
    if not name.isdecimal():
        raise CorruptLakeError(f"{source.origin}: {name[:80]!r} is not a field id")
    return int(name)


def _bounds(pair: Json, origin: str) -> tuple[Any, Any]:
    match pair:
        case [low, high]:
            return _value(low, origin), _value(high, origin)
    raise CorruptLakeError(f"{origin}: {str(pair)[:80]} are not two bounds")


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
    raise CorruptLakeError(f"{origin}: {str(value)[:80]} is not a value of a partition")


def shared_partitions(
    ours: Iterable[SpecPartition], theirs: Iterable[SpecPartition]
) -> frozenset[SpecPartition]:
    """Those of `ours` that are also `theirs`, one of which may have been read from a record."""
    there = {_key(partition) for partition in theirs}
    return frozenset(partition for partition in ours if _key(partition) in there)


def _key(partition: SpecPartition) -> str:
    # As it is stored: there NaN equals itself, and values that are kept as text are text.
    spec_id, values = partition
    return repr([spec_id, *(_to_json(_unsigned_zero(value)) for value in values)])


def _unsigned_zero(value: Any) -> Any:
    """Zero is one key, whatever its sign."""
    return 0.0 if isinstance(value, float) and value == 0 else value
