"""Binds a written predicate to the columns of a table."""

from __future__ import annotations

import math
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
)

from headgate.core.input.arguments import unknown_column
from headgate.core.sql.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    Like,
    Literal,
    Membership,
    Not,
    NullTest,
    Operator,
    Or,
    Predicate,
    Transformed,
    TransformName,
    Truth,
)
from headgate.core.sql.predicate_text import parse_predicate
from headgate.errors import InvalidInputError
from headgate.iceberg.format.data_file import Partition, partition_key
from headgate.iceberg.format.metrics import after_prefix
from headgate.iceberg.predicate.bound import (
    Always,
    Among,
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
    both,
    either,
)
from headgate.iceberg.predicate.constants import (
    COMPARABLE,
    decimal_of,
    limits,
    time_cell,
    unscaled_of,
    value_of,
)

_TIME: dict[TransformName, Transform[Any, Any]] = {
    TransformName.YEAR: YearTransform(),
    TransformName.MONTH: MonthTransform(),
    TransformName.DAY: DayTransform(),
    TransformName.HOUR: HourTransform(),
}


def bind_text(where: str, schema: Schema) -> Bound:
    """The predicate `where`, bound to a table with `schema`.

    Raises `UnreadablePredicateError` if the text cannot be parsed. Raises `InvalidInputError` if it can, but
    refers to a column that does not exist, or compares a column with a value of another type.
    """
    return bind(parse_predicate(where), schema)


def bind(predicate: Predicate, schema: Schema) -> Bound:
    """The rows for which `predicate` is true."""
    return _Binder(schema).where(predicate, True)


def in_partitions(spec: PartitionSpec, schema: Schema, partitions: frozenset[Partition]) -> Bound:
    """The rows that belong to `partitions` of `spec`, whichever files contain them."""
    if not spec.fields:
        return Always(bool(partitions))
    fields = tuple((_field_of(schema, field.source_id), field.transform) for field in spec.fields)
    return InPartitions(spec.spec_id, fields, frozenset(partition_key(key) for key in partitions))


