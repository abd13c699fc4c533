"""The columns of a new table, from what the first rows of each file show."""

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
"""The type of whole numbers that no BIGINT holds."""
ADVICE = "say what the columns are with --schema, or ingest the files into different tables"


def agreed(schemas: Sequence[tuple[SourceFile, pa.Schema]]) -> pa.Schema:
    """One schema for all files. If they disagree, the `InvalidInputError` names the file and how."""
    (first, schema), *others = schemas
    for source, other in others:
        _require_same_columns(first, schema, source, other)
        fields = []
        for field in schema:
            kind = unified(field.type, other.field(field.name).type)
            if kind is None:
                raise InvalidInputError(
                    f"{source}: column {field.name} is {other.field(field.name).type}, "
                    f"but {field.type} in {first}",
                    ADVICE,
                )
            fields.append(field.with_type(kind))
        schema = pa.schema(fields)
    return pa.schema([pa.field(field.name, _settled(field.type)) for field in schema])


def _require_same_columns(first: SourceFile, schema: pa.Schema, source: SourceFile, other: pa.Schema) -> None:
    for name in schema.names:
        if name not in other.names:
            raise InvalidInputError(f"{source} has no column {name}, which {first} has", ADVICE)
    for name in other.names:
        if name not in schema.names:
            raise InvalidInputError(f"{source} has a column {name}, which {first} has not", ADVICE)


def unified(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, or None: only numbers are widened."""
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return pa.timestamp("us", one.tz) if (one.tz is None) == (other.tz is None) else None
    if WHOLE_NUMBER in (one, other) and all(map(_is_whole, (one, other))):
        return WHOLE_NUMBER
    if _is_number(one) and _is_number(other):
        both_whole = pa.types.is_integer(one) and pa.types.is_integer(other)
        return pa.int64() if both_whole else pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        inner = unified(one.value_type, other.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _unified_structs(one, other)
    return None


def _unified_structs(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    left, right = ({field.name: field.type for field in kind} for kind in (one, other))
    inner = {name: unified(left.get(name, pa.null()), right.get(name, pa.null())) for name in left | right}
    return None if None in inner.values() else pa.struct(list(inner.items()))


def _is_whole(kind: pa.DataType) -> bool:
    return bool(kind.equals(WHOLE_NUMBER) or pa.types.is_integer(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _settled(kind: pa.DataType) -> pa.DataType:
    """The type as tables have it: one of which nothing is known is text."""
    if pa.types.is_null(kind):
        return pa.string()
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
    """The schema of JSON objects; each comes with the number of its line."""
    kinds: dict[str, pa.DataType] = {}
    for line, row in rows:
        for name, value in row.items():
            known, seen = kinds.get(name, pa.null()), json_type(value)
            both = None if seen is None else unified(known, seen)
            if both is None:
                raise InvalidInputError(
                    f"{source}, line {line}: column {name} is {seen or 'a mixed list'}, but {known} before",
                    ADVICE,
                )
            kinds[name] = both
    return pa.schema(list(kinds.items()))


def json_type(value: Any) -> pa.DataType | None:
    """The type of a JSON value; None for a list whose elements have none together."""
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64()
        case float():
            return pa.float64()
        case str():
            return _text_type(value)
        case list():
            return _list_type(value)
        case _:
            fields = {name: json_type(inner) for name, inner in value.items()}
            return None if None in fields.values() else pa.struct(list(fields.items()))


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
