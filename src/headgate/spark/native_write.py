"""Writing through Spark's own Parquet writer: the fast path, where Spark's Hadoop client reaches the storage.

Spark writes into the directory of the attempt. Nobody else uses it, so what is there after the job is what
the job wrote: Spark's committer moves files of successful tasks only, and files of failed and speculative
ones are never referenced.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame

from headgate.commit.driver import Driver
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.footers import described
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.target import Target
from headgate.spark.layout import WriteLayout
from headgate.spark.partitioning import directory_columns
from headgate.spark.reach import require_hadoop_uri
from headgate.storage.capabilities import MakeDurable

# Version 1 moves the files of a task when the job ends. Version 2 does it when the task ends, and a task that
# dies half-way would leave files that we could not tell from those of the attempt that replaced it.
COMMITTER: Mapping[str, str] = {
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


def write(target: Target, df: DataFrame, layout: WriteLayout) -> tuple[DataFile, ...]:
    """Writes the rows of `df`, which fits the table, as new data files. Nobody sees them yet."""
    driver, metadata = target.driver, target.metadata
    directories = directory_columns(metadata.schema, metadata.spec)
    attempt = target.loader.key(target.new_directory())
    placed = df.withColumns(directories) if directories else df
    rows = layout.distributed(placed, tuple(directories))
    writer = rows.write.mode("append").options(**COMMITTER, **layout.parquet_options())
    if directories:
        writer = writer.partitionBy(*directories)
    writer.parquet(f"{require_hadoop_uri(df.sparkSession, driver.store.uri())}/{attempt}")
    return collected(driver, metadata, attempt)


def collected(driver: Driver, metadata: TableMetadata, attempt: str) -> tuple[DataFile, ...]:
    """The files that lie in the directory of an attempt, made durable."""
    keys = [key for key in driver.keys(f"{attempt}/") if key.endswith(".parquet")]
    if isinstance(driver.store, MakeDurable):
        driver.store.make_durable(keys)
    root = driver.store.uri()
    files = driver.host.together([partial(described, driver, metadata, key, f"{root}/{key}") for key in keys])
    return tuple(file for file in files if file is not None)
