"""The keys of a DataFrame: where in a table rows with the same keys can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructType

from headgate.errors import InvalidInputError
from headgate.iceberg.arrow import fitted
from headgate.iceberg.keys import MAX_LISTED, ORDERED, tell_partitions
from headgate.iceberg.keys import key_range as keys_of
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.row_change import KeyRange
from headgate.spark.fetching import is_little
from headgate.spark.fitting import can_become, quoted
from headgate.spark.kept import Kept
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


def held_keys(
    source: Kept, metadata: TableMetadata, columns: Mapping[str, str], rows: pa.Table | None = None
) -> HeldKeys:
    """What `source` holds in its columns that stand for key columns of the table.

    `rows` are those of the source, with the names and types of the table, if they are in this process. If
    not, keys of a small source are fetched, unless Arrow may compare them otherwise than Spark. Else it is
    one pass over the source, and another one if its keys are so few that each of them is looked at.
    """
    fields = {field.name: field for field in metadata.schema.fields}
    keys = {
        mine: _as_key(source.rows, theirs, fields[mine])
        for mine, theirs in columns.items()
        if mine in fields and theirs in source.rows.columns
    }
    known = {mine: key for mine, key in keys.items() if key is not None}
    if not known:
        return HeldKeys(KeyRange(), unique=False)
    ordered = all(isinstance(fields[mine].field_type, ORDERED) for mine in known)
    held: _FetchedKeys | _SparksKeys
    if ordered and rows is not None and all(columns[mine] == mine for mine in known):
        held = _FetchedKeys.of(rows.select(list(known)))
    elif ordered and is_little(source.rows.sparkSession, source):
        held = _FetchedKeys.of(_numbered(source.rows, known.values()).toArrow())
    else:
        held = _SparksKeys.of(_numbered(source.together(), known.values()))
    looked_at = MAX_KEYS if tell_partitions(known, metadata.schema, metadata.spec) else MAX_LISTED
    complete = held.count <= looked_at
    told = (held.each() if complete else held.ends).rename_columns(list(known))
    optional = Schema(*(fields[name].model_copy(update={"required": False}) for name in known))
    found = keys_of(fitted(told, optional, "the source"), metadata, complete=complete)
    return HeldKeys(found, unique=held.unique and len(known) == len(columns))


def _numbered(rows: DataFrame, keys: Iterable[Column]) -> DataFrame:
    """The keys alone, called by numbers: the names of the table's columns can be any."""
    return rows.select(*(key.alias(str(number)) for number, key in enumerate(keys)))


@dataclass(frozen=True, slots=True)
class _FetchedKeys:
    """How many different keys there are, whether each is there once and without nulls, and their ends.

    `ends` has a row with the least values, one with the greatest, and one with the nulls that there are.
    """

    count: int
    unique: bool
    ends: pa.Table
    keys: pa.Table

    @classmethod
    def of(cls, rows: pa.Table) -> _FetchedKeys:
        keys = rows.group_by(rows.column_names, use_threads=False).aggregate([])
        missing = [column.null_count for column in rows.columns]
        limits = [pc.min_max(column) for column in rows.columns]
        least, greatest = ([pa.repeat(one[end], 1) for one in limits] for end in ("min", "max"))
        columns = [_ends(*of_one) for of_one in zip(least, greatest, missing, strict=True)]
        unique = not any(missing) and keys.num_rows == rows.num_rows
        return cls(keys.num_rows, unique, pa.table(columns, names=rows.column_names), keys)

    def each(self) -> pa.Table:
        """Every key, once."""
        return self.keys


@dataclass(frozen=True, slots=True)
class _SparksKeys:
    """The same, of keys that stay in Spark."""

    count: int
    unique: bool
    ends: pa.Table
    numbered: DataFrame

    @classmethod
    def of(cls, numbered: DataFrame) -> _SparksKeys:
        """Of rows that have keys alone. In SQL: each function of PySpark's is some calls to the JVM."""
        names = numbered.columns
        counted = numbered.groupBy(*names).count()
        ends = [f"{told}(`{name}`)" for name in names for told in ("min", "max")]
        nulls = [f"count_if(`{name}` IS NULL)" for name in names]
        table = counted.selectExpr("count(*)", "max(`count`)", *nulls, *ends).toArrow()
        told = [column.combine_chunks() for column in table.columns]
        (keys,), (most,) = (column.to_pylist() for column in told[:2])
        missing = [count for column in told[2 : 2 + len(names)] for count in column.to_pylist()]
        least, greatest = told[2 + len(names) :: 2], told[3 + len(names) :: 2]
        columns = [_ends(*of_one) for of_one in zip(least, greatest, missing, strict=True)]
        unique = not any(missing) and most in (None, 1)
        return cls(keys, unique, pa.table(columns, names=names), numbered)

    def each(self) -> pa.Table:
        return self.numbered.distinct().toArrow()


def _ends(least: pa.Array, greatest: pa.Array, nulls: int) -> pa.Array:
    return pa.concat_arrays([least, greatest, pa.nulls(1, least.type) if nulls else least])


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
