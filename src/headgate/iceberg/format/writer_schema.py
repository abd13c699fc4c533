"""Avro schemas that come from storage: only shapes that manifests have, and how many items a record claims.

Nothing is decoded by a schema that was not checked here. Avro can describe records that contain themselves,
and lists whose items take no bytes, so a few bytes could be endless. Manifests need neither: they are records
of numbers, strings and lists. Every item of a list takes at least one byte, so there are at most as many
items as bytes; and since an item takes far more in memory, items are counted before they are decoded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from headgate.model.limits import SCHEMA_BYTES, SCHEMA_DEPTH, SCHEMA_TYPES

_BYTES = MappingProxyType({"boolean": 1, "float": 4, "double": 8})
_VARIABLE = frozenset({"int", "long"})
_SIZED = frozenset({"string", "bytes"})
LONGEST_FIXED = 1 << 16
DECIMAL_DIGITS = 38
_LOGICAL: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "int": frozenset({"date", "time-millis"}),
        "long": frozenset(
            f"{prefix}{name}"
            for name in ("timestamp-millis", "timestamp-micros", "timestamp-nanos")
            for prefix in ("", "local-")
        )
        | {"time-micros"},
        "string": frozenset({"uuid"}),
        "fixed": frozenset({"uuid", "decimal"}),
        "array": frozenset({"map"}),
    }
)
"""The logical types of each type. fastavro computes with some: a decimal of any length takes hours."""

_NUMBER, _TEXT, _BINARY, _FLAG = (
    _VARIABLE,
    frozenset({"string"}),
    frozenset({"bytes"}),
    frozenset({"boolean"}),
)


def _fields(names: str, kinds: frozenset[str]) -> dict[str, frozenset[str]]:
    return dict.fromkeys(names.split(), kinds)


_VALUES: Mapping[str, frozenset[str]] = MappingProxyType(
    _fields("status content snapshot_id added_snapshot_id partition_spec_id sort_order_id", _NUMBER)
    | _fields("sequence_number min_sequence_number file_sequence_number manifest_length", _NUMBER)
    | _fields("record_count file_size_in_bytes added_rows_count existing_rows_count", _NUMBER)
    | _fields("deleted_rows_count added_files_count existing_files_count deleted_files_count", _NUMBER)
    | _fields("file_path file_format manifest_path", _TEXT)
    | _fields("lower_bound upper_bound key_metadata", _BINARY)
    | _fields("contains_null contains_nan", _FLAG)
)
"""Fields of manifests and of their lists whose values are computed with: what each can be."""
_LISTS: Mapping[str, frozenset[str]] = MappingProxyType(_fields("split_offsets equality_ids", _NUMBER))
_PAIRS: Mapping[str, frozenset[str]] = MappingProxyType(
    _fields("column_sizes value_counts null_value_counts nan_value_counts", _NUMBER)
    | _fields("lower_bounds upper_bounds", _BINARY)
)
"""Fields that are lists of pairs, by the ids of columns: what the second of each can be."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value takes: `least` bytes, or exactly that many if it is `fixed`.

    `parts` are the shapes of fields, of the items of a list, or of the branches of a union.
    """

    kind: str
    least: int
    parts: tuple[Shape, ...] = ()


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A checked schema: `avro` as it is in the file, and its shape."""

    avro: Any
    shape: Shape


@lru_cache(maxsize=256)
def writer_schema(text: str) -> WriterSchema:
    """The schema in the header of a file. Raises `ValueError` unless manifests can have it."""
    if len(text) > SCHEMA_BYTES:
        raise ValueError(f"its schema has {len(text):,} characters; the limit is {SCHEMA_BYTES:,}")
    avro = json.loads(text)
    shape = _Check().shape(avro, 0)
    if shape.kind != "record" or not shape.least:
        raise ValueError("its schema is not a record that takes any bytes")
    return WriterSchema(avro, shape)


