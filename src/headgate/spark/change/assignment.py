"""Values that an UPDATE or MERGE assigns: a Spark expression per column, checked against the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark

from headgate.core.input.arguments import nearest
from headgate.core.sql.merge_clauses import Expression
from headgate.errors import InvalidInputError, shown
from headgate.spark.fitting import DOES_NOT_FIT, can_become, exact, type_differences
from headgate.spark.jobs import analysed
from headgate.spark.sql.columns import as_column
from headgate.spark.types import schema_from_spark, schema_to_spark

Rest: TypeAlias = Callable[[spark.StructField], Column]
"""The value of a column without an assignment: a Spark column with its type and name."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows that expressions refer to. `known` are the names in them; `advice` goes into errors."""

    rows: DataFrame
    known: tuple[str, ...]
    advice: str | None = None

    def types(self, columns: Mapping[str, Column], told: Mapping[str, str]) -> dict[str, spark.StructField]:
        """The type of each expression. The `InvalidInputError` names one that Spark cannot analyze."""
        named = [column.alias(name) for name, column in columns.items()]
        try:
            with analysed(told[next(iter(columns))], self.known, self.advice):
                # Select them with the columns of the rows: this way Spark rejects an aggregate.
                fields = self.rows.select("*", *named).schema.fields
        except InvalidInputError:
            if len(columns) > 1:
                for name, column in columns.items():
                    self.types({name: column}, told)
            raise
        return dict(zip(columns, fields[len(fields) - len(named) :], strict=True))

    def expression(self, given: Expression, told: str) -> Column:
        """The expression as a column. The `InvalidInputError` calls it `told` if it is not SQL."""
        with analysed(told, self.known, self.advice):
            return expression(self.rows.sparkSession, given)

    def condition(self, given: Expression, what: str) -> Column:
        """The condition as a column; null counts as false."""
        told = f"{what}, {given},"
        column = self.expression(given, told)
        kind = self.types({what: column}, {what: told})[what].dataType
        if not isinstance(kind, spark.BooleanType | spark.NullType):
            raise InvalidInputError(f"{told} is {kind.simpleString()}, not boolean", "write a comparison")
        return sf.coalesce(column.cast("boolean"), sf.lit(False))

    def image(self, values: Mapping[str, Expression], schema: Schema, table: str, rest: Rest) -> Column:
        """The row after the assignment of `values`, as a struct with exactly the columns of the table.

        `InvalidInputError` lists the values whose type does not match their column. Numbers are converted. A
        number that does not fit, or a fraction in an integer column, fails the job.
        """
        struct = schema_to_spark(schema)
        require_columns(values, struct.names, table)
        told = {name: f"the value of {name}, {value}," for name, value in values.items()}
        columns = {name: self.expression(value, told[name]) for name, value in values.items()}
        given = self.types(columns, told)
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
                f"the values do not match the columns of {table}:\n"
                + "\n".join(f"  - {problem}" for problem in problems),
                "cast them in the expressions",
            )
        return sf.struct(*fields)


def expression(session: SparkSession, given: Any) -> Column:
    """A Spark column from a column or from SQL, not analyzed yet."""
    if isinstance(given, Column):
        return given
    if not isinstance(given, str):
        raise InvalidInputError(
            f"an expression must be SQL or a Spark column, not {shown(given)}",
            "quote a string inside the SQL: \"'paid'\"",
        )
    return as_column(session, given)


def require_columns(names: Mapping[str, Any] | Sequence[str], known: Sequence[str], place: str) -> None:
    """Raises if a column does not exist."""
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
    """The values of an expression, converted to a column. Adds to `problems` if that is not possible."""
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
    # Whatever the session's setting for overflow is, no number may be truncated silently.
    tried = column.try_cast(wanted.dataType)
    wrong = tried.isNull()
    if isinstance(wanted.dataType, spark.IntegralType):
        # Nor may a fraction.
        wrong |= tried.cast(given.dataType) != column
    holder = f"column {wanted.name} ({wanted.dataType.simpleString()})"
    told = sf.concat(sf.lit(f"{DOES_NOT_FIT} {holder} cannot hold "), column.cast("string"), sf.lit("\n"))
    return sf.when(column.isNotNull() & wrong, sf.raise_error(told)).otherwise(tried)


def _filled(given: spark.DataType, wanted: spark.DataType) -> spark.DataType:
    """The type, with null types inside it replaced by the wanted ones: in `array()`, for example."""
    match given, wanted:
        case spark.NullType(), _:
            return wanted
        case spark.ArrayType(), spark.ArrayType():
            return spark.ArrayType(_filled(given.elementType, wanted.elementType), True)
        case spark.MapType(), spark.MapType():
            key = _filled(given.keyType, wanted.keyType)
            return spark.MapType(key, _filled(given.valueType, wanted.valueType), True)
        case spark.StructType(), spark.StructType():
            kinds = {field.name: field.dataType for field in wanted.fields}
            fields = [
                (field.name, _filled(field.dataType, kinds.get(field.name, field.dataType)))
                for field in given.fields
            ]
            return spark.StructType([spark.StructField(name, kind, True) for name, kind in fields])
    return given
