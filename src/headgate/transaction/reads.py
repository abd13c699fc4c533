"""Selects rows and columns of a table for a read, and the files of a table that a transaction sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from headgate.core.input.arguments import texts
from headgate.errors import UnreadablePredicateError
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.predicate.bound import Always, Bound
from headgate.iceberg.scan.planning import Plan, plan, planned
from headgate.iceberg.schema.partitions import find_column
from headgate.transaction.changes import TableChange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def understood(where: str | Column | None, schema: Schema) -> tuple[Bound | None, str | Column | None]:
    """Splits `where` into a predicate that can skip files, or a condition that only Spark understands."""
    if not isinstance(where, str):
        return None, where
    try:
        return bind_text(where, schema), None
    except UnreadablePredicateError:
        return None, where


def chosen_columns(schema: Schema, columns: Sequence[str] | None) -> Schema:
    """The columns that the caller named, in that order; all of them if there are no names."""
    if columns is None:
        return schema
    names = texts("columns", columns)
    for name in names:
        find_column(schema, name)

    def place(column: str) -> int:
        return next(i for i, name in enumerate(names) if f"{name}.".startswith(f"{column}."))

    chosen = schema.select(*names)
    return Schema(*sorted(chosen.fields, key=lambda field: place(field.name)), schema_id=chosen.schema_id)


def narrowed(rows: DataFrame, where: str | Column | None, columns: Sequence[str] | None) -> DataFrame:
    """The rows of a DataFrame that `where` selects, with the columns in `columns`."""
    if where is None and columns is None:
        return rows
    from headgate.spark.read.table import selected_rows  # loads pyspark, which only Spark users need
    from headgate.spark.types import schema_from_spark

    schema = schema_from_spark(rows.schema)
    only, condition = understood(where, schema)
    return selected_rows(rows, schema, chosen_columns(schema, columns), only, condition)


def visible(change: TableChange, metadata: TableMetadata, loader: TableLoader, only: Bound | None) -> Plan:
    """The files that can contain rows that `only` selects, and the deletes that apply to them."""
    at_base, own = visible_at_base(change, metadata, loader, only), visible_own(change, metadata, only)
    return replace(at_base, files=(*at_base.files, *own.files))


def visible_at_base(
    change: TableChange, metadata: TableMetadata, loader: TableLoader, only: Bound | None
) -> Plan:
    """The files of the base, without those that the transaction removes."""
    if change.base is None:
        return Plan(())
    found = plan(loader, metadata, only, change.own_deletes)
    gone = change.replaced or {}
    return replace(found, files=tuple(f for f in found.files if f.file.path not in gone))


def visible_own(change: TableChange, metadata: TableMetadata, only: Bound | None) -> Plan:
    """The files that the transaction itself has added."""
    return planned(change.added, metadata, only or Always(True), change.own_deletes)
