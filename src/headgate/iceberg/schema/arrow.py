"""Arrow tables and Iceberg schemas: what fits, what does not, and what is written.

For small data, without a JVM. A file is encoded in memory as a whole and put on storage like any other
object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    UnsupportedPyArrowTypeException,
    _pyarrow_to_schema_without_ids,
    schema_to_pyarrow,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField
from pyiceberg.transforms import Transform, TruncateTransform
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampType,
    TimestamptzType,
)

from headgate.core.input.arguments import repeated
from headgate.errors import InvalidInputError
from headgate.iceberg.format.avro import physical
from headgate.iceberg.format.data_file import DataFile, Partition
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.metrics import column_metrics, split_offsets
from headgate.iceberg.schema.partitions import source_of

MAX_PRECISION = 38
UNSIGNED_LONG = pa.decimal128(20, 0)
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The first day of the year 1 and the last one of the year 9999."""
DAY_IN: Mapping[type[IcebergType], int] = {
    DateType: 1,
    TimestampType: 86_400_000_000,
    TimestamptzType: 86_400_000_000,
}
"""The length of a day in values of a type."""
BITS: Mapping[type[IcebergType], int] = {IntegerType: 32, LongType: 64}


def schema_from_arrow(arrow: pa.Schema) -> Schema:
    """The Iceberg schema of an Arrow schema; its field ids are provisional."""
    try:
        fields = [field.with_type(signed(field.type)) for field in arrow]
        return _pyarrow_to_schema_without_ids(pa.schema(fields), downcast_ns_timestamp_to_us=True)
    except (TypeError, ValueError, NotImplementedError, UnsupportedPyArrowTypeException) as error:
        raise InvalidInputError(
            f"the Arrow schema contains a type that Iceberg does not support: {error}"
        ) from error


def signed(kind: pa.DataType) -> pa.DataType:
    """The signed type that holds all values of an unsigned one, which Iceberg lacks; others are unchanged.

    Unsigned 64-bit integers become DECIMAL(20, 0), as in Spark.
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(signed(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = (field.with_type(signed(field.type)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(signed(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(signed(kind.value_type)))
    if not pa.types.is_unsigned_integer(kind):
        return kind
    if kind.bit_width == 64:
        return UNSIGNED_LONG
    return pa.int64() if kind.bit_width == 32 else pa.int32()


def fitted(data: pa.Table, schema: Schema, place: str) -> pa.Table:
    """`data` with exactly the columns and types of `schema`.

    If it does not fit, the `InvalidInputError` lists all differences.
    """
    wanted = schema_to_pyarrow(schema)
    problems = list(_differences(data.schema, wanted, schema))
    if problems:
        raise InvalidInputError(
            f"the data does not fit {place}:\n" + "\n".join(f"  - {problem}" for problem in problems),
            "rename, cast or drop columns, or change the table's schema first",
        )
    # By name, in one pass: asking Arrow for its names creates a list of all of them each time.
    given = dict(zip(data.column_names, data.columns, strict=True))
    missing = pa.chunked_array([pa.nulls(data.num_rows)])
    columns = [_cast(given.get(field.name, missing), field, place) for field in wanted]
    fields = [field.with_type(nullable_inside(field.type)) for field in wanted]
    return pa.table(columns, schema=pa.schema(fields))


def _differences(given: pa.Schema, wanted: pa.Schema, schema: Schema) -> Iterator[str]:
    yield from (f"column {name} occurs twice" for name in repeated(given.names))
    kinds, known = {field.name: field.type for field in given}, set(wanted.names)
    for name, kind in kinds.items():
        if name not in known:
            yield f"column {name} ({kind}) is not in the table"
    for field, column in zip(wanted, schema.fields, strict=True):
        kind = kinds.get(field.name)
        if kind is None:
            if column.required:
                yield f"column {field.name} ({field.type}) is required but missing"
        elif not _can_cast(kind, field.type):
            yield f"column {field.name} is {kind}, but the table has {field.type}"


def _can_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of `given` is a value of `wanted`."""
    if given.equals(wanted) or pa.types.is_null(given):
        return True
    widenings = (
        (pa.types.is_integer, pa.types.is_integer),
        (pa.types.is_floating, pa.types.is_floating),
        (_is_text, _is_text),
        (_is_bytes, _is_bytes),
        (pa.types.is_decimal, pa.types.is_decimal),
    )
    if any(one(given) and other(wanted) for one, other in widenings):
        return _not_narrower(given, wanted)
    if given.equals(pa.uint64()) and pa.types.is_decimal(wanted):
        return _not_narrower(UNSIGNED_LONG, wanted)
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    if pa.types.is_dictionary(given):
        return _can_cast(given.value_type, wanted)
    return _nested_can_cast(given, wanted)


