"""Writing DataFrames to tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import HeadgateError, InvalidInputError, StorageError
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.target import Target
from headgate.spark import arrow_write, carried_write, native_write
from headgate.spark.fitting import NULL_IN_REQUIRED
from headgate.spark.layout import write_layout
from headgate.spark.reach import Way, way_to_write
from headgate.spark.types import has_lists_or_maps

ROW_ASTRAY = "HEADGATE_ROW_DOES_NOT_MATCH"
"""Stands in the error of a Spark job that met a row which its overwrite does not select; the row follows."""

_REFUSED_BY_A_WORKER = re.compile(r"headgate\.errors\.InvalidInputError: (?P<problem>.+)")
"""How the traceback of a Python worker shows an error of ours."""


def write_rows(target: Target, rows: DataFrame, where: str | None = None) -> tuple[DataFile, ...]:
    """Writes `rows`, which fit the table, as new data files. Nobody sees them yet.

    If the job fails or the process dies, what was written stays in the directory of the transaction,
    unreferenced. `where` is the predicate that the rows are checked against, for the error.
    """
    driver, metadata = target.driver, target.metadata
    spark = rows.sparkSession
    layout = write_layout(metadata, rows)
    way = way_to_write(spark, driver.store, lists_or_maps=has_lists_or_maps(metadata.schema))
    with _described(spark, f"headgate: write to {target.table} ({way.value})"), _translated(target, where):
        match way:
            case Way.ARROW:
                return arrow_write.write(target, rows, layout)
            case Way.CARRIED:
                return carried_write.write(target, rows, layout)
            case Way.NATIVE:
                return native_write.write(target, rows, layout)


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
def _translated(target: Target, where: str | None) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise _our_error(target.table, where, str(error)) from error
    except Py4JJavaError as error:  # such as a connector that lacks a class of its own
        raise _our_error(target.table, where, str(error.java_exception)) from error


def _our_error(table: str, where: str | None, text: str) -> HeadgateError:
    if NULL_IN_REQUIRED in text:
        column = text.partition(NULL_IN_REQUIRED)[2].split()[0]
        return InvalidInputError(
            f"{table}: column {column} is required, but some of its values are null",
            "fill them, or leave those rows out; nothing was changed",
        )
    if ROW_ASTRAY in text:
        row = text.partition(ROW_ASTRAY)[2].strip().split("\n", maxsplit=1)[0]
        return InvalidInputError(
            f"{table}: a row to be added does not match {where!r}: {row}",
            "leave it out, or overwrite with a predicate that selects it; nothing was changed",
        )
    refused = _REFUSED_BY_A_WORKER.search(text)
    if refused is not None:
        return InvalidInputError(
            refused["problem"], "correct those rows, or leave them out; nothing was changed"
        )
    first = text.strip().split("\n", maxsplit=1)[0]
    return StorageError(
        f"{table}: Spark could not write the rows: {first}", "see the cause; nothing was changed"
    )
