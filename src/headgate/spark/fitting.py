"""DataFrames and table schemas: what fits, what does not, and the projection that makes it fit exactly.

Also hands rows over to Python: PySpark reads column names as expressions, so the names are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark

from headgate.core.input.arguments import nearest, repeated
from headgate.errors import InvalidInputError
from headgate.spark.types import schema_from_spark, schema_to_spark

NULL_IN_REQUIRED = "HEADGATE_NULL_IN_REQUIRED_COLUMN"
"""Marks the error of a Spark job that met a null in a required column; the column follows."""
DOES_NOT_FIT = "HEADGATE_VALUE_DOES_NOT_FIT"
"""Marks the error of a Spark job that met a number that its column cannot hold; the details follow."""


def fitted(df: DataFrame, schema: Schema, place: str) -> DataFrame:
    """`df` with exactly the columns and types of `schema`, in its order, with its field ids.

    Optional columns that `df` lacks become null. If it does not fit, the `InvalidInputError` lists all
    differences. Nulls in required columns are detected while the rows are written, and fail the job.
    """
    problems = list(_differences(df.schema, schema))
    if problems:
        raise InvalidInputError(
            f"the DataFrame does not fit {place}:\n" + "\n".join(f"  - {problem}" for problem in problems),
            "rename, cast or drop columns, or change the table's schema first",
        )
    return df.select(*(_column(df, field) for field in schema_to_spark(schema).fields))


def quoted(name: str) -> str:
    """A column name, quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def _column(df: DataFrame, field: spark.StructField) -> Column:
    if field.name not in df.columns or isinstance(df.schema[field.name].dataType, spark.NullType):
        return sf.lit(None).cast(field.dataType).alias(field.name, metadata=field.metadata)
    column = sf.col(quoted(field.name))
    for condition, path in _nulls_forbidden(column, field, field.name):
        failure = sf.raise_error(sf.lit(f"{NULL_IN_REQUIRED} {path} "))
        column = sf.when(condition, failure).otherwise(column)
    return exact(column, df.schema[field.name].dataType, field)


def exact(column: Column, given: spark.DataType, field: spark.StructField) -> Column:
    """The column, whose values all have the type of `field`, with that type and its ids."""
    if given == field.dataType and isinstance(given, spark.AtomicType):
        return column.alias(field.name, metadata=field.metadata)  # each cast costs some calls to the JVM
    # A cast goes by position, so the order must be right first.
    ordered = reordered(column, given, field.dataType)
    # The cast also puts the ids of nested fields into the type. `DataFrame.to` would not, because it ignores
    # differences in metadata. The type is nullable everywhere, since nulls are checked row by row.
    return ordered.cast(nullable_type(field.dataType)).alias(field.name, metadata=field.metadata)


def reordered(column: Column, given: spark.DataType, wanted: spark.DataType) -> Column:
    """The column with only the wanted fields of its structs, in that order, at every depth."""
    if _same_names(given, wanted):
        return column
    match given, wanted:
        case spark.ArrayType(), spark.ArrayType():
            inner, inside = given.elementType, wanted.elementType
            return sf.transform(column, lambda element: reordered(element, inner, inside))
        case spark.MapType(), spark.MapType():
            return _reordered_map(column, given, wanted)
        case spark.StructType(), spark.StructType():
            fields = [
                reordered(column[field.name], given[field.name].dataType, field.dataType).alias(field.name)
                for field in wanted.fields
            ]
            return sf.when(column.isNotNull(), sf.struct(*fields))
    return column


def _reordered_map(column: Column, given: spark.MapType, wanted: spark.MapType) -> Column:
    if not _same_names(given.keyType, wanted.keyType):
        column = sf.transform_keys(column, lambda key, _: reordered(key, given.keyType, wanted.keyType))
    if not _same_names(given.valueType, wanted.valueType):
        column = sf.transform_values(
            column, lambda _, value: reordered(value, given.valueType, wanted.valueType)
        )
    return column