class _Binder:
    """`where(predicate, truth)` selects the rows for which the predicate has this truth; null has neither."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def where(self, predicate: Predicate, truth: bool) -> Bound:
        match predicate:
            case And(parts) | Or(parts):
                bound = (self.where(part, truth) for part in parts)
                return both(*bound) if isinstance(predicate, And) is truth else either(*bound)
            case Not(inner):
                return self.where(inner, not truth)
            case Constant(value):
                return Always(value is truth)
            case NullTest(term):
                field = self._field(term.column if isinstance(term, Transformed) else term, any_type=True)
                return IsNull(field) if truth else NotNull(field)
            case Truth(column):
                return self._truth(column, truth)
            case Like(column, pattern):
                return self._like(column, pattern, negated=not truth)
            case Comparison(term, operator, literal):
                return self._compare(term, operator if truth else operator.negated(), literal)
            case Membership(term, literals):
                return self._among(term, literals, negated=not truth)

    def _truth(self, column: Column, truth: bool) -> Bound:
        field = self._field(column)
        if not isinstance(field.type, BooleanType):
            raise InvalidInputError(f"{column} is {field.type}, not a condition", f"write {column} = …")
        return Compare(field, Operator.EQUAL, truth)

    def _like(self, column: Column, pattern: str, negated: bool) -> Bound:
        field = self._field(column)
        if not isinstance(field.type, StringType):
            raise InvalidInputError(f"LIKE needs a string column, but {column} is {field.type}")
        prefix, rest = _plain_prefix(pattern)
        if rest == "":
            return Compare(field, Operator.NOT_EQUAL if negated else Operator.EQUAL, prefix)
        if rest == "%":
            after = after_prefix(prefix)
            return _within(field, prefix, after, negated)
        return Matches(field, pattern, prefix, negated)

    def _compare(self, term: Column | Transformed, operator: Operator, literal: Literal) -> Bound:
        if isinstance(term, Transformed):
            return self._compare_transformed(term, operator, literal)
        field = self._field(term)
        if literal.value is None:
            return Always(False)
        value = value_of(literal, field.type, str(term))
        if isinstance(field.type, BooleanType) and operator not in (Operator.EQUAL, Operator.NOT_EQUAL):
            raise InvalidInputError(f"{term} is boolean, which has no order", "compare it with = or <>")
        if isinstance(field.type, FloatType | DoubleType):
            return _compare_floating(field, operator, value)
        return Compare(field, operator, value)

    def _among(self, term: Column | Transformed, literals: tuple[Literal, ...], negated: bool) -> Bound:
        known = [literal for literal in literals if literal.value is not None]
        field = self._field(term) if isinstance(term, Column) else None
        if field is None or isinstance(field.type, FloatType | DoubleType) or len(known) < 2:
            operator = Operator.NOT_EQUAL if negated else Operator.EQUAL
            parts = [self._compare(term, operator, literal) for literal in literals]
            return both(*parts) if negated else either(*parts)
        values = frozenset(value_of(literal, field.type, str(term)) for literal in known)
        # No value is certainly different from null.
        return Always(False) if negated and len(known) < len(literals) else Among(field, values, negated)

    def _compare_transformed(self, term: Transformed, operator: Operator, literal: Literal) -> Bound:
        field = self._field(term.column)
        transform = _TIME.get(term.transform)
        if transform is None:
            assert term.width is not None
            kind = BucketTransform if term.transform is TransformName.BUCKET else TruncateTransform
            transform = kind(term.width)
        if not transform.can_transform(field.type):
            raise InvalidInputError(f"{term} is not possible, because {term.column} is {field.type}")
        if literal.value is None:
            return Always(False)
        match term.transform:
            case TransformName.BUCKET:
                number = value_of(literal, IntegerType(), str(term))
                return TransformCompare(field, transform, operator, number, None)
            case TransformName.TRUNCATE:
                assert term.width is not None
                value = value_of(literal, field.type, str(term))
                low, high = _truncated_cell(value, term.width, field.type)
            case _:
                value, low, high = time_cell(term.transform, literal, field.type)
        return TransformCompare(field, transform, operator, value, _in_order(field, operator, low, high))

    def _field(self, column: Column, any_type: bool = False) -> Field:
        fields: tuple[NestedField, ...] = self._schema.fields
        path: list[NestedField] = []
        for part in column.parts:
            found = _named(fields, part)
            if found is None:
                raise self._unknown(column)
            path.append(found)
            fields = found.field_type.fields if isinstance(found.field_type, StructType) else ()
        kind = path[-1].field_type
        if not any_type and not isinstance(kind, COMPARABLE):
            raise InvalidInputError(f"{column} is {kind}, which can only be tested with IS NULL")
        names = tuple(field.name for field in path)
        assert isinstance(kind, PrimitiveType) or any_type
        return Field(path[-1].field_id, path[0], names, kind)  # type: ignore[arg-type]

    def _unknown(self, column: Column) -> InvalidInputError:
        return unknown_column(str(column), _struct_paths(self._schema.fields))


def _named(fields: tuple[NestedField, ...], name: str) -> NestedField | None:
    """The field with this name; in another case, as in Spark, if there is only one."""
    exact = next((field for field in fields if field.name == name), None)
    alike = [field for field in fields if field.name.lower() == name.lower()]
    return exact or (alike[0] if len(alike) == 1 else None)


def _struct_paths(fields: tuple[NestedField, ...]) -> list[str]:
    names = []
    for field in fields:
        names.append(field.name)
        if isinstance(field.field_type, StructType):
            names += [f"{field.name}.{inner}" for inner in _struct_paths(field.field_type.fields)]
    return names


def _field_of(schema: Schema, field_id: int) -> Field:
    name = schema.find_column_name(field_id)
    kind = schema.find_type(field_id)
    assert name is not None and isinstance(kind, PrimitiveType)
    path = _path(schema.fields, field_id)
    return Field(field_id, path[0], tuple(field.name for field in path), kind)


def _path(fields: tuple[NestedField, ...], field_id: int) -> tuple[NestedField, ...]:
    for field in fields:
        if field.field_id == field_id:
            return (field,)
        if isinstance(field.field_type, StructType):
            inner = _path(field.field_type.fields, field_id)
            if inner:
                return (field, *inner)
    return ()


# --- order ----------------------------------------------------------------------------------------------


def _compare_floating(field: Field, operator: Operator, value: float) -> Bound:
    """As in Spark: NaN equals NaN, and is greater than every number."""
    if math.isnan(value):
        match operator:
            case Operator.EQUAL | Operator.GREATER_OR_EQUAL:
                return IsNan(field)
            case Operator.NOT_EQUAL | Operator.LESS:
                return NotNan(field)
            case Operator.LESS_OR_EQUAL:
                return NotNull(field)
            case _:
                return Always(False)
    compared = Compare(field, operator, value)
    if operator in (Operator.GREATER, Operator.GREATER_OR_EQUAL, Operator.NOT_EQUAL):
        return either(compared, IsNan(field))
    return compared


def _in_order(field: Field, operator: Operator, low: Any, high: Any) -> Bound:
    """The condition on the plain column for a transform that keeps the order.

    Values from `low` (inclusive) to `high` (exclusive) have the transformed value of the comparison. If no
    value has it, both are the first value with a greater one; None is above all values.
    """
    match operator:
        case Operator.EQUAL:
            return both(_from(field, low), _below(field, high))
        case Operator.NOT_EQUAL:
            return either(_below(field, low), _from(field, high))
        case Operator.LESS:
            return _below(field, low)
        case Operator.LESS_OR_EQUAL:
            return _below(field, high)
        case Operator.GREATER:
            return _from(field, high)
        case Operator.GREATER_OR_EQUAL:
            return _from(field, low)


def _within(field: Field, low: Any, high: Any, negated: bool) -> Bound:
    return _in_order(field, Operator.NOT_EQUAL if negated else Operator.EQUAL, low, high)


def _below(field: Field, bound: Any) -> Bound:
    known = limits(field.type)
    if bound is None or (known is not None and bound > known[1]):
        return NotNull(field)
    if known is not None and bound <= known[0]:
        return Always(False)
    return Compare(field, Operator.LESS, bound)


def _from(field: Field, bound: Any) -> Bound:
    known = limits(field.type)
    if bound is None or (known is not None and bound > known[1]):
        return Always(False)
    if known is not None and bound <= known[0]:
        return NotNull(field)
    return Compare(field, Operator.GREATER_OR_EQUAL, bound)


def _truncated_cell(value: Any, width: int, kind: PrimitiveType) -> tuple[Any, Any]:
    match kind:
        case StringType():
            return _cut_cell(value, width, after_prefix, "\0")
        case BinaryType():
            return _cut_cell(value, width, _after_bytes, b"\0")
        case DecimalType():
            low, high = _number_cell(unscaled_of(value), width)
            return decimal_of(low, kind), decimal_of(high, kind)
        case _:
            return _number_cell(value, width)


def _number_cell(number: int, width: int) -> tuple[int, int]:
    start = number - number % width
    return (start, start + width) if start == number else (start + width, start + width)


def _cut_cell(value: Any, width: int, after: Any, least: Any) -> tuple[Any, Any]:
    if len(value) < width:
        return value, value + least  # only itself: a longer value is truncated to a longer one
    end = after(value[:width])
    return (value, end) if len(value) == width else (end, end)


def _after_bytes(prefix: bytes) -> bytes | None:
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None


# --- patterns -------------------------------------------------------------------------------------------


def _plain_prefix(pattern: str) -> tuple[str, str]:
    """The text before the first `%` or `_`, and the pattern from there on."""
    prefix: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character in "%_":
            break
        if character == "\\":
            position += 1
            if position == len(pattern):
                raise InvalidInputError(
                    f"the pattern {pattern!r} ends with a backslash", "write the backslash twice"
                )
            character = pattern[position]
        prefix.append(character)
        position += 1
    return "".join(prefix), pattern[position:]
