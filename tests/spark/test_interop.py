"""Other engines and Spark see the same rows in what Spark wrote: every type, transform and evolution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyspark.sql import DataFrame, Row, SparkSession

import headgate as hg
from headgate.spark.types import schema_to_spark
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg
from tests.iceberg.test_peers import (
    BASE,
    CLICKHOUSE,
    EVOLUTIONS,
    TRANSFORMS,
    TYPES,
    Place,
    a_row,
    agree_on,
    arrow,
    as_clickhouse_says,
    as_maps,
    near_values,
    ordered,
    plain,
)
from tests.spark.test_row_changes import modes

SPARK_TYPES = [kind for kind in TYPES if kind not in ("TIME", "UUID", "FIXED(4)")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "lake")


def as_frame(spark: SparkSession, table: hg.Table, rows: pa.Table) -> DataFrame:
    return spark.createDataFrame(rows, schema_to_spark(table.schema))


def python_value(value: Any) -> Any:
    """A value of a Spark row as Arrow gives it."""
    match value:
        case Row():
            return {name: python_value(item) for name, item in value.asDict().items()}
        case dict():
            return [(key, python_value(item)) for key, item in value.items()]
        case list():
            return [python_value(item) for item in value]
        case bytearray():
            return bytes(value)
    return value


def spark_rows(df: DataFrame) -> list[tuple[Any, Any]]:
    return [(row.n, python_value(row.v)) for row in df.collect()]


@pytest.mark.parametrize("kind", SPARK_TYPES)
def test_every_type_and_transform(place: Place, spark: SparkSession, kind: str) -> None:
    values = [*TYPES[kind], None]
    for term in [None, *(term for term, kinds in TRANSFORMS.items() if kind in kinds)]:
        word = "plain" if term is None else term.split("(")[0]
        table = place.lake.create_table(
            f"types.{word}", f"n INT NOT NULL, v {kind}", partition_by=[] if term is None else [term]
        )
        column = schema_to_pyarrow(table.schema, include_field_ids=False).field("v").type
        numbers = pa.array(range(len(values)), pa.int32())
        rows = pa.table({"n": numbers, "v": pa.array(values, column)})
        table.append(as_frame(spark, table, rows))
        expected = [plain(value) for value in values]
        assert ordered(spark_rows(table.read(spark))) == expected
        assert ordered(ask_duckdb(place.directory(table), "n, v")) in (expected, as_maps(expected))
        told = ask_pyiceberg(place.metadata_file(table))
        if kind.startswith("ARRAY<STRUCT"):
            expected = [[] if value is None else value for value in expected]  # pyiceberg loses such nulls
        assert ordered([(row["n"], row["v"]) for row in told]) == expected
        if kind in CLICKHOUSE:
            house = sorted(ask_clickhouse(place.directory(table), f"n, {CLICKHOUSE[kind]}"))
            assert [str(v) for _, v in house] == [str(as_clickhouse_says(value)) for value in values]


@pytest.mark.parametrize("change", EVOLUTIONS)
def test_every_evolution(place: Place, spark: SparkSession, change: str) -> None:
    evolve, differences = EVOLUTIONS[change]
    table = place.lake.create_table("evolved.table", BASE, partition_by=["p"])
    table.append(as_frame(spark, table, arrow(table, [a_row(number) for number in range(6)])))
    before = place.lake.version
    evolve(table)
    new = [
        {key: value for key, value in {**a_row(9), **differences, "n": number}.items() if value is not ...}
        for number in range(9, 12)
    ]
    table.append(as_frame(spark, table, arrow(table, new)))
    agree_on(place, table)
    ours = table.read_arrow().sort_by("n").to_pylist()
    found = sorted(table.read(spark).collect(), key=lambda row: row.n)
    assert [{name: python_value(value) for name, value in row.asDict().items()} for row in found] == ours
    then = sorted(table.read(spark, version=before).collect(), key=lambda row: row.n)
    assert [python_value(row) for row in then] == [a_row(number) for number in range(6)]
    # Pruned by bounds and partitions, of files from before and after.
    assert table.read(spark, where="n < 9 and i >= 6").count() == sum(
        row["n"] < 9 and (row["i"] or 0) >= 6 for row in ours
    )


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("partition_by", [[], ["bucket(2, n)"]], ids=["whole", "buckets"])
def test_row_changes(place: Place, spark: SparkSession, mode: str, partition_by: list[str]) -> None:
    table = place.lake.create_table(
        "changed.rows", "n INT NOT NULL, v STRING", partition_by=partition_by, properties=modes(mode)
    )
    rows = spark.range(12).selectExpr("cast(id AS INT) AS n", "concat('v', id) AS v").coalesce(2)
    table.append(rows)
    table.delete("n = 3 or n = 4")
    table.update({"v": "concat(v, '!')"}, "n % 5 = 0")
    table.upsert(rows.selectExpr("n + 10 AS n", "'upserted' AS v"), ["n"])
    if partition_by:
        table.replace_partition_by(["n"])
    table.merge(rows.selectExpr("n * 2 AS n"), on="t.n = s.n").when_matched_delete(
        condition="t.n > 15"
    ).when_matched_update({"v": "'even'"}).when_not_matched_insert({"n": "s.n"}).commit()
    found = sorted(tuple(row) for row in table.read(spark).collect())
    assert dict(found) == {
        **dict.fromkeys((0, 2, 6, 8, 10, 12, 14), "even"),
        **{n: f"v{n}" for n in (1, 7, 9)},
        **dict.fromkeys((11, 13, 15, 17, 19, 21), "upserted"),
        **dict.fromkeys((4, 22)),
        5: "v5!",
    }
    assert len(found) == 19
    assert sorted(ask_duckdb(place.directory(table), "n, v")) == found
    assert sorted((row["n"], row["v"]) for row in ask_pyiceberg(place.metadata_file(table))) == found
    house = sorted((int(n), v) for n, v in ask_clickhouse(place.directory(table), "n, v"))
    assert house == found


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_spark_reads_columns_that_are_told_by_differences(
    place: Place, spark: SparkSession, vectorized: str
) -> None:
    table, rows = near_values(place)
    name = "spark.sql.parquet.enableVectorizedReader"
    spark.conf.set(name, vectorized)
    try:
        read = table.read(spark).orderBy("n").toArrow()
        some = table.read(spark, where="i > 100 AND w < 0").count()
    finally:
        spark.conf.unset(name)
    assert read.to_pylist() == rows.to_pylist()
    assert some == sum(row["i"] > 100 and row["w"] < 0 for row in rows.to_pylist())
