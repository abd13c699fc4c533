"""Z-order: one number per row, such that rows with close numbers are close in several columns at once.

Each value is replaced by the number of its range, in ranges that contain about equally many rows, and the
bits of these numbers are interleaved. The values themselves would not do: a column whose values differ in
their upper bits would dominate. Pure functions on Arrow and numpy, the same here and in workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.iceberg.schema.arrow import is_bytes

Numbers: TypeAlias = npt.NDArray[np.uint64]

RANK_BITS = 10
RANGES = 2**RANK_BITS
"""The maximum number of ranges per column: many more than the number of files for one path."""
ALL_BITS = 63
"""An interleaved number has 64 bits with a sign, like Spark's."""
MAX_COLUMNS = 8
"""With more columns, each has so few bits that rows are close in none of them."""
KEY_BYTES = 8
_SIGN = np.uint64(1 << 63)
_LAST = np.uint64(2**64 - 1)
_WHOLE_DIGITS = 18
"""Decimals with up to this many digits are exact as 64 bits."""
_DECIMAL_BYTES = 16


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranges of one column: where each but the first begins. `prefix` is that of all its strings."""

    starts: tuple[int, ...]
    prefix: bytes = b""

    @classmethod
    def of(cls, sample: Any) -> Ranking:
        """Ranges that contain about equally many values of the sample; fewer ranges if it repeats values."""
        values = _one_array(sample).drop_null()
        prefix = _common_prefix(values)
        found = np.sort(keys(values, prefix))
        if not len(found):
            return cls((), prefix)
        places = np.linspace(0, len(found), RANGES - 1, endpoint=False).astype(np.int64)
        starts = np.unique(found[places])
        return cls(tuple(int(start) for start in starts[1:]), prefix)

    def ranks(self, values: Any) -> Numbers:
        """For each value the number of its range, ascending with the values; null is 0, below all others."""
        array = _one_array(values)
        starts = np.array(self.starts, np.uint64)
        found = np.searchsorted(starts, keys(array, self.prefix), side="right").astype(np.uint64) + np.uint64(
            1
        )
        # Spread over all bits: a column with few values should count as much as the others.
        spread = found * np.uint64(RANGES - 1) // np.uint64(len(starts) + 1)
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        return np.where(valid, spread, np.uint64(0))


def zorder(columns: Sequence[Any], rankings: Sequence[Ranking]) -> pa.Array:
    """The number of each row, from the values of its columns; monotonic in each column."""
    ranks = [ranking.ranks(column) for column, ranking in zip(columns, rankings, strict=True)]
    bits = min(RANK_BITS, ALL_BITS // len(ranks))
    coarse = [rank >> np.uint64(RANK_BITS - bits) for rank in ranks]
    return pa.array(interleaved(coarse, bits).astype(np.int64))


def interleaved(numbers: Sequence[Numbers], bits: int) -> Numbers:
    """The lowest `bits` of each number, bit by bit in turn, the highest of the first number first."""
    assert bits * len(numbers) <= 64, (bits, len(numbers))
    result = np.zeros(len(numbers[0]), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for number in numbers:
            result = (result << np.uint64(1)) | ((number >> np.uint64(bit)) & np.uint64(1))
    return result


# --- values as numbers ------------------------------------------------------------------------------------


def keys(values: Any, prefix: bytes = b"") -> Numbers:
    """Numbers that ascend with the values; different values may share a number. For null it is undefined.

    For strings and bytes, those after `prefix` count; values without this prefix are below or above all
    others.
    """
    array = _one_array(values)
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return keys(array.storage, prefix)
    if is_bytes(kind):
        return _byte_keys(array, prefix)
    if pa.types.is_decimal(kind):
        return keys(_decimal_numbers(array))
    if pa.types.is_floating(kind):
        return _float_keys(pc.fill_null(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False))
    return _integer_keys(pc.fill_null(_integers(array), 0).to_numpy(zero_copy_only=False))


def _integer_keys(numbers: Any) -> Numbers:
    return np.asarray(numbers, np.int64).view(np.uint64) ^ _SIGN


def _float_keys(numbers: Any) -> Numbers:
    """In Iceberg's order: NaN is above all numbers, and both zeros are equal."""
    plain = np.where(np.isnan(numbers), np.nan, numbers + 0.0)
    bits = np.ascontiguousarray(plain, np.float64).view(np.uint64)
    ordered = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return np.where(np.isnan(numbers), _LAST, ordered)


def _integers(array: Any) -> Any:
    kind = array.type
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8()).cast(pa.int64())
    if pa.types.is_temporal(kind) and kind.bit_width == 32:
        return array.cast(pa.int32()).cast(pa.int64())
    return array.cast(pa.int64())


def _decimal_numbers(array: Any) -> Any:
    kind = array.type
    if kind.precision > _WHOLE_DIGITS:
        return array.cast(pa.float64())  # rounding preserves the order
    if kind.byte_width != _DECIMAL_BYTES:
        array = array.cast(pa.decimal128(kind.precision, kind.scale))
    # The digits without the decimal point, as an integer: the lower half of the 16 bytes contains all of
    # them.
    halves = np.frombuffer(array.buffers()[1] or b"", "<i8")[::2]
    return pa.array(halves[array.offset : array.offset + len(array)], pa.int64())


def _byte_keys(array: Any, prefix: bytes) -> Numbers:
    whole = pc.fill_null(array.cast(pa.large_binary()), b"")
    found = _bytes_from(whole, len(prefix))
    if not prefix:
        return found
    begins = pc.starts_with(whole, pattern=prefix).to_numpy(zero_copy_only=False)
    below = pc.less(whole, pa.scalar(prefix, whole.type)).to_numpy(zero_copy_only=False)
    return np.where(begins, found, np.where(below, np.uint64(0), _LAST))


def _bytes_from(array: Any, skipped: int) -> Numbers:
    """The bytes of each value after the first `skipped` ones, as a number; padded with zeros."""
    if not len(array):
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    result = np.zeros(len(array), np.uint64)
    for place in range(skipped, skipped + KEY_BYTES):
        at = offsets[:-1] + place
        inside = at < offsets[1:]
        byte = np.zeros(len(array), np.uint64)
        byte[inside] = data[at[inside]]
        result = (result << np.uint64(8)) | byte
    return result


def _common_prefix(values: Any) -> bytes:
    """The prefix that all strings or bytes of a sample share."""
    if isinstance(values, pa.ExtensionArray):
        return _common_prefix(values.storage)
    if not is_bytes(values.type) or not len(values):
        return b""
    ends = pc.min_max(values.cast(pa.large_binary())).as_py()
    low, high = ends["min"], ends["max"]
    same = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return bytes(low[:same])


def _one_array(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
