"""Writes DataFrames to tables."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headgate.errors import InvalidInputError
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Target
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.predicate.spark_text import BUCKET_FUNCTION, to_spark_sql
from headgate.spark.fitting import fitted, quoted
from headgate.spark.jobs import ROW_ASTRAY, described, translated
from headgate.spark.reach import Way, way_to_write
from headgate.spark.session import prepared
from headgate.spark.sql.columns import as_column
from headgate.spark.types import has_lists_or_maps
from headgate.spark.write import arrow as arrow_write
from headgate.spark.write import carried as carried_write
from headgate.spark.write import native as native_write
from headgate.spark.write.layout import write_layout
from headgate.spark.write.partitioning import register_bucket


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Rows of a DataFrame, written by Spark."""

    target: Target
    df: DataFrame

    def write_files(self) -> tuple[DataFile, ...]:
        return write_rows(self.target, self._fitting(self.df))

    def write_matching(self, matching: Bound, where: str) -> tuple[DataFile, ...]:
        rows = self._fitting(self.df)
        astray = as_column(self.df.sparkSession, f"NOT coalesce({self._condition(matching)}, false)")
        shown = sf.to_json(sf.struct(*(sf.col(quoted(name)) for name in rows.columns)))
        failure = sf.raise_error(sf.concat(sf.lit(f"{ROW_ASTRAY} "), sf.substring(shown, 1, 300)))
        # In the pass that writes them: a second pass over the DataFrame could return other rows.
        first = rows.columns[0]
        checked = sf.when(astray, failure).otherwise(sf.col(quoted(first)))
        metadata = rows.schema[first].metadata
        rest = [sf.col(quoted(name)) for name in rows.columns[1:]]
        return write_rows(self.target, rows.select(checked.alias(first, metadata=metadata), *rest), where)

    def _fitting(self, df: DataFrame) -> DataFrame:
        if not isinstance(df, DataFrame):
            raise InvalidInputError(
                f"{self.target.table}: a Spark {type(df).__name__} has no rows to write", "pass a DataFrame"
            )
        prepared(df.sparkSession)
        return fitted(df, self.target.metadata.schema, self.target.table)

    def _condition(self, matching: Bound) -> str:
        text = to_spark_sql(matching)
        if BUCKET_FUNCTION in text:
            register_bucket(self.df.sparkSession)
        return text


def write_rows(target: Target, rows: DataFrame, where: str | None = None) -> tuple[DataFile, ...]:
    """Writes `rows`, which fit the table, as new data files. They are not visible yet.

    If the job fails or the process dies, files that were written stay in the directory of the transaction,
    unreferenced. `where` is the predicate that the rows are checked against, for errors.
    """
    driver, metadata = target.driver, target.metadata
    spark = rows.sparkSession
    layout = write_layout(metadata, rows)
    way = way_to_write(spark, driver.store, lists_or_maps=has_lists_or_maps(metadata.schema))
    description = f"headgate: write to {target.table} ({way.value})"
    with described(spark, description), translated(target, "write the rows", where):
        match way:
            case Way.ARROW:
                return arrow_write.write(target, rows, layout)
            case Way.CARRIED:
                return carried_write.write(target, rows, layout)
            case Way.NATIVE:
                return native_write.write(target, rows, layout)
