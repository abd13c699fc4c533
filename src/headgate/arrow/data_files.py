"""Writes rows to data files and reads them back, through Arrow and without a JVM: for small data.

New rows are written unchanged, checked against a predicate, or in place of others.

Rows that come in batches become data files of the table's target size, with bounded memory. A file is encoded
as its rows arrive and put on storage when it is long enough. Each partition has an open file of its own; if
all of them together become too long, the longest is finished early.

An overwrite by predicate can only add rows that its own predicate selects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from headgate.arrow.file_rows import FileReading, located
from headgate.arrow.row_filter import selected
from headgate.arrow.row_order import in_order
from headgate.errors import InvalidInputError
from headgate.iceberg.format.data_file import DataFile, Partition
from headgate.iceberg.format.directories import Target, new_file
from headgate.iceberg.format.encoding import ROW_GROUP_ROWS, FileForm, encode_parquet, parquet_writer
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.positions import Positions, read_positions
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.scan.planning import PlannedFile
from headgate.iceberg.schema.arrow import (
    concatenated,
    data_file,
    first_rows,
    fitted,
    footer_of,
    nan_counts,
    partitioned,
    require_partition,
    with_nan_counts,
)
from headgate.log.driver import Driver
from headgate.model.identifiers import number_in


def write_rows(target: Target, rows: pa.Table) -> tuple[DataFile, ...]:
    """Writes `rows` as new data files with the table's target size and partitions. They are not visible yet.

    If the process dies, they stay in the directory of the transaction, unreferenced.
    """
    return write_fitting(target, fitted(rows, target.metadata.schema, target.table))


def write_fitting(target: Target, rows: pa.Table) -> tuple[DataFile, ...]:
    """The same for rows that fit the table, and may have more columns than the table."""
    metadata = target.metadata
    files = [
        (partition, piece)
        for partition, part in partitioned(rows, metadata.schema, metadata.spec)
        for piece in pieces(_sorted(part, metadata), target_bytes(metadata.properties))
    ]
    if not files:
        return ()
    directory = target.new_directory()
    return tuple(
        target.driver.host.together([partial(_write_one, target, directory, *file) for file in files])
    )


def _sorted(rows: pa.Table, metadata: TableMetadata) -> pa.Table:
    order = metadata.sort_order
    return rows if order.is_unsorted else in_order(rows, metadata.schema, order)


def _write_one(target: Target, directory: str, partition: Partition, rows: pa.Table) -> DataFile:
    metadata = target.metadata
    require_partition(partition, metadata)
    data = encode_parquet(rows, FileForm.of(metadata.properties))
    uri = new_file(directory, metadata, metadata.spec.spec_id, partition, target.driver.host.new_txid())

    def describe() -> DataFile:
        file = data_file(uri, len(data), footer_of(data), partition, metadata)
        return with_nan_counts(file, nan_counts(rows, metadata.schema))

    # Described while it is sent to storage.
    put = partial(target.driver.put, target.loader.key(uri), data)
    both: list[Callable[[], DataFile | None]] = [put, describe]
    _, described = target.driver.host.together(both)
    assert described is not None
    return described


def read_rows(
    driver: Driver,
    loader: TableLoader,
    files: Sequence[PlannedFile],
    schema: Schema,
    only: Bound | None = None,
    limit: int | None = None,
) -> pa.Table:
    """The live rows of `files` with the columns of `schema`, matched by field id, as Iceberg requires.

    With `only`, exactly the rows that it selects; it is bound to the schema of the whole table. With `limit`,
    at most that many rows: files are read until there are enough.
    """
    reading = FileReading(driver, loader, schema, only)
    tables: list[pa.Table] = []
    missing = limit
    for group in _groups(files, limit is not None):
        if missing is not None and missing <= 0:
            break
        dead = _dead(driver, loader, group)
        tables += driver.read_at_once([partial(reading.rows, file, dead) for file in group])
        missing = None if limit is None else limit - sum(table.num_rows for table in tables)
    return first_rows(concatenated(tables, schema), limit)


PORTION_BYTES = 32 * 1024 * 1024
"""About how many bytes of files are read together when rows are wanted in batches."""


def read_batches(
    driver: Driver,
    loader: TableLoader,
    files: Sequence[PlannedFile],
    schema: Schema,
    only: Bound | None = None,
    limit: int | None = None,
) -> pa.RecordBatchReader:
    """The same rows, read while they are asked for, in memory that does not grow with their number."""
    if not schema.fields:
        raise InvalidInputError("rows without columns cannot be read in batches", "choose a column")
    tables = _portions(driver, loader, files, FileReading(driver, loader, schema, only))
    return pa.RecordBatchReader.from_batches(concatenated([], schema).schema, _batches(tables, limit))


def _portions(
    driver: Driver, loader: TableLoader, files: Sequence[PlannedFile], reading: FileReading
) -> Iterator[pa.Table]:
    """The rows of a few small files at a time, or of a part of a large one."""
    for portion in _by_size(files):
        dead = _dead(driver, loader, portion)
        if len(portion) == 1:
            yield from reading.parts(portion[0], dead)
        else:
            yield from driver.read_at_once([partial(reading.rows, file, dead) for file in portion])


def _by_size(files: Sequence[PlannedFile]) -> Iterator[list[PlannedFile]]:
    portion: list[PlannedFile] = []
    size = 0
    for planned in files:
        if portion and size + planned.file.size_bytes > PORTION_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(planned)
        size += planned.file.size_bytes
    if portion:
        yield portion


def _batches(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for table in tables if limit != 0 else ():
        rows = first_rows(table, left)
        yield from rows.to_batches()
        if left is not None and (left := left - rows.num_rows) <= 0:
            return


def read_located(
    driver: Driver,
    loader: TableLoader,
    files: Sequence[PlannedFile],
    schema: Schema,
    only: Bound | None = None,
) -> pa.Table:
    """The same rows, each with the path of its data file (as in the manifest) and its position in that file.

    These two columns come last; `position_columns(schema)` returns their names.
    """
    reading = FileReading(driver, loader, schema, only)
    dead = _dead(driver, loader, files)
    tables = driver.read_at_once([partial(reading.located, file, dead) for file in files])
    return pa.concat_tables(tables) if tables else located(concatenated([], schema), schema, "", _NOWHERE)


_NOWHERE = pa.array([], pa.int64())


def _dead(driver: Driver, loader: TableLoader, files: Sequence[PlannedFile]) -> Positions:
    """The deleted rows of files. Read first, because many files may share one delete file."""
    deletes = [delete for planned in files for delete in planned.deletes]
    return read_positions(driver, loader, deletes, {planned.file.path for planned in files})


def _groups(files: Sequence[PlannedFile], growing: bool) -> Iterator[Sequence[PlannedFile]]:
    """Files that are read together: all of them, or one, two, four, … if few may be enough."""
    start, size = 0, 1 if growing else len(files)
    while start < len(files):
        yield files[start : start + size]
        start, size = start + size, size * 2


class IncomingRows(Protocol):
    """Rows that an engine writes. Its files are unreferenced until a commit names them."""

    def write_files(self) -> tuple[DataFile, ...]:
        """Writes all rows as new data files. Raises `InvalidInputError` if they do not fit the table."""
        ...

    def write_matching(self, matching: Bound, where: str) -> tuple[DataFile, ...]:
        """The same, but raises for rows that `matching` does not select; the caller wrote it as `where`."""
        ...


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows in memory, written without a JVM."""

    target: Target
    rows: pa.Table

    def write_files(self) -> tuple[DataFile, ...]:
        return write_rows(self.target, self.rows)

    def write_matching(self, matching: Bound, where: str) -> tuple[DataFile, ...]:
        target = self.target
        fitting = fitted(self.rows, target.metadata.schema, target.table)
        require_matching(fitting, matching, target.table, where)
        return write_rows(target, fitting)


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows that come in batches, once, and are written as they come: they need not fit into memory."""

    target: Target
    batches: pa.RecordBatchReader

    def write_files(self) -> tuple[DataFile, ...]:
        return self._write(self._fitting())

    def write_matching(self, matching: Bound, where: str) -> tuple[DataFile, ...]:
        return self._write(self._matching(matching, where))

    def _write(self, tables: Iterable[pa.Table]) -> tuple[DataFile, ...]:
        files = RollingFiles(self.target)
        for table in tables:
            files.add(table)
        return files.finish()

    def _fitting(self) -> Iterator[pa.Table]:
        for batch in self.batches:
            yield fitted(pa.Table.from_batches([batch]), self.target.metadata.schema, self.target.table)

    def _matching(self, matching: Bound, where: str) -> Iterator[pa.Table]:
        for table in self._fitting():
            require_matching(table, matching, self.target.table, where)
            yield table


TARGET_SIZE = "write.target-file-size-bytes"
TARGET_BYTES = 128 * 1024 * 1024
BUFFERED_BYTES = 512 * 1024 * 1024
"""How much all open files together may hold, both encoded and waiting rows."""
ROW_GROUP_BYTES = 32 * 1024 * 1024
"""How many bytes of rows in Arrow's form become a row group."""
COMPRESSED_SHARE = 0.5
"""How many bytes of Parquet one byte of Arrow becomes, before anything is encoded. The estimate is high on
purpose: files become a little shorter than the target, not longer."""


