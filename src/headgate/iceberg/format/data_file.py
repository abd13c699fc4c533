"""Files of a table, and the entries and manifests that list them, named as in the Iceberg specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

Partition: TypeAlias = tuple[Any, ...]
"""The values of the partition fields, in the order of the spec, as Iceberg stores them (a day is an int)."""


def partition_key(partition: Partition) -> Partition:
    """A partition as a value that equals itself: NaN does not."""
    return tuple("NaN" if isinstance(value, float) and value != value else value for value in partition)


class Content(IntEnum):
    DATA = 0
    POSITION_DELETES = 1


class Status(IntEnum):
    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class ColumnMetrics:
    """Metrics of the columns of a file, by field id. Bounds are in Iceberg's binary form."""

    sizes: Mapping[int, int] = field(default_factory=dict)
    values: Mapping[int, int] = field(default_factory=dict)
    nulls: Mapping[int, int] = field(default_factory=dict)
    nans: Mapping[int, int] = field(default_factory=dict)
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table: data, or positions of deleted rows. `path` is a full URI."""

    path: str
    partition: Partition
    spec_id: int
    record_count: int
    size_bytes: int
    metrics: ColumnMetrics = field(default_factory=ColumnMetrics)
    split_offsets: tuple[int, ...] = ()
    content: Content = Content.DATA
    sort_order_id: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a manifest. `sequence_number` None means that of the snapshot that adds the manifest."""

    status: Status
    snapshot_id: int
    sequence_number: int | None
    file_sequence_number: int | None
    file: DataFile


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """A summary of the values of one partition field in a manifest."""

    contains_null: bool
    contains_nan: bool
    lower: bytes | None
    upper: bytes | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """An entry of a manifest list: a manifest, and what is known about its entries without reading it."""

    path: str
    length: int
    spec_id: int
    content: Content
    sequence_number: int
    min_sequence_number: int
    snapshot_id: int
    added_files: int
    existing_files: int
    deleted_files: int
    added_rows: int
    existing_rows: int
    deleted_rows: int
    partitions: tuple[FieldSummary, ...] = ()
