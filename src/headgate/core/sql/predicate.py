"""Predicates as they were written: values without types. Their meaning for a table is added once it is known.

Logic follows SQL, with three values: a comparison with null is neither true nor false, and a predicate
selects only rows for which it is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import TypeAlias


class Operator(Enum):
    """A comparison of a term and a literal. The value is its notation."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="

    def negated(self) -> Operator:
        """True where this one is false; both are unknown for null."""
        return _NEGATED[self]

    def flipped(self) -> Operator:
        """The same comparison with its sides swapped."""
        return _FLIPPED[self]


_NEGATED = {
    Operator.EQUAL: Operator.NOT_EQUAL,
    Operator.NOT_EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER_OR_EQUAL,
    Operator.LESS_OR_EQUAL: Operator.GREATER,
    Operator.GREATER: Operator.LESS_OR_EQUAL,
    Operator.GREATER_OR_EQUAL: Operator.LESS,
}
_FLIPPED = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.NOT_EQUAL: Operator.NOT_EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}


class TransformName(Enum):
    """Iceberg's partition transforms."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    BUCKET = "bucket"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field inside columns: `place.x` has two parts."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Transformed:
    """A transform of a column. `width` is the number of buckets, or the width of truncation."""

    transform: TransformName
    column: Column
    width: int | None = None

    def __str__(self) -> str:
        width = "" if self.width is None else f"{self.width}, "
        return f"{self.transform.value}({width}{self.column})"


Term: TypeAlias = Column | Transformed


@dataclass(frozen=True, slots=True)
class Moment:
    """The literal after TIMESTAMP; its zone, if it has one, is still in the string."""

    text: str


LiteralValue: TypeAlias = bool | Decimal | str | date | Moment | bytes | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant, and the string that it was written as."""

    value: LiteralValue
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    term: Term
    operator: Operator
    literal: Literal


@dataclass(frozen=True, slots=True)
class Membership:
    """`term IN (literals)`"""

    term: Term
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class NullTest:
    """`term IS NULL`"""

    term: Term


@dataclass(frozen=True, slots=True)
class Like:
    """`column LIKE pattern`: `%` matches any string, `_` one character; a backslash escapes them."""

    column: Column
    pattern: str


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE, or NULL in the position of a condition."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Truth:
    """A Boolean column that is a condition by itself."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    inner: Predicate


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Comparison | Membership | NullTest | Like | Constant | Truth | Not | And | Or
