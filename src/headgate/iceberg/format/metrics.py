"""Column metrics from the footer of a Parquet file, by Iceberg's rules for metrics.

pyiceberg's own implementation is not used. If one row group has bounds and another one has none (because of a
NaN, or a string that is too long for a footer), it uses the bounds of the first for the whole file, so
readers miss rows. It also raises exceptions for dates beyond Python's years, and for strings that are
truncated before the surrogates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DecimalType, PrimitiveType, StringType
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string

from headgate.errors import InvalidInputError
from headgate.iceberg.format.data_file import ColumnMetrics

LAST_CHARACTER = "\U0010ffff"
_BOUNDED = (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL)
_PROPERTY = "write.metadata.metrics"


def column_metrics(footer: pq.FileMetaData, schema: Schema, properties: Mapping[str, str]) -> ColumnMetrics:
    """The metrics of a file with the columns of `schema`; `properties` define how detailed they are."""
    return FooterMetrics(schema, properties).of(footer, range(footer.num_row_groups))


class FooterMetrics:
    """Reads the metrics of files with the columns of `schema` from their footers.

    A count or a bound is included only if every row group has it. Bounds hold for all values that are neither
    null nor NaN.
    """

    def __init__(self, schema: Schema, properties: Mapping[str, str]) -> None:
        self._plan = statistics_plan(schema, properties)
        self._ids = parquet_path_to_id_mapping(schema)

    def of(self, footer: pq.FileMetaData, groups: Iterable[int]) -> ColumnMetrics:
        """The metrics of some row groups."""
        columns: dict[int, _Column] = {}
        for number in groups:
            chunks = footer.row_group(number)
            for position in range(chunks.num_columns):
                chunk = chunks.column(position)
                field_id = self._ids.get(chunk.path_in_schema)
                if field_id is None:
                    continue  # not a column of the table: compacted files have such columns
                columns.setdefault(field_id, _Column(self._plan[field_id])).add(chunk)
        counted = {key: c for key, c in columns.items() if c.plan.mode.type is not MetricModeTypes.NONE}
        return ColumnMetrics(
            sizes={key: column.size for key, column in columns.items()},
            values={key: column.values for key, column in counted.items()},
            nulls={key: column.nulls for key, column in counted.items() if column.nulls is not None},
            lower=_known((key, column.lower()) for key, column in counted.items()),
            upper=_known((key, column.upper()) for key, column in counted.items()),
        )


def statistics_plan(schema: Schema, properties: Mapping[str, str]) -> dict[int, StatisticsCollector]:
    """The level of detail for each column."""
    try:
        return compute_statistics_plan(schema, dict(properties))
    except ValueError as error:
        raise InvalidInputError(
            f"a table property that starts with {_PROPERTY} is invalid: {error}",
            "set it to none, counts, truncate(16) or full",
        ) from error


def split_offsets(footer: pq.FileMetaData) -> tuple[int, ...]:
    """The offsets where the row groups begin."""
    return tuple(sorted(chunk_start(footer.row_group(n).column(0)) for n in range(footer.num_row_groups)))


def chunk_start(chunk: Any) -> int:
    """The offset where a column of a row group begins: with its dictionary, if it has one."""
    data, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    return int(dictionary if chunk.has_dictionary_page and dictionary < data else data)


def bound_value(raw: Any, kind: PrimitiveType) -> Any:
    """A bound from a footer as Iceberg stores values of the type: a date as days, a decimal as a decimal."""
    match kind:
        case DecimalType():
            unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
            digits = tuple(int(digit) for digit in str(abs(unscaled)))
            return Decimal((int(unscaled < 0), digits, -kind.scale))
        case StringType():
            return raw.decode()
    return raw


@dataclass(slots=True)
class _Column:
    """The metrics of one column over row groups. `low` and `high` are None as long as no value is known."""

    plan: StatisticsCollector
    size: int = 0
    values: int = 0
    nulls: int | None = 0
    low: Any = None
    high: Any = None
    bounded: bool = field(init=False)

    def __post_init__(self) -> None:
        self.bounded = self.plan.mode.type in _BOUNDED

    def add(self, chunk: Any) -> None:
        self.size += chunk.total_compressed_size
        self.values += chunk.num_values
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is None or not statistics.has_null_count:
            self.nulls, self.bounded = None, False
            return
        if self.nulls is not None:
            self.nulls += statistics.null_count
        if self.bounded and statistics.null_count < chunk.num_values:
            self._widen(statistics)

    def _widen(self, statistics: Any) -> None:
        if not statistics.has_min_max:
            self.bounded = False
            return
        kind = self.plan.iceberg_type
        try:
            low, high = bound_value(statistics.min_raw, kind), bound_value(statistics.max_raw, kind)
        except UnicodeDecodeError:  # Spark allows any bytes in a string
            self.bounded = False
            return
        if low != low or high != high:  # Spark's writer sets this for a row group with a NaN
            self.bounded = False
            return
        self.low = low if self.low is None else min(low, self.low)
        self.high = high if self.high is None else max(high, self.high)

    def lower(self) -> bytes | None:
        if not self.bounded or self.low is None:
            return None
        kind, width = self.plan.iceberg_type, self.plan.mode.length
        cut = isinstance(kind, StringType | BinaryType) and width is not None
        return to_bytes(kind, self.low[:width] if cut else self.low)

    def upper(self) -> bytes | None:
        if not self.bounded or self.high is None:
            return None
        kind, width = self.plan.iceberg_type, self.plan.mode.length
        high = self.high
        match kind:
            case StringType():
                high = _cut_above(high, width)
            case BinaryType():
                high = truncate_upper_bound_binary_string(high, width)
        return None if high is None else to_bytes(kind, high)


def _cut_above(text: str, width: int | None) -> str | None:
    """A string of at most `width` characters that is not less than `text`; None if there is none."""
    if width is None or len(text) <= width:
        return text
    return after_prefix(text[:width])


def after_prefix(prefix: str) -> str | None:
    """The first string, by code points, above all that start with `prefix`; None if there is none."""
    cut = prefix.rstrip(LAST_CHARACTER)
    if not cut:
        return None
    code = ord(cut[-1]) + 1
    return cut[:-1] + chr(0xE000 if code == 0xD800 else code)  # surrogates are not characters


def _known(bounds: Iterable[tuple[int, bytes | None]]) -> dict[int, bytes]:
    return {key: bound for key, bound in bounds if bound is not None}
