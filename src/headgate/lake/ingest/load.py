"""Loads files into a table: all of them in one version, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from headgate.errors import InvalidInputError, NotFoundError
from headgate.files.csv_file import Dialect
from headgate.files.rows import FileRows, OnProgress, infer_columns
from headgate.files.source import SourceFile, find_sources
from headgate.iceberg.schema.partitions import parse_partition_by, written_terms
from headgate.model.named_object import Format
from headgate.transaction.table_writer import TableWriter, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.lake.lake import Lake
    from headgate.transaction.result import CommitResult
    from headgate.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How to load files. `schema` (DDL) and `partition_by` define a table that is created.

    If the table already exists, they are optional and must match it. `app` names an application and a batch;
    a batch that was committed before is not loaded again. `overwrite` replaces all rows.
    """

    format: Format | None = None
    schema: str | None = None
    partition_by: tuple[str, ...] = ()
    dialect: Dialect = field(default_factory=Dialect)
    app: tuple[str, int] | None = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The result of `ingest`. `already_committed`: the batch was loaded before, at `version`.

    `hook_failures` and `clock_warning` are those of `CommitResult`.
    """

    table: str
    version: int
    created: bool
    rows: int
    files: int
    size_bytes: int
    sources: int
    already_committed: bool = False
    hook_failures: tuple[str, ...] = ()
    clock_warning: str | None = None


def ingest(
    lake: Lake,
    table: str,
    files: Sequence[str],
    options: IngestOptions,
    *,
    args: Sequence[str] = (),
    spark: SparkSession | None = None,
    on_progress: OnProgress = lambda *_: None,
) -> IngestResult:
    """Loads files into a table, which is created if it does not exist, in one version.

    Without `spark`, the rows are read through Arrow in batches, so the files need not fit into memory. If a
    file cannot be read, files disagree, or a row does not fit, the `InvalidInputError` names the file and the
    row. Then nothing is changed, and the same holds after Ctrl-C or if the process dies. Files that were
    already written stay on storage, unreferenced.
    """
    sources = find_sources(files, options.format)
    with lake.transaction(args, app=options.app) as tx:
        earlier = tx.committed_before
        if earlier is not None:
            tx.abort()
            return IngestResult(table, earlier.version, False, 0, 0, 0, len(sources), already_committed=True)
        if spark is None:
            created = _through_arrow(tx, table, sources, options, on_progress)
        else:
            from headgate.lake.ingest.spark_load import (
                through_spark,  # loaded only if Spark is used
            )

            created = through_spark(tx, table, sources, options, spark)
    return _result(lake, table, tx.result, created, len(sources))


def _through_arrow(
    tx: Transaction,
    table: str,
    sources: Sequence[SourceFile],
    options: IngestOptions,
    on_progress: OnProgress,
) -> bool:
    writer = existing(tx, table, options)
    created = writer is None
    if writer is None:
        schema = options.schema or infer_columns(sources, options.dialect)
        writer = tx.create_table(table, schema, partition_by=options.partition_by)
    rows = FileRows(table, writer.schema, sources, options.dialect, on_progress).reader()
    if options.overwrite and not created:
        writer.overwrite(rows)
    else:
        writer.append(rows)
    return created


def existing(tx: Transaction, table: str, options: IngestOptions) -> TableWriter | None:
    """The table, or None if it does not exist. Raises if it does not match the options."""
    try:
        writer = tx.table(table)
    except NotFoundError:
        return None
    partition_by = writer.partition_by  # raises for a view or a mount, which are read-only
    if options.partition_by and _terms(options, writer.schema) != partition_by:
        raise InvalidInputError(
            f"{table} exists and is partitioned by {', '.join(partition_by) or 'nothing'}, "
            f"not by {', '.join(options.partition_by)}",
            "leave --partition-by out, or change the table first",
        )
    if options.schema is not None and not _same_columns(schema_of(options.schema), writer.schema):
        raise InvalidInputError(
            f"the columns of {table} differ from --schema; the existing table has: {shown(writer.schema)}",
            "leave --schema out, or change the table first",
        )
    return writer


def _terms(options: IngestOptions, schema: Schema) -> tuple[str, ...]:
    return written_terms(schema, parse_partition_by(options.partition_by, schema))


def shown(schema: Schema) -> str:
    """The columns on one line."""
    return ", ".join(
        f"{field.name} {field.field_type}{' not null' if field.required else ''}" for field in schema.fields
    )


def _same_columns(one: Schema, other: Schema) -> bool:
    return shown(one) == shown(other)


def _result(lake: Lake, table: str, result: CommitResult, created: bool, sources: int) -> IngestResult:
    if result.already_committed:
        return IngestResult(table, result.version, False, 0, 0, 0, sources, already_committed=True)
    snapshot = lake.table(table, version=result.version).snapshot
    added = (0, 0, 0)
    if snapshot is not None and snapshot.version == result.version:
        added = (snapshot.rows_added, snapshot.files_added, snapshot.bytes_added)
    return IngestResult(
        table,
        result.version,
        created,
        *added,
        sources,
        hook_failures=result.hook_failures,
        clock_warning=result.clock_warning,
    )
