"""Plain Parquet files on Spark: the upper limit for the speed of a table format. It has no transactions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.adapters.spark_rows import SparkRows, session
from benchmarks.harness.outcome import Outcome, seconds_of
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf


class ParquetSpark(SparkRows):
    """A table is a directory. `field_ids`: columns have ids, which table formats need."""

    def __init__(self, place: str, cores: int = 2, jars: Sequence[str] = (), field_ids: bool = False) -> None:
        super().__init__(session(cores, Path(place), jars), place)
        self._field_ids = field_ids

    def create(self, table: str) -> None:
        """The directory is created with the first rows."""

    def _where(self, table: str) -> str:
        return str(self.place / table)

    def insert(self, table: str, rows: DataFrame) -> None:
        if self._field_ids:
            numbered = enumerate(rows.columns, 1)
            rows = rows.select(
                *(sf.col(name).alias(name, metadata={"parquet.field.id": n}) for n, name in numbered)
            )
        rows.write.option("compression", "zstd").mode("append").parquet(self._where(table))

    def frame(self, table: str) -> DataFrame:
        """With a given schema, so that no footer is read to find it; table formats do not read one either."""
        return self.spark.read.schema(self._rows().schema).parquet(self._where(table))

    def files(self, table: str) -> int:
        return len(list((self.place / table).glob("*.parquet")))

    def write_by_day(self, table: str) -> Outcome:
        rows = self._rows().withColumn("day", sf.to_date("ts"))
        write = rows.write.option("compression", "zstd").partitionBy("day")
        seconds = seconds_of(lambda: write.parquet(self._where(table)))
        found = len(list((self.place / table).glob("*/*.parquet")))
        return Outcome(seconds=seconds, facts={"files": found})

    def write_anew(self, table: str, to: str) -> Outcome:
        rows = self.frame(table)
        return Outcome(seconds=seconds_of(lambda: self.insert(to, rows)))
