"""Rows deleted by position, in Spark: both ways to read, whatever the places are called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import headgate as hg
from headgate.arrow.data_files import read_located
from headgate.iceberg.format.positions import Positions, position_columns
from headgate.iceberg.predicate.binding import bind_text
from headgate.spark.read import native as native_read
from headgate.spark.read.table import Scan
from headgate.testing.inspector import Inspector
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg
from tests.row_deletes import delete_rows
from tests.spark.test_tables import ALL_TYPES, all_types, frame, rows_of

ODD = "a lake+at 100%25 ü日#[x]{y}'"
PARTS = ["a b/c%", "ü+日本=&", "", "x" * 300, None]
NAME = "a.b"


@pytest.fixture
def odd_lake(tmp_path: Path) -> hg.Lake:
    return hg.Lake.init(tmp_path / ODD)


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


def filled(lake: hg.Lake, spark: SparkSession, count: int = 40) -> hg.Table:
    """Files of Spark's and of Arrow's in every partition."""
    table = lake.create_table(NAME, "id BIGINT NOT NULL, part STRING", partition_by=["part"])
    values = [(number, PARTS[number % len(PARTS)]) for number in range(count)]
    table.append(spark.createDataFrame(values[::2], "id BIGINT, part STRING").coalesce(1))
    table.append(pa.table({"id": [n for n, _ in values[1::2]], "part": [part for _, part in values[1::2]]}))
    return table


def test_reads_leave_deleted_rows_out(odd_lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    table = filled(odd_lake, spark)
    before = table.read(spark).schema
    left = set(range(40))
    versions = {}
    for gone in ({0, 7, 13}, {1, 6, 21}, {2, 39}):
        left -= gone
        versions[delete_rows(odd_lake, NAME, f"id IN {tuple(gone)}")] = sorted(left)
    table.append(pa.table({"id": [0, 100], "part": [PARTS[0], PARTS[1]]}))  # a file without deletes
    left |= {0, 100}
    read = table.read(spark)
    assert ids(read) == sorted(left)
    assert read.schema.jsonValue() == before.jsonValue()
    assert read.count() == len(left)
    assert ids(table.read(spark, where="id < 10")) == [number for number in sorted(left) if number < 10]
    assert ids(table.read(spark, where="part IS NULL")) == [n for n in sorted(left) if n % 5 == 4]
    assert ids(table.read(spark, where=sf.col("id") % 2 == 0)) == [n for n in sorted(left) if n % 2 == 0]
    assert table.read(spark, columns=["part"]).where("part = ''").count() == len(
        [number for number in left if number % 5 == 2]
    )
    assert ids(table.read(spark, version=min(versions) - 1)) == list(range(40))
    for version, expected in versions.items():
        assert ids(table.read(spark, version=version)) == expected


def test_located_rows_are_those_of_arrow(odd_lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    table = filled(odd_lake, spark)
    delete_rows(odd_lake, NAME, "id IN (0, 5, 7)")
    table.append(pa.table({"id": [100], "part": ["plain"]}))
    view, schema = table._view(), table.schema
    only = bind_text("id < 30 OR id = 100", schema)
    files = view.files(only)
    located = Scan(view.loader, files, view.metadata, schema, only).located(spark)
    assert located.rows.columns == ["id", "part", "_file", "_pos"]
    expected = read_located(Inspector(odd_lake).driver, view.loader, files, schema, only)
    in_order = lambda row: row["id"]  # noqa: E731
    found = [{**row.asDict(), "_file": located.path(row["_file"])} for row in located.rows.collect()]
    assert sorted(found, key=in_order) == sorted(expected.to_pylist(), key=in_order)
    # With a condition that only Spark has, and few columns; as positions they name the same rows.
    narrow = Scan(view.loader, files, view.metadata, schema.select("part"), only, "id % 3 = 1").located(spark)
    assert narrow.rows.columns == ["part", "_file", "_pos"]
    positions = narrow.gather(narrow.rows).of({0})
    wanted = expected.filter(pa.array([number % 3 == 1 for number in expected["id"].to_pylist()]))
    assert positions == Positions.of_columns(wanted["_file"], wanted["_pos"])


def test_located_rows_of_no_file(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    table = lake.create_table(NAME, "id BIGINT, _file STRING")
    nothing = Scan(table._view().loader, (), table._view().metadata, table.schema).located(spark)
    table.append(pa.table({"id": [1], "_file": ["mine"]}))
    found = Scan(table._view().loader, table._view().files(), table._view().metadata, table.schema).located(
        spark
    )
    (row,) = found.rows.collect()
    assert (row.id, row["_file"], row["_pos"]) == (1, "mine", 0)
    assert found.path(row["_file_"]) == table.files()[0].path
    assert nothing.rows.columns == ["id", "_file", *position_columns(table.schema)]
    assert nothing.rows.count() == 0


def test_an_overwrite_never_brings_deleted_rows_back(
    odd_lake: hg.Lake, spark: SparkSession, both_ways: str
) -> None:
    table = filled(odd_lake, spark)
    delete_rows(odd_lake, NAME, "id IN (0, 1, 2, 3, 4, 5)")
    new = spark.createDataFrame([(10, PARTS[0])], "id BIGINT, part STRING")
    table.overwrite(new, where="id IN (10, 11)")
    assert ids(table.read(spark)) == [*range(6, 11), *range(12, 40)]
    assert table.snapshot is not None and table.snapshot.rows == 33
    table.replace_partition_by(["bucket(2, id)"])
    # Of files of an older spec, the rows of other partitions are written again.
    table.overwrite_partitions(spark.createDataFrame([(50, "x")], "id BIGINT, part STRING"))
    assert not {0, 1, 2, 3, 4, 5} & set(ids(table.read(spark)))


def test_all_types_and_a_column_that_is_called_as_sparks(
    lake: hg.Lake, spark: SparkSession, both_ways: str
) -> None:
    # Spark does not hand columns with a dot in their names to Python workers.
    extra = "`a.b``c`" if both_ways == "native" else "odd"
    schema = f"{ALL_TYPES}, _metadata STRING, {extra} INT"
    df = frame(spark, schema, lambda number: (*all_types(number), f"m{number}", number))
    table = lake.create_table("t.types", df.schema)
    table.append(df)
    delete_rows(lake, "t.types", "id IN (3, 4, 5)")
    expected = df.where("id NOT IN (3, 4, 5)")
    assert rows_of(table.read(spark)) == rows_of(expected)
    assert table.read(spark).schema.simpleString() == df.schema.simpleString()
    assert ids(table.read(spark, where="id < 8", columns=["id", "point.x"])) == [0, 1, 2, 6, 7]


def test_a_table_without_deletes_is_one_plain_scan(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    plan = table.read(spark)._jdf.queryExecution().optimizedPlan().toString()
    assert "Join" not in plan and "Union" not in plan and "_metadata" not in plan
    delete_rows(lake, NAME, "id = 1")
    plan = table.read(spark)._jdf.queryExecution().optimizedPlan().toString()
    assert "LeftAnti" in plan and "Union" in plan


def test_filters_reach_the_scan_of_files_with_deletes(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    delete_rows(lake, NAME, "id IN (0, 1, 2, 3, 4)")
    plan = table.read(spark).where("id > 1000")._jdf.queryExecution().executedPlan().toString()
    assert plan.count("PushedFilters: [IsNotNull(id), GreaterThan(id,1000)") >= 1


@pytest.mark.parametrize("bound", ["KNOWN_ROWS", "KNOWN_POSITIONS", "KNOWN_DELETE_FILES"])
def test_more_deletes_than_this_process_reads(
    lake: hg.Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    table = lake.create_table(NAME, "id BIGINT, _size BIGINT")
    for first in (0, 300):
        table.append(pa.table({"id": range(first, first + 300), "_size": range(first, first + 300)}))
    delete_rows(lake, NAME, "id < 100 OR id > 310")
    delete_rows(lake, NAME, "id = 307")
    expected = [*range(100, 307), 308, 309, 310]
    known = table.read(spark)
    monkeypatch.setattr(native_read, bound, 1)
    listed = table.read(spark)
    plans = [read._jdf.queryExecution().executedPlan().toString() for read in (known, listed)]
    assert ["SortMergeJoin" in plan for plan in plans] == [False, True]
    assert sorted(row["id"] for row in known.collect()) == expected
    assert sorted(row["_size"] for row in listed.collect()) == expected


def test_files_are_found_by_the_sizes_that_spark_sees(lake: hg.Lake, spark: SparkSession) -> None:
    """A client that encrypts shows other sizes than the manifest has; then no deleted row may come back."""
    table = filled(lake, spark)
    delete_rows(lake, NAME, "id IN (0, 1, 2, 39)")
    view = table._view()
    files = tuple(replace(one, file=replace(one.file, size_bytes=7)) for one in view.files())
    assert ids(Scan(view.loader, files, view.metadata, table.schema).frame(spark)) == list(range(3, 39))


def test_other_engines_agree(tmp_path: Path, spark: SparkSession) -> None:
    table = filled(hg.Lake.init(tmp_path), spark)
    delete_rows(table._lake, NAME, "id IN (0, 1, 2, 3, 4, 5, 39)")
    expected = list(range(6, 39))
    assert ids(table.read(spark)) == expected
    metadata = table.metadata_location.removeprefix("file://")
    assert sorted(row["id"] for row in ask_pyiceberg(metadata)) == expected
    place = tmp_path / "data" / "a" / "b"
    assert sorted(row[0] for row in ask_duckdb(place, "id")) == expected
    assert sorted(int(row[0]) for row in ask_clickhouse(place, "id")) == expected
