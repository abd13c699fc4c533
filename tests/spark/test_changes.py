"""`table.changes` with Spark gives what it gives without, both ways, whatever the files are called."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from tests.compactions import compact_files

NAME = "sales.orders"
Change = tuple[object, ...]


@pytest.fixture
def table(tmp_path: Path) -> hg.Table:
    lake = hg.Lake.init(tmp_path / "a lake % of 100+é")
    return lake.create_table(NAME, "id BIGINT, place STRUCT<x: BIGINT>, part STRING", partition_by=["part"])


def rows(*ids: int, x: int = 0) -> pa.Table:
    parts = ["plain" if number % 2 else "odd/ %é" for number in ids]
    return pa.table({"id": list(ids), "place": [{"x": x}] * len(ids), "part": parts})


def told(changes: DataFrame | pa.Table) -> list[Change]:
    found = changes if isinstance(changes, pa.Table) else changes.toArrow()
    return sorted(
        (row["_version"], row["_change_type"], row["id"], row["place"]["x"], row["part"])
        for row in found.to_pylist()
    )


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_every_kind_of_change(table: hg.Table, spark: SparkSession, both_ways: str, mode: str) -> None:
    kinds = ("delete", "update", "merge")
    table.set_properties({f"write.{kind}.mode": mode for kind in kinds})
    table.append(rows(*range(10)))
    table.delete("id IN (2, 3)")
    table.update({"place": "named_struct('x', 7L)"}, where="id = 4")
    source = spark.createDataFrame(rows(5, 20, x=9))
    table.merge(source, on="t.id = s.id").when_matched_delete().when_not_matched_insert().commit()
    table.overwrite(spark.createDataFrame(rows(6, x=3)), where="id = 6")
    with table._lake.transaction() as tx:
        tx.table(NAME).append(rows(30, 31))
        tx.table(NAME).delete("id IN (30, 7)")
    expected = [
        *((3, "insert", number, 0, "plain" if number % 2 else "odd/ %é") for number in range(10)),
        (4, "delete", 2, 0, "odd/ %é"),
        (4, "delete", 3, 0, "plain"),
        (5, "update_after", 4, 7, "odd/ %é"),
        (5, "update_before", 4, 0, "odd/ %é"),
        (6, "delete", 5, 0, "plain"),
        (6, "insert", 20, 9, "odd/ %é"),
        (7, "delete", 6, 0, "odd/ %é"),
        (7, "insert", 6, 3, "odd/ %é"),
        (8, "delete", 7, 0, "plain"),
        (8, "insert", 31, 0, "plain"),
    ]
    assert told(table.changes(spark, since=1)) == told(table.changes_arrow(1)) == expected
    assert told(table.changes(spark, 4, until=6)) == [change for change in expected if change[0] in (5, 6)]
    assert table.changes(spark, since=8).count() == 0
    assert table.changes(spark, 3, columns=["id"]).columns == ["id", "_change_type", "_version"]


def test_changes_over_a_compaction_and_new_columns(table: hg.Table, spark: SparkSession) -> None:
    table.append(rows(1, 2, 3))
    with table._lake.transaction() as tx:
        compact_files(tx, NAME, [file.path for file in table.files()])
    table.add_column("more", "STRING")
    table.delete("id = 2")
    changes = table.changes(spark, since=2)
    assert changes.columns == ["id", "place", "part", "more", "_change_type", "_version"]
    assert told(changes) == [(5, "delete", 2, 0, "odd/ %é")]


def test_bad_input(table: hg.Table, spark: SparkSession) -> None:
    table.append(rows(1))
    for since, until in ((-1, None), (3, None), (2, 1), (0, 9)):
        with pytest.raises(hg.HeadgateError):
            table.changes(spark, since, until)
    with pytest.raises(hg.InvalidInputError):
        table.changes(spark, "1")  # type: ignore[arg-type]
    table.add_column("_version", "INT")
    with pytest.raises(hg.InvalidInputError, match="_version"):
        table.changes(spark, 1)
    assert table.changes(spark, 1, columns=["id"]).count() == 1
