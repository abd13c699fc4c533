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
    ordered,
    plain,
)

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
