"""Files of JSON lines: one object per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.json as arrow_json

from headgate.errors import InvalidInputError
from headgate.files.inference import json_schema
from headgate.files.source import OnBytes, SourceFile
from headgate.files.text_value import ADVICE, from_text, is_bytes
from headgate.model.json_object import is_deep

BLOCK_BYTES = 8 * 1024 * 1024
SAMPLE_BYTES = 1024 * 1024
MAX_DEPTH = 50
"""How deeply lists and objects may be nested: more deeply than any type of a table."""
_TOO_DEEP = f"lists or objects are nested more than {MAX_DEPTH} levels deep"
_OTHER_KIND = re.compile(r"Column\(/(?P<column>.*)\) changed from (?P<wanted>\w+) to (?P<given>\w+)")


def infer_schema(source: SourceFile) -> pa.Schema:
    """The columns of a file, with types inferred from its first rows."""
    first_line, block = next(_blocks(source, SAMPLE_BYTES, lambda _: None), (1, b""))
    rows = [
        (number, _object(line, source, number))
        for number, line in enumerate(block.splitlines(), first_line)
        if line.strip()
    ]
    return json_schema(rows, source)


def batches(source: SourceFile, wanted: pa.Schema, on_bytes: OnBytes) -> Iterator[pa.Table]:
    """The rows of a file with the columns of `wanted`; missing values are null.

    The `InvalidInputError` names the file and the line.
    """
    readable = pa.schema([pa.field(f.name, _readable(f.type, f.name, source)) for f in wanted])
    for first_line, block in _blocks(source, BLOCK_BYTES, on_bytes):
        if not block.strip():
            continue
        try:
            rows = _parsed(block, readable)
        except pa.ArrowInvalid as error:
            raise _refusal(source, first_line, block, readable, error) from error
        yield _converted(rows, wanted, source, first_line)


def _blocks(source: SourceFile, size_bytes: int, on_bytes: OnBytes) -> Iterator[tuple[int, bytes]]:
    """Whole lines of about `size_bytes` bytes, with the number of the first line."""
    line, rest = 1, b""
    with source.opened(on_bytes) as file:
        while data := file.stream.read(size_bytes):
            file.tell()
            whole, end, tail = (rest + data).rpartition(b"\n")
            if line == 1 and (whole or tail).lstrip()[:1] == b"[":
                raise InvalidInputError(
                    f"{source} contains one JSON array instead of JSON lines",
                    f"convert it to lines, for example with jq -c '.[]' {source}",
                )
            if end:
                yield line, whole + end
                line += whole.count(b"\n") + 1
            rest = tail
    if rest:
        yield line, rest


def _parsed(block: bytes, readable: pa.Schema) -> pa.Table:
    return arrow_json.read_json(
        pa.BufferReader(block),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=readable, unexpected_field_behavior="error"),
    )


def _readable(kind: pa.DataType, column: str, source: SourceFile) -> pa.DataType:
    """The type that Arrow reads from JSON, which is then converted to `kind`."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_readable(kind.value_type, f"{column}.element", source))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, _readable(f.type, f"{column}.{f.name}", source)) for f in kind])
    if pa.types.is_map(kind) or (is_bytes(kind) and "." in column):
        raise InvalidInputError(
            f"{source}: column {column} of the table is {kind}, which cannot be read from JSON",
            "use Parquet, or --spark",
        )
    # Arrow reads no dates from JSON, and would drop the time zone of a timestamp.
    as_text = pa.types.is_temporal(kind) or pa.types.is_large_string(kind)
    return pa.string() if as_text or is_bytes(kind) else kind


def _converted(rows: pa.Table, wanted: pa.Schema, source: SourceFile, first_line: int) -> pa.Table:
    columns = []
    for field in wanted:
        try:
            columns.append(from_text(rows.column(field.name), field.type, first_line, field.name))
        except InvalidInputError as error:
            raise InvalidInputError(f"{source}, {error.problem}", error.next_step) from error
    return pa.table(columns, names=wanted.names)


def _refusal(
    source: SourceFile, first_line: int, block: bytes, readable: pa.Schema, whole: pa.ArrowInvalid
) -> InvalidInputError:
    """The error for the first line that cannot be read on its own."""
    for number, line in enumerate(block.splitlines(), first_line):
        if not line.strip():
            continue
        try:
            _parsed(line, readable)
        except pa.ArrowInvalid as error:
            row = _object(line, source, number)
            unknown = sorted(set(row) - set(readable.names))
            problem = f"column {unknown[0]} is not in the table" if unknown else _in_words(error)
            return InvalidInputError(f"{source}, line {number}: {problem}", ADVICE)
    return InvalidInputError(f"{source}, starting at line {first_line}: {whole}", ADVICE)


def _in_words(error: pa.ArrowInvalid) -> str:
    other = _OTHER_KIND.search(str(error))
    if other is not None:
        return f"column {other['column'].replace('/', '.')} is a {other['given']}, not a {other['wanted']}"
    return str(error).removeprefix("JSON parse error: ").removesuffix(" in row 0")


def _object(line: bytes, source: SourceFile, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InvalidInputError(f"{source}, line {number} is not JSON: {error}", ADVICE) from error
    except RecursionError as error:
        raise InvalidInputError(f"{source}, line {number}: {_TOO_DEEP}", ADVICE) from error
    if not isinstance(row, dict):
        raise InvalidInputError(f"{source}, line {number} is not a JSON object", ADVICE)
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and is_deep(row, MAX_DEPTH):
        raise InvalidInputError(f"{source}, line {number}: {_TOO_DEEP}", ADVICE)
    return row
