"""The smallest and largest values of columns in each block of entries, as listed in the header of a manifest.

A block is skipped if its bounds exclude a predicate, so its entries need not be decoded. Only columns whose
values are integers (including timestamps and dates) have bounds: these are exact, and eight bytes long.
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

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import DateType, IcebergType, IntegerType, LongType, TimestampType, TimestamptzType

from headgate.iceberg.format.data_file import ColumnMetrics

Range: TypeAlias = tuple[int, int]
"""The smallest and the largest value."""
Ranges: TypeAlias = Mapping[int, Range]
"""By column, if known."""

NUMBERED: tuple[type[IcebergType], ...] = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)
"""Types whose values and bounds are integers."""
ANYTHING: Range = (-(2**63), 2**63 - 1)
"""The range of a column that a file has no bounds of: it excludes nothing."""
MOST_COLUMNS = 32
"""How many columns a header covers at most, so that it stays short: the first ones of the schema."""

LONGEST_COLUMN, LONGEST_BOUND = 64, 11
"""In the text of a header: of a column, and of each of its bounds, in characters."""


def columns_with_bounds(schema: Schema) -> tuple[int, ...]:
    """The columns of a table that blocks have bounds of."""
    fields = index_by_id(schema)
    numbered = (number for number, field in fields.items() if isinstance(field.field_type, NUMBERED))
    return tuple(islice(numbered, MOST_COLUMNS))


def range_of(metrics: ColumnMetrics, column: int) -> Range | None:
    """The range of a column in a file; None if the file does not contain it.

    Bounds have four bytes instead of eight if the file was written before its column was widened.
    """
    lower, upper = metrics.lower.get(column), metrics.upper.get(column)
    if lower is None or upper is None or len(lower) not in (4, 8) or len(upper) not in (4, 8):
        return None
    return int.from_bytes(lower, "little", signed=True), int.from_bytes(upper, "little", signed=True)


def ranges_of(metrics: ColumnMetrics, columns: Iterable[int]) -> Ranges:
    """The same for several columns."""
    found = ((column, range_of(metrics, column)) for column in columns)
    return {column: known for column, known in found if known is not None}


def around(parts: Sequence[Ranges]) -> Ranges:
    """The ranges that include all parts, for the columns that every part knows."""
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
    """The bounds of all blocks of a manifest, by column: first all lower bounds, then all upper ones."""

    count: int
    by_column: Mapping[int, array[int]]

    @classmethod
    def of(cls, blocks: Sequence[Ranges], columns: Iterable[int]) -> BlockBounds:
        """From blocks whose bounds are known; columns that no block knows are left out."""
        told = [column for column in columns if any(column in block for block in blocks)]
        return cls(len(blocks), {column: _bounds_of(column, blocks) for column in told})

    def range(self, block: int, column: int) -> Range | None:
        """The range of a column in a block; None if it is unknown."""
        bounds = self.by_column.get(column)
        return None if bounds is None else (bounds[block], bounds[self.count + block])

    def ranges(self, block: int) -> Ranges:
        """The same for all columns."""
        return {
            column: (bounds[block], bounds[self.count + block]) for column, bounds in self.by_column.items()
        }

    def to_text(self) -> str:
        """The form for a header: JSON, with the numbers of each column in base64."""
        told = {str(column): _encoded(bounds) for column, bounds in self.by_column.items()}
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str, count: int) -> BlockBounds:
        """From the header of a manifest with `count` blocks; `ValueError` if their number differs."""
        if len(text) > MOST_COLUMNS * (LONGEST_COLUMN + LONGEST_BOUND * 2 * count):
            raise ValueError("its header lists the bounds of more than it has")
        match json.loads(text):
            case dict() as told:
                known = {int(column): _decoded(str(bounds)) for column, bounds in told.items()}
            case _:
                raise ValueError("its header does not list the bounds of blocks by column")
        if any(len(bounds) != 2 * count for bounds in known.values()):
            raise ValueError("its header lists the bounds of other blocks")
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
