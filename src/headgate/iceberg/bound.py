"""Predicates on the columns of a table: typed, by field id, and free of negation.

Binding has resolved the three values of SQL: a bound predicate is true for exactly the rows that the written
one selects, and false for all others. Values are as Iceberg stores them: a date is days, a timestamp is
microseconds. Comparisons are those of IEEE for floating point; where NaN counts as greatest, `IsNan` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyiceberg.transforms import Transform
from pyiceberg.types import NestedField, PrimitiveType

from headgate.core.predicate import Operator


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field inside of structs. `column` is the outermost one."""

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
    """Not null, and as the operator says."""

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
    """Not null, and like the pattern; if `negated`, not like it. Every match begins with `prefix`."""

    field: Field
    pattern: str
    prefix: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class TransformCompare:
    """Not null, and the transform of the value is as the operator says.

    `plain` is the same without the transform; None for buckets, which have no order.
    """

    field: Field
    transform: Transform[Any, Any]
    operator: Operator
    value: Any
    plain: Bound | None


@dataclass(frozen=True, slots=True)
class InPartitions:
    """In one of the partitions of a spec: `partitions` are made by `partition_key`."""

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
    """All of `parts`, without those that say nothing."""
    if Always(False) in parts:
        return Always(False)
    kept = tuple(part for part in parts if part != Always(True))
    return kept[0] if len(kept) == 1 else AllOf(kept) if kept else Always(True)


def either(*parts: Bound) -> Bound:
    """Any of `parts`, without those that never hold."""
    if Always(True) in parts:
        return Always(True)
    kept = tuple(part for part in parts if part != Always(False))
    return kept[0] if len(kept) == 1 else AnyOf(kept) if kept else Always(False)


def fields_of(bound: Bound) -> Iterator[Field]:
    """Every field that the predicate reads; one can come twice."""
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


def partition_key(partition: tuple[Any, ...]) -> tuple[Any, ...]:
    """A partition as a value that equals itself: NaN does not."""
    return tuple("NaN" if isinstance(value, float) and value != value else value for value in partition)
