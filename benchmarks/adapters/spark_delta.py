"""Delta Lake on Spark, with deletion vectors: its own way to change a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.adapters.spark_rows import session
from benchmarks.adapters.spark_sql_tables import SqlTables
from benchmarks.harness.outcome import Outcome


class DeltaSpark(SqlTables):
    """Tables of the session's catalog."""

    FORMAT = "delta"
    PROPERTIES = "'delta.enableDeletionVectors' = 'true'"
    REFUSED = ("ConcurrentAppendException", "ConcurrentWriteException", "DELTA_CONCURRENT", "MetadataChanged")

    def __init__(self, place: str, jars: Sequence[str], cores: int = 2) -> None:
        self._jars = tuple(jars)
        settings = {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # Its default of 50 tasks to read the log is for clusters; here they would take most of a read.
            "spark.databricks.delta.snapshotPartitions": str(cores),
        }
        super().__init__(session(cores, Path(place), jars, **settings), place)

    def versions(self) -> dict[str, str]:
        (own,) = (Path(jar).stem for jar in self._jars if "delta-spark" in jar)
        return {"Delta Lake": own.rpartition("-")[2], **super().versions()}

    def named(self, table: str) -> str:
        return f"delta.`{self.place}/{table}`"

    def insert(self, table: str, rows: object) -> None:
        rows.write.format("delta").mode("append").save(f"{self.place}/{table}")  # type: ignore[attr-defined]

    def files(self, table: str) -> int:
        (detail,) = self.spark.sql(f"DESCRIBE DETAIL {self.named(table)}").collect()
        return int(detail["numFiles"])

    def compact(self, table: str) -> Outcome:
        self.spark.sql(f"OPTIMIZE {self.named(table)}").collect()
        return Outcome()
