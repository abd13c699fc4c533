"""The keys of a DataFrame: where in a table rows with the same keys can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructType

from headgate.errors import InvalidInputError
from headgate.iceberg.arrow import fitted
from headgate.iceberg.keys import MAX_LISTED, tell_partitions
from headgate.iceberg.keys import key_range as keys_of
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.row_change import KeyRange
from headgate.spark.fitting import can_become, quoted
from headgate.spark.types import schema_from_spark

MAX_KEYS = 100_000
"""Up to how many keys all of them are looked at if they tell partitions; of more, only the ends."""


@dataclass(frozen=True, slots=True)
class HeldKeys:
    """Where rows with the keys of a source can be; `unique` if no two of its rows have the same, or a null.

    It is False as well if that cannot be told without looking at the rows themselves.
    """

    range: KeyRange
    unique: bool


def held_keys(source: DataFrame, metadata: TableMetadata, columns: Mapping[str, str]) -> HeldKeys:
    """What `source` holds in its columns that stand for key columns of the table.

    One pass over the source, and another one if its keys are so few that each of them is looked at.
    """
    fields = {field.name: field for field in metadata.schema.fields}
    keys = {
        mine: _as_key(source, theirs, fields[mine])
        for mine, theirs in columns.items()
        if mine in fields and theirs in source.columns
    }
    known = {mine: key for mine, key in keys.items() if key is not None}
    if not known:
        return HeldKeys(KeyRange(), unique=False)
    # By numbers: the names of the table's columns can be any.
    numbered = source.selectExpr(*(f"{key} AS `{number}`" for number, key in enumerate(known.values())))
    told = _Told.of(numbered)
    looked_at = MAX_KEYS if tell_partitions(known, metadata.schema, metadata.spec) else MAX_LISTED
    complete = told.keys <= looked_at
    rows = (numbered.distinct().toArrow() if complete else told.ends).rename_columns(list(known))
    optional = Schema(*(fields[name].model_copy(update={"required": False}) for name in known))
    found = keys_of(fitted(rows, optional, "the source"), metadata, complete=complete)
    return HeldKeys(found, unique=told.unique and len(known) == len(columns))


@dataclass(frozen=True, slots=True)
class _Told:
    """How many different keys there are, whether each is there once and without nulls, and their ends.

    `ends` has a row with the least values, one with the greatest, and one with the nulls that there are.
    """

    keys: int
    unique: bool
    ends: pa.Table

    @classmethod
    def of(cls, numbered: DataFrame) -> _Told:
        """Of rows that have keys alone. In SQL: each function of PySpark's is some calls to the JVM."""
        names = numbered.columns
        counted = numbered.groupBy(*names).count()
        ends = [f"{told}(`{name}`)" for name in names for told in ("min", "max")]
        nulls = [f"count_if(`{name}` IS NULL)" for name in names]
        told = counted.selectExpr("count(*)", "max(`count`)", *nulls, *ends).toArrow().columns
        (keys,), (most,) = (column.to_pylist() for column in told[:2])
        missing = [count for column in told[2 : 2 + len(names)] for count in column.to_pylist()]
        least, greatest = told[2 + len(names) :: 2], told[3 + len(names) :: 2]
        columns = [_ends(*of_one) for of_one in zip(least, greatest, missing, strict=True)]
        return cls(keys, not any(missing) and most in (None, 1), pa.table(columns, names=names))


def _ends(least: pa.ChunkedArray, greatest: pa.ChunkedArray, nulls: int) -> pa.ChunkedArray:
    third = pa.chunked_array([pa.nulls(1, least.type)]) if nulls else least
    return pa.chunked_array([*least.chunks, *greatest.chunks, *third.chunks], least.type)


def _as_key(source: DataFrame, name: str, field: NestedField) -> str | None:
    """The column of the source as one of the table's type, in SQL; None if what equals it may differ then."""
    column, given = quoted(name), source.schema[name]
    if given.dataType == LongType() and isinstance(field.field_type, IntegerType):
        # A larger one is equal to none of the table.
        return f"cast(CASE WHEN {column} BETWEEN {-(2**31)} AND {2**31 - 1} THEN {column} END AS int)"
    if isinstance(given.dataType, StringType) and given.dataType != StringType():
        return None  # of a collation, by which texts that differ are equal
    try:
        kind = schema_from_spark(StructType([given])).fields[0].field_type
    except InvalidInputError:
        return None  # a type that no table has
    return column if can_become(kind, field.field_type) else None
