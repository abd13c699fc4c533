"""Rows in the order of a table, against Python's own sort."""

from __future__ import annotations

import math
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from headgate.arrow.row_order import in_order
from headgate.iceberg.schema.ddl import parse_columns
from headgate.iceberg.schema.sort_orders import parse_sort_by, written_sort_field

ROW = st.tuples(
    st.none() | st.integers(-3, 3),
    st.none() | st.sampled_from([-math.inf, -1.0, 0.0, 2.5, math.inf, math.nan]),
)
WAY = st.tuples(st.sampled_from(["asc", "desc"]), st.sampled_from(["first", "last"]))


def schema_of(ddl: str) -> Schema:
    return assign_fresh_schema_ids(Schema(*parse_columns(ddl).fields))


def table_of(schema: Schema, **columns: list[Any]) -> pa.Table:
    return pa.table(columns, schema=schema_to_pyarrow(schema, include_field_ids=False))


def rank(value: Any, way: tuple[str, str]) -> Any:
    """A number that sorts as `value` should: NaN is above all, nulls are where they are wanted."""
    direction, nulls = way
    if value is None:
        return (0 if nulls == "first" else 2, 0.0, 0.0)
    sign = 1 if direction == "asc" else -1
    nan = math.isnan(value)
    return (1, sign * nan, 0.0 if nan else sign * float(value))


@settings(deadline=None)
@given(rows=st.lists(ROW, max_size=30), way_a=WAY, way_b=WAY)
def test_rows_are_sorted_as_python_would(
    rows: list[tuple[int | None, float | None]], way_a: tuple[str, str], way_b: tuple[str, str]
) -> None:
    schema = schema_of("n INT, a INT, s STRUCT<b: DOUBLE>")
    numbers = list(range(len(rows)))
    data = table_of(schema, n=numbers, a=[a for a, _ in rows], s=[{"b": b} for _, b in rows])
    order = parse_sort_by([f"a {way_a[0]} NULLS {way_a[1]}", f"s.b {way_b[0]} nulls {way_b[1]}"], schema)
    expected = sorted(numbers, key=lambda n: (rank(rows[n][0], way_a), rank(rows[n][1], way_b)))
    assert in_order(data, schema, order).column("n").to_pylist() == expected


def test_nulls_are_where_iceberg_has_them_by_default() -> None:
    schema = schema_of("a INT")
    data = table_of(schema, a=[2, None, 1])
    for term, expected in (("a", [None, 1, 2]), ("a desc", [2, 1, None]), ("a ASC", [None, 1, 2])):
        assert in_order(data, schema, parse_sort_by([term], schema)).column("a").to_pylist() == expected


@pytest.mark.parametrize(
    ("ddl", "values"),
    [
        ("UUID", [uuid.UUID(int=2**127), None, uuid.UUID(int=1)]),
        ("FIXED(2)", [b"zz", None, b"aa"]),
        ("BOOLEAN", [True, None, False]),
        ("STRING", ["z", None, "a"]),
    ],
)
def test_other_types_are_sorted_too(ddl: str, values: list[Any]) -> None:
    schema = schema_of(f"a {ddl}")
    data = table_of(schema, a=values)
    high, null, low = values
    assert in_order(data, schema, parse_sort_by(["a"], schema)).column("a").to_pylist() == [null, low, high]


def test_a_transform_sorts_by_what_it_makes() -> None:
    schema = schema_of("a INT")
    data = table_of(schema, a=[15, 3, 12, 1])
    order = parse_sort_by(["truncate(10, a) desc"], schema)
    assert in_order(data, schema, order).column("a").to_pylist() == [15, 12, 3, 1]
    assert written_sort_field(schema, order.fields[0]) == "truncate(10, a) desc nulls last"
