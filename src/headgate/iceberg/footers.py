"""Data files that another program wrote, as their Parquet footers describe them."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.types import PrimitiveType

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError, InternalError, StorageError
from headgate.iceberg.arrow import data_file, out_of_years, require_partition
from headgate.iceberg.avro import physical
from headgate.iceberg.bound import partition_key
from headgate.iceberg.data_file import DataFile, Partition
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.metrics import bound_value
from headgate.iceberg.partitions import path_to
from headgate.storage.capabilities import Tail

FIRST_READ_BYTES = 64 * 1024
"""Enough for the footer of most files; a longer one takes a second request."""
_ENDING = struct.Struct("<I4s")
_MAGIC = b"PAR1"


def described(driver: Driver, metadata: TableMetadata, key: str, uri: str) -> DataFile | None:
    """The data file at `key`, with its metrics and the partition of its rows; None if it has no rows.

    Only the footer is read, unless the partition cannot be told from it. The bounds in the footer must be
    values of the file, not cut ones.
    """
    tail = _tail(driver, key)
    footer = _footer(tail, uri)
    if footer.num_rows == 0:
        return None
    partition = _partition(driver, metadata, key, footer)
    require_partition(partition, metadata)
    return data_file(uri, tail.object_bytes, footer, partition, metadata)


def described_in(
    driver: Driver, metadata: TableMetadata, key: str, uri: str, like: DataFile
) -> DataFile | None:
    """The same for a file that is known to be in the spec and partition of `like`; in no known order."""
    tail = _tail(driver, key)
    footer = _footer(tail, uri)
    if footer.num_rows == 0:
        return None
    file = data_file(uri, tail.object_bytes, footer, like.partition, metadata)
    return replace(file, spec_id=like.spec_id, sort_order_id=None)


def row_count(driver: Driver, key: str, uri: str) -> int:
    """How many rows the footer of a Parquet file says it has. `CorruptLakeError` if it is no such file."""
    return int(_footer(_tail(driver, key), uri).num_rows)


def _tail(driver: Driver, key: str) -> Tail:
    tail = driver.tail(key, FIRST_READ_BYTES)
    if tail is not None and (needed := _footer_bytes(tail)) > len(tail.data):
        tail = driver.tail(key, needed)
    if tail is None:
        raise StorageError(f"{key} was written, but storage does not show it")
    return tail


def _footer_bytes(tail: Tail) -> int:
    """How many bytes at the end of the file hold its footer."""
    if len(tail.data) < _ENDING.size:
        return len(tail.data)
    length, magic = _ENDING.unpack(tail.data[-_ENDING.size :])
    return length + _ENDING.size if magic == _MAGIC else len(tail.data)


def _footer(tail: Tail, uri: str) -> pq.FileMetaData:
    try:
        return pq.read_metadata(pa.BufferReader(tail.data))
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptLakeError(f"{uri} is not a Parquet file: {error}") from error


def _partition(driver: Driver, metadata: TableMetadata, key: str, footer: pq.FileMetaData) -> Partition:
    """The partition of a file whose rows were separated by it: that of any row."""
    values = []
    for field in metadata.spec.fields:
        kind = metadata.schema.find_type(field.source_id)
        assert isinstance(kind, PrimitiveType)
        transform = field.transform.transform(kind)
        path = path_to(metadata.schema, field.source_id)
        samples = _bounds(footer, path, kind)
        try:
            found = [transform(sample) for sample in samples or [_first_value(driver, key, path)]]
        except OverflowError as error:  # Python has no such date
            raise out_of_years(field.name) from error
        # By key, since NaN is not equal to itself.
        if len({partition_key((value,)) for value in found}) != 1:
            raise InternalError(f"{key} holds rows of more than one partition of {field.name}: {found}")
        values.append(found[0])
    return tuple(values)


def _bounds(footer: pq.FileMetaData, path: tuple[str, ...], kind: PrimitiveType) -> list[Any]:
    """Values of a column that certainly occur in the file; empty if its footer tells of none."""
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
