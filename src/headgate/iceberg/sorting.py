"""Sort orders as callers write them (`ts`, `id desc nulls last`, `bucket(4, id)`), and rows so ordered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import (
    INITIAL_SORT_ORDER_ID,
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
)

from headgate.errors import InvalidInputError
from headgate.iceberg.arrow import field_values
from headgate.iceberg.partitions import parse_source, written_term

_TERM = re.compile(
    r"(?P<source>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE
)


def parse_sort_by(
    terms: Sequence[str], schema: Schema, known: Mapping[int, SortOrder] | None = None
) -> SortOrder:
    """The order that `terms` describe; one that is `known` keeps its id.

    As in Iceberg, nulls come first in an ascending order and last in a descending one, unless it is said.
    """
    if isinstance(terms, str):
        raise InvalidInputError("sort_by is a list of texts", f"write [{terms!r}]")
    fields = [_parse_field(term, schema) for term in terms]
    keys = [(field.source_id, str(field.transform)) for field in fields]
    if len(set(keys)) != len(keys):
        raise InvalidInputError(f"sort_by names the same column twice: {', '.join(terms)}")
    if not fields:
        return UNSORTED_SORT_ORDER
    same = next((order for order in (known or {}).values() if order.fields == fields), None)
    return same or SortOrder(*fields, order_id=max([INITIAL_SORT_ORDER_ID - 1, *(known or {})]) + 1)


def _parse_field(term: str, schema: Schema) -> SortField:
    match = _TERM.fullmatch(term.strip()) if isinstance(term, str) else None
    if match is None:
        raise InvalidInputError(f"{term!r} is not a sort field", "write it as 'id', or 'id desc nulls last'")
    source, transform = parse_source(match["source"], schema)
    direction = SortDirection((match["direction"] or "asc").lower())
    default = "first" if direction is SortDirection.ASC else "last"
    nulls = NullOrder(f"nulls-{(match['nulls'] or default).lower()}")
    return SortField(source, transform, direction, nulls)


def written_sort_field(schema: Schema, field: SortField) -> str:
    """A sort field as callers write it."""
    term = written_term(schema, field.source_id, field.transform)
    nulls = "first" if field.null_order is NullOrder.NULLS_FIRST else "last"
    return f"{term} {field.direction.value} nulls {nulls}"


def in_order(data: pa.Table, schema: Schema, order: SortOrder) -> pa.Table:
    """The rows of `data` in `order`; those that are equal in it stay as they were."""
    if order.is_unsorted or data.num_rows < 2:
        return data
    keys = [key for field in order.fields for key in _keys(data, schema, field)]
    # The position of a row ends every tie, so the same rows always make the same file.
    keys.append((pa.array(range(data.num_rows), pa.int64()), SortDirection.ASC))
    names = [f"key_{position}" for position in range(len(keys))]
    table = pa.table([values for values, _ in keys], names=names)
    ways = [f"{direction.value}ending" for _, direction in keys]
    return data.take(pc.sort_indices(table, sort_keys=list(zip(names, ways, strict=True))))


def _keys(data: pa.Table, schema: Schema, field: SortField) -> Iterator[tuple[Any, SortDirection]]:
    """Arrow places nulls and NaN for all keys alike; so whether a value is one becomes a key before it."""
    values = field_values(data, schema, field)
    nulls_last = field.null_order is NullOrder.NULLS_LAST
    is_null = pc.cast(pc.is_null(values), pa.int8())
    yield is_null, SortDirection.ASC if nulls_last else SortDirection.DESC
    if pa.types.is_floating(values.type):
        # Iceberg: NaN is above all numbers.
        is_nan = pc.cast(pc.fill_null(pc.is_nan(values), fill_value=False), pa.int8())
        yield is_nan, field.direction
    yield values, field.direction
