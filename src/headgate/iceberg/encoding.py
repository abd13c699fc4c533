"""How rows become Parquet: codec, row groups, and which columns get dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate.errors import InvalidInputError

COMPRESSION = "zstd"
CODEC = "write.parquet.compression-codec"
"""The property of a table that names another one, as Spark does."""
_OTHER_NAMES = {"uncompressed": "none", "lz4_raw": "lz4"}
_CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
ROW_GROUP_ROWS = 256 * 1024
"""A reader passes over whole groups. Smaller ones would let it pass over more, and cost more to read all."""
SAMPLED_ROWS = 64 * 1024
SAMPLES = 16
MOST_DISTINCT = 0.5
"""The share of different values in a sample from which on a dictionary does not pay: it would be about as
long as the values themselves, and cost a second page to write and to read."""


def arrow_codec(properties: Mapping[str, str]) -> str:
    """The codec that a table asks for, as Arrow calls it."""
    given = properties.get(CODEC, COMPRESSION).lower()
    name = _OTHER_NAMES.get(given, given)
    if name not in _CODECS:
        raise InvalidInputError(f"{CODEC} is {given!r}", f"set it to one of {', '.join(_CODECS)}")
    return name


def encode_parquet(rows: pa.Table, codec: str = COMPRESSION) -> bytes:
    """The bytes of a Parquet file; field ids are those in the metadata of the Arrow schema."""
    # Arrow's own buffers, here and for reading: a Python file can be let go by a thread of Arrow's while the
    # process ends, which aborts it.
    out = pa.BufferOutputStream()
    with parquet_writer(out, rows, codec) as writer:
        writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
    return bytes(out.getvalue())


def parquet_writer(out: Any, first: pa.Table, codec: str = COMPRESSION) -> pq.ParquetWriter:
    """A writer for rows of which `first` are the first, and tell what the others are like."""
    return pq.ParquetWriter(out, first.schema, compression=codec, use_dictionary=dictionaries(first))


def dictionaries(rows: pa.Table) -> list[str]:
    """The columns, by their paths in the file, whose values repeat.

    Arrow gives every column a dictionary, until it is a mebibyte long: up to 128 Ki keys or moments that are
    all different are written there first, and then their numbers.
    """
    sample = _sampled(rows)
    return [
        path
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if pa.types.is_nested(field.type) or _repeats(column)
        for path in _leaves(field.name, field.type)
    ]


def _sampled(rows: pa.Table) -> pa.Table:
    """Some of the rows, from all over: the first ones may be unlike the rest."""
    if rows.num_rows <= SAMPLED_ROWS:
        return rows
    length = SAMPLED_ROWS // SAMPLES
    step = (rows.num_rows - length) // (SAMPLES - 1)
    return pa.concat_tables(rows.slice(number * step, length) for number in range(SAMPLES))


def _repeats(column: pa.ChunkedArray) -> bool:
    if isinstance(column.type, pa.BaseExtensionType):  # a UUID
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    try:
        return bool(pc.count_distinct(column, mode="all").as_py() <= MOST_DISTINCT * len(column))
    except pa.ArrowNotImplementedError:  # a type whose values Arrow does not compare
        return True


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths of what lies inside of a column, as Parquet names them."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_nested(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path
