"""CSV files: an unquoted empty value is null, `""` is an empty string, quoted values may span lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from headgate.errors import InvalidInputError, shown
from headgate.files.csv_quotes import MAX_CELL_LINES, QuoteScan, scan_file, scanned_stream
from headgate.files.inference import EXACT, ROUNDED, WHOLE_NUMBER, is_exact
from headgate.files.source import OnBytes, Opened, SourceFile
from headgate.files.text_value import ADVICE, from_text, is_bytes, is_moment

BLOCK_BYTES = 8 * 1024 * 1024
HEADER_BYTES = 256 * 1024
"""How many bytes at the start of a file are searched for its header."""
MOST_CELL_LINES = 2**31 - 1
_DIGITS = re.compile(r"[0-9]{1,10}")
EXACT_DIGITS = 16
"""Floating point represents integers with fewer digits exactly."""
LEADING_ZERO = r"^\s*[+-]?0\d"
"""A number with a leading zero, such as `01234`, is read as a string, to keep the zero."""
_TOO_LONG = rf"^\s*[+-]?\d{{{WHOLE_NUMBER.precision + 1},}}\s*$"
_WHOLE = rf"^\s*[+-]?\d{{1,{WHOLE_NUMBER.precision}}}\s*$"
_AT = re.compile(
    r"(?:In CSV column #(?P<column>\d+): )?(?:CSV parse error: )?(?:Row #(?P<row>\d+): )?(?P<rest>.*)", re.S
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The dialect of CSV files. Without `header`, the columns are those of the table, in the same order.

    A quoted cell may span `max_cell_lines` lines. A longer one is rejected, because a missing closing quote
    is the usual cause.
    """

    header: bool = True
    delimiter: str | None = None
    max_cell_lines: int = MAX_CELL_LINES

    def delimiter_of(self, source: SourceFile) -> str:
        """The delimiter of a file."""
        return self.delimiter or ("\t" if source.is_tsv else ",")

    def scan_of(self, source: SourceFile) -> QuoteScan:
        return QuoteScan(str(source), self.delimiter_of(source), self.max_cell_lines)


def checked_delimiter(given: str | None) -> str | None:
    """The delimiter that a caller passed: one character, or `\\t` for a tab."""
    plain = "\t" if given == r"\t" else given
    if plain is None:
        return None
    if not isinstance(plain, str) or len(plain) != 1 or plain in '"\r\n' or not plain.isascii():
        raise InvalidInputError(f"{shown(given)} is not a delimiter", r"use one character such as ';', or \t")
    return plain


def checked_cell_lines(given: int | str | None) -> int:
    """How many lines a quoted cell may span, as a caller passed it (a string in the options of a mount)."""
    if given is None:
        return MAX_CELL_LINES
    number = int(given) if isinstance(given, str) and _DIGITS.fullmatch(given) else given
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_CELL_LINES:
        raise InvalidInputError(
            "max_cell_lines must be a positive integer",
            f"pass an integer from 1 to {MOST_CELL_LINES:,}",
        )
    return number


def require_closed_quotes(source: SourceFile, dialect: Dialect, at_most: int | None = None) -> None:
    """Reads a file, or its first `at_most` bytes, and raises `InvalidInputError` if a quote is not closed.

    A pipe can be read only once, so it is skipped here and checked while it is read.
    """
    if source.path.is_file():
        with source.opened(lambda _: None) as file:
            scan_file(file.stream, dialect.scan_of(source), at_most)


def header_of(source: SourceFile, dialect: Dialect) -> tuple[str, ...]:
    """The column names in the first row of a file."""
    with source.opened(lambda _: None) as file:
        start = file.stream.read(HEADER_BYTES)
    try:
        text = start.decode("utf-8-sig", errors="strict" if len(start) < HEADER_BYTES else "ignore")
        first = next(
            csv.reader(io.StringIO(text, newline=""), delimiter=dialect.delimiter_of(source), strict=False),
            [],
        )
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{source}, row 1: {error}", ADVICE) from error
    if not first:
        raise InvalidInputError(f"{source} is empty and has no header", ADVICE)
    return tuple(first)


def infer_schema(source: SourceFile, dialect: Dialect) -> pa.Schema:
    """The columns of a file, with types inferred from its first rows.

    Numbers keep all that the file says, which Arrow does not guarantee. Numbers with leading zeros (`01234`,
    a postcode) become strings, and so do numbers that fit no type. Integers that do not fit a BIGINT become
    decimals, because two different ones could become equal in floating point. A column that mixes fractions
    with integers that floating point would round is rejected.
    """
    require_closed_quotes(source, dialect, BLOCK_BYTES)
    with source.opened(lambda _: None) as file, _reader(file.stream, source, dialect, None) as reader:
        schema: pa.Schema = reader.schema
    try:
        _ = schema.names
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{source}, row 1: the column names are not UTF-8: {error.reason}",
            "save the file as UTF-8; if it is compressed or has another format, correct the file extension "
            "or pass --format",
        ) from error
    numbers = [f.name for f in schema if pa.types.is_floating(f.type) or pa.types.is_integer(f.type)]
    if not numbers or len(set(schema.names)) < len(schema.names):
        return schema
    as_text = dict.fromkeys(numbers, pa.string())
    with (
        source.opened(lambda _: None) as file,
        _reader(file.stream, source, dialect, None, as_text) as reader,
    ):
        try:
            first = reader.read_next_batch()
        except pa.ArrowInvalid as error:
            raise _refusal(source, error, schema.names) from error
    return pa.schema(
        [
            field.with_type(_number_type(source, field, texts)) if field.name in as_text else field
            for field, texts in zip(schema, first.columns, strict=True)
        ]
    )


