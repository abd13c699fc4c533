"""Clustering with Spark: other engines see the same rows, and open fewer files for them."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.iceberg.format.directories import Target
from headgate.iceberg.scan.engine import Rewriter
from headgate.maintenance.clustering import Clusterer
from headgate.spark.change.rewrite import SparkRewriter
from headgate.spark.store.hadoop import HadoopStore
from headgate.storage.capabilities import Store
from headgate.storage.location import open_store
from headgate.testing.inspector import Inspector
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg
from tests.servers.s3 import S3Server

SIDE = 160
COLUMNS = "id BIGINT, x BIGINT, y STRING, part STRING"
LISTS = ", l ARRAY<BIGINT>, m MAP<STRING, BIGINT>"


def filled(spark: SparkSession, store: Path | Store, *, lists: bool = False) -> hg.Lake:
    """A table of four versions, a complete window; the last one deletes rows."""
    lake = hg.Lake.init(store, divisor=4)
    table = lake.create_table(
        "t.t",
        COLUMNS + (LISTS if lists else ""),
        partition_by=["part"],
        properties={"write.target-file-size-bytes": "6000"},
    )
    mixed = spark.range(SIDE * SIDE).selectExpr(f"pmod(id * 7919, {SIDE * SIDE}) AS id")
    points = mixed.selectExpr(
        "id",
        f"id % {SIDE} AS x",
        f"concat('y', lpad(id div {SIDE}, 6, '0')) AS y",
        "if(id % 4 = 0, 'a', 'b') AS part",
        *(["array(id, null) AS l", "map('k', id) AS m"] if lists else []),
    )
    for number in range(2):
        table.append(points.where(f"id % 2 = {number}").coalesce(1))
    table.delete(f"x = {SIDE - 1}")
    assert lake.version == 4
    return lake


def clustered(lake: hg.Lake, spark: SparkSession, worker_bytes: int, zorder: bool = True) -> None:
    def rewriter(_target: Target, _spark: SparkSession | None) -> Rewriter:
        return SparkRewriter(spark, worker_bytes)

    report = Clusterer(Inspector(lake).handle, "t.t", ("cluster",), spark, rewriter=rewriter).run(
        ["x", "y"], zorder, None
    )
    assert (report.rows, report.rows_dropped) == (SIDE * (SIDE - 1), SIDE)
    assert report.groups == 2


def numbers(lake: hg.Lake, spark: SparkSession) -> list[int]:
    return sorted(row.id for row in lake.table("t.t").read(spark).select("id").collect())


ALL = [n for n in range(SIDE * SIDE) if n % SIDE != SIDE - 1]


@pytest.mark.parametrize("worker_bytes", [0, 1 << 30], ids=["by Spark", "by workers"])
def test_other_engines_see_the_same_rows_in_fewer_files(
    tmp_path: Path, spark: SparkSession, worker_bytes: int
) -> None:
    lake = filled(spark, tmp_path / "lake")
    table = lake.table("t.t")
    before = len(table.files())
    assert (len(table.plan("x = 7").files), len(table.plan("y = 'y000007'").files)) == (before, before)
    clustered(lake, spark, worker_bytes)
    files = len(table.files())
    assert files >= 12
    # Before, it was all of them.
    assert len(table.plan("x = 7").files) <= files * 3 // 4
    assert len(table.plan("y = 'y000007'").files) <= files * 3 // 4
    assert len(table.plan("x = 7 and y = 'y000007'").files) <= files // 2
    assert numbers(lake, spark) == ALL
    assert table.read(spark, where="x = 7").count() == SIDE
    place = tmp_path / "lake" / "data" / "t" / "t"
    assert sorted(row[0] for row in ask_duckdb(place, "id")) == ALL
    assert sorted(int(row[0]) for row in ask_clickhouse(place, "id")) == ALL
    found = ask_pyiceberg(table.metadata_location, "x = 7")
    assert sorted(row["id"] for row in found) == [n for n in ALL if n % SIDE == 7]
    # A delete later finds its rows, and the clustering is no change of rows.
    table.delete("id = 8")
    assert numbers(lake, spark) == [n for n in ALL if n != 8]
    assert [(row["_change_type"], row["id"]) for row in table.changes_arrow(4).to_pylist()] == [("delete", 8)]


def test_through_the_session_that_is_given(tmp_path: Path, spark: SparkSession) -> None:
    lake = filled(spark, tmp_path / "lake")
    report = lake.table("t.t").cluster(spark, ["y"], where="part = 'a'")
    assert report.groups == 1
    assert numbers(lake, spark) == ALL


@pytest.mark.parametrize("lists", [False, True], ids=["plain", "lists"])
def test_on_storage_that_only_spark_reaches(tmp_path: Path, spark: SparkSession, lists: bool) -> None:
    lake = filled(spark, HadoopStore(spark, f"file://{tmp_path}/lake"), lists=lists)
    clustered(lake, spark, 1 << 30)
    assert numbers(lake, spark) == ALL


@pytest.fixture
def on_s3(s3: S3Server, spark: SparkSession) -> hg.Lake:
    return filled(spark, open_store(s3.url(f"cluster-{uuid4().hex}"), s3.options))


@pytest.mark.parametrize("worker_bytes", [0, 1 << 30], ids=["by Spark", "by workers"])
def test_on_storage_that_only_workers_reach(on_s3: hg.Lake, spark: SparkSession, worker_bytes: int) -> None:
    clustered(on_s3, spark, worker_bytes)
    assert numbers(on_s3, spark) == ALL