def _nested_can_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    if _is_list(given) and _is_list(wanted):
        return _can_cast(given.value_type, wanted.value_type)
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return _can_cast(given.key_type, wanted.key_type) and _can_cast(given.item_type, wanted.item_type)
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        given_fields = {field.name: field.type for field in given}
        wanted_fields = {field.name: field for field in wanted}
        # As with columns: missing fields become null, if they are optional.
        missing = [field for name, field in wanted_fields.items() if name not in given_fields]
        return (
            set(given_fields) <= set(wanted_fields)
            and all(field.nullable for field in missing)
            and all(_can_cast(kind, wanted_fields[name].type) for name, kind in given_fields.items())
        )
    return False


def _not_narrower(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_decimal(given):
        fits = given.precision - given.scale <= wanted.precision - wanted.scale
        return bool(fits and given.scale <= wanted.scale)
    if pa.types.is_integer(given):
        unsigned = pa.types.is_unsigned_integer(given)
        return bool(given.bit_width + unsigned <= wanted.bit_width)
    if pa.types.is_floating(given):
        return bool(given.bit_width <= wanted.bit_width)
    return True


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(check(kind) for check in checks)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _cast(column: Any, field: pa.Field, place: str) -> Any:
    try:
        # Nullable inside: Arrow requires a value in a required field even where the whole struct is null.
        fitting = column.cast(nullable_inside(field.type), safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"{place}: column {field.name} does not fit {field.type}: {error}") from error
    for path, nulls in _forbidden_nulls(fitting.combine_chunks(), field, field.name):
        raise InvalidInputError(
            f"{place}: column {path} is required, but {nulls} of its values are null",
            "fill them, or leave those rows out",
        )
    return fitting


def nullable_inside(kind: pa.DataType) -> pa.DataType:
    """The type with every nested field nullable; names and field ids stay."""
    if pa.types.is_struct(kind):
        return pa.struct([_nullable(field) for field in kind])
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(nullable_inside(kind.key_type))
        return pa.map_(key, _nullable(kind.item_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_nullable(kind.value_field))
    return pa.list_(_nullable(kind.value_field)) if _is_list(kind) else kind


def _nullable(field: pa.Field) -> pa.Field:
    return field.with_type(nullable_inside(field.type)).with_nullable(True)


def _forbidden_nulls(values: Any, field: pa.Field, path: str) -> Iterator[tuple[str, int]]:
    """Required fields that are null although their parent is not, with the number of such values."""
    if not field.nullable and values.null_count:
        yield path, values.null_count
    if pa.types.is_struct(field.type):
        present = values.filter(values.is_valid())
        for number, inner in enumerate(field.type):
            yield from _forbidden_nulls(present.field(number), inner, f"{path}.{inner.name}")
    elif _is_list(field.type):
        yield from _forbidden_nulls(values.flatten(), field.type.value_field, f"{path}.element")
    elif pa.types.is_map(field.type):
        # Unlike flatten(), items also contains the values outside of a slice.
        first, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        items = values.items.slice(first, end - first)
        yield from _forbidden_nulls(items, field.type.item_field, f"{path}.value")


# --- writing ------------------------------------------------------------------------------------------


def partitioned(data: pa.Table, schema: Schema, spec: PartitionSpec) -> Iterator[tuple[Partition, pa.Table]]:
    """The rows of each partition."""
    if data.num_rows == 0:
        return
    if not spec.fields:
        yield (), data
        return
    names = [f"__partition_{position}" for position in range(len(spec.fields))]
    keys = pa.table(
        {
            name: as_numbers(field_values(data, schema, field))
            for name, field in zip(names, spec.fields, strict=True)
        }
    )
    numbered = keys.append_column("__row", pa.array(range(data.num_rows), pa.int64()))
    grouped = numbered.group_by(names, use_threads=False)  # Arrow's threads may outlive the call
    for group in grouped.aggregate([("__row", "list")]).to_pylist():
        partition = tuple(physical(group[name]) for name in names)
        yield partition, data.take(pa.array(sorted(group["__row_list"]), pa.int64()))


def field_values(data: pa.Table, schema: Schema, field: PartitionField | SortField) -> Any:
    """The values of a partition or sort field for each row."""
    (name, *inside), kind = source_of(schema, field)
    column = data.column(name)
    for part in inside:
        column = pc.struct_field(column, part)
    return transformed(column, field.transform, kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are strings or bytes of any length."""
    checks = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
    )
    return any(check(kind) for check in checks)


def as_numbers(values: Any) -> Any:
    """Dates and times as integers, because Python has no years outside of 1 to 9999."""
    if not pa.types.is_temporal(values.type):
        return values
    return values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())


def transformed(column: Any, transform: Transform[Any, Any], kind: IcebergType) -> Any:
    """The partition values of a column, by pyiceberg's transforms; a UUID as its bytes."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_decimal(values.type):
        # pyiceberg's core requires them at addresses divisible by 16, which data from Spark's workers does
        # not always have. take() copies them.
        values = values.take(pa.array(range(len(values)), pa.int64()))
    if pa.types.is_large_binary(values.type) and isinstance(transform, TruncateTransform):
        values = values.cast(pa.binary())  # the transform accepts only the small type
    result = transform.pyarrow_transform(kind)(values)
    if pa.types.is_decimal(result.type):
        return _decimal_that_fits(result, values.type)
    truncated = pa.types.is_integer(values.type) and isinstance(transform, TruncateTransform)
    # A result above its value was below the smallest number, and wrapped around.
    if truncated and pc.any(pc.greater(result, values)).as_py():
        raise too_long(str(kind))
    # Arrow neither groups nor sorts UUIDs, but it does their bytes.
    return result.storage if isinstance(result, pa.ExtensionArray) else result


def _decimal_that_fits(result: Any, kind: pa.DataType) -> Any:
    try:
        # Through a longer type: to its own type Arrow casts without checking.
        return result.cast(pa.decimal128(MAX_PRECISION, kind.scale)).cast(kind)
    except pa.ArrowInvalid as error:
        raise too_long(str(kind)) from error


def too_long(kind: str) -> InvalidInputError:
    return InvalidInputError(
        f"a value of {kind} does not fit its type after truncation, so it has no partition",
        "widen the column, or partition by bucket",
    )


def data_file(
    path: str, size_bytes: int, footer: pq.FileMetaData, partition: Partition, metadata: TableMetadata
) -> DataFile:
    """The manifest's description of a written file, read from its footer by Iceberg's rules for metrics."""
    return DataFile(
        path=path,
        partition=partition,
        spec_id=metadata.spec.spec_id,
        record_count=footer.num_rows,
        size_bytes=size_bytes,
        metrics=column_metrics(footer, metadata.schema, metadata.properties),
        split_offsets=split_offsets(footer),
        sort_order_id=metadata.sort_order.order_id,
    )


def require_partition(partition: Partition, metadata: TableMetadata) -> None:
    """Raises for values that manifests cannot contain: numbers out of range, dates that Python lacks."""
    if not partition:
        return
    kinds = metadata.spec.partition_type(metadata.schema).fields
    for value, part in zip(partition, kinds, strict=True):
        day = DAY_IN.get(type(part.field_type))
        if value is not None and day is not None and not FIRST_DAY <= value // day <= LAST_DAY:
            raise out_of_years(part.name)
        bits = BITS.get(type(part.field_type))
        if value is not None and bits is not None and value < -(2 ** (bits - 1)):
            raise too_long(str(part.field_type))


def out_of_years(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"a value of the partition field {name} is outside of the years 1 to 9999",
        "leave those rows out, or partition by another column",
    )


def nan_counts(rows: pa.Table, schema: Schema) -> dict[int, int]:
    """The number of NaN in each top-level floating-point column, by field id."""
    return {
        column.field_id: int(pc.sum(pc.is_nan(rows.column(column.name))).as_py() or 0)
        for column in schema.fields
        if isinstance(column.field_type, FloatType | DoubleType)
    }


def with_nan_counts(file: DataFile, counts: Mapping[int, int]) -> DataFile:
    """The file with the number of NaN in each top-level column, which footers do not contain.

    Bounds exclude NaN, so without the number nothing is known about a floating-point column.
    """
    counted = {field_id: count for field_id, count in counts.items() if field_id in file.metrics.values}
    return replace(file, metrics=replace(file.metrics, nans=counted))


def footer_of(data: bytes) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(data))


def concatenated(tables: Sequence[pa.Table], schema: Schema) -> pa.Table:
    """All rows, in a table of `schema`."""
    if not schema.fields:  # Arrow would lose their number
        return without_columns(sum(table.num_rows for table in tables))
    return pa.concat_tables(tables) if tables else no_rows(schema_to_pyarrow(schema, include_field_ids=False))


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows; Arrow's own function does not support UUIDs inside other types."""
    return pa.Table.from_batches([], schema)


def first_rows(rows: pa.Table, limit: int | None) -> pa.Table:
    """At most `limit` rows. For rows without columns, Arrow's own function returns as many as requested."""
    if limit is None or limit >= rows.num_rows:
        return rows
    return rows.slice(0, limit) if rows.column_names else without_columns(limit)


def without_columns(count: int) -> pa.Table:
    """Rows without columns."""
    return pa.table({"x": pa.nulls(count)}).select([])
