"""Reads and overwrites of some rows through Spark, both ways, against what Spark says of all rows."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import headgate as hg
from headgate.arrow.data_files import read_rows
from headgate.testing.inspector import Inspector
from tests.spark.test_tables import ALL_TYPES, all_types, frame, rows_of


@pytest.fixture
def table(lake: hg.Lake, spark: SparkSession) -> hg.Table:
    df = frame(spark, ALL_TYPES, all_types)
    table = lake.create_table("t.types", df.schema, partition_by=["day(at)"])
    table.append(df)
    table.append(df.where("false"))
    return table


CASES = [
    ("id >= 10 AND id < 20", "id >= 10 AND id < 20"),
    ("day(at) = '1970-01-02'", "at >= '1970-01-02' AND at < '1970-01-03'"),
    ("name = '' OR flag IS NULL", "name = '' OR flag IS NULL"),
    ("NOT (wide > 3)", "NOT (wide > 3)"),
    ("money IN (0, 1234.5678)", "money IN (0, 1234.5678)"),
    ("point.x BETWEEN 3 AND 9", "point.x BETWEEN 3 AND 9"),
    ("bucket(5, id) = 2", None),
]


@pytest.mark.parametrize(("where", "sql"), CASES)
def test_a_read_selects_what_spark_selects(
    table: hg.Table, spark: SparkSession, both_ways: str, where: str, sql: str | None
) -> None:
    found = table.read(spark, where=where)
    if sql is None:
        assert sorted(row.id for row in found.collect()) == sorted(
            table.read_arrow(where=where).column("id").to_pylist()
        )
    else:
        assert rows_of(found) == rows_of(table.read(spark).where(sql))


def test_what_only_spark_understands_is_a_filter(
    table: hg.Table, spark: SparkSession, both_ways: str
) -> None:
    assert table.read(spark, where="id % 10 = 3").count() == 4
    for nonsense in ("id = = 3", "nothing % 2 = 0", 5):
        with pytest.raises(
            hg.InvalidInputError, match=r"neither Headgate nor Spark|there is no column nothing"
        ):
            table.read(spark, where=nonsense)  # type: ignore[arg-type]
    assert table.read(spark, where=sf.col("id") % 10 == 3, columns=["name", "id"]).columns == ["name", "id"]


def test_columns_in_the_order_asked_for_and_inside_of_structs(
    table: hg.Table, spark: SparkSession, both_ways: str
) -> None:
    for found in (
        table.read(spark, columns=["point.x", "id"], where="small < 0"),
        table.read(spark, columns=["point.x", "id"]).where("id < 5"),
    ):
        assert [field.simpleString() for field in found.schema] == ["point:struct<x:int>", "id:bigint"]
        assert sorted(row.id for row in found.collect()) in ([0, 1, 2, 4], [0, 1, 2, 3, 4])
    assert table.read_arrow(columns=["point.x", "id"]).column_names == ["point", "id"]


def test_partitions_that_cannot_match_are_not_read(table: hg.Table, spark: SparkSession) -> None:
    everything, one = table.read(spark), table.read(spark, where="day(at) = '1970-01-02'")
    assert 0 < len(one.inputFiles()) < len(everything.inputFiles())


def test_an_overwrite_replaces_exactly_what_it_selects(
    table: hg.Table, spark: SparkSession, both_ways: str
) -> None:
    before = rows_of(table.read(spark).where("coalesce(small >= 0, true)"))
    table.overwrite(table.read(spark).where("small = -3"), where="small < 0")
    assert rows_of(table.read(spark).where("coalesce(small >= 0, true)")) == before
    assert table.read(spark).where("small < 0").count() == 1
    assert table.read_arrow(where="small < 0").num_rows == 1


def test_partitions_of_the_rows_are_replaced(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    table = lake.create_table("t.parts", "id BIGINT, k INT", partition_by=["k"])
    table.append(spark.range(100).selectExpr("id", "CAST(id % 5 AS INT) AS k"))
    table.overwrite_partitions(spark.sql("SELECT 1000L AS id, 2 AS k UNION ALL SELECT 1001L, 7"))
    left = {(row.k): row["count"] for row in table.read(spark).groupBy("k").count().collect()}
    assert left == {0: 20, 1: 20, 2: 1, 3: 20, 4: 20, 7: 1}
    table.replace_partition_by(["bucket(2, id)"])
    table.overwrite_partitions(spark.createDataFrame([(5000, 9)], "id BIGINT, k INT"))
    survivors = table.read_arrow(where="bucket(2, id) = 0").num_rows, table.read(spark).count()
    assert 1 in (survivors[0], survivors[1] - survivors[0])


def ids_of_files(table: hg.Table) -> list[tuple[object, list[int]]]:
    """The partition and the ids, in their order, of each file."""
    view = table._view()
    return [
        (
            planned.file.partition,
            read_rows(Inspector(table._lake).driver, view.loader, [planned], table.schema)
            .column("id")
            .to_pylist(),
        )
        for planned in view.files()
    ]


def test_files_are_sorted_as_they_say(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    df = frame(spark, ALL_TYPES, all_types)
    order = ["month(at) desc", "bucket(3, id)", "id desc"]
    by_spark = lake.create_table("t.spark", df.schema, sort_by=order, partition_by=["flag"])
    by_spark.append(df)
    by_arrow = lake.create_table("t.arrow", df.schema, sort_by=order, partition_by=["flag"])
    by_arrow.append(by_spark.read_arrow())
    assert {planned.file.sort_order_id for planned in by_spark._view().files()} == {1}
    expected = dict(ids_of_files(by_arrow))
    for partition, found in ids_of_files(by_spark):
        assert found == [number for number in expected[partition] if number in set(found)]


def test_sql_sees_one_version_and_older_ones(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    lake.create_table("sales.orders", "id BIGINT, customer STRING").append(
        spark.createDataFrame([(1, "ann"), (2, "bob")], "id BIGINT, customer STRING")
    )
    lake.create_table("sales.customers", "name STRING, city STRING").append(
        spark.createDataFrame([("ann", "Oslo"), ("bob", "Rome")], "name STRING, city STRING")
    )
    lake.tag("before")
    lake.table("sales.orders").append(spark.createDataFrame([(3, "bob")], "id BIGINT, customer STRING"))
    query = """
        SELECT c.city, count(*) AS n FROM sales.orders o JOIN sales.customers AS c ON o.customer = c.name
        GROUP BY c.city ORDER BY 1
    """
    assert [tuple(row) for row in lake.sql(spark, query).collect()] == [("Oslo", 1), ("Rome", 2)]
    assert [tuple(row) for row in lake.at(tag="before").sql(spark, query).collect()] == [
        ("Oslo", 1),
        ("Rome", 1),
    ]
    old = lake.sql(spark, "SELECT count(*) FROM sales.orders VERSION AS OF 'before'").first()
    assert old is not None and old[0] == 2
    older = lake.sql(spark, "SELECT orders.id FROM sales.orders VERSION AS OF 1").collect()
    assert older == []
    spark.range(3).createOrReplaceTempView("mine")
    both = lake.sql(spark, "SELECT count(*) FROM mine, sales.orders").first()
    assert both is not None and both[0] == 9
    assert [view.name for view in spark.catalog.listTables() if view.name.startswith("headgate_")] == []
    with pytest.raises(hg.NotFoundError, match="there is no table sales") as caught:
        lake.sql(spark, "SELECT * FROM sales.order")
    assert caught.value.next_step is not None
    assert caught.value.next_step.startswith("did you mean sales.orders")
    with pytest.raises(hg.InvalidInputError, match="Spark cannot run the query"):
        lake.sql(spark, "SELECT nothing FROM sales.orders")


def test_bounds_hold_for_all_row_groups(lake: hg.Lake, spark: SparkSession) -> None:
    """A NaN, or a text that is too long for a footer, leaves a row group without bounds."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    small = {"parquet.block.size": "100000", "parquet.page.size.row.check.min": "10"}
    table = lake.create_table("t.groups", "id BIGINT, s STRING, x DOUBLE")
    plain = sf.concat(sf.lit("a"), sf.sha2(sf.col("id").cast("string"), 256))
    first = sf.col("id") == 1
    df = spark.range(20_000).coalesce(1)
    df = df.select(
        "id",
        sf.when(first, sf.lit("z" * 5000)).otherwise(plain).alias("s"),
        sf.when(first, float("nan")).when(sf.col("id") == 2, 1e9).otherwise(sf.rand(1)).alias("x"),
    )
    try:
        for name, value in small.items():
            settings.set(name, value)
        table.append(df)
    finally:
        for name in small:
            settings.unset(name)
    for where, ids in (("s > 'b'", [1]), ("x = 1e9", [2]), ("x > 2", [1, 2]), ("x = 'NaN'", [1])):
        assert sorted(row.id for row in table.read(spark, where=where).collect()) == ids, where
        assert sorted(table.read_arrow(where=where).column("id").to_pylist()) == ids, where


