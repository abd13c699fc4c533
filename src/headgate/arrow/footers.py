"""Data files that another program wrote, described from their Parquet footers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.types import PrimitiveType
from pyroaring import BitMap64

from headgate.arrow.file_rows import footer_bytes
from headgate.errors import CorruptLakeError, InternalError, StorageError
from headgate.iceberg.format.avro import physical
from headgate.iceberg.format.data_file import DataFile, Partition, partition_key
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.metrics import bound_value
from headgate.iceberg.schema.arrow import data_file, out_of_years, require_partition
from headgate.iceberg.schema.partitions import path_to
from headgate.log.driver import Driver
from headgate.model.limits import FOOTER_BYTES
from headgate.storage.capabilities import Tail

FIRST_READ_BYTES = 64 * 1024
"""Enough for the footer of most files; a longer footer takes a second request."""


def describe_file(driver: Driver, metadata: TableMetadata, key: str, uri: str) -> DataFile | None:
    """The data file at `key`, with its metrics and its partition; None if it has no rows.

    Only the footer is read, unless it does not determine the partition. The bounds in the footer must be
    values that occur in the file, not truncated ones.
    """
    tail = _tail(driver, key)
    footer = _footer(tail, uri)
    if footer.num_rows == 0:
        return None
    partition = _partition(driver, metadata, key, footer)
    require_partition(partition, metadata)
    return data_file(uri, tail.object_bytes, footer, partition, metadata)


def describe_file_in(
    driver: Driver, metadata: TableMetadata, key: str, uri: str, like: DataFile
) -> DataFile | None:
    """The same for a file that is known to have the spec and partition of `like`; its order is unknown."""
    tail = _tail(driver, key)
    footer = _footer(tail, uri)
    if footer.num_rows == 0:
        return None
    file = data_file(uri, tail.object_bytes, footer, like.partition, metadata)
    return replace(file, spec_id=like.spec_id, sort_order_id=None)


def row_count(driver: Driver, key: str, uri: str) -> int:
    """The number of rows according to a Parquet file's footer. `CorruptLakeError` if it has none."""
    return int(_footer(_tail(driver, key), uri).num_rows)


UNCHECKED_ROWS = 1 << 24
"""So many positions of rows take 128 MB."""


def require_rows(loader: TableLoader, file: DataFile, rows: BitMap64) -> None:
    """Raises `CorruptLakeError` if these are so many that they take much memory, and the file has fewer rows.

    The rows come from the number of rows in a manifest, which may say anything.
    """
    if len(rows) > UNCHECKED_ROWS:
        present = row_count(loader.driver, loader.key(file.path), file.path)
        require_positions(file, rows, present)


def require_positions(file: DataFile, rows: BitMap64, present: int) -> None:
    """Raises `CorruptLakeError` unless the file, which has `present` rows, has rows at these positions."""
    if rows and rows.max() >= present:
        raise CorruptLakeError(
            f"{file.path} has {present:,} rows, but the table refers to row {rows.max():,} of it"
        )


def _tail(driver: Driver, key: str) -> Tail:
    tail = driver.tail(key, FIRST_READ_BYTES)
    if tail is not None and (needed := footer_bytes(tail)) > len(tail.data):
        if needed > FOOTER_BYTES:
            raise CorruptLakeError(f"the footer of {key} has {needed:,} bytes; the limit is {FOOTER_BYTES:,}")
        tail = driver.tail(key, needed)
    if tail is None:
        raise StorageError(f"{key} was written, but the storage does not return it")
    return tail


def _footer(tail: Tail, uri: str) -> pq.FileMetaData:
    try:
        return pq.read_metadata(pa.BufferReader(tail.data))
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptLakeError(f"{uri} is not a Parquet file: {error}") from error


def _partition(driver: Driver, metadata: TableMetadata, key: str, footer: pq.FileMetaData) -> Partition:
    """The partition of a file whose rows all belong to one partition: that of any row."""
    values = []
    for field in metadata.spec.fields:
        kind = metadata.schema.find_type(field.source_id)
        assert isinstance(kind, PrimitiveType)
        transform = field.transform.transform(kind)
        path = path_to(metadata.schema, field.source_id)
        samples = _bounds(footer, path, kind)
        try:
            found = [transform(sample) for sample in samples or [_first_value(driver, key, path)]]
        except OverflowError as error:  # Python cannot represent the date
            raise out_of_years(field.name) from error
        # As a key, since NaN is not equal to itself.
        if len({partition_key((value,)) for value in found}) != 1:
            raise InternalError(f"{key} contains rows of more than one partition of {field.name}: {found}")
        values.append(found[0])
    return tuple(values)


def _bounds(footer: pq.FileMetaData, path: tuple[str, ...], kind: PrimitiveType) -> list[Any]:
    """Values of a column that certainly occur in the file; empty if its footer has none."""
    values: list[Any] = []
    for chunk in _chunks(footer, ".".join(path)):
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return []
        if statistics.null_count:
            values.append(None)
        if statistics.null_count < chunk.num_values:
            if not statistics.has_min_max:  # because of a NaN, or of very long values
                return []
            values += [bound_value(statistics.min_raw, kind), bound_value(statistics.max_raw, kind)]
    return values


def _chunks(footer: pq.FileMetaData, path: str) -> list[Any]:
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    columns = [group.column(position) for group in groups for position in range(group.num_columns)]
    return [column for column in columns if column.path_in_schema == path]


def _first_value(driver: Driver, key: str, path: tuple[str, ...]) -> Any:
    data = driver.get(key)
    assert data is not None, key
    first, *rest = path
    file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
    column = file.read(columns=[".".join(path)], use_threads=False).column(first)
    value = column[0].as_py()
    for part in rest:
        value = None if value is None else value[part]
    return physical(value)
