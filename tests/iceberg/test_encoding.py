"""How columns are written: what repeats with a dictionary, near numbers by differences, the rest plain."""

from __future__ import annotations

import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.iceberg.format.encoding import (
    ROW_GROUP_ROWS,
    SAMPLED_ROWS,
    FileForm,
    column_forms,
    encode_parquet,
    parquet_writer,
)
from headgate.lake.lake import Lake
from headgate.lake.table import Table
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector

COUNT = 1000


def with_dictionary(data: bytes) -> set[str]:
    """The columns that have one, by their paths."""
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def by_differences(data: bytes) -> set[str]:
    """The columns that are told by differences, in all row groups."""
    footer = pq.ParquetFile(pa.BufferReader(data)).metadata
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    return {column.path_in_schema for column in columns if "DELTA_BINARY_PACKED" in column.encodings}


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
    assert column_forms(repeating).dictionaries == ["n"]
    empty = pa.table({"n": pa.array([], pa.int64())})
    assert column_forms(empty).dictionaries == ["n"]


def test_files_of_a_table_are_shorter_for_it() -> None:
    table = Lake.init(MemoryStore()).create_table("db.t", "id BIGINT, at TIMESTAMP")
    numbers = pa.array(range(100_000), pa.int64())
    rows = pa.table({"id": numbers, "at": numbers.cast(pa.timestamp("us", tz="UTC"))})
    table.append(rows)
    everywhere = pa.BufferOutputStream()
    pq.write_table(rows, everywhere, compression="zstd")
    assert table.plan().files[0].file.size_bytes < 0.7 * everywhere.tell()
    assert table.read_arrow().equals(rows)


# --- dictionaries of what seldom repeats --------------------------------------------------------------------


def test_values_that_repeat_in_a_row_group_but_seldom_in_a_sample_get_a_dictionary() -> None:
    chance = np.random.default_rng(7)
    prices = chance.integers(0, SAMPLED_ROWS, ROW_GROUP_ROWS) / 64
    rows = pa.table({"price": prices, "weight": chance.random(ROW_GROUP_ROWS)})
    assert column_forms(rows).dictionaries == ["price"]
    # A short file is all that there is: its values do not repeat.
    assert column_forms(rows.slice(0, SAMPLED_ROWS)).dictionaries == []


def test_a_dictionary_that_arrow_would_give_up_is_not_begun() -> None:
    chance = np.random.default_rng(7)
    long = [f"{number:040}" for number in chance.integers(0, SAMPLED_ROWS, ROW_GROUP_ROWS)]
    assert column_forms(pa.table({"name": long})).dictionaries == []


# --- differences --------------------------------------------------------------------------------------------

DELTAS = FileForm(deltas=True)
RISING = [n * 1000 + n % 7 for n in range(COUNT)]


@pytest.mark.parametrize(
    "kind",
    [pa.int32(), pa.int64(), pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", tz="UTC")],
    ids=str,
)
def test_whole_numbers_and_moments_that_are_near_are_told_by_differences(kind: pa.DataType) -> None:
    values = pa.array(RISING, pa.int64()).cast(pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    rows = pa.table({"v": values, "name": [f"n{n}" for n in RISING]})
    data = encode_parquet(rows, DELTAS)
    assert by_differences(data) == {"v"}
    assert pq.read_table(pa.BufferReader(data)).equals(rows)


def test_numbers_from_one_end_to_the_other_come_back() -> None:
    ends = [-(2**63), 2**63 - 1]
    rows = pa.table({"v": pa.array([*ends, *range(COUNT), *reversed(ends)], pa.int64())})
    data = encode_parquet(rows, DELTAS)
    assert by_differences(data) == {"v"}
    assert pq.read_table(pa.BufferReader(data)).equals(rows)


def test_others_are_not() -> None:
    chance = np.random.default_rng(7)
    rows = pa.table(
        {
            "anything": chance.integers(-(2**63), 2**63 - 1, COUNT),
            "few": pa.array([n * 7919 % 10 for n in range(COUNT)], pa.int64()),
            "nulls": pa.array([None, *RISING[1:]], pa.int64()),
            "price": pa.array(RISING, pa.float64()),
            "inside": [{"n": n} for n in RISING],
        }
    )
    assert by_differences(encode_parquet(rows, DELTAS)) == set()
    assert by_differences(encode_parquet(rows.slice(0, 0), DELTAS)) == set()
    assert by_differences(encode_parquet(rows.slice(0, 1), DELTAS)) == set()


def test_keys_in_order_that_repeat_are_shorter_by_differences() -> None:
    rows = pa.table({"order": pa.array([n // 4 for n in range(COUNT)], pa.int64())})
    data = encode_parquet(rows, DELTAS)
    assert (by_differences(data), with_dictionary(data)) == ({"order"}, set())
    assert pq.read_table(pa.BufferReader(data)).equals(rows)


def test_of_rows_that_are_still_to_come_nothing_is_known_but_what_the_schema_says() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("other", pa.int64())])
    first = pa.table({"id": RISING, "other": RISING}, schema=schema)
    rest = pa.table({"id": RISING, "other": pa.nulls(COUNT, pa.int64())}, schema=schema)
    out = pa.BufferOutputStream()
    with parquet_writer(out, first, DELTAS) as writer:
        writer.write_table(first)
        writer.write_table(rest)
    data = out.getvalue().to_pybytes()
    assert by_differences(data) == {"id"}
    assert pq.read_table(pa.BufferReader(data)).equals(pa.concat_tables([first, rest]))


def stored_by_differences(lake: Lake, table: Table) -> set[str]:
    files = [
        Inspector(lake).driver.get(Inspector(lake).loader().key(file.path)) or b"" for file in table.files()
    ]
    return set[str]().union(*map(by_differences, files))


def test_unless_a_table_asks_for_it_nothing_is_stored_by_differences() -> None:
    """Iceberg on Spark before 1.10 cannot read it, and every engine shall read every table."""
    lake = Lake.init(MemoryStore(), divisor=2)
    table = lake.create_table("db.t", "id BIGINT NOT NULL, v BIGINT NOT NULL")
    rows = pa.table({"id": RISING, "v": RISING})
    table.append(rows.slice(0, 900))  # whole
    assert stored_by_differences(lake, table) == set()
    with lake.transaction() as tx:
        tx.table("db.t").append(rows.slice(900).to_reader())  # batch by batch
    table.upsert(rows.slice(500), keys=["id"])
    table.delete("id < 100000")
    assert stored_by_differences(lake, table) == set()
    lake.compact()
    assert stored_by_differences(lake, table) == set()


def test_a_table_can_ask_for_it() -> None:
    lake = Lake.init(MemoryStore())
    table = lake.create_table("db.t", "id BIGINT", properties={"write.parquet.delta-encoding": "true"})
    table.append(pa.table({"id": RISING}))
    assert stored_by_differences(lake, table) == {"id"}
    table.set_properties({"write.parquet.delta-encoding": "false"})
    table.overwrite(pa.table({"id": RISING}))
    assert stored_by_differences(lake, table) == set()
    with pytest.raises(hg.InvalidInputError, match=r"delta-encoding cannot be 'no'"):
        table.set_properties({"write.parquet.delta-encoding": "no"})
    assert FileForm.of({}) == FileForm(deltas=False)
