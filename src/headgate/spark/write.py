"""Writing DataFrames to tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.commit.driver import Driver
from headgate.errors import HeadgateError, InvalidInputError, StorageError, UnsupportedError
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.metadata import TableMetadata
from headgate.model.identifiers import TxId
from headgate.spark import arrow_write, native_write
from headgate.spark.fitting import NULL_IN_REQUIRED, fitted
from headgate.spark.layout import write_layout
from headgate.spark.reach import Way, hadoop_uri, require_hadoop_uri, wanted_way
from headgate.spark.session import prepared
from headgate.spark.types import has_lists_or_maps
from headgate.storage.memory import MemoryStore


def write_dataframe(
    driver: Driver, metadata: TableMetadata, df: DataFrame, txid: TxId, table: str
) -> tuple[DataFile, ...]:
    """Writes the rows of `df` as new data files of a table. Nobody sees them yet.

    If the job fails or the process dies, what was written stays in the directory of the transaction,
    unreferenced. Raises `InvalidInputError` if the rows do not fit the table, before or while writing.
    """
    spark = prepared(df.sparkSession)
    rows = fitted(df, metadata.schema, table)
    layout = write_layout(metadata, rows)
    way = choose_way(spark, metadata, driver)
    with _described(spark, f"headgate: write to {table} ({way.value})"), _translated(table):
        match way:
            case Way.ARROW:
                return arrow_write.write(driver, metadata, rows, layout, txid, table)
            case Way.NATIVE:
                return native_write.write(driver, metadata, rows, layout, txid)


def choose_way(spark: SparkSession, metadata: TableMetadata, driver: Driver) -> Way:
    """The way to write to a table: Spark's own writer where it can."""
    wanted = wanted_way(spark)
    if isinstance(driver.store, MemoryStore):
        raise UnsupportedError("Spark cannot reach a lake in memory", "use pyarrow, or a lake on a disk")
    if has_lists_or_maps(metadata.schema):
        if wanted is Way.NATIVE:
            raise UnsupportedError("Spark's own writer gives no field ids inside lists and maps")
        return Way.ARROW
    if wanted is Way.NATIVE:
        require_hadoop_uri(spark, driver.store.uri())
    if wanted is not None:
        return wanted
    return Way.ARROW if hadoop_uri(spark, driver.store.uri()) is None else Way.NATIVE


@contextmanager
def _described(spark: SparkSession, description: str) -> Iterator[None]:
    """Jobs inside carry the description in Spark's UI and logs."""
    context: Any = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setLocalProperty("spark.job.description", description)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)


@contextmanager
def _translated(table: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise _our_error(table, str(error)) from error


def _our_error(table: str, text: str) -> HeadgateError:
    if NULL_IN_REQUIRED in text:
        column = text.partition(NULL_IN_REQUIRED)[2].split()[0]
        return InvalidInputError(
            f"{table}: column {column} is required, but some of its values are null",
            "fill them, or leave those rows out; nothing was changed",
        )
    first = text.strip().split("\n", maxsplit=1)[0]
    return StorageError(
        f"{table}: Spark could not write the rows: {first}", "see the cause; nothing was changed"
    )
