"""Sort orders in the form that callers write: `ts`, `id desc nulls last`, `bucket(4, id)`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
from headgate.iceberg.schema.partitions import parse_source, written_term

_TERM = re.compile(
    r"(?P<source>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE
)


def parse_sort_by(
    terms: Sequence[str], schema: Schema, known: Mapping[int, SortOrder] | None = None
) -> SortOrder:
    """The order that `terms` describe; an order that is in `known` keeps its id.

    As in Iceberg, nulls come first in an ascending order and last in a descending one, by default.
    """
    if isinstance(terms, str):
        raise InvalidInputError("sort_by must be a list of strings, not a string", f"write [{terms!r}]")
    fields = [_parse_field(term, schema) for term in terms]
    keys = [(field.source_id, str(field.transform)) for field in fields]
    if len(set(keys)) != len(keys):
        raise InvalidInputError(f"sort_by contains the same column twice: {', '.join(terms)}")
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
    """A sort field in the callers' form."""
    term = written_term(schema, field.source_id, field.transform)
    nulls = "first" if field.null_order is NullOrder.NULLS_FIRST else "last"
    return f"{term} {field.direction.value} nulls {nulls}"
