"""Expressions as they were written: the values to which columns are set. Types are added once the table is
known.

Arithmetic follows Spark in its ANSI mode: overflow is an error, null makes null, and `/` of integers has a
fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headgate.core.sql.predicate import Column, Literal

MAX_PRECISION = 38
LEAST_SCALE = 6
"""The fewest digits of the fraction of a division, and the fewest that stay if a type would be too long."""


class Calculation(Enum):
    """An operation on two values. The value is its notation."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"
    CONCATENATE = "||"


@dataclass(frozen=True, slots=True)
class Negated:
    inner: Expression


@dataclass(frozen=True, slots=True)
class Calculated:
    calculation: Calculation
    left: Expression
    right: Expression


Expression: TypeAlias = Column | Literal | Negated | Calculated


@dataclass(frozen=True, slots=True)
class DecimalShape:
    """How many digits a decimal has, and how many of them are the fraction."""

    precision: int
    scale: int

    @property
    def whole_digits(self) -> int:
        return self.precision - self.scale


def decimal_result(calculation: Calculation, left: DecimalShape, right: DecimalShape) -> DecimalShape:
    """The type of a calculation with decimals, by the rules of SQL as Spark implements them."""
    longest = max(left.scale, right.scale)
    match calculation:
        case Calculation.ADD | Calculation.SUBTRACT:
            whole = max(left.whole_digits, right.whole_digits)
            return _bounded(whole + longest + 1, longest)
        case Calculation.MULTIPLY:
            return _bounded(left.precision + right.precision + 1, left.scale + right.scale)
        case Calculation.DIVIDE:
            scale = max(LEAST_SCALE, left.scale + right.precision + 1)
            return _bounded(left.whole_digits + right.scale + scale, scale)
        case Calculation.REMAINDER:
            return _bounded(min(left.whole_digits, right.whole_digits) + longest, longest)
    raise AssertionError(calculation)


def _bounded(precision: int, scale: int) -> DecimalShape:
    """Shortens a type that would be too long: digits of the fraction are dropped before others."""
    if precision <= MAX_PRECISION:
        return DecimalShape(precision, scale)
    whole = precision - scale
    return DecimalShape(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, LEAST_SCALE)))
