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
                case {"name": str(), "type": kind}:
                    parts.append(self.shape(kind, depth + 1))
                case _:
                    raise ValueError("its schema has a field without a name or a type")
        return Shape("record", sum(part.least for part in parts), tuple(parts))

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
