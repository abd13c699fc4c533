"""The common part of all systems on Spark: a session with the same settings, and the same queries.

Only pyspark and the standard library: it also runs in the environments of Delta Lake and Iceberg.
"""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyspark
from benchmarks.harness.outcome import Outcome, seconds_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

COLUMNS = "id BIGINT, kind INT, amount DOUBLE, name STRING, ts TIMESTAMP"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "64",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
}
"""The same for every system. Each table format adds the settings that it requires."""


def session(cores: int, place: Path, jars: Sequence[str] = (), **more: str) -> SparkSession:
    """A session with `cores` cores, or the running one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder
    builder = builder.master(f"local[{cores}]").appName("bench")
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(place / "warehouse"), **more}
    if jars:
        settings["spark.jars"] = ",".join(jars)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    return spark


class SparkRows(ABC):
    """Rows in memory, and queries on tables. A subclass defines how a table is written and read."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self.spark, self.place = spark, Path(place)
        self._loaded: DataFrame | None = None
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]

    def versions(self) -> dict[str, str]:
        return {"Spark": pyspark.__version__}

    def cpu_seconds(self) -> float:
        """The CPU time of this process and of the JVM."""
        fields = Path(f"/proc/{self._jvm}/stat").read_text().rpartition(")")[2].split()
        return time.process_time() + (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def stop(self) -> None:
        self.spark.stop()

    # --- what a system must define --------------------------------------------------------------------------

    @abstractmethod
    def frame(self, table: str) -> DataFrame:
        """A table as a user reads it; looked up again each time."""

    @abstractmethod
    def create(self, table: str) -> None:
        """Creates an empty table for rows of the data set."""

    @abstractmethod
    def insert(self, table: str, rows: DataFrame) -> None:
        """Appends rows to a table."""

    @abstractmethod
    def files(self, table: str) -> int:
        """The number of data files that a read uses."""

    # --- rows -----------------------------------------------------------------------------------------------

    def load(self, rows: str) -> None:
        """Keeps rows in memory as Spark does, so that reading them is not measured with writing them."""
        loaded = self.spark.read.parquet(rows).cache()
        loaded.count()
        if self._loaded is not None:
            self._loaded.unpersist()
        self._loaded = loaded

    def unload(self) -> None:
        """Releases the rows: from now on, the system only reads and can use the memory."""
        if self._loaded is not None:
            self._loaded.unpersist()

    def _rows(self) -> DataFrame:
        assert self._loaded is not None
        return self._loaded

    def write(self, table: str) -> Outcome:
        """Writes all rows to a new table."""
        self.create(table)
        rows = self._rows()
        seconds = seconds_of(lambda: self.insert(table, rows))
        return Outcome(seconds=seconds, facts={"files": self.files(table)})

    def copy(self, table: str, to: str) -> None:
        """Copies a table to one of its own."""
        self.create(to)
        self.insert(to, self.frame(table))

    def scan(self, table: str, columns: Sequence[str] = ()) -> None:
        """Reads all rows, with all or some columns, into Spark's sink that keeps nothing."""
        rows = self.frame(table)
        (rows.select(*columns) if columns else rows).write.format("noop").mode("overwrite").save()

    def filtered(self, table: str, where: str) -> dict[str, int]:
        return totals_of(self.frame(table).where(where))

    def aggregate(self, table: str) -> list[Any]:
        grouped = self.frame(table).groupBy("kind")
        found = grouped.agg(sf.sum("amount"), sf.unix_micros(sf.max("ts")), sf.count("*")).collect()
        known = sorted((kind, round(amount * 64), moment, count) for kind, amount, moment, count in found)
        return [
            len(known),
            *(sum(number * group[k] for number, group in enumerate(known, 1)) for k in range(4)),
        ]

    def totals(self, table: str) -> dict[str, int]:
        return totals_of(self.frame(table))

    # --- row-level changes, and the minimum that they require -----------------------------------------------

    def write_changes(self, table: str, changes: str) -> Outcome:
        """Writes only the changed rows, to a new table."""
        self.create(table)
        rows = self.spark.read.parquet(changes)
        return Outcome(seconds=seconds_of(lambda: self.insert(table, rows)))

    # --- small appends and compaction -----------------------------------------------------------------------

    def append_rows(self, table: str, first: int, count: int, rows: int) -> Outcome:
        """Makes `count` commits of a few rows each."""
        samples = [
            seconds_of(lambda: self.insert(table, self.small(number, rows)))  # noqa: B023 - called at once
            for number in range(first, first + count)
        ]
        return Outcome(samples=tuple(samples))

    def small(self, number: int, rows: int) -> DataFrame:
        """A few rows in one partition, so one file."""
        ids = self.spark.range(number * rows, (number + 1) * rows, 1, 1)
        return ids.select(
            "id",
            (sf.col("id") % 1000).cast("int").alias("kind"),
            (sf.col("id") / 64).alias("amount"),
            sf.concat(sf.lit("customer "), sf.col("id").cast("string")).alias("name"),
            sf.timestamp_seconds(sf.lit(1_760_000_000) + sf.col("id")).alias("ts"),
        )

    # --- many writers ---------------------------------------------------------------------------------------

    def contend(self, writers: int, appends: int, processes: int, number: int) -> Outcome:  # noqa: ARG002
        """Threads of one session, each with small frames of its own. Rejected appends are retried at once."""
        table = f"contended_{writers}_{number}"
        self.create(table)
        frames = [
            [self.small(writer * appends + turn, 10) for turn in range(appends)] for writer in range(writers)
        ]
        with ThreadPoolExecutor(writers) as pool:
            started = time.perf_counter()
            failed = sum(pool.map(lambda mine: self._persist(table, mine), frames))
            seconds = time.perf_counter() - started
        rows = self.frame(table).count()
        return Outcome(rows // 10, seconds=seconds, facts={"failures": failed})

    def _persist(self, table: str, frames: Sequence[DataFrame]) -> int:
        failed = 0
        for frame in frames:
            while not self._accepted(lambda: self.insert(table, frame)):  # noqa: B023 - called at once
                failed += 1
        return failed

    def _accepted(self, insert: Callable[[], None]) -> bool:
        try:
            insert()
        except Exception as error:
            if self.is_refusal(error):
                return False
            raise
        return True

    def is_refusal(self, error: Exception) -> bool:  # noqa: ARG002
        """Whether an append failed because other writers were faster."""
        return False


def totals_of(rows: DataFrame) -> dict[str, int]:
    (found,) = rows.agg(sf.count("*"), sf.sum("id"), sf.sum("amount")).collect()
    return {"rows": found[0], "ids": found[1] or 0, "amount": round((found[2] or 0) * 64)}
