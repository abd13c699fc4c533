"""Partition specs in the callers' form: `country`, `day(ts)`, `bucket(8, customer)`, `truncate(4, name)`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    YearTransform,
)
from pyiceberg.types import IcebergType, NestedField, StructType

from headgate.errors import CorruptLakeError, InvalidInputError, UnsupportedError, shown

_TERM = re.compile(r"\s*(?P<transform>\w+)\s*\(\s*(?:(?P<number>-?\d+)\s*,\s*)?(?P<column>[^(),]+?)\s*\)\s*")
_TIME: dict[str, Transform[Any, Any]] = {
    "year": YearTransform(),
    "years": YearTransform(),
    "month": MonthTransform(),
    "months": MonthTransform(),
    "day": DayTransform(),
    "days": DayTransform(),
    "date": DayTransform(),
    "hour": HourTransform(),
    "hours": HourTransform(),
}
MAX_NUMBER = 2**31 - 1
"""The highest number of buckets, and of characters to keep: other engines store it as an INT."""
KNOWN = "identity, bucket(n, column), truncate(n, column), year, month, day, hour"


def parse_partition_by(terms: Sequence[str], schema: Schema, spec_id: int = 0) -> PartitionSpec:
    """The spec that `terms` describe, for `schema`; names follow Iceberg's habits (`ts_day`, `id_bucket`)."""
    if isinstance(terms, str):
        raise InvalidInputError("partition_by must be a list of strings, not a string", f"write [{terms!r}]")
    fields = []
    for offset, term in enumerate(terms):
        source, transform = parse_source(term, schema)
        name = field_name(schema, source, transform)
        fields.append(PartitionField(source, PARTITION_FIELD_ID_START + offset, transform, name))
    spec = PartitionSpec(*fields, spec_id=spec_id)
    check_names(spec, schema)
    return spec


def parse_source(term: str, schema: Schema) -> tuple[int, Transform[Any, Any]]:
    """The id of the field in `term`, and the transform; the two are compatible."""
    transform, column = parse_term(term)
    source = find_column(schema, column)
    source_type = schema.find_type(source)
    if not source_type.is_primitive or not transform.can_transform(source_type):
        raise InvalidInputError(
            f"{term!r}: {transform} cannot be applied to {column}, which is {source_type}", f"known: {KNOWN}"
        )
    if not path_to(schema, source):
        raise InvalidInputError(
            f"{term!r}: {column} is inside a list or a map, so a row has many values of it"
        )
    return source, transform


def path_to(schema: Schema, field_id: int) -> tuple[str, ...]:
    """The names that lead to a field through structs; none if it is inside a list or a map."""

    def found(fields: Iterable[NestedField]) -> tuple[str, ...]:
        for field in fields:
            if field.field_id == field_id:
                return (field.name,)
            inside = found(field.field_type.fields) if isinstance(field.field_type, StructType) else ()
            if inside:
                return (field.name, *inside)
        return ()

    return found(schema.fields)


def source_of(schema: Schema, field: PartitionField | SortField) -> tuple[tuple[str, ...], IcebergType]:
    """The names that lead to the column of a field of the table, and its type, before it is computed with.

    The metadata file of the table contains the field, so it may refer to anything.
    """
    path = path_to(schema, field.source_id)
    if not path:
        raise CorruptLakeError(
            f"rows are partitioned or sorted by column {field.source_id}, which the table does not have"
        )
    kind = schema.find_type(field.source_id)
    if isinstance(field.transform, UnknownTransform):
        raise UnsupportedError(
            f"the transform of {'.'.join(path)}, by which rows are partitioned or sorted, is unknown",
            "upgrade headgate",
        )
    if not kind.is_primitive or not field.transform.can_transform(kind):
        raise CorruptLakeError(
            f"rows are partitioned or sorted by {field.transform} of {'.'.join(path)}, which is {kind}"
        )
    return path, kind


def field_name(schema: Schema, source: int, transform: Transform[Any, Any]) -> str:
    """The default name of a partition field: `ts_day`, `id_bucket`."""
    column = schema.find_column_name(source)
    assert column is not None
    return column.replace(".", "_") + _suffix(transform)


def written_term(schema: Schema, source: int, transform: Transform[Any, Any]) -> str:
    """A partition field in the callers' form."""
    column = schema.find_column_name(source)
    match transform:
        case IdentityTransform():
            return f"{column}"
        case BucketTransform():
            return f"bucket({transform.num_buckets}, {column})"
        case TruncateTransform():
            return f"truncate({transform.width}, {column})"
        case _:
            return f"{transform}({column})"


def written_terms(schema: Schema, spec: PartitionSpec) -> tuple[str, ...]:
    """The fields of a spec in the callers' form."""
    return tuple(written_term(schema, field.source_id, field.transform) for field in spec.fields)


def check_names(spec: PartitionSpec, schema: Schema) -> None:
    """Raises for names with two meanings: directories and engines identify partition fields by name."""
    names = [field.name for field in spec.fields]
    if len(set(names)) != len(names):
        raise InvalidInputError(f"partition_by contains the same field twice: {', '.join(names)}")
    columns = {column.name.lower(): column.field_id for column in schema.fields}
    for field in spec.fields:
        own = isinstance(field.transform, IdentityTransform)
        column = columns.get(field.name.lower())
        if column is not None and not (own and column == field.source_id):
            raise InvalidInputError(
                f"the partition field {field.name} has the same name as a column", "rename the column first"
            )


def parse_term(term: str) -> tuple[Transform[Any, Any], str]:
    """A transform and the column that it applies to."""
    if not isinstance(term, str) or not term.strip():
        raise InvalidInputError(f"{shown(term)} is not a partition field", f"known: {KNOWN}")
    match = _TERM.fullmatch(term)
    if match is None:
        if "(" in term or ")" in term:
            raise InvalidInputError(f"{term!r} is not a partition field", f"known: {KNOWN}")
        return IdentityTransform(), term.strip()
    name, number, column = match["transform"].lower(), match["number"], match["column"]
    if name in ("bucket", "truncate"):
        # Check the length first: Python refuses to parse thousands of digits.
        if number is None or len(number) > len(str(MAX_NUMBER)) or not 1 <= int(number) <= MAX_NUMBER:
            raise InvalidInputError(
                f"{term[:80]!r} needs a number from 1 to {MAX_NUMBER}", f"write {name}(8, {column})"
            )
        width = int(number)
        return (BucketTransform(width) if name == "bucket" else TruncateTransform(width)), column
    if number is not None or name not in (*_TIME, "identity"):
        raise InvalidInputError(f"{term!r} is not a partition field", f"known: {KNOWN}")
    return (IdentityTransform() if name == "identity" else _TIME[name]), column


def find_column(schema: Schema, column: str) -> int:
    """The field id of a column. The `InvalidInputError` lists similar names."""
    try:
        return schema.find_field(column).field_id
    except ValueError:
        near = difflib.get_close_matches(column, schema.column_names, n=3)
        step = f"did you mean {' or '.join(near)}?" if near else f"columns: {', '.join(schema.column_names)}"
        raise InvalidInputError(f"there is no column {column!r}", step) from None


def _suffix(transform: Transform[Any, Any]) -> str:
    match transform:
        case IdentityTransform():
            return ""
        case BucketTransform():
            return "_bucket"
        case TruncateTransform():
            return "_trunc"
        case _:
            return f"_{transform}"
