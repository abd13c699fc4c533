"""Rows of a file as another schema has them: columns are found by field id, at every depth.

Not pyiceberg's projection: that one turns null lists and maps of structs into empty ones, and finds the
fields of structs in nested lists by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from headgate.errors import CorruptLakeError
from headgate.iceberg.shaping import list_array, map_array, nulls, struct_array


def schema_of(arrow: pa.Schema) -> Schema:
    """The schema of a file with field ids. Most files of a table have the same one, which is made once."""
    # By all its bytes: two schemas that differ in field ids alone are equal for Arrow.
    return _schema_of(arrow.serialize().to_pybytes())


@lru_cache(maxsize=256)
def _schema_of(serialized: bytes) -> Schema:
    return pyarrow_to_schema(pa.ipc.read_schema(pa.BufferReader(serialized)))


class Projection:
    """What rows of files become: those of one schema, which is turned into Arrow's once for all files."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._arrow = schema_to_pyarrow(schema, include_field_ids=False)

    def of(self, rows: pa.Table, fields: Sequence[NestedField], place: str) -> pa.Table:
        """`rows` with the columns of the schema: renamed, widened, reordered; what the file lacks is null.

        `fields` are those of the columns that they have, as the file has them.
        """
        return _projected(rows, fields, self.schema, self._arrow, place)


def projected(rows: pa.Table, schema: Schema, place: str) -> pa.Table:
    """The same for rows that come alone."""
    return Projection(schema).of(rows, schema_of(rows.schema).fields, place)


def _projected(
    rows: pa.Table, fields: Sequence[NestedField], schema: Schema, wanted: pa.Schema, place: str
) -> pa.Table:
    if not schema.fields:
        return rows.select([])  # which still knows how many they are
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
        raise CorruptLakeError(f"{place} has values that do not fit {wanted}: {error}") from error


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
