"""DataFrames on their way into a table."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headgate.errors import InvalidInputError
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.spark_text import BUCKET_FUNCTION, to_spark_sql
from headgate.iceberg.target import Target
from headgate.spark.fitting import fitted, quoted
from headgate.spark.jobs import ROW_ASTRAY
from headgate.spark.partitioning import register_bucket
from headgate.spark.session import prepared
from headgate.spark.write import write_rows


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Rows of a DataFrame, written by Spark."""

    target: Target
    df: DataFrame

    def written(self) -> tuple[DataFile, ...]:
        return write_rows(self.target, self._fitting(self.df))

    def written_matching(self, matching: Bound, where: str) -> tuple[DataFile, ...]:
        rows = self._fitting(self.df)
        astray = sf.expr(f"NOT coalesce({self._condition(matching)}, false)")
        shown = sf.to_json(sf.struct(*(sf.col(quoted(name)) for name in rows.columns)))
        failure = sf.raise_error(sf.concat(sf.lit(f"{ROW_ASTRAY} "), sf.substring(shown, 1, 300)))
        # In the pass that writes them: another one over the DataFrame could see other rows.
        first = rows.columns[0]
        checked = sf.when(astray, failure).otherwise(sf.col(quoted(first)))
        metadata = rows.schema[first].metadata
        rest = [sf.col(quoted(name)) for name in rows.columns[1:]]
        return write_rows(self.target, rows.select(checked.alias(first, metadata=metadata), *rest), where)

    def _fitting(self, df: DataFrame) -> DataFrame:
        if not isinstance(df, DataFrame):
            raise InvalidInputError(
                f"{self.target.table}: a {type(df).__name__} of Spark's holds no rows", "pass a DataFrame"
            )
        prepared(df.sparkSession)
        return fitted(df, self.target.metadata.schema, self.target.table)

    def _condition(self, matching: Bound) -> str:
        text = to_spark_sql(matching)
        if BUCKET_FUNCTION in text:
            register_bucket(self.df.sparkSession)
        return text
