"""The keys of a DataFrame: where in a table rows with the same keys can be."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructType

from headgate.errors import InvalidInputError
from headgate.iceberg.arrow import fitted
from headgate.iceberg.keys import key_range as keys_of
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.row_change import KeyRange
from headgate.spark.fitting import can_become, quoted
from headgate.spark.types import schema_from_spark

MAX_KEYS = 100_000
"""Up to how many keys all of them are looked at; of more, only the least and the greatest."""


def key_range(source: DataFrame, metadata: TableMetadata, columns: Mapping[str, str]) -> KeyRange:
    """What `source` holds in its columns that stand for key columns of the table."""
    fields = {field.name: field for field in metadata.schema.fields}
    keys = {
        mine: _as_key(source, theirs, fields[mine])
        for mine, theirs in columns.items()
        if mine in fields and theirs in source.columns
    }
    known = {mine: key for mine, key in keys.items() if key is not None}
    if not known:
        return KeyRange()
    named = source.select(*(key.alias(mine) for mine, key in known.items()))
    rows = named.distinct().limit(MAX_KEYS + 1).toArrow()
    complete = rows.num_rows <= MAX_KEYS
    if not complete:
        ends = [
            named.agg(*(function(quoted(name)).alias(name) for name in known))
            for function in (sf.min, sf.max)
        ]
        rows = ends[0].unionAll(ends[1]).toArrow()
    optional = Schema(*(fields[name].model_copy(update={"required": False}) for name in known))
    return keys_of(fitted(rows, optional, "the source"), metadata, complete=complete)


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
