"""Rows of two tables that have the same keys, found without a join: Arrow joins some types of keys only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def key_numbers(source: pa.Table, target: pa.Table, keys: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """A number for each row of both tables: rows with the same keys have the same one.

    Those of `source` count from 0 on, by where a key comes first. Rows of `target` whose keys `source` has
    not have no number; nor has a row with a null in a key, which equals nothing. As in Spark, NaN equals NaN.
    The columns must have the same types in both, none of them nested.
    """
    ours, theirs = _numbered(_comparable(source, keys[0]), _comparable(target, keys[0]))
    for name in keys[1:]:
        mine, other = _numbered(_comparable(source, name), _comparable(target, name))
        # Both are below the number of rows, so that together they are far below what the type holds.
        count = pa.scalar(len(mine) + 1, pa.int64())
        ours, theirs = _numbered(
            pc.add(pc.multiply(ours, count), mine), pc.add(pc.multiply(theirs, count), other)
        )
    return ours, theirs


def _numbered(source: Any, target: Any) -> tuple[Any, Any]:
    known = pc.drop_null(pc.unique(source))
    ours, theirs = (pc.index_in(side, known, skip_nulls=True).cast(pa.int64()) for side in (source, target))
    return ours, theirs


def _comparable(rows: pa.Table, name: str) -> Any:
    """The column in a form in which equal values are the same."""
    column = rows.column(name)
    chunks = [chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk for chunk in column.chunks]
    kind = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
    values = pa.chunked_array(chunks, kind).combine_chunks()
    # There is one zero.
    return pc.add(values, pa.scalar(0, kind)) if pa.types.is_floating(kind) else values
