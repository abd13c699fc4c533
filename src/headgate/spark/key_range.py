"""The keys of a DataFrame: where in a table rows with the same keys can be."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headgate.iceberg import keys
from headgate.iceberg.arrow import fitted
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.row_change import KeyRange
from headgate.spark.fitting import can_become, quoted
from headgate.spark.types import schema_from_spark

MAX_KEYS = 100_000
"""Up to how many rows all keys are looked at; of more, only the least and the greatest."""


def key_range(source: DataFrame, metadata: TableMetadata, columns: Mapping[str, str]) -> KeyRange:
    """What `source` holds in its columns that stand for key columns of the table."""
    found = {
        mine: theirs for mine, theirs in columns.items() if _comparable(source, metadata.schema, mine, theirs)
    }
    if not found:
        return KeyRange()
    named = source.select(*(sf.col(quoted(theirs)).alias(mine) for mine, theirs in found.items()))
    complete = source.count() <= MAX_KEYS
    if not complete:
        ends = [
            named.agg(*(function(quoted(name)).alias(name) for name in found))
            for function in (sf.min, sf.max)
        ]
        named = ends[0].unionAll(ends[1])
    schema = Schema(*(metadata.schema.find_field(name) for name in found))
    optional = Schema(*(field.model_copy(update={"required": False}) for field in schema.fields))
    rows = fitted(named.distinct().toArrow(), optional, "the source")
    return keys.key_range(rows, metadata, complete=complete)


def _comparable(source: DataFrame, schema: Schema, mine: str, theirs: str) -> bool:
    """Whether both have the column, and equal values of both are equal as values of the table's type."""
    if mine not in {field.name for field in schema.fields} or theirs not in source.columns:
        return False
    given = schema_from_spark(source.select(quoted(theirs)).schema).fields[0].field_type
    return can_become(given, schema.find_field(mine).field_type)
