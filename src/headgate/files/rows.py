"""The rows of files in batches, with the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from headgate.errors import InvalidInputError
from headgate.files import csv_file, json_lines, parquet_file, text_file
from headgate.files.csv_file import Dialect
from headgate.files.inference import agreed
from headgate.files.source import OnBytes, SourceFile
from headgate.iceberg.schema.arrow import fitted
from headgate.model.named_object import Format

OnProgress: TypeAlias = Callable[[int, int, int], None]
"""Gets the current totals: bytes read so far, bytes of all files, and rows so far."""


def infer_columns(sources: Sequence[SourceFile], dialect: Dialect) -> pa.Schema:
    """The columns that all files agree on, inferred from their first rows."""
    schema = agreed([(source, _infer(source, dialect)) for source in sources])
    if not schema.names:
        raise InvalidInputError(f"{sources[0]} has no columns", "declare them with --schema")
    return schema


def _infer(source: SourceFile, dialect: Dialect) -> pa.Schema:
    try:
        match source.format:
            case Format.CSV:
                return csv_file.infer_schema(source, dialect)
            case Format.JSON:
                return json_lines.infer_schema(source)
            case Format.PARQUET:
                return parquet_file.infer_schema(source)
            case Format.TEXT:
                return text_file.SCHEMA
    except OSError as error:
        raise _unreadable(source, error) from error


def _unreadable(source: SourceFile, error: OSError) -> InvalidInputError:
    return InvalidInputError(f"{source} cannot be read: {error.strerror or error}", "check the file")


def _readable(source: SourceFile, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The batches. If a file cannot be read or decompressed, the error names it."""
    try:
        yield from batches
    except OSError as error:
        raise _unreadable(source, error) from error


@dataclass
class FileRows:
    """The rows of all files, batch by batch, with the columns of `schema`."""

    table: str
    schema: Schema
    sources: Sequence[SourceFile]
    dialect: Dialect
    on_progress: OnProgress = lambda *_: None
    rows: int = 0
    bytes_read: int = 0

    def reader(self) -> pa.RecordBatchReader:
        """Reads each batch on demand."""
        wanted = schema_to_pyarrow(self.schema, include_field_ids=False)
        exact = fitted(wanted.empty_table(), self.schema, self.table).schema
        return pa.RecordBatchReader.from_batches(exact, self._batches(wanted))

    def _batches(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        for source in self.sources:
            row = 2 if source.format is Format.CSV and self.dialect.header else 1
            for batch in _readable(source, self._of(source, wanted)):
                yield from self._fitted(batch, source, row).to_batches()
                row += batch.num_rows
                self.rows += batch.num_rows
                self._tell()

    def _of(self, source: SourceFile, wanted: pa.Schema) -> Iterator[pa.Table]:
        on_bytes: OnBytes = self._read
        match source.format:
            case Format.CSV:
                return csv_file.batches(source, self.dialect, wanted, on_bytes)
            case Format.JSON:
                return json_lines.batches(source, wanted, on_bytes)
            case Format.PARQUET:
                return parquet_file.batches(source, on_bytes)
            case Format.TEXT:
                return text_file.batches(source, on_bytes)

    def _read(self, count: int) -> None:
        self.bytes_read += count
        self._tell()

    def _tell(self) -> None:
        self.on_progress(self.bytes_read, sum(source.size_bytes for source in self.sources), self.rows)

    def _fitted(self, batch: pa.Table, source: SourceFile, first_row: int) -> pa.Table:
        try:
            return fitted(batch, self.schema, self.table)
        except InvalidInputError:
            # A column that does not fit concerns the whole file; a value that does not fit is in one row.
            fitted(batch.slice(0, 0), self.schema, f"{self.table} ({source})")
            wrong = self._first_misfit(batch)
            place = f"{self.table} ({source}, row {first_row + wrong})"
            return fitted(batch.slice(wrong, 1), self.schema, place)

    def _first_misfit(self, batch: pa.Table) -> int:
        """The first row that does not fit, in a batch that does not fit as a whole."""
        start, end = 0, batch.num_rows
        while end - start > 1:
            middle = (start + end) // 2
            try:
                fitted(batch.slice(start, middle - start), self.schema, self.table)
                start = middle
            except InvalidInputError:
                end = middle
        return start
