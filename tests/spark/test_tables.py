"""DataFrames into tables and back: every type, every partition transform, both ways."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

import headgate as hg
from headgate.lake.ingest.load import IngestOptions, ingest
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg

ALL_TYPES = """
    id BIGINT NOT NULL, flag BOOLEAN, small INT, big BIGINT, real FLOAT, wide DOUBLE, money DECIMAL(20, 4),
    day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, name STRING, raw BINARY, point STRUCT<x: INT, label: STRING>
"""
NESTED_TYPES = """
    id BIGINT NOT NULL, tags ARRAY<STRING>, scores MAP<STRING, DOUBLE>,
    steps ARRAY<STRUCT<n: INT, parts: ARRAY<BIGINT>>>, deep STRUCT<a: STRUCT<b: MAP<STRING, ARRAY<INT>>>>
"""
UTC = dt.UTC


def all_types(number: int) -> tuple[Any, ...]:
    if number % 4 == 3:
        return (number, *[None] * 12)
    at = dt.datetime(1969, 12, 30, 22, 59, 59, 123456, tzinfo=UTC) + dt.timedelta(hours=7 * number)
    return (
        number,
        number % 2 == 0,
        number - 5,
        number * 10**12,
        number / 4,
        float("nan") if number % 5 == 0 else number / 3,
        Decimal(number * 12345678) / 10000,
        dt.date(1969, 12, 30) + dt.timedelta(days=number),
        at,
        at.replace(tzinfo=None),
        ["", "'quoted'", "ÄÖ 日本", "a/b=c%20d", "x" * 300][number % 5],
        bytes([number % 256, 255, 0]),
        Row(x=number, label=None if number % 2 else f"p{number}"),
    )


def nested_types(number: int) -> tuple[Any, ...]:
    if number % 4 == 3:
        return (number, None, None, None, None)
    return (
        number,
        [f"t{number}", None],
        {"a": float(number), "b": None},
        [Row(n=number, parts=[1, None, number]), None],
        Row(a=Row(b={"k": [number, None]})),
    )


def rows_of(df: DataFrame) -> list[str]:
    """Rows that can be compared, whatever NaN is equal to."""
    return sorted(repr(row) for row in df.collect())


def frame(spark: SparkSession, schema: str, make: Any, count: int = 40) -> DataFrame:
    return spark.createDataFrame([make(number) for number in range(count)], schema).repartition(3)


def test_all_types_go_in_and_come_back(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    df = frame(spark, ALL_TYPES, all_types)
    table = lake.create_table("t.types", df.schema)
    table.append(df)
    assert rows_of(table.read(spark)) == rows_of(df)
    assert table.read(spark).schema.simpleString() == df.schema.simpleString()
    assert table.read_arrow().num_rows == 40


def test_lists_and_maps_have_ids_at_every_depth(lake: hg.Lake, spark: SparkSession) -> None:
    df = frame(spark, NESTED_TYPES, nested_types)
    table = lake.create_table("t.nested", df.schema)
    table.append(df)
    for way in ("native", "arrow"):
        spark.conf.set("spark.headgate.files", way)
        assert rows_of(table.read(spark)) == rows_of(df)
    # pyiceberg refuses files whose ids are not complete.
    assert len(ask_pyiceberg(table.metadata_location)) == 40


PARTITIONINGS = [
    ["flag"],
    ["small"],
    ["money"],
    ["day"],
    ["at"],
    ["local"],
    ["name"],
    ["raw"],
    ["wide"],
    ["bucket(5, id)"],
    ["bucket(5, small)"],
    ["bucket(5, money)"],
    ["bucket(5, day)"],
    ["bucket(5, at)"],
    ["bucket(5, local)"],
    ["bucket(5, name)"],
    ["bucket(5, raw)"],
    ["truncate(3, small)"],
    ["truncate(1000, big)"],
    ["truncate(50, money)"],
    ["truncate(3, name)"],
    ["truncate(2, raw)"],
    ["year(day)"],
    ["month(day)"],
    ["day(day)"],
    ["year(at)"],
    ["month(at)"],
    ["day(at)"],
    ["hour(at)"],
    ["hour(local)", "bucket(2, id)"],
    ["bucket(3, point.x)", "point.label"],
]


@pytest.mark.parametrize("partition_by", PARTITIONINGS, ids=lambda terms: "+".join(terms))
def test_every_transform_gives_the_partitions_that_arrow_gives(
    lake: hg.Lake, spark: SparkSession, partition_by: list[str]
) -> None:
    # A time zone that is never UTC: partitions are in UTC whatever the session says.
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    df = frame(spark, ALL_TYPES, all_types)
    native = lake.create_table("t.native", df.schema, partition_by=partition_by)
    native.append(df)
    arrow = lake.create_table("t.arrow", df.schema, partition_by=partition_by)
    arrow.append(native.read_arrow())

    def partitions(table: hg.Table) -> dict[str, int]:
        rows: dict[str, int] = {}
        for file in table.files():
            rows[repr(file.partition)] = rows.get(repr(file.partition), 0) + file.rows
        return rows

    assert partitions(native) == partitions(arrow)
    assert rows_of(native.read(spark)) == rows_of(df) == rows_of(arrow.read(spark))


def test_other_engines_read_what_spark_wrote(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    df = frame(spark, ALL_TYPES, all_types)
    table = lake.create_table("t.types", df.schema, partition_by=["bucket(3, id)", "day(at)"])
    table.append(df)
    root = Path(table.location.removeprefix("file://"))
    expected = sorted((row.id, row.name) for row in df.collect())
    assert sorted(ask_duckdb(root, "id, name")) == expected
    assert sorted((int(number), name) for number, name in ask_clickhouse(root, "id, name")) == expected
    assert sorted((row["id"], row["name"]) for row in ask_pyiceberg(table.metadata_location)) == expected


def test_a_lake_whose_path_looks_like_a_pattern(tmp_path: Path, spark: SparkSession) -> None:
    lake = hg.Lake.init(tmp_path / "la[k]e {1} 100% ä#?*")
    table = lake.create_table("t.odd", "id BIGINT, name STRING", partition_by=["name"])
    df = spark.createDataFrame(
        [(1, "a[b]*?"), (2, None), (3, ""), (4, "__HIVE_DEFAULT_PARTITION__")], table_ddl
    )
    table.append(df)
    assert rows_of(table.read(spark)) == rows_of(df)
    assert sorted(str(file.partition["name"]) for file in table.files()) == sorted(
        ["a[b]*?", "None", "", "__HIVE_DEFAULT_PARTITION__"]
    )


table_ddl = "id BIGINT, name STRING"


def test_rows_without_any_row(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    table = lake.create_table("t.empty", table_ddl)
    assert table.read(spark).count() == 0
    table.append(spark.createDataFrame([], table_ddl))
    assert table.read(spark).collect() == []
    assert table.files() == ()


def test_several_writes_in_one_transaction_are_one_version(
    lake: hg.Lake, spark: SparkSession, both_ways: str
) -> None:
    first, second = spark.range(10), spark.range(10, 15)
    lake.create_table("t.one", first.schema)
    with lake.transaction() as tx:
        tx.table("t.one").append(first)
        tx.table("t.one").append(second)
        tx.table("t.one").append(pa.table({"id": pa.array([99], pa.int64())}))
        tx.create_table("t.two", first.schema).append(second)
    assert lake.version == tx.result.version == 2
    assert sorted(row.id for row in lake.table("t.one").read(spark).collect()) == [*range(15), 99]
    assert lake.table("t.two").read(spark).count() == 5
    assert lake.table("t.one").read(spark, version=1).count() == 0


def test_overwrite_replaces_all(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    table = lake.create_table("t.one", spark.range(1).schema)
    table.append(spark.range(10))
    table.overwrite(spark.range(3))
    assert table.read(spark).count() == 3
    assert table.read(spark, version=2).count() == 10


def test_column_pruning_reaches_the_files(lake: hg.Lake, spark: SparkSession) -> None:
    df = frame(spark, ALL_TYPES, all_types)
    table = lake.create_table("t.types", df.schema)
    table.append(df)
    plan = table.read(spark).select("id").where("id > 3")._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<id:bigint>" in plan
    assert "GreaterThan(id,3)" in plan
    assert table.read(spark, columns=["name", "id"]).columns == ["name", "id"]


def test_a_table_is_copied_into_another(lake: hg.Lake, spark: SparkSession) -> None:
    source = lake.create_table("t.source", "a INT, b STRING")
    source.append(spark.createDataFrame([(1, "x")], "a INT, b STRING"))
    # The same names with other ids: those of the source must not go along.
    target = lake.create_table("t.target", "b STRING, c DOUBLE, a BIGINT")
    target.append(source.read(spark))
    assert target.read(spark).collect() == [Row(b="x", c=None, a=1)]


def test_a_transaction_reads_what_it_sees_and_depends_on_it(spark: SparkSession, lake: hg.Lake) -> None:
    table = lake.create_table("a.b", "id BIGINT, part INT", partition_by=["part"])
    table.append(spark.sql("SELECT id, CAST(id % 2 AS INT) AS part FROM range(10)"))
    tx = lake.transaction(isolation="serializable")
    inside = tx.table("a.b")
    inside.append(spark.sql("SELECT 100L AS id, 0 AS part"))
    even = inside.read(spark, where="part = 0", columns=["id"])
    assert sorted(row.id for row in even.collect()) == [0, 2, 4, 6, 8, 100]
    # Which rows a column selects is for Spark alone to tell, so it counts as reading all of them.
    large = inside.read(spark, where=sf.col("id") > 50, columns=["id"])
    assert [row.id for row in large.collect()] == [100]
    inside.append(even.selectExpr("id + 1000 AS id", "0 AS part"))
    table.append(spark.sql("SELECT 11L AS id, 1 AS part"))
    with pytest.raises(hg.ConflictError, match=r"a.b: your read .*\[rule 5:"):
        tx.commit()
    assert table.read(spark).count() == 11


def test_a_column_that_comes_goes_and_comes_again_in_one_transaction(
    lake: hg.Lake, spark: SparkSession, both_ways: str
) -> None:
    table = lake.create_table("t.again", "id BIGINT")
    with lake.transaction() as tx:
        writer = tx.table("t.again")
        writer.add_column("x", "BIGINT")
        writer.append(spark.createDataFrame([(1, 7)], "id bigint, x bigint"))
        writer.drop_column("x")
        writer.add_column("x", "BIGINT")
        writer.append(spark.createDataFrame([(2, 8)], "id bigint, x bigint"))
    assert sorted(map(tuple, table.read(spark).collect())) == [(1, None), (2, 8)]


def test_numbers_with_leading_zeros_are_text_for_spark_too(
    lake: hg.Lake, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark looks at every row, so the last one can tell."""
    (tmp_path / "a.csv").write_text("`zip`,n,x\n" + "1,2,0.5\n" * 3 + "01234,2,1\n")
    ingest(lake, "t.zip", [str(tmp_path / "a.csv")], IngestOptions(), spark=spark)
    rows = lake.table("t.zip").read_arrow().to_pylist()
    assert [*rows[-1].values()] == ["01234", 2, 1.0]
    assert {row["`zip`"] for row in rows} == {"1", "01234"}
