"""Rows to data files and back, through Arrow and without a JVM: for small data."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record as PartitionRecord

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError
from headgate.iceberg.arrow import concatenated, data_file, encode_parquet, fitted, footer_of, partitioned
from headgate.iceberg.data_file import DataFile, Partition
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.projection import projected
from headgate.iceberg.sorting import in_order
from headgate.model.identifiers import TxId


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
    return data_file(uri, len(data), footer_of(data), partition, metadata)


def new_file_uri(metadata: TableMetadata, txid: TxId, partition: Partition, name: TxId) -> str:
    """Where a fresh data file goes: into the directory of the transaction, by its partition."""
    directory = metadata.spec.partition_to_path(PartitionRecord(*partition), metadata.schema)
    parts = ("data", f"L0-{txid}", *filter(None, directory.split("/")), f"{name}.parquet")
    return "/".join((metadata.location, *parts))


def read_rows(driver: Driver, loader: TableLoader, files: Iterable[DataFile], schema: Schema) -> pa.Table:
    """The rows of `files` as `schema` has them: columns are found by field id, as Iceberg wants it."""
    tables = driver.host.together([partial(_read_one, driver, loader, file, schema) for file in files])
    return concatenated(tables, schema)


def _read_one(driver: Driver, loader: TableLoader, file: DataFile, schema: Schema) -> pa.Table:
    data = driver.get(loader.key(file.path))
    if data is None:
        raise CorruptLakeError(f"{file.path} is named by the lake, but is not there")
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptLakeError(f"{file.path} cannot be read: {error}") from error
    return projected(table, schema, file.path)
