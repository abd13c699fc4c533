"""Between which numbers the columns of a block of entries lie, as the header of a manifest tells it.

A block is passed over if its bounds exclude a predicate, and its entries need not be decoded. Only columns
whose values are whole numbers (moments and dates among them): their bounds are exact, and eight bytes long.
"""

from __future__ import annotations

import base64
import json
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IcebergType, IntegerType, LongType, TimestampType, TimestamptzType

from headgate.iceberg.data_file import ColumnMetrics

Range: TypeAlias = tuple[int, int]
"""The least and the greatest value."""
Ranges: TypeAlias = Mapping[int, Range]
"""By column, as far as they are known."""

NUMBERED: tuple[type[IcebergType], ...] = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)
"""Types whose values, and bounds, are whole numbers."""
ANYTHING: Range = (-(2**63), 2**63 - 1)
"""Of a column that a file says nothing of: excludes nothing."""
MOST_COLUMNS = 32
"""How many columns a header tells of, so that it stays short: the first ones of the schema."""


def told_columns(schema: Schema) -> tuple[int, ...]:
    """The columns of a table that blocks have bounds of."""
    fields = schema._lazy_id_to_field
    numbered = (number for number, field in fields.items() if isinstance(field.field_type, NUMBERED))
    return tuple(islice(numbered, MOST_COLUMNS))


def range_of(metrics: ColumnMetrics, column: int) -> Range | None:
    """Between which numbers a column of a file lies; None if the file does not say so.

    Bounds have four bytes in place of eight if the file is older than the widening of its column.
    """
    lower, upper = metrics.lower.get(column), metrics.upper.get(column)
    if lower is None or upper is None or len(lower) not in (4, 8) or len(upper) not in (4, 8):
        return None
    return int.from_bytes(lower, "little", signed=True), int.from_bytes(upper, "little", signed=True)


def ranges_of(metrics: ColumnMetrics, columns: Iterable[int]) -> Ranges:
    """The same of several columns."""
    found = ((column, range_of(metrics, column)) for column in columns)
    return {column: known for column, known in found if known is not None}


def around(parts: Sequence[Ranges]) -> Ranges:
    """Between which numbers the columns of all parts lie: those that every part knows."""
    first, *others = parts
    if not others:
        return first
    return {
        column: (min(part[column][0] for part in parts), max(part[column][1] for part in parts))
        for column in first
        if all(column in part for part in others)
    }


@dataclass(frozen=True, slots=True)
class BlockBounds:
    """The bounds of all blocks of a manifest, by column: first the least of each block, then the greatest."""

    count: int
    by_column: Mapping[int, array[int]]

    @classmethod
    def of(cls, blocks: Sequence[Ranges], columns: Iterable[int]) -> BlockBounds:
        """Of blocks whose bounds are known; columns that no block knows are left out."""
        told = [column for column in columns if any(column in block for block in blocks)]
        return cls(len(blocks), {column: _bounds_of(column, blocks) for column in told})

    def range(self, block: int, column: int) -> Range | None:
        """Between which numbers a column lies in a block; None if that is not known."""
        bounds = self.by_column.get(column)
        return None if bounds is None else (bounds[block], bounds[self.count + block])

    def ranges(self, block: int) -> Ranges:
        """The same of all columns."""
        return {
            column: (bounds[block], bounds[self.count + block]) for column, bounds in self.by_column.items()
        }

    def to_text(self) -> str:
        """For a header: JSON, in it the numbers of each column in base64."""
        told = {str(column): _encoded(bounds) for column, bounds in self.by_column.items()}
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str, count: int) -> BlockBounds:
        """Of a header of so many blocks; `ValueError` if it does not tell of so many."""
        match json.loads(text):
            case dict() as told:
                known = {int(column): _decoded(str(bounds)) for column, bounds in told.items()}
            case _:
                raise ValueError("its header does not tell the bounds of blocks by column")
        if any(len(bounds) != 2 * count for bounds in known.values()):
            raise ValueError("it has not the blocks whose bounds its header tells")
        return cls(count, known)


def _bounds_of(column: int, blocks: Sequence[Ranges]) -> array[int]:
    ranges = [block.get(column, ANYTHING) for block in blocks]
    return array("q", [*(low for low, _ in ranges), *(high for _, high in ranges)])


def _encoded(bounds: array[int]) -> str:
    return base64.b64encode(_little_endian(bounds).tobytes()).decode()


def _decoded(text: str) -> array[int]:
    bounds = array("q")
    bounds.frombytes(base64.b64decode(text, validate=True))
    return _little_endian(bounds)


def _little_endian(bounds: array[int]) -> array[int]:
    if sys.byteorder == "little":
        return bounds
    swapped = bounds[:]
    swapped.byteswap()
    return swapped
