"""Sorts rows through Arrow: in the order of a table, or for a clustering, and checks the columns of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType

from headgate.arrow.zorder import MAX_COLUMNS, Ranking, zorder
from headgate.core.input.arguments import nearest, texts
from headgate.errors import InvalidInputError
from headgate.iceberg.scan.engine import Clustering
from headgate.iceberg.schema.arrow import field_values

SAMPLED_ROWS = 100_000
"""The ranges of a column are computed from this many rows: about a hundred for each range."""


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


def clustering_by(by: Sequence[str], schema: Schema, table: str, *, z: bool = False) -> Clustering:
    """The clustering that a caller asked for. `InvalidInputError` names a column that cannot be used."""
    names = texts("by", by)
    possible = [field.name for field in schema.fields if isinstance(field.field_type, PrimitiveType)]
    there = f"choose from {', '.join(possible)}" if possible else "the table has no such columns"
    if not names:
        raise InvalidInputError(f"{table}: a clustering needs at least one column", there)
    for name in names:
        kind = next((field.field_type for field in schema.fields if field.name == name), None)
        if kind is None:
            hint = nearest(name, possible)
            raise InvalidInputError(
                f"{table}: there is no column {name} that rows can be clustered by",
                there if hint is None else f"{hint}; {there}",
            )
        if not isinstance(kind, PrimitiveType):
            raise InvalidInputError(f"{table}: rows cannot be clustered by {name}, which is {kind}", there)
    if len(set(names)) < len(names):
        raise InvalidInputError(f"{table}: a column to cluster by occurs twice: {', '.join(names)}")
    if z and not 2 <= len(names) <= MAX_COLUMNS:
        raise InvalidInputError(
            f"{table}: a Z-order needs 2 to {MAX_COLUMNS} columns, but got {len(names)}",
            "leave zorder out to sort by them" if len(names) < 2 else "name those that queries filter by",
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
    """The rows in the order of a clustering; columns that are not in `schema` are kept."""
    in_columns = in_order(rows, schema, order_of(clustering, schema))
    if not clustering.zorder or rows.num_rows < 2:
        return in_columns
    columns = [in_columns.column(name) for name in clustering.columns]
    # The sort is stable, so rows with equal numbers stay in the order of the columns.
    return in_columns.take(stable_order(zorder(columns, rankings_of(in_columns, clustering))))


def rankings_of(rows: pa.Table, clustering: Clustering) -> tuple[Ranking, ...]:
    """The ranges of the columns, computed from a sample of the rows."""
    step = max(1, rows.num_rows // SAMPLED_ROWS)
    places = pa.array(range(0, rows.num_rows, step), pa.int64())
    return tuple(Ranking.of(rows.column(name).take(places)) for name in clustering.columns)


def stable_order(numbers: Any) -> Any:
    """The indexes that sort numbers in ascending order; equal numbers keep their order."""
    table = pa.table({"number": numbers, "place": pa.array(range(len(numbers)), pa.int64())})
    return pc.sort_indices(table, sort_keys=[("number", "ascending"), ("place", "ascending")])
