"""Writing DataFrames to tables."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headgate.iceberg.data_file import DataFile
from headgate.iceberg.target import Target
from headgate.spark import arrow_write, carried_write, native_write
from headgate.spark.jobs import described, translated
from headgate.spark.layout import write_layout
from headgate.spark.reach import Way, way_to_write
from headgate.spark.types import has_lists_or_maps


def write_rows(target: Target, rows: DataFrame, where: str | None = None) -> tuple[DataFile, ...]:
    """Writes `rows`, which fit the table, as new data files. Nobody sees them yet.

    If the job fails or the process dies, what was written stays in the directory of the transaction,
    unreferenced. `where` is the predicate that the rows are checked against, for the error.
    """
    driver, metadata = target.driver, target.metadata
    spark = rows.sparkSession
    layout = write_layout(metadata, rows)
    way = way_to_write(spark, driver.store, lists_or_maps=has_lists_or_maps(metadata.schema))
    description = f"headgate: write to {target.table} ({way.value})"
    with described(spark, description), translated(target.table, "write the rows", where):
        match way:
            case Way.ARROW:
                return arrow_write.write(target, rows, layout)
            case Way.CARRIED:
                return carried_write.write(target, rows, layout)
            case Way.NATIVE:
                return native_write.write(target, rows, layout)
