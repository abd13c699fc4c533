"""Table formats that Spark reaches through SQL with a catalog: Delta Lake and Apache Iceberg."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from benchmarks.adapters.spark_rows import COLUMNS, SparkRows
from benchmarks.harness.outcome import Outcome, seconds_of
from pyspark.sql import DataFrame


class SqlTables(SparkRows):
    """Tables by name. A subclass defines the format, what its tables need, and how it compacts."""

    FORMAT = ""
    PROPERTIES = ""
    REFUSED: tuple[str, ...] = ()

    @abstractmethod
    def named(self, table: str) -> str:
        """The name of a table in SQL."""

    def create(self, table: str) -> None:
        made = f"CREATE TABLE {self.named(table)} ({COLUMNS}) USING {self.FORMAT}"
        self.spark.sql(f"{made} TBLPROPERTIES ({self.PROPERTIES})")

    def insert(self, table: str, rows: DataFrame) -> None:
        rows.writeTo(self.named(table)).append()

    def frame(self, table: str) -> DataFrame:
        return self.spark.table(self.named(table))

    def merge(self, table: str, changes: str) -> Outcome:
        return self._merged(table, changes, "UPDATE SET t.amount = s.amount")

    def upsert(self, table: str, changes: str) -> Outcome:
        return self._merged(table, changes, "UPDATE SET *")

    def _merged(self, table: str, changes: str, update: str) -> Outcome:
        self.spark.read.parquet(changes).createOrReplaceTempView("changes")
        return self._changed(
            table,
            f"MERGE INTO {self.named(table)} t USING changes s ON t.id = s.id "
            f"WHEN MATCHED THEN {update} WHEN NOT MATCHED THEN INSERT *",
        )

    def delete(self, table: str, where: str) -> Outcome:
        return self._changed(table, f"DELETE FROM {self.named(table)} WHERE {where}")

    def _changed(self, table: str, statement: str) -> Outcome:
        seconds = seconds_of(lambda: self.spark.sql(statement).collect())
        return Outcome(self.totals(table), seconds=seconds)

    def is_refusal(self, error: Exception) -> bool:
        """By its name in the JVM: in Python the error is only a string."""
        text: Any = str(error)
        return any(name in text for name in self.REFUSED)
