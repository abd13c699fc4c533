"""Loading files into a table: all of them in one version, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from headgate.errors import InvalidInputError, NotFoundError
from headgate.files.csv_file import Dialect
from headgate.files.rows import FileRows, OnProgress, inferred
from headgate.files.source import SourceFile, find_sources
from headgate.iceberg.partitions import parse_partition_by, written_terms
from headgate.model.file_format import Format
from headgate.writing import TableWriter, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.lake import Lake
    from headgate.result import CommitResult
    from headgate.transaction import Transaction


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How to load. `schema` (DDL) and `partition_by` are those of a table that is made.

    If the table exists they may be given too, and must be what it has. `app` names an application and a
    batch: one that was committed before is not loaded again. `overwrite` replaces all rows.
    """

    format: Format | None = None
    schema: str | None = None
    partition_by: tuple[str, ...] = ()
    dialect: Dialect = field(default_factory=Dialect)
    app: tuple[str, int] | None = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of it. `already_committed`: the batch was loaded before, at `version`, and not again.

    `hook_failures` are those of `CommitResult`.
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
    """Loads files into a table, which is made if it does not exist; all in one version.

    Without `spark` the rows go through Arrow, in batches, so that the files need not fit into memory. If a
    file cannot be read, files disagree, or a row does not fit, the `InvalidInputError` says where, and
    nothing has changed: also not after a Ctrl-C, or if the process dies. What was written by then stays,
    unreferenced.
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
            from headgate.ingest.spark_load import through_spark  # only those who use Spark need it loaded

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
        schema = options.schema or inferred(sources, options.dialect)
        writer = tx.create_table(table, schema, partition_by=options.partition_by)
    rows = FileRows(table, writer.schema, sources, options.dialect, on_progress).reader()
    if options.overwrite and not created:
        writer.overwrite(rows)
    else:
        writer.append(rows)
    return created


def existing(tx: Transaction, table: str, options: IngestOptions) -> TableWriter | None:
    """The table, if there is one; refused if it is another than the options say."""
    try:
        writer = tx.table(table)
    except NotFoundError:
        return None
    if options.partition_by and _terms(options, writer.schema) != writer.partition_by:
        raise InvalidInputError(
            f"{table} exists and is partitioned by {', '.join(writer.partition_by) or 'nothing'}, "
            f"not by {', '.join(options.partition_by)}",
            "leave --partition-by out, or change the table first",
        )
    if options.schema is not None and not _same_columns(schema_of(options.schema), writer.schema):
        raise InvalidInputError(
            f"{table} exists and has other columns than --schema says: {shown(writer.schema)}",
            "leave --schema out, or change the table first",
        )
    return writer


def _terms(options: IngestOptions, schema: Schema) -> tuple[str, ...]:
    return written_terms(schema, parse_partition_by(options.partition_by, schema))


def shown(schema: Schema) -> str:
    """The columns in one line."""
    return ", ".join(
        f"{field.name} {field.field_type}{' not null' if field.required else ''}" for field in schema.fields
    )


def _same_columns(one: Schema, other: Schema) -> bool:
    return shown(one) == shown(other)


def _result(lake: Lake, table: str, result: CommitResult, created: bool, sources: int) -> IngestResult:
    if result.already_committed:
        return IngestResult(table, result.version, False, 0, 0, 0, sources, already_committed=True)
    snapshot = lake.table(table, version=result.version).snapshot
    if snapshot is None or snapshot.version != result.version:
        return IngestResult(
            table, result.version, created, 0, 0, 0, sources, hook_failures=result.hook_failures
        )
    return IngestResult(
        table,
        result.version,
        created,
        snapshot.rows_added,
        snapshot.files_added,
        snapshot.bytes_added,
        sources,
        hook_failures=result.hook_failures,
    )
