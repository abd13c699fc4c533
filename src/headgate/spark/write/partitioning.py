"""Iceberg's transforms on Spark columns: to separate rows by partition, and to sort them.

For partitions, the results name the directories into which Spark's writer sorts the rows: equal for rows of
the same partition, different for rows of different ones, and readable. The partition values in the manifests
do not come from here; pyiceberg computes them from the contents of the files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg import transforms
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField
from pyiceberg.types import IcebergType
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from headgate.errors import UnsupportedError
from headgate.iceberg.predicate.spark_text import BUCKET_FUNCTION
from headgate.iceberg.schema.arrow import schema_from_arrow, too_long, transformed
from headgate.iceberg.schema.partitions import source_of
from headgate.spark.fitting import DOES_NOT_FIT, quoted

MICROS_PER_DAY = 86_400_000_000
MICROS_PER_HOUR = 3_600_000_000
LEAST_LONG = -(2**63)
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for the directory of null."""
NUL = "\0"
"""The character that no disk allows in a name, and that Spark does not escape."""
SHOWN_CHARACTERS = 40
"""Longer strings are cut and get a hash: on most disks the name of a directory has at most 255 bytes."""


def directory_columns(schema: Schema, spec: PartitionSpec) -> dict[str, Column]:
    """A column per partition field, which the table does not have, with strings that name directories."""
    taken = {name.lower() for name in schema.column_names}
    columns: dict[str, Column] = {}
    for field in spec.fields:
        name = field.name
        while name.lower() in taken:
            # Spark omits partition columns from the files, but Iceberg wants the column there.
            name += "_partition"
        taken.add(name.lower())
        columns[name] = _as_directory(_directory(schema, field))
    return columns


def ordering_column(schema: Schema, field: SortField) -> Column:
    """The values by which a sort field orders rows."""
    source, kind = _source(schema, field)
    match field.transform:
        case transforms.MonthTransform():
            day = _utc_date(source, kind)
            return sf.year(day) * sf.lit(12) + sf.month(day)
        case transforms.HourTransform():
            return sf.unix_date(_utc_date(source, kind)) * sf.lit(24) + _utc_hour(source, kind)
        case _:
            return _transformed(source, kind, field.transform)


def _directory(schema: Schema, field: PartitionField) -> Column:
    """The values of a partition field, in a form whose strings differ for different values."""
    source, kind = _source(schema, field)
    match field.transform:
        case transforms.IdentityTransform() | transforms.TruncateTransform():
            return _readable(_transformed(source, kind, field.transform), kind)
        case transforms.MonthTransform():
            day = _utc_date(source, kind)
            return sf.concat(sf.year(day).cast("string"), sf.lit("-"), _two_digits(sf.month(day)))
        case transforms.HourTransform():
            day = _utc_date(source, kind).cast("string")
            return sf.concat(day, sf.lit("-"), _two_digits(_utc_hour(source, kind)))
        case _:
            return _transformed(source, kind, field.transform)


def _transformed(source: Column, kind: Any, transform: transforms.Transform[Any, Any]) -> Column:
    match transform:
        case transforms.IdentityTransform():
            return source
        case transforms.BucketTransform():
            return _by_pyiceberg(transform, kind, "int")(source)
        case transforms.TruncateTransform():
            return _truncated(transform, kind, source)
        case transforms.VoidTransform():
            return sf.lit(None)
        case transforms.YearTransform():
            return sf.year(_utc_date(source, kind))
        case transforms.DayTransform():
            return _utc_date(source, kind)
    raise UnsupportedError(f"the transform {transform} is unknown")


def _source(schema: Schema, field: PartitionField | SortField) -> tuple[Column, IcebergType]:
    """The column of a field, and its type."""
    (first, *rest), kind = source_of(schema, field)
    column = sf.col(quoted(first))
    for part in rest:
        column = column[part]
    return column, kind


