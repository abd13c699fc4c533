"""Rows in the shape of a table, through Parquet and back: nulls at every depth, fields by name and by id."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids

import headgate as hg
from headgate.arrow.projection import projected
from headgate.errors import CorruptLakeError, InvalidInputError
from headgate.iceberg.format.encoding import encode_parquet
from headgate.iceberg.schema.arrow import fitted, partitioned, schema_from_arrow
from headgate.iceberg.schema.ddl import parse_columns
from headgate.iceberg.schema.partitions import parse_partition_by
from headgate.storage.memory import MemoryStore

INNER = "STRUCT<r: INT NOT NULL, o: STRING>"
SCHEMA = assign_fresh_schema_ids(
    Schema(
        *parse_columns(f"s {INNER}, l ARRAY<{INNER}>, m MAP<STRING, {INNER}>, d ARRAY<ARRAY<{INNER}>>").fields
    )
)
GIVEN = pa.struct([("o", pa.string()), ("r", pa.int32())])  # another order, and nothing required

struct = st.none() | st.builds(
    lambda o, r: {"o": o, "r": r}, st.none() | st.sampled_from(["x", ""]), st.integers(0, 3)
)
lists = st.none() | st.lists(struct, max_size=3)
ROW = st.tuples(
    struct,
    lists,
    st.none() | st.dictionaries(st.sampled_from(["a", "b"]), struct).map(lambda d: list(d.items())),
    st.none() | st.lists(lists, max_size=2),
)


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    kinds = [GIVEN, pa.list_(GIVEN), pa.map_(pa.string(), GIVEN), pa.large_list(pa.list_(GIVEN))]
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    return pa.table(columns, names=["s", "l", "m", "d"])


@settings(deadline=None)
@given(rows=st.lists(ROW, max_size=6), skip=st.integers(0, 2))
def test_nested_rows_come_back_as_they_were(rows: list[tuple[Any, ...]], skip: int) -> None:
    data = table_of(rows).slice(skip)
    stored = fitted(data, SCHEMA, "here")
    stored.validate(full=True)
    read = projected(pq.read_table(io.BytesIO(encode_parquet(stored))), SCHEMA, "file")
    read.validate(full=True)
    expected = [dict(zip("slmd", row, strict=True)) for row in rows[skip:]]
    assert read.to_pylist() == expected
    # Null lists of structs are the case that other projections lose.
    assert read["l"].null_count == sum(row[1] is None for row in rows[skip:])


@pytest.mark.parametrize("column", ["s", "l", "m", "d"])
def test_a_required_field_that_is_null_is_named(column: str) -> None:
    bad = {"o": "x", "r": None}
    values = {"s": bad, "l": [bad], "m": [("k", bad)], "d": [[bad]]}
    row = tuple(values[name] if name == column else None for name in "slmd")
    path = {"s": "s.r", "l": "l.element.r", "m": "m.value.r", "d": "d.element.element.r"}[column]
    data = table_of([row, (None, None, None, None)])
    with pytest.raises(InvalidInputError, match=f"{path} is required"):
        fitted(data, SCHEMA, "here")
    # A slice is judged by what it shows, not by what lies around it.
    assert fitted(data.slice(1), SCHEMA, "here").num_rows == 1


def test_a_struct_without_a_required_field_does_not_fit() -> None:
    with pytest.raises(InvalidInputError, match="column s is struct<o: string>"):
        fitted(pa.table({"s": [{"o": "x"}]}), SCHEMA, "here")
    more = pa.array([{"r": 1}], pa.struct([("r", pa.int32()), ("extra", pa.string())]))
    with pytest.raises(InvalidInputError, match="column s is struct<r: int32, extra: string>"):
        fitted(pa.table({"s": more}), SCHEMA, "here")


def test_a_file_that_lacks_a_required_column_is_corrupt() -> None:
    strict = assign_fresh_schema_ids(Schema(*parse_columns("a INT, b INT NOT NULL").fields))
    loose = Schema(strict.fields[0])
    stored = fitted(pa.table({"a": pa.array([1], pa.int32())}), loose, "here")
    with pytest.raises(CorruptLakeError, match="lacks the required column b"):
        projected(stored, strict, "file")


def test_partitions_by_truncated_bytes_and_decimals() -> None:
    schema = assign_fresh_schema_ids(Schema(*parse_columns("b BINARY, d DECIMAL(3, 1)").fields))
    data = fitted(pa.table({"b": [b"abc", b"abd", None]}), schema, "here")
    parts = partitioned(data, schema, parse_partition_by(["truncate(2, b)"], schema))
    assert {key: part.num_rows for key, part in parts} == {(b"ab",): 2, (None,): 1}
    low = pa.array(["-99.9"]).cast(pa.decimal128(3, 1))
    data = fitted(pa.table({"d": low}), schema, "here")
    with pytest.raises(InvalidInputError, match="does not fit its type after truncation"):
        list(partitioned(data, schema, parse_partition_by(["truncate(10, d)"], schema)))


def test_a_slice_of_maps_is_judged_by_what_it_shows() -> None:
    value = pa.field("value", pa.int32(), nullable=False)
    schema = assign_fresh_schema_ids(schema_from_arrow(pa.schema([("m", pa.map_(pa.string(), value))])))
    kind = schema_to_pyarrow(schema, include_field_ids=False).field("m").type
    loose = pa.map_(kind.key_field, kind.item_field.with_nullable(True))
    data = pa.table({"m": pa.array([[("k", None)], [("k", 1)]], loose)})
    assert fitted(data.slice(1), schema, "here").num_rows == 1
    with pytest.raises(InvalidInputError, match=r"m.value is required, but 1 of its values"):
        fitted(data, schema, "here")


@pytest.mark.parametrize(("kind", "least"), [("INT", -(2**31)), ("BIGINT", -(2**63))])
def test_a_number_that_is_truncated_to_none_of_its_type_has_no_partition(kind: str, least: int) -> None:
    table = hg.Lake.init(MemoryStore()).create_table("a.b", f"i {kind}", partition_by=["truncate(10, i)"])
    numbers = pa.int32() if kind == "INT" else pa.int64()
    with pytest.raises(hg.InvalidInputError, match="does not fit its type after truncation"):
        table.append(pa.table({"i": pa.array([least, 5], numbers)}))
    table.append(pa.table({"i": pa.array([least + 8, -1, 5], numbers)}))
    assert table.read_arrow(where="i < 0").num_rows == 2
