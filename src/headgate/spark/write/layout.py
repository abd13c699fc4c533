"""The layout of rows in files: distribution, order, size and compression, from the table's properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headgate.arrow.data_files import target_bytes
from headgate.errors import InvalidInputError
from headgate.iceberg.format.encoding import CODEC, COMPRESSION
from headgate.iceberg.format.metadata import TableMetadata, told_number
from headgate.spark.fitting import quoted
from headgate.spark.write.partitioning import ordering_column

ROWS_PER_FILE_FLOOR = 1000
COMPRESSED_SHARE = 0.5
"""How many bytes of Parquet one byte of Spark's row estimate becomes, if no existing file shows better."""


class Distribution(Enum):
    """How rows are distributed to write tasks: as they come, by partition, or in ranges of the sort order."""

    NONE = "none"
    HASH = "hash"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class WriteLayout:
    """The layout of one write."""

    distribution: Distribution
    order: tuple[Column, ...]
    target_file_bytes: int
    rows_per_file: int
    codec: str

    def distributed(self, df: DataFrame, partition_columns: Sequence[str]) -> DataFrame:
        """`df` with its rows distributed to tasks and sorted as they are to be written."""
        keys = [sf.col(quoted(name)) for name in partition_columns]
        match self.distribution:
            case Distribution.HASH if keys:
                # Spark then combines small partitions and splits those that are too large for a task.
                df = df.hint("rebalance", *keys)
            case Distribution.RANGE if keys or self.order:
                df = df.repartitionByRange(*keys, *self.order)
            case _:
                pass
        return df.sortWithinPartitions(*keys, *self.order) if self.order else df

    def parquet_options(self) -> dict[str, str]:
        """The options for Spark's Parquet writer."""
        return {
            "compression": self.codec,
            "maxRecordsPerFile": str(self.rows_per_file),
            # The partition of a file is computed from the bounds in its footer, so they must not be
            # truncated.
            "parquet.statistics.truncate.length": str(2**31 - 1),
        }


def write_layout(metadata: TableMetadata, df: DataFrame) -> WriteLayout:
    """The layout that the properties of the table ask for, or the default."""
    properties = metadata.properties
    target = target_bytes(properties)
    return WriteLayout(
        distribution=_distribution(metadata),
        order=sort_columns(metadata),
        target_file_bytes=target,
        rows_per_file=max(ROWS_PER_FILE_FLOOR, int(target / _row_bytes(metadata, df))),
        codec=properties.get(CODEC, COMPRESSION),
    )


def sort_columns(metadata: TableMetadata) -> tuple[Column, ...]:
    """The sort order of the table."""
    return in_sort_order(metadata.schema, metadata.sort_order)


def in_sort_order(schema: Schema, order: SortOrder) -> tuple[Column, ...]:
    """The columns that rows are sorted by, for any order."""
    return tuple(_sort_column(schema, field) for field in order.fields)


def _sort_column(schema: Schema, field: SortField) -> Column:
    column = ordering_column(schema, field)
    match field.direction, field.null_order:
        case SortDirection.ASC, NullOrder.NULLS_FIRST:
            return column.asc_nulls_first()
        case SortDirection.ASC, NullOrder.NULLS_LAST:
            return column.asc_nulls_last()
        case SortDirection.DESC, NullOrder.NULLS_FIRST:
            return column.desc_nulls_first()
        case _:
            return column.desc_nulls_last()


def _distribution(metadata: TableMetadata) -> Distribution:
    properties = metadata.properties
    given = properties.get("write.distribution-mode") or properties.get("write.distribution")
    if given is None:
        if metadata.spec.fields:
            return Distribution.HASH
        return Distribution.RANGE if metadata.sort_order.fields else Distribution.NONE
    try:
        return Distribution(given.lower())
    except ValueError:
        known = ", ".join(mode.value for mode in Distribution)
        raise InvalidInputError(
            f"write.distribution-mode must be one of {known}, not {given!r}", "correct the table property"
        ) from None


def _row_bytes(metadata: TableMetadata, df: DataFrame) -> float:
    """The estimated size of a row in Parquet: from the table's files, else a guess from its types."""
    summary: Mapping[str, Any] = (metadata.snapshot or {}).get("summary", {})
    rows, size = told_number(summary, "total-records"), told_number(summary, "total-files-size")
    if rows and size:
        return size / rows
    estimated: int = df._jdf.schema().defaultSize()
    return max(1.0, COMPRESSED_SHARE * estimated)
