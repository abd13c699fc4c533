"""Loading files into a table: all of them in one version, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from headgate.errors import InvalidInputError, NotFoundError
from headgate.iceberg.arrow import fitted
from headgate.iceberg.partitions import parse_partition_by, written_terms
from headgate.ingest import csv_file, json_lines, parquet_file
from headgate.ingest.csv_file import Dialect
from headgate.ingest.inference import agreed
from headgate.ingest.source import Format, OnBytes, SourceFile, find_sources
from headgate.writing import TableWriter, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.lake import Lake
    from headgate.result import CommitResult
    from headgate.transaction import Transaction

OnProgress: TypeAlias = Callable[[int, int, int], None]
"""Is told, each time anew: the bytes that were read, those of all files, and the rows so far."""


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
        schema = options.schema or _inferred(sources, options)
        writer = tx.create_table(table, schema, partition_by=options.partition_by)
    rows = _Rows(table, writer.schema, sources, options, on_progress).reader()
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


def _inferred(sources: Sequence[SourceFile], options: IngestOptions) -> pa.Schema:
    schema = agreed([(source, _sampled(source, options)) for source in sources])
    if not schema.names:
        raise InvalidInputError(f"{sources[0]} has no columns", "say what they are with --schema")
    return schema


def _sampled(source: SourceFile, options: IngestOptions) -> pa.Schema:
    try:
        match source.format:
            case Format.CSV:
                return csv_file.sampled_schema(source, options.dialect)
            case Format.JSON:
                return json_lines.sampled_schema(source)
            case Format.PARQUET:
                return parquet_file.sampled_schema(source)
    except OSError as error:
        raise _unreadable(source, error) from error


def _unreadable(source: SourceFile, error: OSError) -> InvalidInputError:
    return InvalidInputError(f"{source} cannot be read: {error.strerror or error}", "check the file")


def _readable(source: SourceFile, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The batches; a file that cannot be read, or decompressed, is named."""
    try:
        yield from batches
    except OSError as error:
        raise _unreadable(source, error) from error


@dataclass
class _Rows:
    """The rows of all files, one batch after the other, as the table has them."""

    table: str
    schema: Schema
    sources: Sequence[SourceFile]
    options: IngestOptions
    on_progress: OnProgress
    rows: int = 0
    bytes_read: int = 0

    def reader(self) -> pa.RecordBatchReader:
        wanted = schema_to_pyarrow(self.schema, include_field_ids=False)
        exact = fitted(wanted.empty_table(), self.schema, self.table).schema
        return pa.RecordBatchReader.from_batches(exact, self._batches(wanted))

    def _batches(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        for source in self.sources:
            row = 2 if source.format is Format.CSV and self.options.dialect.header else 1
            for batch in _readable(source, self._of(source, wanted)):
                yield from self._fitted(batch, source, row).to_batches()
                row += batch.num_rows
                self.rows += batch.num_rows
                self._tell()

    def _of(self, source: SourceFile, wanted: pa.Schema) -> Iterator[pa.Table]:
        on_bytes: OnBytes = self._read
        match source.format:
            case Format.CSV:
                return csv_file.batches(source, self.options.dialect, wanted, on_bytes)
            case Format.JSON:
                return json_lines.batches(source, wanted, on_bytes)
            case Format.PARQUET:
                return parquet_file.batches(source, on_bytes)

    def _read(self, count: int) -> None:
        self.bytes_read += count
        self._tell()

    def _tell(self) -> None:
        self.on_progress(self.bytes_read, sum(source.size_bytes for source in self.sources), self.rows)

    def _fitted(self, batch: pa.Table, source: SourceFile, first_row: int) -> pa.Table:
        try:
            return fitted(batch, self.schema, self.table)
        except InvalidInputError:
            # Columns that do not fit are those of the whole file; a value that does not is in some row.
            fitted(batch.slice(0, 0), self.schema, f"{self.table} ({source})")
            wrong = self._first_misfit(batch)
            place = f"{self.table} ({source}, row {first_row + wrong})"
            return fitted(batch.slice(wrong, 1), self.schema, place)

    def _first_misfit(self, batch: pa.Table) -> int:
        """The first row that does not fit, of a batch that does not."""
        start, end = 0, batch.num_rows
        while end - start > 1:
            middle = (start + end) // 2
            try:
                fitted(batch.slice(start, middle - start), self.schema, self.table)
                start = middle
            except InvalidInputError:
                end = middle
        return start


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
