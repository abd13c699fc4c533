"""Evaluates bound predicates on Arrow data: exactly the rows that they select."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, NestedField

from headgate.core.sql.predicate import Operator
from headgate.iceberg.format.avro import physical
from headgate.iceberg.format.data_file import partition_key
from headgate.iceberg.predicate.bound import (
    AllOf,
    Always,
    Among,
    AnyOf,
    Bound,
    Compare,
    Field,
    InPartitions,
    IsNan,
    IsNull,
    Matches,
    NotNan,
    NotNull,
    TransformCompare,
)
from headgate.iceberg.schema.arrow import as_numbers, transformed

_COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_OR_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_OR_EQUAL: pc.greater_equal,
}


def selected(rows: pa.Table, bound: Bound) -> pa.BooleanArray:
    """For each row, whether it is selected: one array without nulls. `rows` has the names of the schema."""
    mask = _mask(rows, bound)
    # Some of Arrow's functions keep the chunks of a table, and some do not.
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


def _mask(rows: pa.Table, bound: Bound) -> Any:
    match bound:
        case Always(value):
            return pa.repeat(pa.scalar(value), rows.num_rows)
        case AllOf(parts):
            return reduce(pc.and_, (_mask(rows, part) for part in parts))
        case AnyOf(parts):
            return reduce(pc.or_, (_mask(rows, part) for part in parts))
        case InPartitions():
            return _in_partitions(rows, bound)
        case IsNull(field):
            return _column(rows, field).is_null()
        case NotNull(field):
            return _column(rows, field).is_valid()
        case _:
            # A condition on null is null in Arrow, but false here.
            return pc.fill_null(_on_values(_column(rows, bound.field), bound), False)


def _on_values(column: Any, bound: IsNan | NotNan | Compare | Among | Matches | TransformCompare) -> Any:
    match bound:
        case IsNan():
            return pc.is_nan(column)
        case NotNan():
            return pc.invert(pc.is_nan(column))
        case Compare(field, operator, value):
            return _compared(column, field, operator, value)
        case Among(_, values, negated):
            # Nulls first: is_in treats null as a value.
            found = pc.if_else(column.is_valid(), pc.is_in(column, pa.array(values, column.type)), None)
            return pc.invert(found) if negated else found
        case Matches(_, pattern, _, negated):
            found = pc.match_substring_regex(column, _regex(pattern))
            return pc.invert(found) if negated else found
        case TransformCompare(field, transform, operator, value):
            if bound.plain is not None:
                return _mask_of(column, bound.plain)
            number = pa.scalar(value, pa.int32())
            return _COMPARE[operator](transformed(column, transform, field.type), number)


def _mask_of(column: Any, bound: Bound) -> Any:
    """Like `_mask`, for a predicate on one given column."""
    match bound:
        case Always(value):
            return pa.repeat(pa.scalar(value), len(column))
        case AllOf(parts):
            return reduce(pc.and_, (_mask_of(column, part) for part in parts))
        case AnyOf(parts):
            return reduce(pc.or_, (_mask_of(column, part) for part in parts))
        case NotNull():
            return column.is_valid()
        case _:
            assert isinstance(bound, Compare)
            return pc.fill_null(_on_values(column, bound), False)


def _compared(column: Any, field: Field, operator: Operator, value: Any) -> Any:
    if isinstance(field.type, FloatType):
        # As in Spark, a number that is no FLOAT is not rounded to one.
        column = column.cast(pa.float64())
    return _COMPARE[operator](column, pa.scalar(value, column.type))


def _in_partitions(rows: pa.Table, bound: InPartitions) -> Any:
    keys = [
        as_numbers(transformed(_column(rows, field), transform, field.type)).to_pylist()
        for field, transform in bound.fields
    ]
    found = [
        partition_key(tuple(physical(value) for value in key)) in bound.partitions
        for key in zip(*keys, strict=True)
    ]
    return pa.array(found, pa.bool_())


def _column(rows: pa.Table, field: Field) -> Any:
    column = rows.column(field.path[0])
    for part in field.path[1:]:
        column = pc.struct_field(column, part)
    kind = schema_to_pyarrow(Schema(NestedField(1, "x", field.type))).field(0).type
    # One type per column, whatever the file has: large strings, dictionaries, narrower numbers.
    return column if not field.type.is_primitive or column.type.equals(kind) else column.cast(kind)


def _regex(pattern: str) -> str:
    """The regular expression of a LIKE pattern; it matches whole strings."""
    parts: list[str] = []
    escaped = False
    for character in pattern:
        if escaped or character not in "%_\\":
            # As code points, so that no character has a meaning in the expression.
            parts.append(f"\\x{{{ord(character):x}}}")
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            parts.append(".*" if character == "%" else ".")
    return rf"(?s)\A{''.join(parts)}\z"
