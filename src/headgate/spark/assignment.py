"""Rows that assignments make: an expression of Spark's for each column, checked against the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark

from headgate.core.lookup import nearest
from headgate.core.merging import Expression
from headgate.errors import InvalidInputError
from headgate.spark.fitting import DOES_NOT_FIT, can_become, exact, type_differences
from headgate.spark.jobs import analysed
from headgate.spark.types import schema_from_spark, schema_to_spark

Rest: TypeAlias = Callable[[spark.StructField], Column]
"""What a column without an assignment holds: a column of its type and name."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Rows that expressions are about. `known` are the names in them, for errors, as is `advice`."""

    rows: DataFrame
    known: tuple[str, ...]
    advice: str | None = None

    def types(self, columns: Mapping[str, Column], told: Mapping[str, str]) -> dict[str, spark.StructField]:
        """The type of each expression; `InvalidInputError` tells which Spark does not understand."""
        named = [column.alias(name) for name, column in columns.items()]
        try:
            with analysed(told[next(iter(columns))], self.known, self.advice):
                # Beside the columns of the rows: an aggregate, which has no place here, is found by that.
                fields = self.rows.select("*", *named).schema.fields
        except InvalidInputError:
            if len(columns) > 1:
                for name, column in columns.items():
                    self.types({name: column}, told)
            raise
        return dict(zip(columns, fields[len(fields) - len(named) :], strict=True))

    def condition(self, given: Expression, what: str) -> Column:
        """Whether a condition holds; one that is null does not."""
        column, told = expression(given), f"{what}, {given},"
        kind = self.types({what: column}, {what: told})[what].dataType
        if not isinstance(kind, spark.BooleanType | spark.NullType):
            raise InvalidInputError(
                f"{told} is {kind.simpleString()}, not true or false", "compare it with something"
            )
        return sf.coalesce(column.cast("boolean"), sf.lit(False))

    def image(self, values: Mapping[str, Expression], schema: Schema, table: str, rest: Rest) -> Column:
        """The row after `values` were assigned, as a struct with exactly the columns of the table.

        `InvalidInputError` lists the values that are not of the type of their column. Numbers are converted:
        one that does not fit, or a fraction where only whole ones do, fails the job.
        """
        struct = schema_to_spark(schema)
        require_columns(values, struct.names, table)
        columns = {name: expression(value) for name, value in values.items()}
        given = self.types(
            columns, {name: f"the value of {name}, {value}," for name, value in values.items()}
        )
        wanted = {field.name: field for field in schema.fields}
        problems: list[str] = []
        fields = [
            _stored(columns[field.name], given[field.name], field, wanted[field.name], problems).alias(
                field.name
            )
            if field.name in columns
            else rest(field)
            for field in struct.fields
        ]
        if problems:
            raise InvalidInputError(
                f"the values do not fit {table}:\n" + "\n".join(f"  - {problem}" for problem in problems),
                "cast them in the expressions",
            )
        return sf.struct(*fields)


def expression(given: Any) -> Column:
    """A column of Spark's, from one or from SQL, which is not looked at yet."""
    if isinstance(given, Column):
        return given
    if not isinstance(given, str):
        raise InvalidInputError(
            f"an expression is SQL or a column of Spark, but got {given!r}",
            "put a text in quotes inside the SQL: \"'paid'\"",
        )
    return sf.expr(given)


def require_columns(names: Mapping[str, Any] | Sequence[str], known: Sequence[str], place: str) -> None:
    """Refuses names of columns that are not there."""
    for name in names:
        if name not in known:
            raise InvalidInputError(f"{place}: there is no column {name}", nearest(name, known))


def _stored(
    column: Column,
    given: spark.StructField,
    wanted: spark.StructField,
    field: NestedField,
    problems: list[str],
) -> Column:
    """The values of an expression as those of a column; adds to `problems` if they cannot be."""
    kind = given.dataType
    if isinstance(kind, spark.NumericType) and isinstance(wanted.dataType, spark.NumericType):
        return _number(column, given, wanted, field)
    filled = spark.StructField(given.name, _filled(kind, wanted.dataType), nullable=True)
    found = list(type_differences(filled, field))
    problems += found
    if found:
        return column
    return exact(column if kind == filled.dataType else column.cast(filled.dataType), filled.dataType, wanted)


def _number(
    column: Column, given: spark.StructField, wanted: spark.StructField, field: NestedField
) -> Column:
    if can_become(schema_from_spark(spark.StructType([given])).fields[0].field_type, field.field_type):
        return column if given.dataType == wanted.dataType else column.cast(wanted.dataType)
    # Whatever the session does with numbers that are too large: here none may be cut silently.
    tried = column.try_cast(wanted.dataType)
    wrong = tried.isNull()
    if isinstance(wanted.dataType, spark.IntegralType):
        # A fraction is not cut either.
        wrong |= tried.cast(given.dataType) != column
    holder = f"column {wanted.name} ({wanted.dataType.simpleString()})"
    told = sf.concat(sf.lit(f"{DOES_NOT_FIT} {holder} cannot hold "), column.cast("string"), sf.lit("\n"))
    return sf.when(column.isNotNull() & wrong, sf.raise_error(told)).otherwise(tried)


def _filled(given: spark.DataType, wanted: spark.DataType) -> spark.DataType:
    """The type, with the wanted one where it is that of null: in `array()`, for example."""
    match given, wanted:
        case spark.NullType(), _:
            return wanted
        case spark.ArrayType(), spark.ArrayType():
            return spark.ArrayType(_filled(given.elementType, wanted.elementType), True)
        case spark.MapType(), spark.MapType():
            key = _filled(given.keyType, wanted.keyType)
            return spark.MapType(key, _filled(given.valueType, wanted.valueType), True)
        case spark.StructType(), spark.StructType():
            fields = [
                (field.name, _filled(field.dataType, wanted[field.name].dataType))
                if field.name in wanted.names
                else (field.name, field.dataType)
                for field in given.fields
            ]
            return spark.StructType([spark.StructField(name, kind, True) for name, kind in fields])
    return given
