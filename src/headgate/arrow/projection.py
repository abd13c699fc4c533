"""Projects rows of a file to another schema: columns are matched by field id, at every depth.

pyiceberg's projection is not used: it turns null lists and maps of structs into empty ones, and matches
fields of structs in nested lists by name.

Also builds nested Arrow arrays from their parts. Where a struct is null, its required fields contain an
invisible filler value: Arrow casts and writes such arrays, but not those with nulls in required fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from headgate.errors import CorruptLakeError


def schema_of(arrow: pa.Schema) -> Schema:
    """The schema of a file with field ids. Most files of a table share one schema; it is converted once."""
    # Compare all bytes: Arrow treats two schemas as equal if they differ only in field ids.
    return _schema_of(arrow.serialize().to_pybytes())


@lru_cache(maxsize=256)
def _schema_of(serialized: bytes) -> Schema:
    return pyarrow_to_schema(pa.ipc.read_schema(pa.BufferReader(serialized)))


class Projection:
    """The target schema for the rows of files, converted to Arrow's once for all files."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._arrow = schema_to_pyarrow(schema, include_field_ids=False)

    def of(self, rows: pa.Table, fields: Sequence[NestedField], place: str) -> pa.Table:
        """`rows` with the columns of the schema: renamed, widened, reordered; missing columns are null.

        `fields` are those of the columns of `rows`, as they are in the file.
        """
        return _projected(rows, fields, self.schema, self._arrow, place)


def projected(rows: pa.Table, schema: Schema, place: str) -> pa.Table:
    """The same for a single table of rows."""
    return Projection(schema).of(rows, schema_of(rows.schema).fields, place)


def _projected(
    rows: pa.Table, fields: Sequence[NestedField], schema: Schema, wanted: pa.Schema, place: str
) -> pa.Table:
    if not schema.fields:
        return rows.select([])  # which keeps the number of rows
    present = {field.field_id: (column, field) for column, field in zip(rows.columns, fields, strict=True)}
    columns = []
    for field, arrow in zip(schema.fields, wanted, strict=True):
        if field.field_id not in present:
            columns.append(_missing(field, arrow.type, rows.num_rows, place))
            continue
        column, file_field = present[field.field_id]
        if field.field_type.is_primitive and column.type == arrow.type:
            columns.append(column)
            continue
        chunks = [
            _array(chunk, file_field.field_type, field.field_type, arrow.type, place)
            for chunk in column.chunks
        ]
        columns.append(pa.chunked_array(chunks, arrow.type))
    return pa.table(columns, schema=wanted)


def _array(array: Any, present: IcebergType, wanted: IcebergType, arrow: pa.DataType, place: str) -> Any:
    match present, wanted:
        case StructType(), StructType():
            return _struct(array, present, wanted, arrow, place)
        case ListType(), ListType():
            values = _array(array.values, present.element_type, wanted.element_type, arrow.value_type, place)
            return list_array(array, values, arrow)
        case MapType(), MapType():
            keys = _array(array.keys, present.key_type, wanted.key_type, arrow.key_type, place)
            items = _array(array.items, present.value_type, wanted.value_type, arrow.item_type, place)
            return map_array(array, keys, items, arrow)
    try:
        return array.cast(arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CorruptLakeError(f"{place} contains values that do not fit {wanted}: {error}") from error


def _struct(array: Any, present: StructType, wanted: StructType, arrow: pa.DataType, place: str) -> Any:
    positions = {field.field_id: position for position, field in enumerate(present.fields)}
    children = []
    for position, field in enumerate(wanted.fields):
        kind = arrow.field(position).type
        at = positions.get(field.field_id)
        if at is None:
            children.append(_missing(field, kind, len(array), place))
        else:
            file_type = present.fields[at].field_type
            children.append(_array(array.field(at), file_type, field.field_type, kind, place))
    return struct_array(children, arrow, pc.is_null(array))


def _missing(field: NestedField, kind: pa.DataType, count: int, place: str) -> Any:
    if field.required:
        raise CorruptLakeError(f"{place} lacks the required column {field.name} (field id {field.field_id})")
    return nulls(count, kind)


def nulls(count: int, kind: pa.DataType) -> Any:
    """An array of nulls."""
    if not pa.types.is_struct(kind):
        return pa.nulls(count, kind)
    children = [nulls(count, field.type) for field in kind]
    return struct_array(children, kind, pa.array([True] * count, pa.bool_()))


def struct_array(children: list[Any], kind: pa.DataType, is_null: Any) -> Any:
    """Structs of `children`, null where `is_null` is true; there, required children get a filler."""
    filled = [
        child if field.nullable else _filled(child, is_null)
        for child, field in zip(children, kind, strict=True)
    ]
    return pa.StructArray.from_arrays(filled, fields=list(kind), mask=is_null)


def list_array(shape: Any, values: Any, kind: pa.DataType) -> Any:
    """Lists of `values`, with the lengths and nulls of those in `shape`."""
    offsets = _offsets(shape).cast(pa.int64())
    return pa.LargeListArray.from_arrays(offsets, values, type=kind, mask=pc.is_null(shape))


def map_array(shape: Any, keys: Any, items: Any, kind: pa.DataType) -> Any:
    """Maps of `keys` and `items`, with the lengths and nulls of those in `shape`."""
    return pa.MapArray.from_arrays(_offsets(shape), keys, items, type=kind, mask=pc.is_null(shape))


def _offsets(array: Any) -> Any:
    # A copy: Arrow does not accept a mask together with a slice, and the array may be a slice.
    return pc.add(array.offsets, pa.scalar(0, array.offsets.type))


def _filled(child: Any, parent_is_null: Any) -> Any:
    """`child` with a filler where its parent is null; a null below a parent that is not null stays."""
    hidden = pc.and_(pc.is_null(child), parent_is_null)
    if not pc.any(hidden).as_py():
        return child
    filler = pa.array([_filler(child.type)], child.type)
    own = pa.array(range(len(child)), pa.int64())
    return pa.concat_arrays([child, filler]).take(pc.if_else(hidden, len(child), own))


def _filler(kind: pa.DataType) -> Any:
    """An arbitrary value of type `kind`."""
    if pa.types.is_struct(kind):
        return {field.name: _filler(field.type) for field in kind}
    if pa.types.is_map(kind) or pa.types.is_large_list(kind):
        return []
    if pa.types.is_decimal(kind):
        return Decimal(0)
    if isinstance(kind, pa.UuidType):
        return bytes(16)
    if pa.types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    if pa.types.is_large_binary(kind):
        return b""
    return "" if pa.types.is_large_string(kind) else False if pa.types.is_boolean(kind) else 0
