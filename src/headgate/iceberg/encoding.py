"""How rows become Parquet: codec, row groups, and in which form columns are written.

Arrow gives every column a dictionary, until it is a mebibyte long: up to 128 Ki keys or moments that are all
different are written there first, and then their numbers. Here the rows decide. What repeats gets a
dictionary; other whole numbers and moments are told by what each differs from the one before
(DELTA_BINARY_PACKED), which is shorter than what a codec makes of them and takes a fraction of its time to
write and to read; the rest is plain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate.core.settings import DELTAS
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
"""The share of different values from which on a dictionary does not pay: it would be about as long as the
values themselves, and cost a second page to write and to read."""
HARDLY_REPEATING = 0.9
"""The share in a sample from which on more rows are not looked at: there it will be too high, too."""
DICTIONARY_BYTES = 1024 * 1024
"""Where Arrow gives a dictionary up, in the middle of a row group."""
DELTA_BLOCK_ROWS = 128
"""Differences that Arrow packs with one smallest value."""
MOST_DELTA_BITS = 0.75
"""The share of the bits of a value from which on its difference is hardly shorter than what a codec makes of
the value."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a table wants its files to be encoded. It travels to the workers of Spark."""

    codec: str = COMPRESSION
    """As Arrow calls it."""
    deltas: bool = True

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Encoding:
        """What the properties of a table ask for."""
        given = properties.get(CODEC, COMPRESSION).lower()
        codec = _OTHER_NAMES.get(given, given)
        if codec not in _CODECS:
            raise InvalidInputError(f"{CODEC} is {given!r}", f"set it to one of {', '.join(_CODECS)}")
        return cls(codec, DELTAS.is_on(properties))


USUAL = Encoding()


def encode_parquet(rows: pa.Table, encoding: Encoding = USUAL) -> bytes:
    """The bytes of a Parquet file; field ids are those in the metadata of the Arrow schema."""
    # Arrow's own buffers, here and for reading: a Python file can be let go by a thread of Arrow's while the
    # process ends, which aborts it.
    out = pa.BufferOutputStream()
    with _writer(out, rows, encoding, nulls=_columns_with_nulls(rows)) as writer:
        writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
    return bytes(out.getvalue())


def parquet_writer(out: Any, first: pa.Table, encoding: Encoding = USUAL) -> pq.ParquetWriter:
    """A writer for rows of which `first` are the first, and tell what the others are like."""
    return _writer(out, first, encoding, nulls={field.name for field in first.schema if field.nullable})


def _writer(out: Any, rows: pa.Table, encoding: Encoding, nulls: set[str]) -> pq.ParquetWriter:
    """`nulls`: the columns that can have some. They get no differences: Iceberg on Spark before 1.12 fails
    on a page of them that has nothing but nulls."""
    repeating = dictionaries(rows)
    packed = set[str]() if not encoding.deltas else delta_columns(rows) - nulls - set(repeating)
    return pq.ParquetWriter(
        out,
        rows.schema,
        compression=encoding.codec,
        use_dictionary=repeating,
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED") or None,
    )


def _columns_with_nulls(rows: pa.Table) -> set[str]:
    return {name for name, column in zip(rows.column_names, rows.columns, strict=True) if column.null_count}


# --- dictionaries -------------------------------------------------------------------------------------------


def dictionaries(rows: pa.Table) -> list[str]:
    """The columns, by their paths in the file, whose values repeat within a row group."""
    return [
        path
        for number, field in enumerate(rows.schema)
        if pa.types.is_nested(field.type) or _repeats(rows.column(number))
        for path in _leaves(field.name, field.type)
    ]


def _repeats(column: pa.ChunkedArray) -> bool:
    if isinstance(column.type, pa.BaseExtensionType):  # a UUID
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    sample = _sampled(column, SAMPLED_ROWS)
    try:
        distinct = _distinct(sample)
        if distinct <= MOST_DISTINCT * len(sample):
            return True
        if len(sample) == len(column) or distinct > HARDLY_REPEATING * len(sample):
            return False
        # Values that seldom meet themselves in a sample may do so in a row group.
        group = _sampled(column, ROW_GROUP_ROWS)
        distinct = _distinct(group)
    except pa.ArrowNotImplementedError:  # a type whose values Arrow does not compare
        return True
    short = distinct * group.nbytes / len(group) <= DICTIONARY_BYTES
    return short and distinct <= MOST_DISTINCT * len(group)


def _distinct(column: pa.ChunkedArray) -> int:
    return int(pc.count_distinct(column, mode="all").as_py())


def _sampled(column: pa.ChunkedArray, rows: int) -> pa.ChunkedArray:
    """So many of the values, in runs from all over: the first ones may be unlike the rest."""
    if len(column) <= rows:
        return column
    length = rows // SAMPLES
    step = (len(column) - length) // (SAMPLES - 1)
    runs = [column.slice(number * step, length) for number in range(SAMPLES)]
    return pa.chunked_array([chunk for run in runs for chunk in run.chunks], column.type)


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


# --- differences --------------------------------------------------------------------------------------------


def delta_columns(rows: pa.Table) -> set[str]:
    """The columns of whole numbers and moments whose differences are short."""
    return {
        field.name
        for number, field in enumerate(rows.schema)
        if _is_whole_number(field.type) and _has_short_differences(rows.column(number))
    }


def _is_whole_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_time64(kind)
    )


def _has_short_differences(column: pa.ChunkedArray) -> bool:
    bits = column.type.bit_width
    sample = _sampled(column.drop_null(), SAMPLED_ROWS)
    numbers = sample.cast(pa.int64() if bits == 64 else pa.int32()).to_numpy()
    # As Arrow computes them: what overflows comes round again.
    differences = np.diff(numbers)
    whole = len(differences) // DELTA_BLOCK_ROWS * DELTA_BLOCK_ROWS
    if not whole:
        return False
    blocks = differences[:whole].reshape(-1, DELTA_BLOCK_ROWS).astype(np.float64)
    ranges = blocks.max(axis=1) - blocks.min(axis=1)
    return bool(np.log2(ranges + 1).mean() <= MOST_DELTA_BITS * bits)