def _nulls_forbidden(value: Column, field: spark.StructField, path: str) -> Iterator[tuple[Column, str]]:
    """For each required field, the condition under which a row violates it."""
    if not field.nullable:
        yield value.isNull(), path
    if isinstance(field.dataType, spark.StructType):
        for inner in field.dataType.fields:
            for condition, inner_path in _nulls_forbidden(value[inner.name], inner, f"{path}.{inner.name}"):
                yield value.isNotNull() & condition, inner_path


def _same_names(given: spark.DataType, wanted: spark.DataType) -> bool:
    """Whether structs have the same fields in the same order, at every depth."""
    match given, wanted:
        case spark.ArrayType(), spark.ArrayType():
            return _same_names(given.elementType, wanted.elementType)
        case spark.MapType(), spark.MapType():
            keys = _same_names(given.keyType, wanted.keyType)
            return keys and _same_names(given.valueType, wanted.valueType)
        case spark.StructType(), spark.StructType():
            return given.names == wanted.names and all(
                _same_names(given[name].dataType, wanted[name].dataType) for name in wanted.names
            )
    return True


def nullable_type(kind: spark.DataType) -> spark.DataType:
    """The type with every nested field nullable."""
    match kind:
        case spark.StructType():
            inner = [(field.name, nullable_type(field.dataType), field.metadata) for field in kind.fields]
            return spark.StructType([spark.StructField(name, of, True, meta) for name, of, meta in inner])
        case spark.ArrayType():
            return spark.ArrayType(nullable_type(kind.elementType), True)
        case spark.MapType():
            return spark.MapType(nullable_type(kind.keyType), nullable_type(kind.valueType), True)
    return kind


def _differences(given: spark.StructType, schema: Schema) -> Iterator[str]:
    present = {field.name: field for field in given.fields}
    yield from (f"column {name} occurs twice" for name in repeated(given.names))
    wanted = {field.name: field for field in schema.fields}
    for field in given.fields:
        if field.name not in wanted:
            hint = nearest(field.name, wanted)
            told = f"column {field.name} ({field.dataType.simpleString()}) is not in the table"
            yield told if hint is None else f"{told}; {hint}"
    for name, column in wanted.items():
        if name not in present:
            if column.required:
                yield f"column {name} ({column.field_type}) is required but missing"
        else:
            yield from type_differences(present[name], column)


def type_differences(given: spark.StructField, wanted: iceberg.NestedField) -> Iterator[str]:
    """Why values of the first column cannot become values of the second."""
    if isinstance(given.dataType, spark.NullType):
        if wanted.required:
            yield f"column {wanted.name} is required, but all its values are null"
        return
    try:
        kind = schema_from_spark(spark.StructType([given])).fields[0].field_type
    except InvalidInputError:
        yield f"column {given.name}: Iceberg has no type for {given.dataType.simpleString()}"
        return
    if not can_become(kind, wanted.field_type):
        yield f"column {wanted.name} is {kind}, but the table has {wanted.field_type}"


def can_become(given: iceberg.IcebergType, wanted: iceberg.IcebergType) -> bool:
    """Whether every value of `given` is a value of `wanted`."""
    match given, wanted:
        case iceberg.IntegerType(), iceberg.LongType():
            return True
        case iceberg.FloatType(), iceberg.DoubleType():
            return True
        case iceberg.DecimalType(), iceberg.DecimalType():
            whole = given.precision - given.scale <= wanted.precision - wanted.scale
            return whole and given.scale <= wanted.scale
        case iceberg.StructType(), iceberg.StructType():
            fields = {field.name: field.field_type for field in given.fields}
            return fields.keys() == {field.name for field in wanted.fields} and all(
                can_become(fields[field.name], field.field_type) for field in wanted.fields
            )
        case iceberg.ListType(), iceberg.ListType():
            return can_become(given.element_type, wanted.element_type)
        case iceberg.MapType(), iceberg.MapType():
            return can_become(given.key_type, wanted.key_type) and can_become(
                given.value_type, wanted.value_type
            )
        case _:
            return given == wanted


def to_be_handed_over(rows: DataFrame) -> DataFrame:
    """The rows with neutral column names."""
    return rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))


def handed_over(batch: pa.RecordBatch, schema: Schema) -> pa.Table:
    """The rows that arrived, with the columns of `schema` under their original names."""
    return pa.Table.from_batches([batch]).rename_columns([field.name for field in schema.fields])
