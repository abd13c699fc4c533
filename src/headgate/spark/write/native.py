"""Writes through Spark's own Parquet writer: the fast path, if Spark's Hadoop client can reach the storage.

Spark writes into the directory of the attempt, which nothing else uses. So the files there after the job are
those that the job wrote: Spark's committer moves only files of successful tasks, and files of failed and
speculative tasks are never referenced.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame

from headgate.arrow.footers import describe_file
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Target
from headgate.iceberg.format.metadata import TableMetadata
from headgate.log.driver import Driver
from headgate.spark.reach import hadoop_directory
from headgate.spark.write.layout import WriteLayout
from headgate.spark.write.partitioning import directory_columns
from headgate.storage.capabilities import MakeDurable

# Version 1 moves the files of a task when the job ends. Version 2 moves them when the task ends: a task that
# dies half-way would leave files that look like those of the attempt that replaced it.
COMMITTER: Mapping[str, str] = {
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


def write(target: Target, df: DataFrame, layout: WriteLayout) -> tuple[DataFile, ...]:
    """Writes the rows of `df`, which fits the table, as new data files. They are not visible yet."""
    driver, metadata = target.driver, target.metadata
    directories = directory_columns(metadata.schema, metadata.spec)
    attempt = target.loader.key(target.new_directory())
    placed = df.withColumns(directories) if directories else df
    rows = layout.distributed(placed, tuple(directories))
    writer = rows.write.mode("append").options(**COMMITTER, **layout.parquet_options())
    if directories:
        writer = writer.partitionBy(*directories)
    writer.parquet(hadoop_directory(df.sparkSession, driver.store, attempt))
    return collect_files(driver, metadata, attempt)


def collect_files(driver: Driver, metadata: TableMetadata, attempt: str) -> tuple[DataFile, ...]:
    """The files in the directory of an attempt, made durable."""
    keys = [key for key in driver.keys(f"{attempt}/") if key.endswith(".parquet")]
    if isinstance(driver.store, MakeDurable):
        driver.store.make_durable(keys)
    root = driver.store.uri()
    files = driver.host.together(
        [partial(describe_file, driver, metadata, key, f"{root}/{key}") for key in keys]
    )
    return tuple(file for file in files if file is not None)
