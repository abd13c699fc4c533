"""The keys of a DataFrame: where in a table rows with the same keys can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
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
    named = source.select(*(key.alias(mine) for mine, key in known.items()))
    told = _Told.of(named)
    looked_at = MAX_KEYS if tell_partitions(known, metadata.schema, metadata.spec) else MAX_LISTED
    complete = told.keys <= looked_at
    rows = named.distinct().toArrow() if complete else told.ends
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
    def of(cls, named: DataFrame) -> _Told:
        names = named.columns
        # By numbers: the names of the table's columns can be any.
        numbered = named.toDF(*map(str, range(len(names)))).groupBy(*map(str, range(len(names))))
        ends = [
            function(sf.col(str(number))).alias(f"{end} {number}")
            for number in range(len(names))
            for end, function in (("least", sf.min), ("greatest", sf.max), ("nulls", _nulls))
        ]
        counted = numbered.agg(sf.count("*").alias("times"))
        told = counted.agg(sf.count("*").alias("keys"), sf.max("times").alias("most"), *ends).toArrow()
        single = {name: told.column(name)[0].as_py() for name in ("keys", "most")}
        nulls = [told.column(f"nulls {number}")[0].as_py() for number in range(len(names))]
        columns = [
            _ends(told.column(f"least {number}"), told.column(f"greatest {number}"), nulls[number])
            for number in range(len(names))
        ]
        unique = not any(nulls) and single["most"] in (None, 1)
        return cls(single["keys"], unique, pa.table(columns, names=names))


def _nulls(column: Column) -> Column:
    return sf.count_if(column.isNull())


def _ends(least: pa.ChunkedArray, greatest: pa.ChunkedArray, nulls: int) -> pa.ChunkedArray:
    third = pa.chunked_array([pa.nulls(1, least.type)]) if nulls else least
    return pa.chunked_array([*least.chunks, *greatest.chunks, *third.chunks], least.type)


def _as_key(source: DataFrame, name: str, field: NestedField) -> Column | None:
    """The column of the source as one of the table's type; None if what is equal to it may differ then."""
    column, given = sf.col(quoted(name)), source.schema[name]
    if given.dataType == LongType() and isinstance(field.field_type, IntegerType):
        # A larger one is equal to none of the table.
        return sf.when(column.between(-(2**31), 2**31 - 1), column).cast("int")
    if isinstance(given.dataType, StringType) and given.dataType != StringType():
        return None  # of a collation, by which texts that differ are equal
    try:
        kind = schema_from_spark(StructType([given])).fields[0].field_type
    except InvalidInputError:
        return None  # a type that no table has
    return column if can_become(kind, field.field_type) else None
