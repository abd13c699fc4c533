"""Rows in the order of a clustering: which columns it can be by, and rows so ordered, through Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType

from headgate.core.arguments import texts
from headgate.core.lookup import nearest
from headgate.errors import InvalidInputError
from headgate.iceberg.rewriting import Clustering
from headgate.iceberg.sorting import in_order
from headgate.iceberg.zorder import MAX_COLUMNS, Ranking, zorder

SAMPLED_ROWS = 100_000
"""From so many rows the ranges of a column are found: about a hundred for each."""


def clustering_by(by: Sequence[str], schema: Schema, table: str, *, z: bool = False) -> Clustering:
    """What a caller asked for; `InvalidInputError` names a column that rows cannot be clustered by."""
    names = texts("by", by)
    possible = [field.name for field in schema.fields if isinstance(field.field_type, PrimitiveType)]
    there = f"there are {', '.join(possible)}" if possible else "the table has none"
    if not names:
        raise InvalidInputError(f"{table}: a clustering needs columns", there)
    for name in names:
        kind = next((field.field_type for field in schema.fields if field.name == name), None)
        if kind is None:
            hint = nearest(name, possible)
            raise InvalidInputError(
                f"{table}: there is no column {name} to cluster by",
                there if hint is None else f"{hint}; {there}",
            )
        if not isinstance(kind, PrimitiveType):
            raise InvalidInputError(f"{table}: rows cannot be clustered by {name}, which is {kind}", there)
    if len(set(names)) < len(names):
        raise InvalidInputError(f"{table}: a column to cluster by is named twice: {', '.join(names)}")
    if z and not 2 <= len(names) <= MAX_COLUMNS:
        raise InvalidInputError(
            f"{table}: a Z-order is of 2 to {MAX_COLUMNS} columns, but got {len(names)}",
            "leave zorder away to sort by them" if len(names) < 2 else "name those that queries select by",
        )
    return Clustering(tuple(names), z)


def order_of(clustering: Clustering, schema: Schema) -> SortOrder:
    """The order by the columns of a clustering, one after the other; nulls come first."""
    fields = [
        SortField(
            schema.find_field(name).field_id,
            IdentityTransform(),
            SortDirection.ASC,
            NullOrder.NULLS_FIRST,
        )
        for name in clustering.columns
    ]
    return SortOrder(*fields)


def clustered(rows: pa.Table, schema: Schema, clustering: Clustering) -> pa.Table:
    """The rows in the order of a clustering; other columns than those of `schema` come along."""
    in_columns = in_order(rows, schema, order_of(clustering, schema))
    if not clustering.zorder or rows.num_rows < 2:
        return in_columns
    columns = [in_columns.column(name) for name in clustering.columns]
    # The sort is stable, so rows of one number stay in the order of the columns.
    return in_columns.take(stable_order(zorder(columns, rankings_of(in_columns, clustering))))


def rankings_of(rows: pa.Table, clustering: Clustering) -> tuple[Ranking, ...]:
    """The ranges of the columns, found from some of the rows."""
    step = max(1, rows.num_rows // SAMPLED_ROWS)
    places = pa.array(range(0, rows.num_rows, step), pa.int64())
    return tuple(Ranking.of(rows.column(name).take(places)) for name in clustering.columns)


def stable_order(numbers: Any) -> Any:
    """The places of numbers from the least to the greatest; equal ones as they are."""
    table = pa.table({"number": numbers, "place": pa.array(range(len(numbers)), pa.int64())})
    return pc.sort_indices(table, sort_keys=[("number", "ascending"), ("place", "ascending")])
