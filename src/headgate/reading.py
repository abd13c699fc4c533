"""Rows of a table that are asked for: which, which columns, and what isolation the table wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from headgate.core.arguments import texts
from headgate.core.isolation import Isolation, isolation_named
from headgate.errors import InvalidInputError, UnreadablePredicateError
from headgate.iceberg.binding import bind_text
from headgate.iceberg.bound import Bound
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.partitions import find_column

if TYPE_CHECKING:
    from pyspark.sql import Column

ISOLATION = "isolation"
"""The table property."""


def isolation_of(metadata: TableMetadata) -> Isolation:
    """The isolation that the table asks for."""
    given = metadata.properties.get(ISOLATION, Isolation.WRITE_SERIALIZABLE.value)
    return isolation_named(given, f"the table property {ISOLATION}")


def understood(where: str | Column | None, schema: Schema) -> tuple[Bound | None, str | Column | None]:
    """A predicate that files can be left out by, or a condition that only Spark understands."""
    if not isinstance(where, str):
        return None, where
    try:
        return bind_text(where, schema), None
    except UnreadablePredicateError:
        return None, where


def chosen_columns(schema: Schema, columns: Sequence[str] | None) -> Schema:
    """The columns that a caller named, in that order; all of them without names."""
    if columns is None:
        return schema
    names = texts("columns", columns)
    for name in names:
        find_column(schema, name)

    def place(column: str) -> int:
        return next(i for i, name in enumerate(names) if f"{name}.".startswith(f"{column}."))

    chosen = schema.select(*names)
    return Schema(*sorted(chosen.fields, key=lambda field: place(field.name)), schema_id=chosen.schema_id)


def checked_limit(limit: int | None) -> int | None:
    """How many rows a caller wants at most."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidInputError(f"limit is a number from 0 on, but got {limit!r}")
    return limit
