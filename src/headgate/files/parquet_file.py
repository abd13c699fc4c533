"""Parquet files that other programs wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.errors import InvalidInputError
from headgate.files.source import OnBytes, SourceFile
from headgate.iceberg.schema.arrow import signed

BATCH_ROWS = 64 * 1024


def infer_schema(source: SourceFile) -> pa.Schema:
    """The columns of a file according to its footer, without the field ids of the table that it came from."""
    with _open(source) as file:
        return pa.schema([pa.field(f.name, _without_ids(f.type), f.nullable) for f in file.schema_arrow])


def batches(source: SourceFile, on_bytes: OnBytes) -> Iterator[pa.Table]:
    """The rows of a file."""
    told = 0
    with _open(source) as file:
        rows, total = 0, file.metadata.num_rows
        try:
            for batch in file.iter_batches(BATCH_ROWS):
                yield pa.Table.from_batches([batch])
                rows += batch.num_rows
                reached = source.size_bytes * rows // total
                on_bytes(reached - told)
                told = reached
        except (pa.ArrowInvalid, OSError) as error:
            raise InvalidInputError(f"{source} cannot be read: {error}") from error
    on_bytes(source.size_bytes - told)


def _open(source: SourceFile) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(source.path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInputError(
            f"{source} is not a Parquet file: {error}", "replace the file, or pass its format with --format"
        ) from error


def _without_ids(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _without_ids(f.type), f.nullable) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(_without_ids(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_without_ids(kind.key_type), _without_ids(kind.item_type))
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return signed(kind)
