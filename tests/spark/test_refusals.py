"""Rows that do not fit, jobs that fail, settings without sense: nothing changes, and the error says why."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

import headgate as hg
from headgate.spark.session import prepared


@pytest.fixture
def table(lake: hg.Lake) -> hg.Table:
    return lake.create_table(
        "t.strict", "id BIGINT NOT NULL, n INT, name STRING, at TIMESTAMP, s STRUCT<a: INT NOT NULL, b: INT>"
    )


def test_all_differences_are_listed(lake: hg.Lake, table: hg.Table, spark: SparkSession) -> None:
    df = spark.sql("SELECT 'x' AS n, 1 AS nmae, current_date() AS at, named_struct('a', 1) AS s, 2L AS ID")
    with pytest.raises(hg.InvalidInputError) as caught:
        table.append(df)
    problem = caught.value.problem
    assert "column n is string, but the table has int" in problem
    assert "column nmae (int) is not in the table; did you mean name?" in problem
    assert "column at is date, but the table has timestamptz" in problem
    assert "column s is struct" in problem
    assert "column ID (bigint) is not in the table; did you mean id?" in problem
    assert "column id (long) is required but missing" in problem
    assert caught.value.next_step is not None and "cast" in caught.value.next_step
    assert lake.version == 1


def test_nulls_in_a_required_column(
    lake: hg.Lake, table: hg.Table, spark: SparkSession, both_ways: str
) -> None:
    df = spark.range(100).select(sf.when(sf.col("id") != 50, sf.col("id")).alias("id"))
    with pytest.raises(hg.InvalidInputError, match="column id is required"):
        table.append(df)
    assert lake.version == 1


def test_nulls_in_a_required_field_of_a_struct(
    lake: hg.Lake, table: hg.Table, spark: SparkSession, both_ways: str
) -> None:
    nested = "named_struct('a', CAST(NULL AS INT), 'b', 1)"
    with pytest.raises(hg.InvalidInputError, match=r"column s\.a is required"):
        table.append(spark.sql(f"SELECT 1L AS id, {nested} AS s"))
    table.append(spark.sql(f"SELECT 1L AS id, CASE WHEN false THEN {nested} END AS s"))
    assert table.read(spark).collect()[0].s is None


def test_nulls_in_required_elements_are_found_by_the_workers(lake: hg.Lake, spark: SparkSession) -> None:
    table = lake.create_table("t.lists", spark.sql("SELECT array(1) AS l").schema)
    with pytest.raises(hg.InvalidInputError, match=r"t\.lists: column l\.element is required"):
        table.append(spark.sql("SELECT array(1, CAST(NULL AS INT)) AS l"))
    assert lake.version == 1


def test_lists_without_compression(lake: hg.Lake, spark: SparkSession) -> None:
    properties = {"write.parquet.compression-codec": "uncompressed"}
    table = lake.create_table("t.lists", "l ARRAY<INT>", properties=properties)
    table.append(spark.sql("SELECT array(1) AS l"))
    assert table.read(spark).collect()[0].l == [1]


def test_a_partition_by_a_column_with_a_dot(lake: hg.Lake, spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, "x" * 5000), (2, None)], ["a.b", "c.d"])
    table = lake.create_table("t.dots", df.schema, partition_by=["a.b", "c.d"])
    table.append(df)
    assert table.read(spark, where="`a.b` = 1").count() == 1
    assert table.read_arrow(where="`c.d` IS NULL").column("a.b").to_pylist() == [2]


def test_struct_fields_are_matched_by_name(table: hg.Table, spark: SparkSession, both_ways: str) -> None:
    table.append(spark.sql("SELECT 1L AS id, named_struct('b', 20, 'a', 10) AS s"))
    assert table.read(spark).collect()[0].s == Row(a=10, b=20)


def test_struct_fields_in_lists_and_maps_are_matched_by_name(lake: hg.Lake, spark: SparkSession) -> None:
    inner = "STRUCT<a: STRING, b: STRING>"
    table = lake.create_table("t.lists", f"l ARRAY<{inner}>, m MAP<STRING, {inner}>, n ARRAY<ARRAY<{inner}>>")
    other = "named_struct('b', 'B', 'a', 'A')"
    table.append(
        spark.sql(
            f"SELECT array({other}) l, map('k', {other}) m, array(array({other}), NULL) n UNION ALL "
            "SELECT NULL, NULL, NULL"
        )
    )
    first, second = sorted(table.read(spark).collect(), key=lambda row: row.l is None)
    right = Row(a="A", b="B")
    assert (first.l, first.m, first.n) == ([right], {"k": right}, [[right], None])
    assert (second.l, second.m, second.n) == (None, None, None)


def test_a_failing_job_changes_nothing(
    lake: hg.Lake, table: hg.Table, spark: SparkSession, both_ways: str
) -> None:
    df = spark.range(100).select("id", sf.assert_true(sf.col("id") != 77).cast("int").alias("n"))
    with pytest.raises(
        hg.InvalidInputError, match=r"t\.strict: Spark could not write the rows: .*is not true"
    ):
        table.append(df)
    assert lake.version == 1
    table.append(spark.range(3))
    assert table.read(spark).count() == 3


def test_types_that_iceberg_has_not(lake: hg.Lake, spark: SparkSession) -> None:
    df = spark.sql("SELECT INTERVAL 1 DAY AS d, named_struct('v', parse_json('1')) AS s, 1 AS fine")
    with pytest.raises(hg.InvalidInputError) as caught:
        lake.create_table("t.types", df.schema)
    assert "d: interval day" in caught.value.problem
    assert "s.v: variant" in caught.value.problem
    assert "fine" not in caught.value.problem


def test_a_lake_in_memory_is_out_of_reach(spark: SparkSession) -> None:
    lake = hg.Lake.init("memory://spark-cannot-see-this")
    table = lake.create_table("t.one", "id BIGINT")
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    with pytest.raises(hg.UnsupportedError, match="only this process can"):
        table.append(spark.range(3))
    with pytest.raises(hg.UnsupportedError, match="only this process can"):
        table.read(spark)


def test_settings_that_make_no_sense(table: hg.Table, lake: hg.Lake, spark: SparkSession) -> None:
    spark.conf.set("spark.headgate.files", "fast")
    with pytest.raises(hg.InvalidInputError, match="auto, native or arrow"):
        table.append(spark.range(1))
    spark.conf.unset("spark.headgate.files")
    table.set_properties({"write.distribution-mode": "sideways"})
    with pytest.raises(hg.InvalidInputError, match="none, hash, range"):
        table.append(spark.range(1))
    with pytest.raises(hg.InvalidInputError, match="an integer of at least 1"):
        table.set_properties({"write.distribution-mode": "none", "write.target-file-size-bytes": "big"})
    with pytest.raises(hg.InvalidInputError, match="not a Spark session"):
        prepared("spark")  # type: ignore[arg-type]
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(hg.UnsupportedError, match="Spark Connect"):
        prepared(connected())
    with pytest.raises(hg.InvalidInputError, match=r"pass the schema|not a schema"):
        lake.create_table("t.frame", spark.range(1))
    with pytest.raises(hg.InvalidInputError, match="has no rows to write"):
        table.append(spark.range(1).schema)
    with pytest.raises(hg.InvalidInputError, match="DataFrame, a pyarrow Table"):
        table.append([1, 2])
    with pytest.raises(hg.InvalidInputError, match="spark_ui_port must be a string or a number, not a list"):
        hg.session(spark_ui_port=[1])


def test_rows_that_an_overwrite_does_not_select(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    table = lake.create_table("t.one", "id BIGINT")
    table.append(spark.range(10))
    with pytest.raises(hg.InvalidInputError, match=r'does not match .id < 5.: \{"id":5\}'):
        table.overwrite(spark.range(6), where="id < 5")
    assert lake.version == 2


@pytest.mark.parametrize(("kind", "least"), [("INT", -(2**31)), ("BIGINT", -(2**63))])
def test_a_number_that_is_truncated_to_none_has_no_partition(
    lake: hg.Lake, spark: SparkSession, both_ways: str, kind: str, least: int
) -> None:
    table = lake.create_table("t.least", f"i {kind}", partition_by=["truncate(10, i)"])
    with pytest.raises(hg.InvalidInputError, match="does not fit its type after truncation"):
        table.append(spark.createDataFrame([(least,)], f"i {kind}"))
    assert lake.version == 1
    least_that_fits = least + 10 - least % 10
    table.append(spark.createDataFrame([(least_that_fits,), (None,), (7,)], f"i {kind}"))
    assert {file.partition["i_trunc"] for file in table.files()} == {least_that_fits, None, 0}


def test_texts_that_no_directory_can_be_called(lake: hg.Lake, spark: SparkSession) -> None:
    table = lake.create_table("t.odd", "s STRING", partition_by=["s"])
    texts = ["\0", "a\0", "a", "", "..", "/", None]
    table.append(spark.createDataFrame([(text,) for text in texts], "s string"))
    assert sorted(map(repr, (row.s for row in table.read(spark).collect()))) == sorted(map(repr, texts))
    assert len(table.files()) == len(texts)
