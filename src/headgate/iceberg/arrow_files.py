"""Rows to data files and back, through Arrow and without a JVM: for small data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record as PartitionRecord

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError
from headgate.iceberg.arrow import (
    concatenated,
    data_file,
    encode_parquet,
    fitted,
    footer_of,
    nan_counts,
    partitioned,
    require_partition,
    with_nan_counts,
)
from headgate.iceberg.bound import Bound, fields_of
from headgate.iceberg.data_file import DataFile, Partition
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.projection import projected
from headgate.iceberg.row_filter import selected
from headgate.iceberg.sorting import in_order
from headgate.model.identifiers import TxId

LONGEST_NAME = 200
"""Most disks take 255 bytes; the names are percent-encoded, so a character is a byte."""


def write_rows(
    driver: Driver, metadata: TableMetadata, rows: pa.Table, txid: TxId, table: str
) -> tuple[DataFile, ...]:
    """Writes `rows` as new data files of a table, one for each partition. Nobody sees them yet.

    If the process dies, they stay in the directory of the transaction, unreferenced.
    """
    schema, spec = metadata.schema, metadata.spec
    parts = list(partitioned(fitted(rows, schema, table), schema, spec))
    return tuple(driver.host.together([partial(_write_one, driver, metadata, txid, *part) for part in parts]))


def _write_one(
    driver: Driver, metadata: TableMetadata, txid: TxId, partition: Partition, rows: pa.Table
) -> DataFile:
    data = encode_parquet(in_order(rows, metadata.schema, metadata.sort_order))
    uri = new_file_uri(metadata, txid, partition, driver.host.new_txid())
    driver.put(uri.removeprefix(driver.store.uri() + "/"), data)
    file = data_file(uri, len(data), footer_of(data), partition, metadata)
    return with_nan_counts(file, nan_counts(rows, metadata.schema))


def new_file_uri(metadata: TableMetadata, txid: TxId, partition: Partition, name: TxId) -> str:
    """Where a fresh data file goes: into the directory of the transaction, by its partition."""
    require_partition(partition, metadata)
    directory = metadata.spec.partition_to_path(PartitionRecord(*partition), metadata.schema)
    inner = [_short(part) for part in directory.split("/") if part]
    return "/".join((metadata.location, "data", f"L0-{txid}", *inner, f"{name}.parquet"))


def _short(name: str) -> str:
    """A name that disks take; long ones are cut and told apart by a digest. The manifest has the value."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME // 2]}~{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def read_rows(
    driver: Driver,
    loader: TableLoader,
    files: Sequence[DataFile],
    schema: Schema,
    only: Bound | None = None,
    limit: int | None = None,
) -> pa.Table:
    """The rows of `files` as `schema` has them: columns are found by field id, as Iceberg wants it.

    With `only`, exactly the rows that it selects, bound to the schema of the whole table. With `limit`, at
    most that many: files are read until there are enough.
    """
    tables: list[pa.Table] = []
    missing = limit
    for group in _groups(files, limit is not None):
        if missing is not None and missing <= 0:
            break
        tables += driver.host.together([partial(_read_one, driver, loader, f, schema, only) for f in group])
        missing = None if limit is None else limit - sum(table.num_rows for table in tables)
    rows = concatenated(tables, schema)
    return rows if limit is None else rows.slice(0, limit)


def _groups(files: Sequence[DataFile], growing: bool) -> Iterator[Sequence[DataFile]]:
    """Files that are read at once: all of them, or one, two, four, … where few may be enough."""
    start, size = 0, 1 if growing else len(files)
    while start < len(files):
        yield files[start : start + size]
        start, size = start + size, size * 2


def _read_one(
    driver: Driver, loader: TableLoader, file: DataFile, schema: Schema, only: Bound | None
) -> pa.Table:
    needed = Schema() if only is None else _columns_of(only)
    table = _fetched(driver, loader, file, {*_outermost(schema), *_outermost(needed)})
    if only is None:
        return _as_schema(table, schema, file)
    mask = selected(_as_schema(table, needed, file), only)
    return _as_schema(table.filter(mask), schema, file)


def _fetched(driver: Driver, loader: TableLoader, file: DataFile, column_ids: set[int]) -> pa.Table:
    """The outermost columns of a file that have one of these ids."""
    data = driver.get(loader.key(file.path))
    if data is None:
        raise CorruptLakeError(f"{file.path} is named by the lake, but is not there")
    try:
        # In this thread alone; files are read at once by ours. A thread of Arrow's that lets go of Python's
        # bytes while the process ends would abort it.
        parquet = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        names = [f.name for f in pyarrow_to_schema(parquet.schema_arrow).fields if f.field_id in column_ids]
        # Without any column the number of rows would be lost: those that were added later are null in each.
        return parquet.read(columns=names or parquet.schema_arrow.names[:1], use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptLakeError(f"{file.path} cannot be read: {error}") from error


def _as_schema(table: pa.Table, schema: Schema, file: DataFile) -> pa.Table:
    return projected(table, schema, file.path) if schema.fields else table.select([])


def _columns_of(only: Bound) -> Schema:
    return Schema(*{field.column.field_id: field.column for field in fields_of(only)}.values())


def _outermost(schema: Schema) -> set[int]:
    return {field.field_id for field in schema.fields}
