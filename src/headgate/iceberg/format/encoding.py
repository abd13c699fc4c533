"""How rows are encoded as Parquet: codec, row groups, and the encoding of columns.

Arrow gives every column a dictionary, until the dictionary has one mebibyte. Of keys or timestamps that are
all different, up to 128 Ki values are first written to a dictionary, followed by their indexes. Here the rows
decide: values that repeat get a dictionary, and the rest is plain. A table can ask for delta encoding
(`write.parquet.delta-encoding`): integers and timestamps that are close to each other are then stored as
differences from the previous value (DELTA_BINARY_PACKED). That is shorter than what a codec makes of them,
and takes a fraction of the time to write and to read. Not every reader supports it, so it is off by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf, log2
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate.core.input.settings import DELTAS
from headgate.errors import InvalidInputError

COMPRESSION = "zstd"
CODEC = "write.parquet.compression-codec"
"""The table property that selects another codec; Spark uses the same."""
_OTHER_NAMES = {"uncompressed": "none", "lz4_raw": "lz4"}
_CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
ROW_GROUP_ROWS = 256 * 1024
"""Readers skip whole groups. Smaller groups would let them skip more, but cost more for full reads."""
SAMPLED_ROWS = 64 * 1024
SAMPLES = 16
MOST_DISTINCT = 0.5
"""From this share of distinct values on, a dictionary does not pay off: it would be about as long as the
values, and cost a second page to write and to read."""
HARDLY_REPEATING = 0.9
"""From this share of distinct values in a sample on, no more rows are sampled: it will stay too high."""
DICTIONARY_BYTES = 1024 * 1024
"""The size at which Arrow gives up a dictionary, in the middle of a row group."""
DELTA_BLOCK_ROWS = 128
"""The number of differences that Arrow packs with one minimum."""
MOST_DELTA_BITS = 0.75
"""From this share of a value's bits on, its difference is hardly shorter than the compressed value."""
SHORTER_THAN_NUMBERS = 0.5
"""The share of a dictionary index's bits that a difference may need, to be used instead of the dictionary."""


@dataclass(frozen=True, slots=True)
class FileForm:
    """The encoding that a table asks for. It is sent to Spark's workers."""

    codec: str = COMPRESSION
    """Arrow's name of the codec."""
    deltas: bool = False
    """Whether integers may be stored as differences."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> FileForm:
        """The form that the properties of a table ask for."""
        given = properties.get(CODEC, COMPRESSION).lower()
        codec = _OTHER_NAMES.get(given, given)
        if codec not in _CODECS:
            raise InvalidInputError(f"{CODEC} is {given!r}", f"set it to one of {', '.join(_CODECS)}")
        return cls(codec, DELTAS.is_on(properties))


USUAL = FileForm()


def encode_parquet(rows: pa.Table, form: FileForm = USUAL) -> bytes:
    """The bytes of a Parquet file; field ids are taken from the metadata of the Arrow schema."""
    # Arrow's own buffers, for writing and reading: one of Arrow's threads may release a Python file while the
    # process exits, which aborts the process.
    out = pa.BufferOutputStream()
    without_nulls = {field.name for field, column in _columns(rows) if not column.null_count}
    with _writer(out, rows, form, without_nulls) as writer:
        writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
    return bytes(out.getvalue())


def parquet_writer(out: Any, first: pa.Table, form: FileForm = USUAL) -> pq.ParquetWriter:
    """A writer whose encoding is chosen from `first`, the first of its rows."""
    return _writer(out, first, form, {field.name for field in first.schema if not field.nullable})


def _writer(out: Any, rows: pa.Table, form: FileForm, without_nulls: AbstractSet[str]) -> pq.ParquetWriter:
    # Iceberg on Spark before 1.12 fails on a delta-encoded page that contains only nulls.
    choice = column_forms(rows, without_nulls if form.deltas else frozenset())
    return pq.ParquetWriter(
        out,
        rows.schema,
        compression=form.codec,
        use_dictionary=choice.dictionaries,
        column_encoding=dict.fromkeys(choice.differences, "DELTA_BINARY_PACKED") or None,
    )


@dataclass(frozen=True, slots=True)
class ColumnForms:
    """The columns that are not plain-encoded, by their paths in the file."""

    dictionaries: list[str]
    differences: list[str]


def column_forms(rows: pa.Table, may_differ: AbstractSet[str] = frozenset()) -> ColumnForms:
    """The encoding of columns, chosen from a sample. Only columns in `may_differ` can be delta-encoded."""
    choice = ColumnForms([], [])
    for field, column in _columns(rows):
        if pa.types.is_nested(field.type):
            choice.dictionaries.extend(_leaves(field.name, field.type))
            continue
        repetition = _repetition(column)
        number_bits = repetition.number_bits if repetition.pays else inf
        if field.name in may_differ and _is_whole_number(field.type):
            longest = min(MOST_DELTA_BITS * field.type.bit_width, SHORTER_THAN_NUMBERS * number_bits)
            if _difference_bits(column) <= longest:
                choice.differences.append(field.name)
                continue
        if repetition.pays:
            choice.dictionaries.append(field.name)
    return choice


def _columns(rows: pa.Table) -> Iterator[tuple[pa.Field, pa.ChunkedArray]]:
    return zip(rows.schema, rows.columns, strict=True)


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths of the primitive columns inside a column, in Parquet's form."""
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