def target_bytes(properties: Mapping[str, str]) -> int:
    """The target size of the table's data files."""
    given = properties.get(TARGET_SIZE, str(TARGET_BYTES))
    number = number_in(given)
    if not number:
        raise InvalidInputError(f"{TARGET_SIZE} is {given[:80]!r}", "set it to a number of bytes")
    return number


def pieces(rows: pa.Table, target: int) -> Iterator[pa.Table]:
    """The rows, split so that no piece becomes a file of more than `target` bytes."""
    share = target / (rows.nbytes * COMPRESSED_SHARE or 1)
    step = max(1, min(rows.num_rows, int(rows.num_rows * share)))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


class RollingFiles:
    """The data files of a table that are being written, one open file per partition.

    They are not visible yet. If the process dies, the files that were written stay in the directory of the
    transaction, unreferenced.
    """

    def __init__(self, target: Target) -> None:
        self._driver = target.driver
        self._metadata = target.metadata
        self._directory = target.new_directory()
        self._target = target_bytes(target.metadata.properties)
        self._open: dict[Partition, _OpenFile] = {}
        self._done: list[DataFile] = []

    def add(self, rows: pa.Table) -> None:
        """Adds rows that have exactly the columns of the table."""
        for partition, part in partitioned(rows, self._metadata.schema, self._metadata.spec):
            for piece in pieces(part, self._target):
                file = self._open.setdefault(partition, _OpenFile(self._metadata))
                file.add(piece)
                if file.expected_bytes >= self._target:
                    self._end(partition)
        while sum(file.held_bytes for file in self._open.values()) > BUFFERED_BYTES:
            self._end(max(self._open, key=lambda partition: self._open[partition].held_bytes))

    def finish(self) -> tuple[DataFile, ...]:
        """Finishes all files, and returns what the manifest says about each."""
        for partition in list(self._open):
            self._end(partition)
        return tuple(self._done)

    def _end(self, partition: Partition) -> None:
        require_partition(partition, self._metadata)
        file = self._open.pop(partition)
        data = file.close()
        spec_id, name = self._metadata.spec.spec_id, self._driver.host.new_txid()
        uri = new_file(self._directory, self._metadata, spec_id, partition, name)
        self._driver.put(uri.removeprefix(self._driver.store.uri() + "/"), data)
        described = data_file(uri, len(data), footer_of(data), partition, self._metadata)
        self._done.append(with_nan_counts(described, file.nans))


