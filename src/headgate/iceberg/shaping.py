"""Nested Arrow arrays from their parts, for what is read.

Where a struct is null, its required fields hold a filler that nobody sees: Arrow casts and writes such
arrays, but not those with nulls in required fields.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def nulls(count: int, kind: pa.DataType) -> Any:
    """Nothing but nulls."""
    if not pa.types.is_struct(kind):
        return pa.nulls(count, kind)
    children = [nulls(count, field.type) for field in kind]
    return struct_array(children, kind, pa.array([True] * count, pa.bool_()))


def struct_array(children: list[Any], kind: pa.DataType, is_null: Any) -> Any:
    """Structs of `children`, null where it is said; required children are filled there."""
    filled = [
        child if field.nullable else _filled(child, is_null)
        for child, field in zip(children, kind, strict=True)
    ]
    return pa.StructArray.from_arrays(filled, fields=list(kind), mask=is_null)


def list_array(shape: Any, values: Any, kind: pa.DataType) -> Any:
    """Lists of `values`, as long as those in `shape` and null where they are."""
    offsets = _offsets(shape).cast(pa.int64())
    return pa.LargeListArray.from_arrays(offsets, values, type=kind, mask=pc.is_null(shape))


def map_array(shape: Any, keys: Any, items: Any, kind: pa.DataType) -> Any:
    """Maps of `keys` and `items`, as long as those in `shape` and null where they are."""
    return pa.MapArray.from_arrays(_offsets(shape), keys, items, type=kind, mask=pc.is_null(shape))


def _offsets(array: Any) -> Any:
    # A copy: Arrow takes no mask together with a slice, and the array may be one.
    return pc.add(array.offsets, pa.scalar(0, array.offsets.type))


def _filled(child: Any, parent_is_null: Any) -> Any:
    """`child` with a filler where its parent is null; a null under a parent that is there stays."""
    hidden = pc.and_(pc.is_null(child), parent_is_null)
    if not pc.any(hidden).as_py():
        return child
    filler = pa.array([_filler(child.type)], child.type)
    own = pa.array(range(len(child)), pa.int64())
    return pa.concat_arrays([child, filler]).take(pc.if_else(hidden, len(child), own))


def _filler(kind: pa.DataType) -> Any:
    """Some value of `kind`."""
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
