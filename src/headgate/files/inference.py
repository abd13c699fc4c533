"""The columns of a new table, inferred from the first rows of each file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from headgate.errors import InvalidInputError
from headgate.files.source import SourceFile

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(?P<zone>[Zz]|[+-]\d\d:?\d\d)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
WHOLE_NUMBER = pa.decimal128(38, 0)
"""The type of integers that do not fit a BIGINT."""
EXACT = pa.uint8()
"""Marks integers that a DOUBLE represents exactly, until all values are read: only these mix with fractions.

No file has this type at this point: unsigned types of Parquet files were converted to signed ones before.
"""
ROUNDED = (
    "fractions and integers that a DOUBLE would round",
    "declare the column with --schema: DECIMAL(38, 9) keeps both, DOUBLE rounds",
)
ADVICE = "declare the columns with --schema, or ingest the files into different tables"


def agreed(schemas: Sequence[tuple[SourceFile, pa.Schema]]) -> pa.Schema:
    """One schema for all files. If they disagree, the `InvalidInputError` says where."""
    (first, schema), *others = schemas
    for source, other in others:
        _require_same_columns(first, schema, source, other)
        fields = []
        for field in schema:
            seen = other.field(field.name).type
            kind = unified(field.type, seen)
            if kind is None:
                told = f"{source}: column {field.name} is {_shown(seen)}, but {_shown(field.type)} in {first}"
                raise _disagreement(told, field.type, seen)
            fields.append(field.with_type(kind))
        schema = pa.schema(fields)
    return pa.schema([pa.field(field.name, _settled(field.type)) for field in schema])


def _shown(kind: pa.DataType) -> str:
    return str(_settled(kind))


def _disagreement(told: str, one: pa.DataType, other: pa.DataType) -> InvalidInputError:
    if _is_number(one) and _is_number(other):
        why, step = ROUNDED
        return InvalidInputError(f"{told}: {why}", step)
    return InvalidInputError(told, ADVICE)


def is_exact(number: int) -> bool:
    """Whether a DOUBLE represents an integer exactly."""
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _require_same_columns(first: SourceFile, schema: pa.Schema, source: SourceFile, other: pa.Schema) -> None:
    names, others = dict.fromkeys(schema.names), dict.fromkeys(other.names)
    for name in names:
        if name not in others:
            raise InvalidInputError(f"{source} has no column {name}, which {first} has", ADVICE)
    for name in others:
        if name not in names:
            raise InvalidInputError(f"{source} has a column {name}, which {first} does not have", ADVICE)


def unified(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that can hold the values of both, or None. Only numbers are widened."""
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return pa.timestamp("us", one.tz) if (one.tz is None) == (other.tz is None) else None
    if WHOLE_NUMBER in (one, other) and all(map(_is_whole, (one, other))):
        return WHOLE_NUMBER
    if _is_number(one) and _is_number(other):
        return _unified_numbers(one, other)
    if pa.types.is_list(one) and pa.types.is_list(other):
        inner = unified(one.value_type, other.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _unified_structs(one, other)
    return None


def _unified_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    whole = [kind for kind in (one, other) if pa.types.is_integer(kind)]
    if len(whole) == 2:
        return pa.int64()
    # Only the first rows are known here: a later BIGINT value may not fit.
    return None if any(kind.bit_width == 64 for kind in whole) else pa.float64()


def _unified_structs(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    left, right = ({field.name: field.type for field in kind} for kind in (one, other))
    inner = {name: unified(left.get(name, pa.null()), right.get(name, pa.null())) for name in left | right}
    return None if None in inner.values() else pa.struct(list(inner.items()))


def _is_whole(kind: pa.DataType) -> bool:
    return bool(kind.equals(WHOLE_NUMBER) or pa.types.is_integer(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _settled(kind: pa.DataType) -> pa.DataType:
    """The type of the table's column; a column with only nulls becomes a string."""
    if pa.types.is_null(kind):
        return pa.string()
    if kind.equals(EXACT):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_list(kind):
        return pa.list_(_settled(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _settled(field.type)) for field in kind])
    return kind


def json_schema(rows: Iterable[tuple[int, Any]], source: SourceFile) -> pa.Schema:
    """The schema of JSON objects; each comes with its line number."""
    kinds: dict[str, pa.DataType] = {}
    for line, row in rows:
        for name, value in row.items():
            known, seen = kinds.get(name, pa.null()), json_type(value)
            both = None if seen is None else unified(known, seen)
            if seen is None:
                told = f"column {name} has a value that fits no type: a mixed list, or too many digits"
                raise InvalidInputError(f"{source}, line {line}: {told}", ADVICE)
            if both is None:
                told = f"column {name} is {_shown(seen)}, but {_shown(known)} in earlier lines"
                raise _disagreement(f"{source}, line {line}: {told}", known, seen)
            kinds[name] = both
    return pa.schema(list(kinds.items()))


def json_type(value: Any) -> pa.DataType | None:
    """The type of a JSON value; None if no type fits, as for a list of strings and numbers."""
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return _whole_type(value)
        case float():
            return pa.float64()
        case str():
            return _text_type(value)
        case list():
            return _list_type(value)
        case _:
            fields = {name: json_type(inner) for name, inner in value.items()}
            return None if None in fields.values() else pa.struct(list(fields.items()))


def _whole_type(number: int) -> pa.DataType | None:
    if -(2**63) <= number < 2**63:
        return EXACT if is_exact(number) else pa.int64()
    return WHOLE_NUMBER if abs(number) < 10**WHOLE_NUMBER.precision else None


def _text_type(text: str) -> pa.DataType:
    moment = _MOMENT.fullmatch(text)
    if moment is not None:
        return pa.timestamp("us", "UTC" if moment["zone"] else None)
    return pa.date32() if _DATE.fullmatch(text) else pa.string()


def _list_type(values: list[Any]) -> pa.DataType | None:
    inner: pa.DataType | None = pa.null()
    for value in values:
        kind = json_type(value)
        inner = None if inner is None or kind is None else unified(inner, kind)
    return None if inner is None else pa.list_(inner)
