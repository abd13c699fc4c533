"""Headgate on Spark: reads and writes DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.adapters.spark_rows import COLUMNS, SETTINGS, SparkRows, totals_of
from benchmarks.harness.outcome import NotOfferedError, Outcome, seconds_of
from pyspark.sql import DataFrame

import headgate as hg
from headgate.lake.table import Table


class HeadgateSpark(SparkRows):
    """A lake on a local disk. `fsync`: whether data files and commits are synced."""

    def __init__(self, place: str, cores: int = 2, fsync: bool = True) -> None:
        warehouse = {"spark.sql.warehouse.dir": str(Path(place) / "warehouse")}
        super().__init__(hg.session(f"local[{cores}]", **SETTINGS, **warehouse), place)
        options = {"fsync": "true" if fsync else "false"}
        self.lake = hg.Lake.init(self.place / "lake", options=options)

    def versions(self) -> dict[str, str]:
        return {"headgate": hg.__version__, **super().versions()}

    def _table(self, table: str) -> Table:
        return self.lake.table(f"bench.{table}")

    def create(self, table: str) -> None:
        self.lake.create_table(f"bench.{table}", COLUMNS)

    def insert(self, table: str, rows: DataFrame) -> None:
        self._table(table).append(rows)

    def frame(self, table: str) -> DataFrame:
        return self._table(table).read(self.spark)

    def files(self, table: str) -> int:
        return len(self._table(table).files())

    def filtered(self, table: str, where: str) -> dict[str, int]:
        """Passes the predicate to the read, which skips files by it."""
        return totals_of(self._table(table).read(self.spark, where=where))

    def write_by_day(self, table: str) -> Outcome:
        made = self.lake.create_table(f"bench.{table}", COLUMNS, partition_by=["day(ts)"])
        rows = self._rows()
        seconds = seconds_of(lambda: made.append(rows))
        return Outcome(seconds=seconds, facts={"files": self.files(table)})

    def write_anew(self, table: str, to: str) -> Outcome:
        self.create(to)
        rows = self.frame(table)
        return Outcome(seconds=seconds_of(lambda: self._table(to).overwrite(rows)))

    def merge(self, table: str, changes: str) -> Outcome:
        source = self.spark.read.parquet(changes)
        merge = self._table(table).merge(source, on="t.id = s.id")
        whole = merge.when_matched_update({"amount": "s.amount"}).when_not_matched_insert()
        return self._changed(table, whole.commit)

    def upsert(self, table: str, changes: str) -> Outcome:
        source = self.spark.read.parquet(changes)
        return self._changed(table, lambda: self._table(table).upsert(source, ["id"]))

    def delete(self, table: str, where: str) -> Outcome:
        return self._changed(table, lambda: self._table(table).delete(where))

    def _changed(self, table: str, change: Any) -> Outcome:
        seconds = seconds_of(change)
        return Outcome(self.totals(table), seconds=seconds)

    def compact(self, table: str) -> None:  # noqa: ARG002 - a lake is compacted as a whole
        compact = getattr(self.lake, "compact", None)
        if compact is None:
            raise NotOfferedError("this release has no compaction")
        compact(self.spark)

    def is_refusal(self, error: Exception) -> bool:
        return isinstance(error, hg.ConflictError)
