"""Evaluates expressions on Arrow data: the values that a column is set to.

Arrow computes integers and floating point. Decimals and remainders of floating point are computed row by row,
because Arrow does not follow Spark's rules for decimal types and has no remainder.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import PrimitiveType, UUIDType

from headgate.core.input.arguments import unknown_column
from headgate.core.sql.expression import (
    Calculated,
    Calculation,
    DecimalShape,
    Expression,
    Negated,
    decimal_result,
)
from headgate.core.sql.expression_text import START_SPARK, parse_expression
from headgate.core.sql.predicate import Column, Literal
from headgate.errors import InvalidInputError, UnsupportedError
from headgate.iceberg.predicate.constants import value_of
from headgate.iceberg.schema.arrow import MAX_PRECISION, schema_from_arrow

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
_DIGITS = {pa.int32(): 10, pa.int64(): 20}
_CHECKED = {
    Calculation.ADD: pc.add_checked,
    Calculation.SUBTRACT: pc.subtract_checked,
    Calculation.MULTIPLY: pc.multiply_checked,
}
_PLAIN = {Calculation.ADD: pc.add, Calculation.SUBTRACT: pc.subtract, Calculation.MULTIPLY: pc.multiply}
_ON_DECIMALS: dict[Calculation, Callable[[Decimal, Decimal], Decimal]] = {
    Calculation.ADD: _EXACT.add,
    Calculation.SUBTRACT: _EXACT.subtract,
    Calculation.MULTIPLY: _EXACT.multiply,
    Calculation.DIVIDE: _EXACT.divide,
    Calculation.REMAINDER: _EXACT.remainder,
}


def evaluated(text: str, rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """The values of an expression for each row, converted to the type of the column `field`.

    Raises `UnsupportedError` for what only Spark can compute. Raises `InvalidInputError` for columns that do
    not exist, for types that cannot be combined, and for values that the column cannot hold: numbers that are
    too large, and fractions in an integer column. Decimals are rounded to the scale of the column.
    """
    expression = parse_expression(text)
    try:
        if isinstance(expression, Literal) and not isinstance(expression.value, Decimal):
            return _constant(expression, rows.num_rows, field)
        return _stored(_Evaluation(rows, text).values(expression), field, text)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{text!r} cannot be computed for all rows: {error}") from error


# --- literals -----------------------------------------------------------------------------------------------


def _constant(literal: Literal, count: int, field: pa.Field) -> pa.ChunkedArray:
    """A literal that is not a number: its meaning depends on the column, as in a predicate."""
    kind = schema_from_arrow(pa.schema([field])).fields[0].field_type
    if literal.value is None:
        return _repeated(pa.scalar(None, _storage(field.type)), count, field.type)
    if isinstance(kind, UUIDType) and isinstance(literal.value, str):
        return _repeated(pa.scalar(_uuid(literal, field.name), _storage(field.type)), count, field.type)
    if not isinstance(kind, PrimitiveType):
        raise InvalidInputError(f"{literal.text} does not fit {field.name}, which is {kind}")
    return _repeated(pa.scalar(value_of(literal, kind, field.name), _storage(field.type)), count, field.type)


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _repeated(scalar: pa.Scalar, count: int, kind: pa.DataType) -> pa.ChunkedArray:
    values = pa.repeat(scalar, count)
    extended = isinstance(kind, pa.BaseExtensionType)
    return pa.chunked_array([pa.ExtensionArray.from_storage(kind, values) if extended else values], kind)


def _uuid(literal: Literal, place: str) -> bytes:
    try:
        return UUID(str(literal.value)).bytes
    except ValueError:
        raise InvalidInputError(f"{literal.text} does not fit {place}, which is uuid") from None


def _number(value: Decimal, text: str, count: int) -> pa.ChunkedArray:
    if "e" in text.lower():
        return _repeated(pa.scalar(float(value), pa.float64()), count, pa.float64())
    if "." not in text:
        for kind in (pa.int32(), pa.int64()):
            if -(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1):
                return _repeated(pa.scalar(int(value), kind), count, kind)
    shape = _shape_of(value)
    if shape.precision > MAX_PRECISION:
        raise InvalidInputError(f"{text} has more than {MAX_PRECISION} digits")
    kind = pa.decimal128(shape.precision, shape.scale)
    return _repeated(pa.scalar(value, kind), count, kind)


def _shape_of(value: Decimal) -> DecimalShape:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int) and exponent <= 0, value
    return DecimalShape(max(len(digits), -exponent), -exponent)


# --- calculations -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Evaluates one expression on the rows of a table."""

    rows: pa.Table
    text: str

    def values(self, expression: Expression) -> pa.ChunkedArray:
        match expression:
            case Column():
                return self._column(expression)
            case Literal(value, text):
                return self._literal(value, text)
            case Negated(inner):
                return self._negated(self.values(inner))
            case Calculated(calculation, left, right):
                return self._calculated(
                    calculation, self.values(left), self.values(right), _literal_shapes(left, right)
                )

    def _literal(self, value: Any, text: str) -> pa.ChunkedArray:
        count = self.rows.num_rows
        match value:
            case Decimal():
                return _number(value, text, count)
            case None:
                return pa.chunked_array([pa.nulls(count)])
            case str():
                return _repeated(pa.scalar(value, pa.large_string()), count, pa.large_string())
            case bytes():
                return _repeated(pa.scalar(value, pa.large_binary()), count, pa.large_binary())
        raise UnsupportedError(
            f"{self.text!r}: {text} cannot be used in a calculation without Spark", START_SPARK
        )

    def _column(self, column: Column) -> pa.ChunkedArray:
        fields, values = list(self.rows.schema), None
        for part in column.parts:
            field = _named(fields, part)
            if field is None:
                raise unknown_column(str(column), _paths(list(self.rows.schema)))
            outermost = values is None
            values = self.rows.column(field.name) if outermost else pc.struct_field(values, field.name)
            fields = list(field.type) if pa.types.is_struct(field.type) else []
        assert values is not None
        return _large(values)

    def _negated(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_null(values.type):
            return values
        if pa.types.is_decimal(values.type):
            return _row_wise(lambda value, _: -value, values, values, values.type)
        if not _is_number(values.type):
            raise InvalidInputError(f"{self.text!r}: {_named_type(values.type)} cannot be negated")
        return pc.negate_checked(values)

    def _calculated(
        self,
        calculation: Calculation,
        left: pa.ChunkedArray,
        right: pa.ChunkedArray,
        shapes: tuple[DecimalShape | None, DecimalShape | None],
    ) -> pa.ChunkedArray:
        if pa.types.is_null(left.type) or pa.types.is_null(right.type):
            return pa.chunked_array([pa.nulls(len(left))])
        if calculation is Calculation.CONCATENATE:
            return self._concatenated(left, right)
        if not _is_number(left.type) or not _is_number(right.type):
            types = f"{_named_type(left.type)} {calculation.value} {_named_type(right.type)}"
            raise UnsupportedError(f"{self.text!r}: {types} cannot be computed without Spark", START_SPARK)
        if calculation in (Calculation.DIVIDE, Calculation.REMAINDER):
            self._refuse_zero(left, right)
        if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
            if not pa.types.is_floating(left.type) and not pa.types.is_floating(right.type):
                return _on_decimals(calculation, left, right, shapes)
        elif calculation is Calculation.DIVIDE:
            return pc.divide(_as_double(left), _as_double(right))
        elif pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
            return _on_whole_numbers(calculation, left, right)
        return _on_floating(calculation, left, right)

    def _concatenated(self, left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
        texts = (pa.large_string(), pa.large_binary())
        if left.type not in texts or left.type != right.type:
            types = f"{_named_type(left.type)} || {_named_type(right.type)}"
            raise UnsupportedError(f"{self.text!r}: {types} cannot be computed without Spark", START_SPARK)
        empty = pa.scalar("" if left.type == pa.large_string() else b"", left.type)
        return pc.binary_join_element_wise(left, right, empty)

    def _refuse_zero(self, left: pa.ChunkedArray, right: pa.ChunkedArray) -> None:
        zero = pa.scalar(Decimal(0) if pa.types.is_decimal(right.type) else 0, right.type)
        zeros = pc.and_(left.is_valid(), pc.equal(right, zero))
        found = pc.sum(pc.cast(zeros, pa.int64())).as_py()
        if found:
            raise InvalidInputError(f"{self.text!r} divides by zero in {found} of the rows")


def _literal_shapes(*sides: Expression) -> tuple[DecimalShape | None, DecimalShape | None]:
    """The shapes of sides that are number literals: next to a decimal, they count instead of the type."""
    left, right = (
        _shape_of(side.value)
        if isinstance(side, Literal) and isinstance(side.value, Decimal) and "e" not in side.text.lower()
        else None
        for side in sides
    )
    return left, right


def _on_whole_numbers(
    calculation: Calculation, left: pa.ChunkedArray, right: pa.ChunkedArray
) -> pa.ChunkedArray:
    kind = pa.int64() if pa.int64() in (left.type, right.type) else pa.int32()
    a, b = left.cast(kind), right.cast(kind)
    if calculation in _CHECKED:
        return _CHECKED[calculation](a, b)
    # By 1 instead of -1, because the smallest integer divided by -1 overflows; the remainder is 0 either way.
    # If the dividend is null, the divisor does not matter.
    one = pa.scalar(1, kind)
    b = pc.if_else(pc.and_(pc.is_valid(a), pc.not_equal(b, pa.scalar(-1, kind))), b, one)
    b = pc.if_else(pc.is_valid(right), b, pa.scalar(None, kind))
    return pc.subtract(a, pc.multiply(pc.divide(a, b), b))


def _on_floating(calculation: Calculation, left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    single = left.type == pa.float32() == right.type and calculation is not Calculation.DIVIDE
    kind = pa.float32() if single else pa.float64()
    a, b = (side if side.type == kind else _as_double(side) for side in (left, right))
    if calculation is Calculation.DIVIDE:
        return pc.divide(a, b)
    if calculation is Calculation.REMAINDER:
        return _row_wise(_float_remainder, a, b, kind)
    return _PLAIN[calculation](a, b)


def _float_remainder(left: float, right: float) -> float:
    return math.nan if math.isinf(left) else math.fmod(left, right)


def _on_decimals(
    calculation: Calculation,
    left: pa.ChunkedArray,
    right: pa.ChunkedArray,
    shapes: tuple[DecimalShape | None, DecimalShape | None],
) -> pa.ChunkedArray:
    shape = decimal_result(
        calculation, shapes[0] or _shape_of_type(left.type), shapes[1] or _shape_of_type(right.type)
    )
    calculate = _ON_DECIMALS[calculation]
    kind = pa.decimal128(shape.precision, shape.scale)
    return _row_wise(lambda a, b: rounded(calculate(Decimal(a), Decimal(b)), shape), left, right, kind)


def _shape_of_type(kind: pa.DataType) -> DecimalShape:
    if pa.types.is_decimal(kind):
        return DecimalShape(kind.precision, kind.scale)
    return DecimalShape(_DIGITS[kind], 0)


def rounded(value: Decimal, shape: DecimalShape) -> Decimal:
    """The value rounded half away from zero to a type's digits; `InvalidInputError` if it is too large."""
    cut = value.quantize(Decimal((0, (1,), -shape.scale)), context=_EXACT)
    if cut.copy_abs() >= Decimal((0, (1,), shape.whole_digits)):
        raise InvalidInputError(f"{value} does not fit decimal({shape.precision}, {shape.scale})")
    return cut


def _row_wise(
    function: Callable[[Any, Any], Any], left: pa.ChunkedArray, right: pa.ChunkedArray, kind: pa.DataType
) -> pa.ChunkedArray:
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    values = [None if a is None or b is None else function(a, b) for a, b in pairs]
    return pa.chunked_array([pa.array(values, kind)])


# --- into the column ----------------------------------------------------------------------------------------


def _stored(values: pa.ChunkedArray, field: pa.Field, text: str) -> pa.ChunkedArray:
    """The values converted to the type of the column."""
    kind = field.type
    if pa.types.is_null(values.type):
        return _repeated(pa.scalar(None, _storage(kind)), len(values), kind)
    if values.type.equals(_large_type(kind)):
        return values if values.type.equals(kind) else values.cast(kind)
    if not _is_number(values.type) or not _is_number(kind):
        given, wanted = _named_type(values.type), _named_type(kind)
        raise InvalidInputError(
            f"{text!r} is {given}, but the column {field.name} is {wanted}",
            f"write an expression of that type, or {START_SPARK}",
        )
    try:
        return _as_number(values, kind)
    except (pa.ArrowInvalid, InvalidInputError) as error:
        problem = error.problem if isinstance(error, InvalidInputError) else str(error)
        raise InvalidInputError(
            f"{text!r} has values that do not fit the column {field.name}, which is {_named_type(kind)}: "
            f"{problem}"
        ) from error


def _as_number(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_decimal(kind):
        shape = DecimalShape(kind.precision, kind.scale)
        return _row_wise(lambda value, _: rounded(_decimal(value), shape), values, values, kind)
    if pa.types.is_integer(kind):
        if pa.types.is_decimal(values.type):
            return _row_wise(lambda value, _: _whole(value), values, values, pa.int64()).cast(kind)
        return values.cast(kind, safe=True)
    if pa.types.is_float32(kind):
        return _as_single(_as_double(values))
    return _as_double(values)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError(f"{value} is not a decimal")
        # From the shortest representation: the exact binary value has digits that nobody wrote.
        return Decimal(repr(value))
    return Decimal(value)


def _whole(value: Decimal) -> int:
    if value != value.to_integral_value():
        raise InvalidInputError(f"{value} is not an integer")
    return int(value)


def _as_single(values: pa.ChunkedArray) -> pa.ChunkedArray:
    single = values.cast(pa.float32(), safe=False)
    if pc.any(pc.and_(pc.is_inf(single), pc.is_finite(values))).as_py():
        raise InvalidInputError("some values are too large")
    return single


def _as_double(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values if values.type == pa.float64() else values.cast(pa.float64(), safe=False)


# --- types and names ----------------------------------------------------------------------------------------


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _large_type(kind: pa.DataType) -> pa.DataType:
    """One type for all strings and one for all bytes, whatever their length."""
    if pa.types.is_string(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) else kind


def _large(values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = _large_type(values.type)
    return values if values.type.equals(kind) else values.cast(kind)


def _named_type(kind: pa.DataType) -> str:
    return str(kind).replace("large_", "").replace("decimal128", "decimal")


def _named(fields: list[pa.Field], name: str) -> pa.Field | None:
    """The field with this name; in another case, as in Spark, if there is only one."""
    exact = next((field for field in fields if field.name == name), None)
    alike = [field for field in fields if field.name.lower() == name.lower()]
    return exact or (alike[0] if len(alike) == 1 else None)


def _paths(fields: list[pa.Field]) -> list[str]:
    names = []
    for field in fields:
        names.append(field.name)
        if pa.types.is_struct(field.type):
            names += [f"{field.name}.{inner}" for inner in _paths(list(field.type))]
    return names
