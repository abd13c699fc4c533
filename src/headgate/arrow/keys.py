"""The values of rows in key columns: where in a table rows with the same keys can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from headgate.core.sql.predicate import Operator
from headgate.iceberg.format.avro import physical
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.predicate.binding import in_partitions
from headgate.iceberg.predicate.bound import Always, Among, Bound, Compare, Field, both
from headgate.iceberg.scan.engine import KeyRange
from headgate.iceberg.schema.arrow import field_values

MAX_LISTED = 200
"""Up to this many keys, files are searched for each key; more keys become a range."""

_Partitions: TypeAlias = frozenset[tuple[int, tuple[object, ...]]]
"""Each with the id of its spec."""

ORDERED = (
    IntegerType,
    LongType,
    StringType,
    BinaryType,
    DateType,
    DecimalType,
    TimestampType,
    TimestamptzType,
)
"""Types whose values have one order, on which all programs agree."""
_ALIKE = (*ORDERED, UUIDType)
"""Types whose values are equal if they are stored identically. Readers do not agree on the order of UUIDs."""


def key_range(keys: pa.Table, metadata: TableMetadata, *, complete: bool) -> KeyRange:
    """Where rows with one of `keys` can be; its columns are key columns of the table, by name and type.

    If `keys` are not `complete`, they are the smallest and the largest value of each column.
    """
    if keys.num_rows == 0:
        nothing = Always(value=False)
        return KeyRange(nothing, nothing, {}, frozenset()) if complete else KeyRange()
    fields = [metadata.schema.find_field(name) for name in keys.column_names]
    values = {field.field_id: _stored(keys.column(field.name)) for field in fields if _is_alike(field)}
    known = {field_id: found for field_id, found in values.items() if found}
    bounds: Mapping[int, tuple[object, object]] = {
        field_id: (min(found), max(found))
        for field_id, found in known.items()
        # The other columns of a key with a null can have any value.
        if _has_order(metadata.schema.find_field(field_id))
        and not keys.column(metadata.schema.find_column_name(field_id)).null_count
    }
    limits = [
        _limited(metadata.schema.find_field(field_id), found, complete) for field_id, found in known.items()
    ]
    partitions = _partitions(keys, metadata.schema, metadata.spec, complete)
    bound = both(*limits)
    return KeyRange(bound, _placed(bound, partitions, metadata), bounds, partitions)


def _placed(bound: Bound, partitions: _Partitions | None, metadata: TableMetadata) -> Bound:
    """The rows that `bound` selects, limited to these partitions if equal keys are always in the same one."""
    schema, spec = metadata.schema, metadata.spec
    # The two zeros are equal, but belong to different partitions.
    alike = all(_is_alike(schema.find_field(field.source_id)) for field in spec.fields)
    if partitions is None or not spec.fields or not alike:
        return bound
    return both(bound, in_partitions(spec, schema, frozenset(values for _, values in partitions)))


def _is_alike(field: NestedField) -> bool:
    return isinstance(field.field_type, _ALIKE)


def _has_order(field: NestedField) -> bool:
    return isinstance(field.field_type, ORDERED)


def _stored(column: Any) -> frozenset[Any]:
    """The values except null, as Iceberg stores them."""
    if isinstance(column.type, pa.BaseExtensionType):  # a UUID, which Arrow cannot deduplicate
        column = column.cast(column.type.storage_type)
    return frozenset(physical(value) for value in pc.unique(column).to_pylist() if value is not None)


def _limited(field: NestedField, values: frozenset[Any], complete: bool) -> Bound:
    assert isinstance(field.field_type, PrimitiveType)
    of = Field(field.field_id, field, (field.name,), field.field_type)
    if complete and len(values) <= MAX_LISTED:
        return Among(of, values)
    if not _has_order(field):
        return Always(value=True)
    return both(
        Compare(of, Operator.GREATER_OR_EQUAL, min(values)), Compare(of, Operator.LESS_OR_EQUAL, max(values))
    )


def _partitions(keys: pa.Table, schema: Schema, spec: PartitionSpec, complete: bool) -> _Partitions | None:
    """The partitions of rows with these keys; None if the keys do not determine them."""
    if not spec.fields:
        return frozenset({(spec.spec_id, ())})
    if not complete or not tell_partitions(keys.column_names, schema, spec):
        return None
    columns = [field_values(keys, schema, field).to_pylist() for field in spec.fields]
    return frozenset(
        (spec.spec_id, tuple(physical(value) for value in row)) for row in zip(*columns, strict=True)
    )


def tell_partitions(names: Iterable[str], schema: Schema, spec: PartitionSpec) -> bool:
    """Whether the columns with these names include all sources of the partition fields of `spec`."""
    known = {schema.find_field(name).field_id for name in names}
    return bool(spec.fields) and all(field.source_id in known for field in spec.fields)
