"""Predicates on the columns of a table: typed, by field id, and free of negation.

Binding has resolved SQL's three truth values: a bound predicate is true for exactly the rows that the written
one selects, and false for all others. Values are in Iceberg's representation: a date is days, a timestamp is
microseconds. Floating-point comparisons follow IEEE; where NaN counts as the greatest value, `IsNan` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyiceberg.transforms import Transform
from pyiceberg.types import NestedField, PrimitiveType

from headgate.core.sql.predicate import Operator


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field inside structs. `column` is the outermost one."""

    field_id: int
    column: NestedField
    path: tuple[str, ...]
    type: PrimitiveType


@dataclass(frozen=True, slots=True)
class Always:
    """Every row, or none."""

    value: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    field: Field


@dataclass(frozen=True, slots=True)
class NotNull:
    field: Field


@dataclass(frozen=True, slots=True)
class IsNan:
    field: Field


@dataclass(frozen=True, slots=True)
class NotNan:
    """Neither NaN nor null."""

    field: Field


@dataclass(frozen=True, slots=True)
class Compare:
    """Not null, and the comparison is true."""

    field: Field
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class Among:
    """Not null, and one of the values; if `negated`, none of them."""

    field: Field
    values: frozenset[Any]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Matches:
    """Not null, and matches the LIKE pattern; if `negated`, does not. Every match begins with `prefix`."""

    field: Field
    pattern: str
    prefix: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class TransformCompare:
    """Not null, and the comparison is true for the transformed value.

    `plain` is the same without the transform; None for buckets, which have no order.
    """

    field: Field
    transform: Transform[Any, Any]
    operator: Operator
    value: Any
    plain: Bound | None


@dataclass(frozen=True, slots=True)
class InPartitions:
    """In one of the partitions of a spec: `partitions` are values of `partition_key`."""

    spec_id: int
    fields: tuple[tuple[Field, Transform[Any, Any]], ...]
    partitions: frozenset[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Bound, ...]


Atom: TypeAlias = (
    IsNull | NotNull | IsNan | NotNan | Compare | Among | Matches | TransformCompare | InPartitions
)
Bound: TypeAlias = Always | Atom | AllOf | AnyOf


def both(*parts: Bound) -> Bound:
    """All of `parts`, without those that are always true."""
    if Always(False) in parts:
        return Always(False)
    kept = tuple(part for part in parts if part != Always(True))
    return kept[0] if len(kept) == 1 else AllOf(kept) if kept else Always(True)


def either(*parts: Bound) -> Bound:
    """Any of `parts`, without those that are never true."""
    if Always(True) in parts:
        return Always(True)
    kept = tuple(part for part in parts if part != Always(False))
    return kept[0] if len(kept) == 1 else AnyOf(kept) if kept else Always(False)


def fields_of(bound: Bound) -> Iterator[Field]:
    """Every field that the predicate reads; a field can occur twice."""
    match bound:
        case Always():
            return
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from fields_of(part)
        case InPartitions(_, fields, _):
            yield from (field for field, _ in fields)
        case _:
            yield bound.field
