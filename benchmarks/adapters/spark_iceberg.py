"""Apache Iceberg on Spark, with its Hadoop catalog and merge-on-read: its own way to change a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.adapters.spark_rows import session
from benchmarks.adapters.spark_sql_tables import SqlTables
from benchmarks.harness.outcome import Outcome

MERGE_ON_READ = ", ".join(
    f"'write.{operation}.mode' = 'merge-on-read'" for operation in ("merge", "delete", "update")
)


class IcebergSpark(SqlTables):
    """Tables of a Hadoop catalog: like Headgate, it needs no server."""

    FORMAT = "iceberg"
    PROPERTIES = f"'format-version' = '2', {MERGE_ON_READ}"
    REFUSED = ("CommitFailedException", "ValidationException")

    def __init__(self, place: str, jars: Sequence[str], cores: int = 2) -> None:
        self._jars = tuple(jars)
        settings = {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(Path(place) / "ice"),
            # Only this process changes the tables; the session's cache would hide new commits.
            "spark.sql.catalog.ice.cache-enabled": "false",
        }
        super().__init__(session(cores, Path(place), jars, **settings), place)
        self._planned: dict[int, str] = {}

    def versions(self) -> dict[str, str]:
        (own,) = (Path(jar).stem for jar in self._jars if "iceberg-spark-runtime" in jar)
        return {"Iceberg": own.rpartition("-")[2], **super().versions()}

    def named(self, table: str) -> str:
        return f"ice.bench.{table}"

    def files(self, table: str) -> int:
        # Without deletes: position delete files are not data files.
        return self.spark.sql(f"SELECT * FROM {self.named(table)}.data_files").count()

    def compact(self, table: str) -> Outcome:
        self.spark.sql(
            f"CALL ice.system.rewrite_data_files(table => 'bench.{table}', "
            "options => map('min-input-files', '2'))"
        ).collect()
        return Outcome()

    # --- planning, with the Java API: SQL cannot plan without reading ---------------------------------------

    def open_files(self, files: int, metadata: str) -> None:
        """The same table that Headgate wrote."""
        self._planned[files] = metadata

    def plan(self, files: int, where: str) -> int:
        jvm: Any = self.spark._jvm
        apache = jvm.org.apache.iceberg
        io = apache.hadoop.HadoopFileIO(self.spark._jsc.hadoopConfiguration())
        operations = apache.StaticTableOperations(self._planned[files], io)
        table = apache.BaseTable(operations, "events")
        # Spark's own parser and Iceberg's own translation of its result, as for a query.
        tasks = table.newScan().filter(self._expression(where)).planFiles()
        try:
            return sum(1 for _ in _each(tasks.iterator()))
        finally:
            tasks.close()

    def _expression(self, where: str) -> Any:
        """The few predicates of the workload: comparisons with integers, joined by `and`."""
        expressions: Any = self.spark._jvm.org.apache.iceberg.expressions.Expressions  # type: ignore[union-attr]
        joined = expressions.alwaysTrue()
        for term in where.split(" and "):
            name, operator, value = term.split()
            compare = {"=": expressions.equal, ">": expressions.greaterThan}[operator]
            joined = getattr(expressions, "and")(joined, compare(name, int(value)))
        return joined


def _each(iterator: Any) -> Any:
    while iterator.hasNext():
        yield iterator.next()