def _sampled(column: pa.ChunkedArray, rows: int) -> pa.ChunkedArray:
    """This many of the values, in runs from the whole column: the first ones may not be typical."""
    if len(column) <= rows:
        return column
    length = rows // SAMPLES
    step = (len(column) - length) // (SAMPLES - 1)
    runs = [column.slice(number * step, length) for number in range(SAMPLES)]
    return pa.chunked_array([chunk for run in runs for chunk in run.chunks], column.type)


# --- dictionaries -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Repetition:
    """The number of distinct values in a sample, and the size of their dictionary."""

    values: int
    distinct: int
    value_bytes: float

    @property
    def pays(self) -> bool:
        return self.distinct <= MOST_DISTINCT * self.values

    @property
    def number_bits(self) -> float:
        """The bits per value of its dictionary index, plus its share of the dictionary."""
        in_dictionary = 8 * self.value_bytes * self.distinct / max(1, self.values)
        return log2(max(1, self.distinct)) + in_dictionary


def _repetition(column: pa.ChunkedArray) -> _Repetition:
    if isinstance(column.type, pa.BaseExtensionType):  # a UUID
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    try:
        found = _counted(_sampled(column, SAMPLED_ROWS))
        is_whole = found.values == len(column)
        if is_whole or found.pays or found.distinct > HARDLY_REPEATING * found.values:
            return found
        # Values that seldom repeat in a sample may repeat in a row group.
        in_a_group = _counted(_sampled(column, ROW_GROUP_ROWS))
    except pa.ArrowNotImplementedError:  # a type whose values Arrow does not compare: use Arrow's default
        return _Repetition(len(column), 0, 0)
    is_given_up = in_a_group.distinct * in_a_group.value_bytes > DICTIONARY_BYTES
    return found if is_given_up else in_a_group


def _counted(values: pa.ChunkedArray) -> _Repetition:
    distinct = int(pc.count_distinct(values, mode="all").as_py())
    return _Repetition(len(values), distinct, values.nbytes / max(1, len(values)))


# --- differences --------------------------------------------------------------------------------------------


def _is_whole_number(kind: pa.DataType) -> bool:
    of_time = pa.types.is_date32(kind) or pa.types.is_time64(kind) or pa.types.is_timestamp(kind)
    return bool(of_time or pa.types.is_signed_integer(kind))


def _difference_bits(column: pa.ChunkedArray) -> float:
    """The average bits for differences of values without nulls; too many if there are few values."""
    sample = _sampled(column, SAMPLED_ROWS)
    # As Arrow computes them: overflow wraps around.
    differences = np.diff(sample.cast(pa.int64() if column.type.bit_width == 64 else pa.int32()).to_numpy())
    whole = len(differences) // DELTA_BLOCK_ROWS * DELTA_BLOCK_ROWS
    if not whole:
        return inf
    blocks = differences[:whole].reshape(-1, DELTA_BLOCK_ROWS).astype(np.float64)
    return float(np.log2(blocks.max(axis=1) - blocks.min(axis=1) + 1).mean())
