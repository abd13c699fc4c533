"""Conversions between Spark's and Iceberg's types, with and without field ids."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark

from headgate.errors import InvalidInputError, UnsupportedError

FIELD_ID = "parquet.field.id"
"""The metadata key of a Spark column under which Spark's Parquet reader and writer look for the id."""

_TO_ICEBERG: dict[type[spark.DataType], iceberg.PrimitiveType] = {
    spark.BooleanType: iceberg.BooleanType(),
    spark.ByteType: iceberg.IntegerType(),
    spark.ShortType: iceberg.IntegerType(),
    spark.IntegerType: iceberg.IntegerType(),
    spark.LongType: iceberg.LongType(),
    spark.FloatType: iceberg.FloatType(),
    spark.DoubleType: iceberg.DoubleType(),
    spark.DateType: iceberg.DateType(),
    spark.TimestampType: iceberg.TimestamptzType(),
    spark.TimestampNTZType: iceberg.TimestampType(),
    spark.StringType: iceberg.StringType(),
    spark.VarcharType: iceberg.StringType(),
    spark.CharType: iceberg.StringType(),
    spark.BinaryType: iceberg.BinaryType(),
}
_TO_SPARK: dict[type[iceberg.IcebergType], spark.DataType] = {
    iceberg.BooleanType: spark.BooleanType(),
    iceberg.IntegerType: spark.IntegerType(),
    iceberg.LongType: spark.LongType(),
    iceberg.FloatType: spark.FloatType(),
    iceberg.DoubleType: spark.DoubleType(),
    iceberg.DateType: spark.DateType(),
    iceberg.TimestamptzType: spark.TimestampType(),
    iceberg.TimestampType: spark.TimestampNTZType(),
    iceberg.StringType: spark.StringType(),
    iceberg.BinaryType: spark.BinaryType(),
    iceberg.FixedType: spark.BinaryType(),
}


def schema_from_spark(struct: spark.StructType) -> Schema:
    """The Iceberg schema of a Spark schema; its field ids are provisional.

    `InvalidInputError` lists every column whose type Iceberg does not have.
    """
    if not isinstance(struct, spark.StructType):
        raise InvalidInputError(
            f"a Spark {type(struct).__name__} is not a schema",
            "pass the schema of a DataFrame: df.schema",
        )
    ids, problems = count(1), list[str]()
    fields = _fields(struct, "", lambda: next(ids), problems)
    if problems:
        raise InvalidInputError(
            "the Spark schema contains types that Iceberg does not support:\n"
            + "\n".join(f"  - {p}" for p in problems),
            "cast these columns before creating the table",
        )
    return Schema(*fields)


def _fields(
    struct: spark.StructType, prefix: str, new_id: Callable[[], int], problems: list[str]
) -> list[iceberg.NestedField]:
    return [
        iceberg.NestedField(
            new_id(),
            field.name,
            _to_iceberg(field.dataType, f"{prefix}{field.name}", new_id, problems),
            required=not field.nullable,
            doc=field.metadata.get("comment"),
        )
        for field in struct.fields
    ]


def _to_iceberg(
    kind: spark.DataType, place: str, new_id: Callable[[], int], problems: list[str]
) -> iceberg.IcebergType:
    match kind:
        case spark.StructType():
            return iceberg.StructType(*_fields(kind, f"{place}.", new_id, problems))
        case spark.ArrayType():
            element = new_id(), _to_iceberg(kind.elementType, f"{place}.element", new_id, problems)
            return iceberg.ListType(*element, element_required=not kind.containsNull)
        case spark.MapType():
            key = new_id(), _to_iceberg(kind.keyType, f"{place}.key", new_id, problems)
            value = new_id(), _to_iceberg(kind.valueType, f"{place}.value", new_id, problems)
            return iceberg.MapType(*key, *value, value_required=not kind.valueContainsNull)
        case spark.DecimalType():
            return iceberg.DecimalType(kind.precision, kind.scale)
    known = _TO_ICEBERG.get(type(kind))
    if known is None:
        problems.append(f"{place}: {kind.simpleString()}")
        return iceberg.StringType()
    return known


def schema_to_spark(schema: Schema) -> spark.StructType:
    """The Spark schema of an Iceberg schema, with its field ids in the metadata of the columns."""
    return _struct(schema.as_struct(), "")


def _struct(struct: iceberg.StructType, prefix: str) -> spark.StructType:
    return spark.StructType(
        [
            spark.StructField(
                field.name,
                _to_spark(field.field_type, f"{prefix}{field.name}"),
                nullable=not field.required,
                metadata={FIELD_ID: field.field_id, **({"comment": field.doc} if field.doc else {})},
            )
            for field in struct.fields
        ]
    )


def _to_spark(kind: iceberg.IcebergType, place: str) -> spark.DataType:
    match kind:
        case iceberg.StructType():
            return _struct(kind, f"{place}.")
        case iceberg.ListType():
            element = _to_spark(kind.element_type, f"{place}.element")
            return spark.ArrayType(element, containsNull=not kind.element_required)
        case iceberg.MapType():
            key, value = (
                _to_spark(kind.key_type, f"{place}.key"),
                _to_spark(kind.value_type, f"{place}.value"),
            )
            return spark.MapType(key, value, valueContainsNull=not kind.value_required)
        case iceberg.DecimalType():
            return spark.DecimalType(kind.precision, kind.scale)
    known = _TO_SPARK.get(type(kind))
    if known is None:
        raise UnsupportedError(
            f"column {place} is {kind}, which Spark does not support", "leave it out, or use read_arrow"
        )
    return known


def has_spark_types(schema: Schema) -> bool:
    """Whether Spark has a type for each column."""
    try:
        schema_to_spark(schema)
    except UnsupportedError:
        return False
    return True


def nullable(struct: spark.StructType) -> spark.StructType:
    """The same columns, all of them optional."""
    return spark.StructType([spark.StructField(f.name, f.dataType, True, f.metadata) for f in struct.fields])


def empty_frame(session: SparkSession, schema: Schema) -> DataFrame:
    """An empty frame with the columns of an Iceberg schema."""
    return session.createDataFrame([], schema_to_spark(schema))


def has_lists_or_maps(schema: Schema) -> bool:
    """Whether Spark's own Parquet writer cannot write the schema: it writes no ids inside lists and maps."""
    return any(_contains_list_or_map(field.field_type) for field in schema.fields)


def _contains_list_or_map(kind: iceberg.IcebergType) -> bool:
    match kind:
        case iceberg.ListType() | iceberg.MapType():
            return True
        case iceberg.StructType():
            return any(_contains_list_or_map(field.field_type) for field in kind.fields)
    return False
