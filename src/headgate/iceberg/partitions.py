"""Partition specs as callers write them: `country`, `day(ts)`, `bucket(8, customer)`, `truncate(4, name)`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)

from headgate.errors import InvalidInputError

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
KNOWN = "identity, bucket(n, column), truncate(n, column), year, month, day, hour"


def parse_partition_by(terms: Sequence[str], schema: Schema, spec_id: int = 0) -> PartitionSpec:
    """The spec that `terms` describe, for `schema`; names follow Iceberg's habits (`ts_day`, `id_bucket`)."""
    if isinstance(terms, str):
        raise InvalidInputError("partition_by is a list of texts", f"write [{terms!r}]")
    fields = []
    for offset, term in enumerate(terms):
        transform, column = parse_term(term)
        source = find_column(schema, column)
        source_type = schema.find_type(source)
        if not source_type.is_primitive or not transform.can_transform(source_type):
            raise InvalidInputError(
                f"{term!r}: {transform} does not fit the type {source_type} of {column}", f"known: {KNOWN}"
            )
        name = column.replace(".", "_") + _suffix(transform)
        fields.append(PartitionField(source, PARTITION_FIELD_ID_START + offset, transform, name))
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        raise InvalidInputError(f"partition_by names the same field twice: {', '.join(names)}")
    return PartitionSpec(*fields, spec_id=spec_id)


def parse_term(term: str) -> tuple[Transform[Any, Any], str]:
    """A transform and the column it applies to."""
    if not isinstance(term, str) or not term.strip():
        raise InvalidInputError(f"{term!r} is not a partition field", f"known: {KNOWN}")
    match = _TERM.fullmatch(term)
    if match is None:
        if "(" in term or ")" in term:
            raise InvalidInputError(f"{term!r} is not a partition field", f"known: {KNOWN}")
        return IdentityTransform(), term.strip()
    name, number, column = match["transform"].lower(), match["number"], match["column"]
    if name in ("bucket", "truncate"):
        if number is None or int(number) < 1:
            raise InvalidInputError(f"{term!r} needs a number above 0", f"write {name}(8, {column})")
        width = int(number)
        return (BucketTransform(width) if name == "bucket" else TruncateTransform(width)), column
    if number is not None or name not in (*_TIME, "identity"):
        raise InvalidInputError(f"{term!r} is not a partition field", f"known: {KNOWN}")
    return (IdentityTransform() if name == "identity" else _TIME[name]), column


def find_column(schema: Schema, column: str) -> int:
    """The field id of a column; `InvalidInputError` names the nearest ones."""
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
