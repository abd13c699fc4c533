"""Converts Arrow values to JSON without rounding, in the form that Iceberg uses for single values.

Decimals are strings with all digits. Dates, times and timestamps are ISO 8601 strings; timestamps with a zone
are in UTC with `+00:00`. Binary values are hexadecimal strings, and UUIDs have their usual form. A map is an
object if its keys are strings, else a list of pairs. NaN and infinities, for which JSON has no number, are
strings too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

JsonValue: TypeAlias = Any


def column_values(column: Any) -> list[JsonValue]:
    """The values of a column, in order; a null is None."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [value for chunk in chunks for value in _values(chunk)]


def text_of(value: JsonValue) -> str | None:
    """A value as the text of a cell: None for a null, JSON for nested values."""
    match value:
        case None | str():
            return value
        case bool() | list() | dict():
            return json.dumps(value, ensure_ascii=False)
        case float():
            return repr(value)
        case _:
            return str(value)


def _values(array: Any) -> list[JsonValue]:
    kind = array.type
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(array)
    if pa.types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if isinstance(kind, pa.UuidType):
        return [_unless_null(value, lambda raw: str(UUID(bytes=raw))) for value in array.storage.to_pylist()]
    if pa.types.is_temporal(kind):
        return _moments(array)
    return [_unless_null(value, _plain) for value in array.to_pylist()]


def _unless_null(value: Any, convert: Callable[[Any], JsonValue]) -> JsonValue:
    return None if value is None else convert(value)


def _plain(value: Any) -> JsonValue:
    match value:
        case bool() | int() | str():
            return value
        case float():
            return (
                value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN")
            )
        case bytes():
            return value.hex()
        case _:
            return format(value, "f")  # a decimal, without an exponent


def _moments(array: Any) -> list[JsonValue]:
    """Converts through Arrow, because Python supports only the years 1 to 9999."""
    if pa.types.is_duration(array.type):
        return list(pc.cast(array, pa.int64()).to_pylist())
    texts = pc.cast(array, pa.string()).to_pylist()
    zoned = pa.types.is_timestamp(array.type) and array.type.tz is not None
    if zoned:
        texts = pc.cast(array.cast(pa.timestamp(array.type.unit)), pa.string()).to_pylist()
    ending = "+00:00" if zoned else ""
    # A value that Arrow cannot format as a date either appears as a number.
    return [
        text if text is None or text.startswith("<") else text.replace(" ", "T") + ending for text in texts
    ]


def _structs(array: Any) -> list[JsonValue]:
    names = [field.name for field in array.type]
    columns = [_values(array.field(position)) for position in range(len(names))]
    present = array.is_valid().to_pylist()
    return [
        {name: column[row] for name, column in zip(names, columns, strict=True)} if there else None
        for row, there in enumerate(present)
    ]


def _lists(array: Any) -> list[JsonValue]:
    inner = _values(array.flatten())
    lengths = pc.list_value_length(array).to_pylist()
    return _cut(inner, lengths)


def _maps(array: Any) -> list[JsonValue]:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys = _values(array.keys.slice(first, last - first))
    items = _values(array.items.slice(first, last - first))
    lengths = [None if value is None else len(value) for value in array.to_pylist()]
    by_text = pa.types.is_string(array.type.key_type) or pa.types.is_large_string(array.type.key_type)
    pairs = _cut([list(pair) for pair in zip(keys, items, strict=True)], lengths)
    return [dict(entry) if by_text and entry is not None else entry for entry in pairs]


def _cut(values: list[JsonValue], lengths: list[int | None]) -> list[JsonValue]:
    """Cuts `values` into consecutive lists of these lengths; a length of None yields a null."""
    found: list[JsonValue] = []
    start = 0
    for length in lengths:
        found.append(None if length is None else values[start : start + length])
        start += length or 0
    return found