@pytest.mark.parametrize("kind", ["double", "float"])
def test_both_zeros_are_equal(lake: hg.Lake, spark: SparkSession, kind: str) -> None:
    """Spark's Parquet reader passes over a file of -0.0 where 0.0 is asked for."""
    table = lake.create_table("t.zeros", f"x {kind}")
    for zero in (-0.0, 0.0):
        table.append(spark.createDataFrame([(zero,)] * 100, f"x {kind}"))
    for where in ("x = 0", "x = -0.0", "x >= 0", "x <= -0.0", "x IN (0, 1)", "NOT x < 0"):
        assert table.read(spark, where=where).count() == 200, where
    for where in ("x <> 0", "x > 0", "x < 0", "x > -0.0", "x < -0.0", "x NOT IN (0, 1)"):
        assert table.read(spark, where=where).count() == 0, where


def test_a_name_that_was_another_columns_once(lake: hg.Lake, spark: SparkSession, both_ways: str) -> None:
    """Spark hands filters to files by name, and older files have another column under that name."""
    table = lake.create_table("t.names", "id INT, a STRING, b STRING, s STRUCT<x: INT, y: INT>")
    table.append(
        spark.sql(
            "SELECT 1 id, 'p' a, NULL b, named_struct('x', 1, 'y', NULL) s "
            "UNION ALL SELECT 2, NULL, 'q', named_struct('x', NULL, 'y', 7)"
        ).selectExpr("id", "a", "b", "CAST(s AS STRUCT<x: INT, y: INT>) s")
    )
    for old, new in (("a", "t"), ("b", "a"), ("t", "b"), ("s.x", "t"), ("s.y", "x"), ("s.t", "y")):
        table.rename_column(old, new)
    table.drop_column("id")
    table.add_column("ID", "INT")
    for where, count in (
        ("a IS NULL", 1),
        ("a = 'q'", 1),
        ("b = 'p'", 1),
        ("s.x IS NULL", 1),
        ("s.x = 7", 1),
        ("ID IS NULL", 2),
        ("ID IS NOT NULL", 0),
    ):
        found = table.read(spark, where=where)
        assert found.count() == count, where
        assert table.read(spark).where(where).count() == count, where
        assert found.columns == ["b", "a", "s", "ID"]
    rows = spark.sql("SELECT 'z' b, CAST(NULL AS STRING) a, CAST(NULL AS STRUCT<y: INT, x: INT>) s, 5 ID")
    table.overwrite(rows, where="a IS NULL")
    assert sorted((row.a or "", row.b or "") for row in table.read(spark).collect()) == [("", "z"), ("q", "")]


def test_renamed_fields_in_lists_and_maps_are_read_alone(lake: hg.Lake, spark: SparkSession) -> None:
    """Spark forgets their ids when it reads only some of them."""
    table = lake.create_table(
        "t.lists", "l ARRAY<STRUCT<a: INT, b: INT>>, m MAP<INT, STRUCT<a: INT, b: INT>>"
    )
    table.append(
        spark.sql("SELECT array(named_struct('a', 1, 'b', 2)) l, map(1, named_struct('a', 3, 'b', 4)) m")
    )
    table.rename_column("l.element.a", "first")
    table.rename_column("m.value.b", "second")
    found = table.read(spark).selectExpr("l.first", "m[1].second").collect()
    assert found == [([1], 4)]