def _truncated(transform: transforms.TruncateTransform[Any], kind: Any, source: Column) -> Column:
    match kind:
        case iceberg.StringType() | iceberg.BinaryType():
            return sf.substring(source, 1, transform.width)
        case iceberg.IntegerType() | iceberg.LongType():
            source = source.cast("bigint")  # the smallest INT is truncated to a value that is no INT
            above = sf.pmod(source, sf.lit(transform.width))
            problem = sf.raise_error(sf.lit(f"{DOES_NOT_FIT} {too_long(str(kind)).problem}"))
            return sf.when(source < above + sf.lit(LEAST_LONG), problem).otherwise(source - above)
        case _:
            return _by_pyiceberg(transform, kind, str(kind).replace(" ", ""))(source)


def _by_pyiceberg(
    transform: transforms.Transform[Any, Any], kind: Any, result: str
) -> Callable[[Column], Column]:
    """Iceberg's own function, on Arrow data in the Python workers, where Spark has no equivalent."""

    @arrow_udf(result)  # type: ignore[untyped-decorator]
    def apply(values: pa.Array) -> pa.Array:
        return transformed(values, transform, kind)

    function: Callable[[Column], Column] = apply
    return function


def register_bucket(spark: SparkSession) -> None:
    """Registers Iceberg's bucket transform as an SQL function: `headgate_bucket(n, value)`."""

    @arrow_udf("int")  # type: ignore[untyped-decorator]
    def headgate_bucket(counts: pa.Array, values: pa.Array) -> pa.Array:
        if len(values) == 0:
            return pa.array([], pa.int32())
        kind = schema_from_arrow(pa.schema([("value", values.type)])).fields[0].field_type
        return transformed(values, transforms.BucketTransform(counts[0].as_py()), kind)

    spark.udf.register(BUCKET_FUNCTION, headgate_bucket)


def _utc_date(source: Column, kind: Any) -> Column:
    """The day in UTC, whatever the session's time zone is."""
    if isinstance(kind, iceberg.TimestamptzType):
        micros = sf.unix_micros(source)
        midnight = micros - sf.pmod(micros, sf.lit(MICROS_PER_DAY))
        # Integer division: as doubles, times after the year 2255 are not exact.
        return sf.date_from_unix_date(sf.call_function("div", midnight, sf.lit(MICROS_PER_DAY)).cast("int"))
    return source.cast("date")


def _utc_hour(source: Column, kind: Any) -> Column:
    if isinstance(kind, iceberg.TimestamptzType):
        of_day = sf.pmod(sf.unix_micros(source), sf.lit(MICROS_PER_DAY))
        return sf.floor(of_day / sf.lit(MICROS_PER_HOUR))
    return sf.hour(source)


def _two_digits(number: Column) -> Column:
    return sf.lpad(number.cast("string"), 2, "0")


def _readable(value: Column, kind: Any) -> Column:
    """A value in a form whose strings differ for different values."""
    match kind:
        case iceberg.BinaryType() | iceberg.FixedType():
            return sf.hex(value)  # as strings, bytes that are not UTF-8 would look the same
        case iceberg.TimestamptzType():
            return sf.unix_micros(value)  # as strings, two of them look the same when clocks are set back
        case _:
            return value


def _as_directory(value: Column) -> Column:
    """A string for the name of a directory: different for null, the empty string and every other value."""
    text = value.cast("string")
    marked = sf.when(text.isNull(), sf.lit(None)).when(
        text.isin("", HIVE_NULL) | text.startswith("'"), sf.concat(sf.lit("'"), text)
    )
    digest = sf.substring(sf.sha2(text, 256), 1, 32)
    shown = sf.substring(sf.replace(text, sf.lit(NUL), sf.lit("")), 1, SHOWN_CHARACTERS)
    cut = sf.concat(shown, sf.lit("~"), digest)
    too_odd = (sf.length(text) > SHOWN_CHARACTERS) | text.contains(NUL)
    return marked.when(too_odd, cut).otherwise(text)
