"""Bound predicates as Spark SQL, with the same meaning in every session time zone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from headgate.core.sql.predicate import Operator
from headgate.errors import InternalError, UnsupportedError
from headgate.iceberg.format.avro import EPOCH, EPOCH_DATE
from headgate.iceberg.predicate.bound import (
    AllOf,
    Always,
    Among,
    AnyOf,
    Bound,
    Compare,
    Field,
    InPartitions,
    IsNan,
    IsNull,
    Matches,
    NotNan,
    NotNull,
    TransformCompare,
)

BUCKET_FUNCTION = "headgate_bucket"
"""Iceberg's bucket, which Spark lacks: `headgate_bucket(n, value)` must be registered with the session."""

_FROM, _UP_TO = (">=", -0.0), ("<=", 0.0)


def to_spark_sql(bound: Bound) -> str:
    """A condition that is true for exactly the rows that `bound` selects.

    For other rows it is false or null, so its negation is `NOT coalesce(…, false)`. Time transforms are
    written as ranges of the column, because Spark's own `day()` is the day of the month.
    """
    match bound:
        case Always(value):
            return "true" if value else "false"
        case AllOf(parts):
            return "(" + " AND ".join(to_spark_sql(part) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " OR ".join(to_spark_sql(part) for part in parts) + ")"
        case IsNull(field):
            return f"{_name(field)} IS NULL"
        case NotNull(field):
            return f"{_name(field)} IS NOT NULL"
        case IsNan(field):
            return f"({_name(field)} IS NOT NULL AND isnan({_name(field)}))"
        case NotNan(field):
            return f"({_name(field)} IS NOT NULL AND NOT isnan({_name(field)}))"
        case Compare(field, operator, value):
            if isinstance(field.type, FloatType | DoubleType) and value == 0:
                return _compared_with_zero(field, operator)
            return f"{_name(field)} {operator.value} {literal(value, field.type)}"
        case Among(field, values, negated):
            listed = ", ".join(sorted(literal(value, field.type) for value in values))
            return f"{_name(field)} {'NOT IN' if negated else 'IN'} ({listed})"
        case Matches(field, pattern, _, negated):
            return f"{_name(field)} {'NOT LIKE' if negated else 'LIKE'} {_text(pattern)}"
        case TransformCompare(field, transform, operator, value, plain):
            if plain is not None:
                return to_spark_sql(plain)
            assert isinstance(transform, BucketTransform)
            return f"{BUCKET_FUNCTION}({transform.num_buckets}, {_name(field)}) {operator.value} {value}"
        case InPartitions():
            raise UnsupportedError(
                "a set of partitions cannot be written as Spark SQL", "select files by the plan"
            )


def _compared_with_zero(field: Field, operator: Operator) -> str:
    """Both zeros are equal, even inside files, where Spark's Parquet reader treats -0.0 as less than 0.0."""
    low, high = (f"{_name(field)} {sign} {literal(zero, field.type)}" for sign, zero in (_FROM, _UP_TO))
    match operator:
        case Operator.EQUAL:
            return f"({low} AND {high})"
        case Operator.GREATER_OR_EQUAL:
            return low
        case Operator.LESS_OR_EQUAL:
            return high
    return f"{_name(field)} {operator.value} {literal(0.0, field.type)}"


def literal(value: Any, kind: PrimitiveType) -> str:
    """A value of a column as a Spark SQL literal."""
    match kind:
        case BooleanType():
            return "true" if value else "false"
        case IntegerType():
            return str(value)
        case LongType():
            # The smallest BIGINT cannot be written as a literal: it would be the negation of one that is too
            # large.
            return f"{value}L" if value > -(2**63) else f"CAST('{value}' AS BIGINT)"
        case FloatType() | DoubleType():
            return f"CAST('{value!r}' AS DOUBLE)"
        case DecimalType():
            return f"CAST('{value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"
        case DateType():
            return f"DATE '{EPOCH_DATE + timedelta(days=value)}'" if _writable_days(value) else _far(value)
        case TimestampType() | TimestamptzType():
            return _timestamp(value, kind)
        case StringType():
            return _text(value)
        case BinaryType() | FixedType():
            return f"X'{value.hex()}'"
    raise InternalError(f"literals of type {kind} are not supported")


def _timestamp(micros: int, kind: PrimitiveType) -> str:
    zoned = isinstance(kind, TimestamptzType)
    if not _writable_days(micros // 86_400_000_000):
        moment = f"timestamp_micros({micros}L)"
        return moment if zoned else f"to_utc_timestamp({moment}, current_timezone())"
    at = EPOCH + timedelta(microseconds=micros)
    text = at.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
    return f"TIMESTAMP_LTZ '{text}+00:00'" if zoned else f"TIMESTAMP_NTZ '{text}'"


def _writable_days(days: int) -> bool:
    return -719_162 <= days <= 2_932_896  # from year 1 to year 9999


def _far(days: int) -> str:
    return f"date_from_unix_date({days})"


def _name(field: Field) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in field.path)


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
