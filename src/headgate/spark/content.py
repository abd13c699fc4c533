"""What rows of a DataFrame are, in any order: how many, and a hash of each of them added up, by Spark itself.

Spark's hash passes over nulls and takes no maps. So whether a value is null is hashed beside it, at every
depth, and a map as the list of its entries.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyspark.sql import Column, Row
from pyspark.sql import functions as sf
from pyspark.sql import types as spark

from headgate.iceberg.rewriting import Content
from headgate.spark.fitting import quoted
from headgate.spark.types import schema_to_spark

ROWS, LOW, HIGH = "rows", "low", "high"
_HALF_BITS = 32
_LOW_HALF = 2**_HALF_BITS - 1
_ALL = 2**64 - 1
NOTHING = Content(0, 0)


def content_columns(schema: Schema) -> list[Column]:
    """Aggregates, from which `content_of` makes the content of the rows of a group.

    The halves of the hashes are added up alone: the sum of so many of them is no number of Spark's.
    """
    hashed = sf.xxhash64(*_parts(schema_to_spark(schema)))
    return [
        sf.count("*").alias(ROWS),
        sf.sum(hashed.bitwiseAND(sf.lit(_LOW_HALF))).alias(LOW),
        sf.sum(sf.shiftrightunsigned(hashed, _HALF_BITS)).alias(HIGH),
    ]


def content_of(found: Row) -> Content:
    """From a row with the columns of `content_columns`."""
    return Content(found[ROWS], (found[LOW] + (found[HIGH] << _HALF_BITS)) & _ALL)


def added_up(contents: Iterable[Content]) -> Content:
    """The content of all rows together."""
    every = list(contents)
    return Content(sum(one.rows for one in every), sum(one.hash for one in every) & _ALL)


def _parts(struct: spark.StructType) -> list[Column]:
    return [part for field in struct.fields for part in _told(sf.col(quoted(field.name)), field.dataType)]


def _told(value: Column, kind: spark.DataType) -> list[Column]:
    """A value, and whether it is there."""
    return [value.isNull(), _hashable(value, kind)]


def _hashable(value: Column, kind: spark.DataType) -> Column:
    match kind:
        case spark.StructType():
            inside = [part for field in kind.fields for part in _told(value[field.name], field.dataType)]
            return sf.struct(*(part.alias(f"p{number}") for number, part in enumerate(inside)))
        case spark.ArrayType():
            return sf.transform(value, lambda element: _pair(element, kind.elementType))
        case spark.MapType():
            entries = spark.StructType().add("key", kind.keyType).add("value", kind.valueType)
            return sf.transform(sf.map_entries(value), lambda entry: _pair(entry, entries))
    return value


def _pair(value: Column, kind: spark.DataType) -> Column:
    return sf.struct(*(part.alias(f"p{number}") for number, part in enumerate(_told(value, kind))))
