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

from headgate.arrow.keys import MAX_LISTED, ORDERED, tell_partitions
from headgate.arrow.keys import key_range as keys_of
from headgate.errors import InvalidInputError
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.scan.engine import KeyRange
from headgate.iceberg.schema.arrow import fitted
from headgate.spark.change.kept_rows import Kept, is_little
from headgate.spark.fitting import can_become, quoted
from headgate.spark.sql.columns import as_columns
from headgate.spark.types import schema_from_spark

MAX_KEYS = 100_000
"""Up to this many keys, each one is read if the keys determine partitions; with more, only the bounds."""


@dataclass(frozen=True, slots=True)
class HeldKeys:
    """Where rows with the keys of a source can be.

    `unique`: no two source rows have equal keys, and none is null. It is also False if only reading the
    rows could show it.
    """

    range: KeyRange
    unique: bool


def held_keys(
    source: Kept, metadata: TableMetadata, columns: Mapping[str, str], rows: pa.Table | None = None
) -> HeldKeys:
    """What `source` holds in its columns that correspond to key columns of the table.

    `rows` are those of the source, with the names and types of the table, if they are in this process. If
    not, the keys of a small source are fetched, unless Arrow may compare them differently than Spark.
    Otherwise it takes one pass over the source, and another one if there are few enough keys to read each of
    them.
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
    """Only the keys, with numbers as column names: the table's columns can have any names."""
    return rows.select(*(key.alias(str(number)) for number, key in enumerate(keys)))


@dataclass(frozen=True, slots=True)
class _FetchedKeys:
    """The number of different keys, whether each occurs once and none is null, and their bounds.

    `ends` has a row with the smallest values, one with the largest, and one with nulls where there are any.
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
    """The same for keys that stay in Spark."""

    count: int
    unique: bool
    ends: pa.Table
    numbered: DataFrame

    @classmethod
    def of(cls, numbered: DataFrame) -> _SparksKeys:
        """From rows with only keys. In SQL: each function of PySpark costs some calls to the JVM."""
        names = numbered.columns
        counted = numbered.groupBy(*names).count()
        ends = [f"{told}(`{name}`)" for name in names for told in ("min", "max")]
        nulls = [f"count_if(`{name}` IS NULL)" for name in names]
        told = as_columns(counted.sparkSession, ["count(*)", "max(`count`)", *nulls, *ends])
        table = counted.select(*told).toArrow()
        found = [column.combine_chunks() for column in table.columns]
        (keys,), (most,) = (column.to_pylist() for column in found[:2])
        missing = [count for column in found[2 : 2 + len(names)] for count in column.to_pylist()]
        least, greatest = found[2 + len(names) :: 2], found[3 + len(names) :: 2]
        columns = [_ends(*of_one) for of_one in zip(least, greatest, missing, strict=True)]
        unique = not any(missing) and most in (None, 1)
        return cls(keys, unique, pa.table(columns, names=names), numbered)

    def each(self) -> pa.Table:
        return self.numbered.distinct().toArrow()


def _ends(least: pa.Array, greatest: pa.Array, nulls: int) -> pa.Array:
    return pa.concat_arrays([least, greatest, pa.nulls(1, least.type) if nulls else least])


def _as_key(source: DataFrame, name: str, field: NestedField) -> Column | None:
    """The source column, converted to the table's type; None if that would change which values are equal."""
    column, given = sf.col(quoted(name)), source.schema[name]
    if given.dataType == LongType() and isinstance(field.field_type, IntegerType):
        # A larger value equals no value of the table.
        return sf.when(column.between(-(2**31), 2**31 - 1), column).cast("int")
    if isinstance(given.dataType, StringType) and given.dataType != StringType():
        return None  # has a collation, by which different strings can be equal
    try:
        kind = schema_from_spark(StructType([given])).fields[0].field_type
    except InvalidInputError:
        return None  # a type that does not occur in tables
    return column if can_become(kind, field.field_type) else None
