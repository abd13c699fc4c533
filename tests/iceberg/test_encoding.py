"""Columns whose values repeat get dictionaries in Parquet, and others do not."""

from __future__ import annotations

import decimal
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.iceberg.encoding import SAMPLED_ROWS, dictionaries, encode_parquet
from headgate.lake import Lake
from headgate.storage.memory import MemoryStore

COUNT = 1000


def with_dictionary(data: bytes) -> set[str]:
    """The columns that have one, by their paths."""
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def numbered(kind: pa.DataType, different: int) -> Any:
    numbers = [n % different for n in range(COUNT)]
    if pa.types.is_string(kind):
        return pa.array([f"text {n}" for n in numbers])
    if kind == pa.binary():
        return pa.array([b"%d" % n for n in numbers])
    if isinstance(kind, pa.UuidType):
        return pa.array([uuid.UUID(int=n).bytes for n in numbers], kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([b"%04d" % n for n in numbers], kind)
    if pa.types.is_decimal(kind):
        return pa.array([decimal.Decimal(n) for n in numbers], kind)
    return pa.array(numbers, pa.int64()).cast(pa.int32() if pa.types.is_date32(kind) else kind).cast(kind)


@pytest.mark.parametrize(
    "kind",
    [
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.timestamp("us", tz="UTC"),
        pa.string(),
        pa.binary(),
        pa.binary(4),
        pa.uuid(),
        pa.time64("us"),
        pa.decimal128(20, 2),
    ],
    ids=str,
)
def test_a_dictionary_is_for_values_that_repeat(kind: pa.DataType) -> None:
    rows = pa.table(
        {
            "key": numbered(kind, COUNT),
            "kind": numbered(kind, 10),
            "mostly null": pa.array([None] * (COUNT - 1) + numbered(kind, COUNT).to_pylist()[-1:], kind),
        }
    )
    data = encode_parquet(rows)
    assert with_dictionary(data) == {"kind", "mostly null"}
    assert pq.read_table(pa.BufferReader(data)).equals(rows)


def test_what_lies_inside_of_columns_is_found_by_its_path() -> None:
    inside = pa.struct([("n", pa.int32()), ("many", pa.list_(pa.string()))])
    values = [{"n": 1, "many": ["a", "b"]}] * COUNT
    maps = [[("k", [{"n": 1, "many": ["c"]}])]] * COUNT
    rows = pa.table(
        {
            "plain": pa.array(range(COUNT)),
            "s": pa.array(values, inside),
            "m": pa.array(maps, pa.map_(pa.string(), pa.list_(inside))),
        }
    )
    data = encode_parquet(rows)
    assert with_dictionary(data) == {
        "s.n",
        "s.many.list.element",
        "m.key_value.key",
        "m.key_value.value.list.element.n",
        "m.key_value.value.list.element.many.list.element",
    }
    assert pq.read_table(pa.BufferReader(data)).equals(rows)


def test_the_first_rows_tell_what_the_others_are_like() -> None:
    repeating = pa.table({"n": pa.array([*[1] * SAMPLED_ROWS, *range(10)])})
    assert dictionaries(repeating) == ["n"]
    assert dictionaries(pa.table({"n": pa.array([], pa.int64())})) == ["n"]


def test_files_of_a_table_are_shorter_for_it() -> None:
    table = Lake.init(MemoryStore()).create_table("db.t", "id BIGINT, at TIMESTAMP")
    numbers = pa.array(range(100_000), pa.int64())
    rows = pa.table({"id": numbers, "at": numbers.cast(pa.timestamp("us", tz="UTC"))})
    table.append(rows)
    everywhere = pa.BufferOutputStream()
    pq.write_table(rows, everywhere, compression="zstd")
    assert table.plan().files[0].file.size_bytes < 0.7 * everywhere.tell()
    assert table.read_arrow().equals(rows)
