"""Converts literals of a predicate to values of a column's type, as Iceberg stores them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from headgate.core.sql.predicate import Literal, Moment, TransformName
from headgate.errors import InvalidInputError
from headgate.iceberg.format.avro import EPOCH, EPOCH_DATE

DAY_MICROS = 86_400_000_000
HOUR_MICROS = 3_600_000_000
_FLOAT_TEXTS = {
    "nan": float("nan"),
    "inf": float("inf"),
    "infinity": float("inf"),
    "+inf": float("inf"),
    "+infinity": float("inf"),
    "-inf": float("-inf"),
    "-infinity": float("-inf"),
}
COMPARABLE = (
    BooleanType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    DateType,
    TimestampType,
    TimestamptzType,
    StringType,
    BinaryType,
    FixedType,
)
_EXAMPLES: dict[type, str] = {
    BooleanType: "TRUE or FALSE",
    IntegerType: "an integer",
    LongType: "an integer",
    FloatType: "a number, 'NaN' or 'Infinity'",
    DoubleType: "a number, 'NaN' or 'Infinity'",
    DateType: "DATE '2026-11-15'",
    TimestampType: "TIMESTAMP '2026-11-15 10:00:00', without a time zone",
    TimestamptzType: "TIMESTAMP '2026-11-15 10:00:00'; UTC if it has no time zone",
    StringType: "a string in quotes",
    BinaryType: "X'c0ffee'",
}


def limits(kind: PrimitiveType) -> tuple[Any, Any] | None:
    """The smallest and the largest value of a type, if it has them and literals can exceed them."""
    match kind:
        case IntegerType():
            return -(2**31), 2**31 - 1
        case LongType():
            return -(2**63), 2**63 - 1
        case DecimalType():
            greatest = 10**kind.precision - 1
            return decimal_of(-greatest, kind), decimal_of(greatest, kind)
        case _:
            return None


def decimal_of(unscaled: int, kind: DecimalType) -> Decimal:
    """A value of a decimal type, exactly: arithmetic on decimals would round it to some precision."""
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -kind.scale))


def unscaled_of(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def value_of(literal: Literal, kind: PrimitiveType, place: str) -> Any:
    """The value of a literal that is not null. `InvalidInputError` if it does not fit the type `kind`."""
    value = literal.value
    match kind, value:
        case BooleanType(), bool():
            return value
        case ((IntegerType() | LongType()), Decimal()) if value == value.to_integral_value():
            return _within(int(value), literal, kind, place)
        case ((FloatType() | DoubleType()), Decimal()):
            return float(value)
        case ((FloatType() | DoubleType()), str()) if value.strip().lower() in _FLOAT_TEXTS:
            return _FLOAT_TEXTS[value.strip().lower()]
        case DecimalType(), Decimal():
            return _within(_scaled(value, kind, literal, place), literal, kind, place)
        case StringType(), str():
            return value
        case BinaryType(), bytes():
            return value
        case FixedType(), bytes() if len(value) == len(kind):
            return value
        case DateType(), date():
            return (value - EPOCH_DATE).days
        case DateType(), str():
            return _days(value, literal, kind, place)
        case ((TimestampType() | TimestamptzType()), date()):
            return (value - EPOCH_DATE).days * DAY_MICROS
        case ((TimestampType() | TimestamptzType()), (str() | Moment())):
            text = value.text if isinstance(value, Moment) else value
            return _micros(text, literal, kind, place)
    raise misfit(literal, kind, place)


def misfit(literal: Literal, kind: PrimitiveType, place: str) -> InvalidInputError:
    example = _EXAMPLES.get(type(kind), f"a value of type {kind}")
    return InvalidInputError(f"{literal.text} does not fit {place}, which is {kind}", f"write {example}")


def _within(value: Any, literal: Literal, kind: PrimitiveType, place: str) -> Any:
    bounds = limits(kind)
    assert bounds is not None
    if not bounds[0] <= value <= bounds[1]:
        raise misfit(literal, kind, place)
    return value


def _scaled(value: Decimal, kind: DecimalType, literal: Literal, place: str) -> Decimal:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if exponent > 2 * kind.precision:
        raise misfit(literal, kind, place)
    unscaled = Decimal((sign, digits, exponent + kind.scale))
    if unscaled != unscaled.to_integral_value():
        raise misfit(literal, kind, place)
    return decimal_of(int(unscaled), kind)


def _days(text: str, literal: Literal, kind: PrimitiveType, place: str) -> int:
    try:
        if len(text.strip()) == len("2026-11-15"):
            return (date.fromisoformat(text.strip()) - EPOCH_DATE).days
    except ValueError:
        pass
    raise misfit(literal, kind, place)


def _micros(text: str, literal: Literal, kind: PrimitiveType, place: str) -> int:
    try:
        at = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
    except ValueError:
        raise misfit(literal, kind, place) from None
    if isinstance(kind, TimestampType) and (at.tzinfo is not None or text.strip().endswith(" UTC")):
        raise misfit(literal, kind, place)
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1)


# --- values of time transforms --------------------------------------------------------------------------

_SPELLINGS = {
    TransformName.YEAR: (re.compile(r"(\d{4})"), "year(ts) = 2026"),
    TransformName.MONTH: (re.compile(r"(\d{4})-(\d\d)"), "month(ts) = '2026-11'"),
    TransformName.DAY: (re.compile(r"(\d{4})-(\d\d)-(\d\d)"), "day(ts) = '2026-11-15'"),
    TransformName.HOUR: (
        re.compile(r"(\d{4})-(\d\d)-(\d\d)[T -](\d\d)(?::00(?::00)?)?"),
        "hour(ts) = '2026-11-15T10'",
    ),
}


def time_cell(transform: TransformName, literal: Literal, kind: PrimitiveType) -> tuple[int, int, int]:
    """The meaning of a literal for a time transform of a column of type `kind`.

    Returns the transformed value, as Iceberg stores it, and the range of column values that it stands for:
    from the second number (inclusive) to the third (exclusive).
    """
    pattern, example = _SPELLINGS[transform]
    found = pattern.fullmatch(_time_text(transform, literal))
    try:
        if found is None:
            raise ValueError
        year, month, day, hour = [int(part) for part in found.groups()] + [1, 1, 0][len(found.groups()) - 1 :]
        date(year, month, day)
        if hour > 23:
            raise ValueError
    except ValueError:
        raise InvalidInputError(
            f"{literal.text} cannot be compared with {transform.value}(…), which is Iceberg's transform",
            f"write it as {example}",
        ) from None
    value, first, last = _cell(transform, year, month, day, hour)
    unit = HOUR_MICROS
    if isinstance(kind, DateType):
        return value, first // 24, last // 24
    return value, first * unit, last * unit


def _cell(transform: TransformName, year: int, month: int, day: int, hour: int) -> tuple[int, int, int]:
    """The transformed value, its first hour, and the first hour after it."""
    match transform:
        case TransformName.YEAR:
            return year - 1970, _hours(year, 1), _hours(year + 1, 1)
        case TransformName.MONTH:
            value = (year - 1970) * 12 + month - 1
            return value, _hours(year, month), _hours(year + month // 12, month % 12 + 1)
        case TransformName.DAY:
            days = (date(year, month, day) - EPOCH_DATE).days
            return days, days * 24, days * 24 + 24
        case _:
            hours = (date(year, month, day) - EPOCH_DATE).days * 24 + hour
            return hours, hours, hours + 1


def _hours(year: int, month: int) -> int:
    if year == 10_000:  # one more than Python's dates support
        return ((date.max - EPOCH_DATE).days + 1) * 24
    return (date(year, month, 1) - EPOCH_DATE).days * 24


def _time_text(transform: TransformName, literal: Literal) -> str:
    match literal.value:
        case Decimal() as number if transform is TransformName.YEAR and number == number.to_integral_value():
            return f"{int(number):04d}"
        case date() as day:
            return day.isoformat()
        case str() as text:
            return text.strip()
        case _:
            return ""
