"""Text files: one row per line, in one column."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headgate.errors import InvalidInputError
from headgate.files.source import OnBytes, SourceFile

BLOCK_BYTES = 8 * 1024 * 1024
COLUMN = "value"
"""The name that Spark uses."""
SCHEMA = pa.schema([(COLUMN, pa.string())])


def batches(source: SourceFile, on_bytes: OnBytes) -> Iterator[pa.Table]:
    """The lines of a UTF-8 file, without line ends. The `InvalidInputError` names the file and the line."""
    first, rest = 1, b""
    with source.opened(on_bytes) as file:
        while data := file.stream.read(BLOCK_BYTES):
            file.tell()
            whole, end, rest = (rest + data).rpartition(b"\n")
            lines = (whole + end).splitlines()
            if lines:
                yield _rows(lines, source, first)
            first += len(lines)
    if rest:
        yield _rows(rest.splitlines(), source, first)


def _rows(lines: list[bytes], source: SourceFile, first: int) -> pa.Table:
    try:
        texts = [line.decode() for line in lines]
    except UnicodeDecodeError:
        wrong = next(number for number, line in enumerate(lines, first) if not _is_text(line))
        raise InvalidInputError(f"{source}, line {wrong} is not UTF-8", "convert the file to UTF-8") from None
    return pa.table({COLUMN: pa.array(texts, pa.string())})


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