@dataclass(slots=True)
class _Check:
    """Walks a schema once. `fixed` are the named types so far that a name may refer to."""

    types: int = 0
    fixed: dict[str, Shape] = field(default_factory=dict)
    in_partition: bool = False
    """There the names of fields are those of the table's partition."""

    def shape(self, avro: Any, depth: int) -> Shape:
        self.types += 1
        if depth > SCHEMA_DEPTH or self.types > SCHEMA_TYPES:
            raise ValueError("its schema is nested too deeply, or has too many types")
        match avro:
            case str(name):
                return self._plain(name)
            case list(branches):
                return self._optional(branches, depth)
            case {"type": "record", "fields": list(fields)}:
                return self._record(fields, depth)
            case {"type": "array", "items": items}:
                _require_logical(avro, "array")
                return self._list(self.shape(items, depth + 1))
            case {"type": "fixed", "size": int(size), "name": str(name)}:
                return self._of_size(avro, name, size)
            case {"type": str(name)}:
                _require_logical(avro, name)
                return self._plain(name)
        raise ValueError("its schema has a type that manifests do not have")

    def _plain(self, name: str) -> Shape:
        if name in _VARIABLE or name in _SIZED:
            return Shape("long" if name in _VARIABLE else "bytes", 1)
        if name in _BYTES:
            return Shape("fixed", _BYTES[name])
        if name in self.fixed:
            return self.fixed[name]
        raise ValueError(f"its schema has the type {name[:80]!r}, which manifests do not have")

    def _optional(self, branches: Sequence[Any], depth: int) -> Shape:
        if len(branches) != 2 or branches.count("null") != 1:
            raise ValueError("its schema has a union that is not an optional value")
        return Shape(
            "union",
            1,
            tuple(
                Shape("fixed", 0) if branch == "null" else self.shape(branch, depth + 1)
                for branch in branches
            ),
        )

    def _record(self, fields: Sequence[Any], depth: int) -> Shape:
        parts = []
        for one in fields:
            match one:
                case {"name": str(name), "type": kind}:
                    parts.append(self._field(name, kind, depth + 1))
                case _:
                    raise ValueError("its schema has a field without a name or a type")
        return Shape("record", sum(part.least for part in parts), tuple(parts))

    def _field(self, name: str, kind: Any, depth: int) -> Shape:
        if self.in_partition:
            return self.shape(kind, depth)
        if not _is_as_expected(name, _present(kind)):
            raise ValueError(f"its schema has another type for {name!r} than manifests have")
        self.in_partition = name == "partition"
        found = self.shape(kind, depth)
        self.in_partition = False
        return found

    def _list(self, item: Shape) -> Shape:
        if not item.least:
            raise ValueError("its schema has items that take no bytes")
        return Shape("array", 1, (item,))

    def _of_size(self, avro: Mapping[str, Any], name: str, size: int) -> Shape:
        _require_logical(avro, "fixed")
        if not 1 <= size <= LONGEST_FIXED or isinstance(size, bool):
            raise ValueError("its schema has values of a size that manifests do not have")
        if avro.get("logicalType") == "decimal":
            _require_decimal(avro)
        self.fixed[name] = Shape("fixed", size)
        return self.fixed[name]


def _is_as_expected(name: str, avro: Any) -> bool:
    """Whether the values of a field have the types that this name has in manifests."""
    if name in _VALUES:
        return _is_plain(avro, _VALUES[name])
    match avro:
        case {"type": "array", "items": items} if name in _LISTS:
            return _is_plain(items, _LISTS[name])
        case {
            "type": "array",
            "items": {
                "type": "record",
                "fields": [{"name": "key", "type": key}, {"name": "value", "type": value}],
            },
        } if name in _PAIRS:
            return _is_plain(key, _NUMBER) and _is_plain(value, _PAIRS[name])
    return name not in _LISTS and name not in _PAIRS


def _present(avro: Any) -> Any:
    """The type of an optional value, if there is one."""
    if isinstance(avro, list):
        return next((branch for branch in avro if branch != "null"), None)
    return avro


def _is_plain(avro: Any, kinds: frozenset[str]) -> bool:
    name = avro.get("type") if isinstance(avro, dict) and "logicalType" not in avro else avro
    return isinstance(name, str) and name in kinds


def _require_logical(avro: Mapping[str, Any], kind: str) -> None:
    logical = avro.get("logicalType")
    if logical is not None and logical not in _LOGICAL.get(kind, ()):
        raise ValueError(f"its schema has the logical type {str(logical)[:80]!r} on {kind[:80]!r}")


def _require_decimal(avro: Mapping[str, Any]) -> None:
    match avro:
        case {"precision": int(precision), "size": int(size)}:
            scale = avro.get("scale", 0)
            if isinstance(scale, int) and 0 <= scale <= precision <= DECIMAL_DIGITS and size <= 16:
                return
    raise ValueError("its schema has a decimal that manifests do not have")
