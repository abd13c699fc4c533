"""Rows to data files and back, through Arrow and without a JVM: for small data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyiceberg.schema import Schema

from headgate.commit.driver import Driver
from headgate.iceberg.arrow import (
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
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile, Partition
from headgate.iceberg.directories import new_file
from headgate.iceberg.encoding import FileForm, encode_parquet
from headgate.iceberg.file_rows import FileReading, located
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.positions import Positions, read_positions
from headgate.iceberg.rolling import pieces, target_bytes
from headgate.iceberg.sorting import in_order
from headgate.iceberg.target import Target


def write_rows(target: Target, rows: pa.Table) -> tuple[DataFile, ...]:
    """Writes `rows` as new data files of a table, of its target size and partitions. Nobody sees them yet.

    If the process dies, they stay in the directory of the transaction, unreferenced.
    """
    return write_fitting(target, fitted(rows, target.metadata.schema, target.table))


def write_fitting(target: Target, rows: pa.Table) -> tuple[DataFile, ...]:
    """The same for rows that fit the table, and may have columns beside those of the table."""
    metadata = target.metadata
    files = [
        (partition, piece)
        for partition, part in partitioned(rows, metadata.schema, metadata.spec)
        for piece in pieces(
            in_order(part, metadata.schema, metadata.sort_order), target_bytes(metadata.properties)
        )
    ]
    if not files:
        return ()
    directory = target.new_directory()
    return tuple(
        target.driver.host.together([partial(_write_one, target, directory, *file) for file in files])
    )


def _write_one(target: Target, directory: str, partition: Partition, rows: pa.Table) -> DataFile:
    metadata = target.metadata
    require_partition(partition, metadata)
    data = encode_parquet(rows, FileForm.of(metadata.properties))
    uri = new_file(directory, metadata, metadata.spec.spec_id, partition, target.driver.host.new_txid())

    def describe() -> DataFile:
        file = data_file(uri, len(data), footer_of(data), partition, metadata)
        return with_nan_counts(file, nan_counts(rows, metadata.schema))

    # While it is on its way to storage.
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
    """The live rows of `files` as `schema` has them: columns are found by field id, as Iceberg wants it.

    With `only`, exactly the rows that it selects, bound to the schema of the whole table. With `limit`, at
    most that many: files are read until there are enough.
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


def read_located(
    driver: Driver,
    loader: TableLoader,
    files: Sequence[PlannedFile],
    schema: Schema,
    only: Bound | None = None,
) -> pa.Table:
    """The same rows, and of each the path of its data file, as the manifest has it, and its position there.

    The two columns come last; `position_columns(schema)` are their names.
    """
    reading = FileReading(driver, loader, schema, only)
    dead = _dead(driver, loader, files)
    tables = driver.read_at_once([partial(reading.located, file, dead) for file in files])
    return pa.concat_tables(tables) if tables else located(concatenated([], schema), schema, "", _NOWHERE)


_NOWHERE = pa.array([], pa.int64())


def _dead(driver: Driver, loader: TableLoader, files: Sequence[PlannedFile]) -> Positions:
    """The deleted rows of files. Read before them: many files may have one delete file."""
    deletes = [delete for planned in files for delete in planned.deletes]
    return read_positions(driver, loader, deletes, {planned.file.path for planned in files})


def _groups(files: Sequence[PlannedFile], growing: bool) -> Iterator[Sequence[PlannedFile]]:
    """Files that are read at once: all of them, or one, two, four, … where few may be enough."""
    start, size = 0, 1 if growing else len(files)
    while start < len(files):
        yield files[start : start + size]
        start, size = start + size, size * 2
