"""The content of rows, in any order and in any files: the number of rows, and the sum of their hashes.

Two Arrow tables with the same schema and the same rows have the same content. If a row is lost, duplicated or
changed in any column, the content differs, except with a chance of one in 2^64. Values are hashed as they are
stored: 0.0 and −0.0 differ, all NaN are equal, and null equals no value. Only the columns of the table count,
by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.iceberg.scan.engine import Content
from headgate.iceberg.schema.arrow import as_numbers, is_bytes

Hashes: TypeAlias = npt.NDArray[np.uint64]

BATCH_BYTES = 8 * 1024 * 1024
"""How much is hashed at once: a byte of text needs about twenty bytes of memory meanwhile."""
MODULUS = 2**64

_NULL = np.uint64(0x9E3779B97F4A7C15)
_LENGTH = np.uint64(0xD6E8FEB86659FD93)


def content_of(rows: pa.Table) -> Content:
    """The content of a table."""
    return total(Content(len(batch), _sum(_rows(batch))) for batch in _batches(rows))


def total(parts: Iterable[Content]) -> Content:
    """The content of all parts together."""
    rows = summed = 0
    for part in parts:
        rows += part.rows
        summed = (summed + part.hash) % MODULUS
    return Content(rows, summed)


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows in batches of limited size; a single row is never split."""
    if not rows.num_rows:
        return
    step = max(1, int(rows.num_rows * BATCH_BYTES / max(rows.nbytes, 1)))
    yield from rows.to_batches(max_chunksize=min(step, rows.num_rows))


def _rows(batch: pa.RecordBatch) -> Hashes:
    found = np.full(len(batch), _LENGTH, np.uint64)
    for column in batch.columns:
        found = _mixed(found * np.uint64(3) + _values(column))
    return found


def _sum(hashes: Hashes) -> int:
    return int(np.add.reduce(hashes, dtype=np.uint64)) if len(hashes) else 0


def _values(array: Any) -> Hashes:
    """A hash of each value; null has a hash of its own."""
    if isinstance(array, pa.ExtensionArray):
        return _values(array.storage)
    if pa.types.is_dictionary(array.type):
        return _values(array.dictionary_decode())
    if pa.types.is_null(array.type):
        return np.full(len(array), _NULL, np.uint64)
    hashes = _present(array)
    if array.null_count:
        hashes = np.where(_numpy(pc.is_null(array)), _NULL, hashes)
    return hashes


def _present(array: Any) -> Hashes:
    """The same; undefined where there is no value."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(array)
    if pa.types.is_decimal(kind):
        return _decimals(array)
    if is_bytes(kind):
        return _bytes(array.cast(pa.large_binary()))
    return _mixed(_numbers(array))


def _numbers(array: Any) -> Hashes:
    """Numbers, booleans, dates and times, by their bits."""
    plain = as_numbers(array)
    if plain.null_count:
        plain = plain.fill_null(False if pa.types.is_boolean(plain.type) else 0)
    values = _numpy(plain)
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        wide[np.isnan(wide)] = np.nan
        return wide.view(np.uint64)
    return values.astype(np.int64).view(np.uint64)


def _decimals(array: Any) -> Hashes:
    wide = array.cast(pa.decimal128(38, array.type.scale))
    words = np.frombuffer(wide.buffers()[1], np.uint64)[2 * wide.offset : 2 * (wide.offset + len(wide))]
    return _mixed(_mixed(words[0::2].copy()) + words[1::2])


def _bytes(array: Any) -> Hashes:
    """Each byte is weighted by its position, so that swapped bytes are noticed."""
    offsets, data = _offsets(array), array.buffers()[2]
    start, end = int(offsets[0]), int(offsets[-1])
    stored = np.frombuffer(data, np.uint8)[start:end] if data is not None and end > start else _NO_BYTES
    return _sequences(stored.astype(np.uint64) + np.uint64(1), offsets)


_NO_BYTES = np.zeros(0, np.uint8)


def _lists(array: Any) -> Hashes:
    return _sequences(_values(_inside(array, array.values)), _offsets(array))


def _maps(array: Any) -> Hashes:
    # The entries of a map have no order.
    keys, items = _values(_inside(array, array.keys)), _values(_inside(array, array.items))
    offsets = _offsets(array)
    return _mixed(_sums(_mixed(_mixed(keys) + items), offsets) + _lengths(offsets))


def _structs(array: Any) -> Hashes:
    found = np.full(len(array), _LENGTH, np.uint64)
    for number in range(array.type.num_fields):
        found = _mixed(found * np.uint64(3) + _values(array.field(number)))
    return found


def _inside(array: Any, values: Any) -> Any:
    """The values inside the lists or maps of an array, without those outside of a slice."""
    offsets = _offsets(array)
    return values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _offsets(array: Any) -> npt.NDArray[np.int64]:
    wide = np.int32 if pa.types.is_list(array.type) or pa.types.is_map(array.type) else np.int64
    if not len(array):
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(array.buffers()[1], wide)[array.offset : array.offset + len(array) + 1]
    return offsets.astype(np.int64)


def _sequences(parts: Hashes, offsets: npt.NDArray[np.int64]) -> Hashes:
    """A hash of each run of parts that depends on their order."""
    lengths = np.diff(offsets)
    places = np.arange(len(parts), dtype=np.int64) - np.repeat(offsets[:-1] - offsets[0], lengths)
    weighed = parts * (_mixed(places.view(np.uint64)) | np.uint64(1))
    return _mixed(_sums(weighed, offsets) + _lengths(offsets))


def _sums(parts: Hashes, offsets: npt.NDArray[np.int64]) -> Hashes:
    """The sum of each run of parts."""
    running = np.zeros(len(parts) + 1, np.uint64)
    np.cumsum(parts, out=running[1:])
    begins = offsets - offsets[0]
    sums: Hashes = running[begins[1:]] - running[begins[:-1]]
    return sums


def _lengths(offsets: npt.NDArray[np.int64]) -> Hashes:
    return np.diff(offsets).view(np.uint64) * _LENGTH


def _mixed(values: Hashes) -> Hashes:
    """Spreads every bit of a number over all of it (the last steps of SplitMix64)."""
    values = values + _NULL
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _numpy(array: Any) -> npt.NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False))
