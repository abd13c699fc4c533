"""Positions of deleted rows: as sets, as files, and which data files a delete file applies to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField, StringType

from headgate.errors import CorruptLakeError
from headgate.iceberg.format.data_file import ColumnMetrics, Content, DataFile
from headgate.iceberg.format.directories import Role, Target, new_directory, new_file, role_of
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import new_table
from headgate.iceberg.format.positions import (
    FILE_PATH_ID,
    POS_ID,
    Positions,
    decode_positions,
    encode_positions,
    position_columns,
    read_positions,
    write_positions,
)
from headgate.iceberg.scan.planning import DeleteIndex
from headgate.iceberg.schema.partitions import parse_partition_by
from headgate.log.driver import Driver
from headgate.model.identifiers import TxId
from headgate.model.limits import ROWS_IN_A_FILE
from headgate.storage.memory import MemoryStore
from headgate.system.host import SYSTEM
from headgate.testing.intercept import counted

Places = dict[str, set[int]]
places = st.dictionaries(
    st.sampled_from(["a", "ü b%", "c/d"]),
    st.sets(st.one_of(st.integers(0, 9), st.integers(0, ROWS_IN_A_FILE - 1))),
)


def as_sets(positions: Positions) -> Places:
    return {path: set(bitmap) for path, bitmap in positions.by_file.items()}


def without_empty(places: Places) -> Places:
    return {path: rows for path, rows in places.items() if rows}


@given(places, places)
def test_positions_are_sets(one: Places, other: Places) -> None:
    left, right = Positions.of(one), Positions.of(other)
    paths = one.keys() | other.keys()
    both = [(path, one.get(path, set()), other.get(path, set())) for path in paths]
    assert as_sets(left | right) == without_empty({path: a | b for path, a, b in both})
    assert as_sets(left & right) == without_empty({path: a & b for path, a, b in both})
    assert as_sets(left - right) == without_empty({path: a - b for path, a, b in both})
    assert len(left) == sum(map(len, one.values()))
    assert bool(left) == any(one.values())


@given(places)
def test_a_file_lists_what_was_written(given: Places) -> None:
    positions = Positions.of(given)
    if not positions:
        return
    data = encode_positions(positions)
    assert decode_positions(data, "it") == positions
    parquet = pq.ParquetFile(pa.BufferReader(data))
    ids = [parquet.schema_arrow.field(name).metadata[b"PARQUET:field_id"] for name in ("file_path", "pos")]
    assert ids == [b"2147483546", b"2147483545"]
    assert not any(field.nullable for field in parquet.schema_arrow)
    assert parquet.schema_arrow.types == [pa.string(), pa.int64()]
    rows = [(row["file_path"].encode(), row["pos"]) for row in parquet.read().to_pylist()]
    assert rows == sorted(rows)


def test_positions_come_from_columns_in_any_order_and_form() -> None:
    paths = pa.chunked_array([["b", "a"], [], ["a", "b"]], pa.string())
    positions = pa.chunked_array([pa.array([9, 7, 8]).slice(1), pa.array([3, 9])])
    expected = {"b": {7, 9}, "a": {8, 3}}
    assert as_sets(Positions.of_columns(paths, positions)) == expected
    assert as_sets(Positions.of_columns(paths.dictionary_encode(), positions)) == expected
    assert as_sets(Positions.of_columns(paths.combine_chunks(), positions.combine_chunks())) == expected
    assert (
        Positions.of_columns(pa.chunked_array([], pa.string()), pa.chunked_array([], pa.int64()))
        == Positions()
    )


def test_a_damaged_file_is_named() -> None:
    for data in (b"PAR1", encode_positions(Positions.of({"a": [1]}))[:-20]):
        with pytest.raises(CorruptLakeError, match="file:///x"):
            decode_positions(data, "file:///x")
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"other": [1]}), out)
    with pytest.raises(CorruptLakeError, match="file:///x"):
        decode_positions(bytes(out.getvalue()), "file:///x")


def test_names_of_the_place_of_a_row_give_way_to_columns() -> None:
    schema = Schema(NestedField(1, "_FILE", LongType()), NestedField(2, "_pos", LongType()))
    assert position_columns(Schema()) == ("_file", "_pos")
    assert position_columns(schema) == ("_file_", "_pos_")


# --- files of a table ---------------------------------------------------------------------------------------


SCHEMA = Schema(NestedField(1, "p", StringType()), NestedField(2, "id", LongType()))
METADATA = new_table(
    "11111111-1111-1111-1111-111111111111",
    "memory://lake/data/a/b",
    SCHEMA,
    parse_partition_by(["p"], SCHEMA),
    UNSORTED_SORT_ORDER,
    {},
    now_ms=1,
)


def data_file(path: str, partition: str | None, spec_id: int = 0) -> DataFile:
    return DataFile(path, (partition,), spec_id, 10, 100)


def test_one_delete_file_for_each_partition() -> None:
    store, tally = counted(MemoryStore("lake"))
    driver = Driver(store, SYSTEM)
    target = Target(driver, TableLoader(driver), METADATA, SYSTEM.new_txid(), "a.b")
    files = {name: data_file(name, part) for name, part in (("a", "x"), ("b", "x"), ("c", None))}
    positions = Positions.of({"b": [5, 1], "a": [2**33], "c": [0]})
    written = write_positions(target, positions, files, "updated")
    assert {file.partition: file.record_count for file in written} == {("x",): 3, (None,): 1}
    assert {file.content for file in written} == {Content.POSITION_DELETES}
    assert {role_of(file.path) for file in written} == {Role.POSITIONS_UPDATED}
    first = next(file for file in written if file.partition == ("x",))
    metrics = first.metrics
    paths: list[Any] = [
        from_bytes(StringType(), side[FILE_PATH_ID]) for side in (metrics.lower, metrics.upper)
    ]
    numbers: list[Any] = [from_bytes(LongType(), side[POS_ID]) for side in (metrics.lower, metrics.upper)]
    assert (paths, numbers) == (["a", "b"], [1, 2**33])
    assert first.size_bytes == len(store.get(first.path.removeprefix("memory://lake/")) or b"")
    # What this process wrote, it knows; others read each file once.
    tally.reset()
    assert read_positions(driver, target.loader, written) == positions
    assert tally.counts() == {}
    stranger = TableLoader(driver)
    for _ in range(2):
        assert read_positions(driver, stranger, written) == positions
    assert tally.counts() == {"get": 2}


def test_nothing_is_written_for_no_positions() -> None:
    driver = Driver(MemoryStore("lake"), SYSTEM)
    target = Target(driver, TableLoader(driver), METADATA, SYSTEM.new_txid(), "a.b")
    assert write_positions(target, Positions(), {}, "deleted") == ()


def test_bounds_of_long_paths_are_whole() -> None:
    driver = Driver(MemoryStore("lake"), SYSTEM)
    target = Target(driver, TableLoader(driver), METADATA, SYSTEM.new_txid(), "a.b")
    path = "memory://lake/" + "ü" * 4000
    (file,) = write_positions(target, Positions.of({path: [1]}), {path: data_file(path, "x")}, "deleted")
    assert file.metrics.lower[FILE_PATH_ID] == file.metrics.upper[FILE_PATH_ID] == path.encode()


def test_the_role_of_a_file_is_told_from_its_path() -> None:
    txid, attempt = TxId("0" * 31 + "a"), TxId("b" * 32)
    for role in Role:
        directory = new_directory(METADATA, txid, attempt, role)
        assert role_of(new_file(directory, METADATA, 0, ("a/-updated",), attempt)) is role
    assert role_of(f"{METADATA.location}/data/L0-{txid}/p=x/{attempt}.parquet") is Role.NEW
    assert role_of(f"{METADATA.location}/data/L1-1-10-{txid}/p=x/{attempt}.parquet") is Role.CARRIED
    # Whatever the lake, the table and the partition are called.
    odd = f"s3://x/data/L0-{txid}/bbbbbbbb-updated/data/L0-{txid}/bbbbbbbb/p=-updated/{attempt}.parquet"
    assert role_of(odd) is Role.NEW


# --- which delete files apply -------------------------------------------------------------------------------


def delete_file(name: str, lower: str, upper: str, partition: str = "x", spec_id: int = 0) -> DataFile:
    bounds = ColumnMetrics(lower={FILE_PATH_ID: lower.encode()}, upper={FILE_PATH_ID: upper.encode()})
    return DataFile(name, (partition,), spec_id, 1, 1, bounds, content=Content.POSITION_DELETES)


def applying(index: DeleteIndex, file: DataFile, number: int) -> list[str]:
    return [delete.path for delete in index.applying_to(file, number)]


def test_a_delete_applies_to_files_that_are_not_younger() -> None:
    index = DeleteIndex([(delete_file("late", "a", "c"), 7), (delete_file("early", "b", "b"), 5)])
    assert applying(index, data_file("b", "x"), 4) == ["early", "late"]
    assert applying(index, data_file("b", "x"), 5) == [
        "early",
        "late",
    ]  # deleted by the version that added it
    assert applying(index, data_file("b", "x"), 6) == ["late"]
    assert applying(index, data_file("b", "x"), 8) == []


def test_a_delete_applies_within_its_bounds_and_partition_and_spec() -> None:
    index = DeleteIndex([(delete_file("one", "b", "b"), 5), (delete_file("many", "b", "d"), 5)])
    assert applying(index, data_file("a", "x"), 1) == []
    assert applying(index, data_file("c", "x"), 1) == ["many"]
    assert applying(index, data_file("b", "y"), 1) == []
    assert applying(index, data_file("b", "x", spec_id=1), 1) == []
    unbounded = DataFile("u", ("x",), 0, 1, 1, content=Content.POSITION_DELETES)
    assert applying(DeleteIndex([(unbounded, 5)]), data_file("z", "x"), 1) == ["u"]


def test_partitions_of_nan_are_one() -> None:
    delete = delete_file("d", "a", "c")
    nans = [DataFile(name, (float("nan"),), 0, 1, 1, delete.metrics) for name in ("d", "b")]
    assert applying(DeleteIndex([(nans[0], 5)]), nans[1], 1) == ["d"]