class _OpenFile:
    """A Parquet file in memory. Rows of a sorted table are buffered until the file is finished."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._sorted = bool(metadata.sort_order.fields)
        self._out = pa.BufferOutputStream()
        self._writer: Any = None
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self.nans: Counter[int] = Counter()

    @property
    def held_bytes(self) -> int:
        return int(self._out.tell()) + self._waiting_bytes

    @property
    def expected_bytes(self) -> float:
        """How long the file would be if it were finished now."""
        return int(self._out.tell()) + self._waiting_bytes * COMPRESSED_SHARE

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self.nans.update(nan_counts(rows, self._metadata.schema))
        if self._waiting_bytes >= ROW_GROUP_BYTES and not self._sorted:
            self._encode()

    def close(self) -> bytes:
        """The whole file."""
        if self._waiting:
            self._encode()
        self._writer.close()
        return bytes(self._out.getvalue())

    def _encode(self) -> None:
        rows = _sorted(pa.concat_tables(self._waiting), self._metadata)
        if self._writer is None:
            self._writer = parquet_writer(self._out, rows, FileForm.of(self._metadata.properties))
        self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._waiting_bytes = [], 0


SHOWN_ROWS = 3


def require_matching(rows: pa.Table, matching: Bound, table: str, where: str) -> None:
    """Raises if an overwrite would add rows that its own predicate does not select."""
    astray = rows.filter(pc.invert(selected(rows, matching)))
    if astray.num_rows == 0:
        return
    shown = "\n".join(f"  - {_shown(row)}" for row in astray.slice(0, SHOWN_ROWS).to_pylist())
    raise InvalidInputError(
        f"{table}: {astray.num_rows} of the new rows do not match {where!r}:\n{shown}",
        "leave them out, or overwrite with a predicate that selects them",
    )


def _shown(row: dict[str, Any]) -> str:
    text = ", ".join(f"{name}: {value!r}" for name, value in row.items())
    return text if len(text) <= 300 else f"{text[:300]}…"
