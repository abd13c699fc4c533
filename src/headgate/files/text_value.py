"""Values that files contain as strings, because neither CSV nor JSON has a type for them.

They have the form that Iceberg uses for single values in JSON: hexadecimal for binary and fixed, the usual
form for UUIDs, ISO 8601 for times and dates. A timestamp without a time zone is read as UTC if the column of
the table has a time zone.
"""

from __future__ import annotations

from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import InvalidInputError

ADVICE = "correct the file, or declare other types with --schema"
_ZONE = r"(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of this type are bytes, which files contain as hexadecimal strings."""
    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return isinstance(kind, pa.UuidType) or any(check(kind) for check in checks)


def is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def from_text(values: pa.ChunkedArray, kind: pa.DataType, first_row: int, column: str) -> pa.ChunkedArray:
    """Converts strings to `kind`. The `InvalidInputError` names the first row that cannot be converted."""
    if values.type.equals(kind):
        return values
    try:
        return _converted(values, kind)
    except (pa.ArrowInvalid, ValueError) as error:
        for number, text in enumerate(values.to_pylist()):
            try:
                _converted(pa.chunked_array([[text]], values.type), kind)
            except (pa.ArrowInvalid, ValueError):
                raise InvalidInputError(
                    f"row {first_row + number}, column {column}: {text!r} is not a {shown(kind)}", ADVICE
                ) from None
        raise InvalidInputError(f"column {column}: {error}", ADVICE) from error


def _converted(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if is_bytes(kind):
        made = [None if text is None else _bytes(text, kind) for text in values.to_pylist()]
        return pa.chunked_array([pa.array(made, kind)], kind)
    if is_moment(kind):
        zoned = pc.match_substring_regex(values, _ZONE)
        return pc.cast(pc.if_else(zoned, values, pc.binary_join_element_wise(values, "Z", "")), kind)
    return pc.cast(values, kind)


def _bytes(text: str, kind: pa.DataType) -> bytes:
    if isinstance(kind, pa.UuidType):
        return UUID(text).bytes
    return bytes.fromhex(text)


def shown(kind: pa.DataType) -> str:
    """The name of a type in messages."""
    if isinstance(kind, pa.UuidType):
        return "UUID"
    if is_bytes(kind):
        return "hexadecimal text"
    return "timestamp" if is_moment(kind) else str(kind)