def _number_type(source: SourceFile, field: pa.Field, texts: pa.Array) -> pa.DataType:
    """The type for a column that Arrow infers as numeric, based on how its numbers are written."""
    if _any(texts, LEADING_ZERO):
        return pa.string()
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if pa.types.is_integer(field.type) and longest < EXACT_DIGITS:
        return EXACT  # the common case, and files may have thousands of such columns
    if _any(texts, _TOO_LONG):
        return pa.string()
    whole = texts.filter(pc.match_substring_regex(texts, _WHOLE))
    exact = all(is_exact(int(text)) for text in whole.unique().to_pylist() if len(text) >= EXACT_DIGITS)
    if pa.types.is_integer(field.type):
        return EXACT if exact else field.type
    if len(whole) == len(texts) - texts.null_count:
        return WHOLE_NUMBER
    if exact:
        return field.type
    why, step = ROUNDED
    raise InvalidInputError(f"{source}: column {field.name} has {why}", step)


def _any(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def batches(source: SourceFile, dialect: Dialect, wanted: pa.Schema, on_bytes: OnBytes) -> Iterator[pa.Table]:
    """The rows of a file. Columns that are in `wanted` get their types from there.

    The `InvalidInputError` names the file, and the row and the column if they are known.
    """
    row = 2 if dialect.header else 1
    require_closed_quotes(source, dialect)
    with (
        source.opened(on_bytes) as file,
        _reader(_scanned(file, source, dialect), source, dialect, wanted) as reader,
    ):
        while True:
            try:
                batch = pa.Table.from_batches([reader.read_next_batch()])
            except StopIteration:
                return
            except pa.ArrowInvalid as error:
                raise _refusal(source, error, reader.schema.names) from error
            file.tell()
            yield _with_texts(batch, wanted, source, row)
            row += batch.num_rows


def _scanned(file: Opened, source: SourceFile, dialect: Dialect) -> Any:
    return file.stream if source.path.is_file() else scanned_stream(file.stream, dialect.scan_of(source))


def _reader(
    file: Any,
    source: SourceFile,
    dialect: Dialect,
    wanted: pa.Schema | None,
    kinds: Mapping[str, pa.DataType] = MappingProxyType({}),
) -> arrow_csv.CSVStreamingReader:
    named = None if dialect.header or wanted is None else wanted.names
    try:
        return arrow_csv.open_csv(
            file,
            # One thread, so that errors contain the row number.
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                block_size=BLOCK_BYTES,
                column_names=named,
                autogenerate_column_names=not dialect.header and named is None,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.delimiter_of(source), newlines_in_values=True
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict(kinds) if wanted is None else _readable(wanted, source),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _refusal(source, error, [] if wanted is None else wanted.names) from error


def _readable(wanted: pa.Schema, source: SourceFile) -> dict[str, pa.DataType]:
    """The types that Arrow reads: those of `wanted`, or strings for columns that are converted afterwards."""
    for field in wanted:
        if pa.types.is_nested(field.type):
            raise InvalidInputError(
                f"{source}: column {field.name} of the table is {field.type}, which CSV cannot express",
                "use JSON lines or Parquet",
            )
    return {field.name: _readable_type(field.type) for field in wanted}


def _readable_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if is_bytes(kind) or is_moment(kind) else kind


def _with_texts(batch: pa.Table, wanted: pa.Schema, source: SourceFile, first_row: int) -> pa.Table:
    kinds = {field.name: field.type for field in wanted}
    columns = []
    for name, column in zip(batch.column_names, batch.columns, strict=True):
        kind = kinds.get(name)  # an unknown column is rejected later, with all other differences
        if kind is not None and (is_bytes(kind) or is_moment(kind)):
            try:
                columns.append(from_text(column, kind, first_row, name))
            except InvalidInputError as error:
                raise InvalidInputError(f"{source}, {error.problem}", error.next_step) from error
        else:
            columns.append(column)
    return pa.table(columns, names=batch.column_names)


def _refusal(source: SourceFile, error: pa.ArrowInvalid, names: list[str]) -> InvalidInputError:
    found = _AT.match(str(error))
    assert found is not None  # every part of the pattern is optional
    where = [str(source)]
    if found["row"]:
        where.append(f"row {found['row']}")
    if found["column"] and int(found["column"]) < len(names):
        where.append(f"column {names[int(found['column'])]}")
    return InvalidInputError(f"{', '.join(where)}: {found['rest']}", ADVICE)
