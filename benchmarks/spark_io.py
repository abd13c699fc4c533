"""Reading and writing ten million rows with Spark: a table of Headgate beside plain Parquet files.

The plain side reads the very files of the table, and writes the same rows with the same codec. Both sides
take turns, after a round that warms up. `df.write.parquet` leaves its files to the page cache; Headgate also
syncs them, so that a version that was told is there after a power failure.

    .venv/bin/python -m benchmarks.spark_io [--quick]
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.page import Bar, Part, run
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import headgate as hg
from headgate.table import Table

COLUMNS = "id BIGINT, kind INT, amount DOUBLE, name STRING, ts TIMESTAMP"
DAYS = 30
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Pair:
    """The same work on both sides, in seconds by the clock and of the processors (those of the JVM too)."""

    work: str
    ours: tuple[float, ...]
    plain: tuple[float, ...]
    ours_cpu: tuple[float, ...]
    plain_cpu: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.plain)

    @property
    def cpu_ratio(self) -> float:
        return statistics.median(self.ours_cpu) / statistics.median(self.plain_cpu)

    def cells(self) -> tuple[str, ...]:
        ours, plain = statistics.median(self.ours), statistics.median(self.plain)
        return (self.work, f"{ours:.2f}", f"{plain:.2f}", f"{self.ratio:.2f}", f"{self.cpu_ratio:.2f}")


class Bench:
    """A session with the rows in memory, and a place on the disk."""

    def __init__(self, spark: SparkSession, place: Path, rows: int) -> None:
        self.spark, self.place = spark, place
        self.lake = hg.Lake.init(place / "lake")
        # Kept in memory as Spark keeps it, so that making them is no part of writing them.
        self.rows = made(spark, rows).cache()
        self.rows.count()
        self._written = 0
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]

    def table(self, name: str, *partition_by: str) -> Table:
        return self.lake.create_table(f"bench.{name}", COLUMNS, partition_by=list(partition_by))

    def directory(self) -> str:
        """A new place for plain files."""
        self._written += 1
        return str(self.place / f"plain-{self._written}")

    def turns(self, work: str, ours: Callable[[], object], plain: Callable[[], object], rounds: int) -> Pair:
        """Both sides `rounds` times in turns, the first of each not counted, nor is what is left to write."""
        mine: list[tuple[float, float]] = []
        others: list[tuple[float, float]] = []
        for number in range(rounds + 1):
            # Whoever is second in a round is first in the next.
            sides = [(ours, mine), (plain, others)]
            for side, times in sides if number % 2 else reversed(sides):
                times.append(self._timed(side))
        return Pair(
            work,
            tuple(wall for wall, _ in mine[1:]),
            tuple(wall for wall, _ in others[1:]),
            tuple(cpu for _, cpu in mine[1:]),
            tuple(cpu for _, cpu in others[1:]),
        )

    def _timed(self, side: Callable[[], object]) -> tuple[float, float]:
        os.sync()
        started, busy = time.perf_counter(), self._cpu_seconds()
        side()
        return time.perf_counter() - started, self._cpu_seconds() - busy

    def _cpu_seconds(self) -> float:
        """Of this process and of the JVM."""
        fields = Path(f"/proc/{self._jvm}/stat").read_text().rpartition(")")[2].split()
        return time.process_time() + (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def made(spark: SparkSession, rows: int) -> DataFrame:
    """Rows like real ones: ids in order, few kinds, random amounts and names, times of a month."""
    number = sf.col("id")
    return spark.range(0, rows, 1, spark.sparkContext.defaultParallelism).select(
        number,
        (sf.rand(1) * 100).cast("int").alias("kind"),
        (sf.rand(2) * 1000).alias("amount"),
        sf.concat(sf.lit("customer "), (sf.rand(3) * 1_000_000).cast("int").cast("string")).alias("name"),
        sf.timestamp_seconds(sf.lit(1_760_000_000) + number * (DAYS * 86_400) / rows).alias("ts"),
    )


def aggregated(rows: DataFrame) -> object:
    return rows.groupBy("kind").agg(sf.sum("amount"), sf.max("ts"), sf.count("*")).collect()


def scanned(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def reads(bench: Bench, rounds: int) -> list[Pair]:
    table = bench.table("read")
    table.append(bench.rows)
    paths = [file.path for file in table.files()]
    schema = bench.rows.schema

    def plain() -> DataFrame:
        return bench.spark.read.schema(schema).parquet(*paths)

    def ours() -> DataFrame:
        return table.read(bench.spark)

    assert sorted(aggregated(ours())) == sorted(aggregated(plain()))  # type: ignore[call-overload]
    return [
        bench.turns(name, partial(_of, work, ours), partial(_of, work, plain), 5 * rounds)
        for name, work in (("read, aggregation", aggregated), ("read, full scan", scanned))
    ]


def _of(work: Callable[[DataFrame], object], rows: Callable[[], DataFrame]) -> object:
    return work(rows())


def writes(bench: Bench, rounds: int) -> list[Pair]:
    whole, by_day = bench.table("write"), bench.table("write_by_day", "day(ts)")
    unsynced = hg.Lake.init(bench.place / "unsynced", options={"fsync": "false"})
    whole_unsynced = unsynced.create_table("bench.write", COLUMNS)
    day = bench.rows.withColumn("day", sf.to_date("ts"))

    def plain(rows: DataFrame, *partition_by: str) -> None:
        directory = bench.directory()
        rows.write.option("compression", "zstd").partitionBy(*partition_by).parquet(directory)

    return [
        bench.turns("write", lambda: whole.append(bench.rows), lambda: plain(bench.rows), rounds),
        bench.turns(
            "write, fsync off", lambda: whole_unsynced.append(bench.rows), lambda: plain(bench.rows), rounds
        ),
        bench.turns(
            "write, partitioned by day", lambda: by_day.append(bench.rows), lambda: plain(day, "day"), rounds
        ),
    ]


def measure(quick: bool) -> Part:
    rows, rounds = (1_000_000, 2) if quick else (10_000_000, 4)
    spark = hg.session("local[*]", **{"spark.driver.memory": "4g", "spark.ui.enabled": "false"})
    place = Path(tempfile.mkdtemp())
    try:
        bench = Bench(spark, place, rows)
        pairs = [*reads(bench, rounds), *writes(bench, rounds)]
    finally:
        spark.stop()
        shutil.rmtree(place)
    aggregation, scan, write, *_ = pairs
    return Part(
        name="spark",
        title="Spark",
        text=f"""
{rows:,} rows of 5 columns (long, int, double, string, timestamp) on a local disk, warm; medians of
rounds in which both sides take turns. Reads: `table.read(spark)` beside `spark.read.parquet` of the
same files; the full scan goes to Spark's `noop` sink. Writes: `table.append(df)` beside
`df.write.parquet` with the same codec (zstd), of rows that Spark holds in memory; by day beside
`partitionBy`, for information: Headgate brings the rows of a day together first, and makes fewer files.
Headgate syncs the files, plain Spark does not. `cpu`: the ratio of the time of the processors.
""",
        columns=("work", "headgate s", "parquet s", "ratio", "cpu"),
        rows=[pair.cells() for pair in pairs],
        bars=(
            Bar("read, aggregation", aggregation.ratio, 1.05),
            Bar("read, full scan", scan.ratio, 1.05),
            Bar("write", write.ratio, 1.15),
        ),
    )


if __name__ == "__main__":
    sys.exit(run(measure, __doc__))
