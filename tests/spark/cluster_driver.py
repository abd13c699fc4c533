"""Drivers of a Spark cluster, each a process of its own, as a user would run them."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from tests.spark.test_tables import NESTED_TYPES, frame, nested_types, rows_of


def session(master: str) -> SparkSession:
    return hg.session(
        master,
        **{
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "500m",
            "spark.executor.cores": "1",
            "spark.sql.shuffle.partitions": "4",
            "spark.speculation": "true",
            "spark.speculation.interval": "20ms",
            "spark.speculation.multiplier": "1",
            "spark.speculation.quantile": "0.1",
        },
    )


def work(master: str, place: str) -> None:
    """Writes and reads in every way; then loses an executor in the middle of a write, in both ways."""
    spark = session(master)
    lake = hg.Lake.init(place)
    buckets = lake.create_table("t.buckets", "id BIGINT, name STRING", partition_by=["bucket(4, id)"])
    buckets.append(spark.range(1000).selectExpr("id", "concat('n', id) AS name"))
    assert buckets.read(spark).selectExpr("count(*)", "sum(id)").collect() == [(1000, 499500)]
    nested = frame(spark, NESTED_TYPES, nested_types)
    lists = lake.create_table("t.lists", nested.schema)
    lists.append(nested)
    assert rows_of(lists.read(spark)) == rows_of(nested)
    for way in ("native", "arrow"):
        spark.conf.set("spark.headgate.files", way)
        table = lake.create_table(f"t.{way}", "id BIGINT")
        lose_an_executor(spark, table, Path(f"{place}.{way}"))
        lose_an_executor_in_an_upsert(spark, table, Path(f"{place}.{way}.upsert"))
    sys.stdout.write("done\n")
    spark.stop()


def lose_an_executor(spark: SparkSession, table: hg.Table, mark: Path) -> None:
    table.append(deadly_rows(spark, mark))
    assert mark.exists(), "no executor died"
    assert table.read(spark).selectExpr("count(*)", "sum(id)").collect() == [(20_000, 199_990_000)]
    assert sum(file.rows for file in table.files()) == 20_000


def lose_an_executor_in_an_upsert(spark: SparkSession, table: hg.Table, mark: Path) -> None:
    """What an executor kept is gone with it: then all of the change, or nothing of it."""
    rows = deadly_rows(spark, mark).selectExpr("id + 10000 AS id")
    before = table.files()
    try:
        table.upsert(rows, ["id"])
    except hg.StorageError:
        assert table.files() == before
        table.upsert(rows, ["id"])
    assert mark.exists(), "no executor died"
    found = table.read(spark).selectExpr("count(*)", "count(DISTINCT id)", "max(id)").collect()
    assert found == [(30_000, 30_000, 29_999)]
    table.delete("id >= 20000")


def deadly_rows(spark: SparkSession, mark: Path) -> DataFrame:
    """The last of many batches of one task kills the executor that it runs in, once."""

    def deadly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(0)[0].as_py() == 9000:
                try:
                    mark.touch(exist_ok=False)
                except FileExistsError:
                    pass
                else:
                    os.kill(executor(), signal.SIGKILL)
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 500)
    return spark.range(0, 20_000, 1, 2).mapInArrow(deadly, "id BIGINT")


def executor() -> int:
    """The process of the executor, seen from one of its Python workers."""
    process = os.getppid()
    while "java" not in Path(f"/proc/{process}/comm").read_text():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def wait_inside(master: str, place: str, port: str, verb: str) -> None:
    """A change whose task waits until somebody hangs up, so that it can be interrupted in the middle."""

    def waiting(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert TaskContext.get() is not None
        with socket.create_connection(("127.0.0.1", int(port))) as line:
            for number, batch in enumerate(batches):
                if number == 3:
                    line.recv(1)
                yield batch

    spark = session(master)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 500)
    rows = spark.range(0, 10_000, 1, 1).mapInArrow(waiting, "id BIGINT")
    table = hg.Lake.open(place).table("t.one")
    if verb == "append":
        table.append(rows)
    else:
        table.upsert(rows, ["id"])


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(*sys.argv[2:])
    else:
        wait_inside(*sys.argv[2:])
