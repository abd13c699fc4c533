"""Loads files with Spark: for many cores or a cluster, with Spark's own rules for reading files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headgate.errors import InvalidInputError, StorageError
from headgate.files.csv_file import require_closed_quotes
from headgate.files.source import SourceFile
from headgate.files.text_value import ADVICE
from headgate.lake.ingest.load import IngestOptions, existing
from headgate.model.named_object import Format
from headgate.transaction.table_writer import schema_of

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame, SparkSession

    from headgate.transaction.transaction import Transaction

_MALFORMED = "[MALFORMED_RECORD_IN_PARSING"
"""How Spark marks a row that it cannot read; it appears only in a cause of the job's error."""


def through_spark(
    tx: Transaction, table: str, sources: Sequence[SourceFile], options: IngestOptions, spark: SparkSession
) -> bool:
    """Adds the rows of the files to the transaction, and returns whether it creates the table."""
    writer = existing(tx, table, options)
    created = writer is None
    schema = schema_of(options.schema) if options.schema else None if writer is None else writer.schema
    rows = _read(spark, sources, options, schema)
    if writer is None:
        writer = tx.create_table(table, schema or rows.schema, partition_by=options.partition_by)
    try:
        if options.overwrite and not created:
            writer.overwrite(rows)
        else:
            writer.append(rows)
    except (InvalidInputError, StorageError) as error:
        malformed = next((text for text in _causes(error) if _MALFORMED in text), None)
        if malformed is None:
            raise
        raise InvalidInputError(f"a file does not fit {table}: {malformed}", ADVICE) from error
    return created


def _causes(error: BaseException) -> Iterator[str]:
    """The message of an error, followed by the messages of its causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield str(cause).strip()
        cause = cause.__cause__


def _read(
    spark: SparkSession, sources: Sequence[SourceFile], options: IngestOptions, schema: Schema | None
) -> DataFrame:
    kind = sources[0].format
    other = next((source for source in sources if source.format is not kind), None)
    if other is not None:
        raise InvalidInputError(
            f"{sources[0]} is {kind.value}, but {other} is {other.format.value}",
            "load files of one format at a time with Spark",
        )
    from headgate.spark.read.files import csv_struct, file_options, read_files

    if kind is Format.CSV:
        for source in sources:
            require_closed_quotes(source, options.dialect)
    struct = None
    if schema is not None and kind is not Format.PARQUET:
        from headgate.spark.types import schema_to_spark

        struct = schema_to_spark(schema)
    elif kind is Format.CSV:
        struct = csv_struct(spark, sources, options.dialect)
    return read_files(spark, sources, file_options(sources[0], options.dialect), struct)
