"""CSV files: an unquoted empty value is null, `""` is empty text, and a quoted value may hold line ends."""

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

from headgate.errors import InvalidInputError
from headgate.files.inference import EXACT, ROUNDED, WHOLE_NUMBER, is_exact
from headgate.files.source import OnBytes, SourceFile
from headgate.files.text_value import ADVICE, from_text, is_bytes, is_moment

BLOCK_BYTES = 8 * 1024 * 1024
HEADER_BYTES = 256 * 1024
"""How much of a file is looked at for its header."""
EXACT_DIGITS = 16
"""Whole numbers of fewer digits are held exactly by floating point."""
LEADING_ZERO = r"^\s*[+-]?0\d"
"""A number that is written so, as `01234`, says more than its value: it is text."""
_TOO_LONG = rf"^\s*[+-]?\d{{{WHOLE_NUMBER.precision + 1},}}\s*$"
_WHOLE = rf"^\s*[+-]?\d{{1,{WHOLE_NUMBER.precision}}}\s*$"
_AT = re.compile(
    r"(?:In CSV column #(?P<column>\d+): )?(?:CSV parse error: )?(?:Row #(?P<row>\d+): )?(?P<rest>.*)", re.S
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How CSV files are written. Without `header` the columns are those of the table, in its order."""

    header: bool = True
    delimiter: str | None = None


def checked_delimiter(given: str | None) -> str | None:
    """What separates values, as a caller gave it: one character, or `\\t` for a tab."""
    plain = "\t" if given == r"\t" else given
    if plain is None:
        return None
    if not isinstance(plain, str) or len(plain) != 1 or plain in '"\r\n' or not plain.isascii():
        raise InvalidInputError(f"{given!r} is not a delimiter", r"give one character, as ';', or \t")
    return plain


def header_of(source: SourceFile, dialect: Dialect) -> tuple[str, ...]:
    """The names in the first row of a file."""
    with source.opened(lambda _: None) as file:
        start = file.stream.read(HEADER_BYTES)
    delimiter = dialect.delimiter or ("\t" if source.is_tsv else ",")
    try:
        text = start.decode("utf-8-sig", errors="strict" if len(start) < HEADER_BYTES else "ignore")
        first = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{source}, row 1: {error}", ADVICE) from error
    if not first:
        raise InvalidInputError(f"{source} is empty: it has not even a header", ADVICE)
    return tuple(first)


def sampled_schema(source: SourceFile, dialect: Dialect) -> pa.Schema:
    """The columns of a file, their types as its first rows show them.

    Numbers keep what the file says, where Arrow would not: with leading zeros (`01234`, a postcode) they are
    text, as are those that no type holds, and whole numbers that no BIGINT holds are decimals, for as
    floating point two different ones could become the same. Those that floating point would round are
    refused beside fractions.
    """
    with source.opened(lambda _: None) as file, _reader(file.stream, source, dialect, None) as reader:
        schema: pa.Schema = reader.schema
    try:
        _ = schema.names
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{source}, row 1: the names of columns are not UTF-8: {error.reason}",
            "save the file as UTF-8; if it is compressed or another format, say so by its ending or --format",
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
    for position, field in enumerate(schema):
        if field.name in as_text:
            kind = _number_type(source, field, first.column(position))
            schema = schema.set(position, field.with_type(kind))
    return schema


def _number_type(source: SourceFile, field: pa.Field, texts: pa.Array) -> pa.DataType:
    """The type for a column of which Arrow says that it has numbers, from how they are written."""
    if _any(texts, LEADING_ZERO) or _any(texts, _TOO_LONG):
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
    """The rows of a file, with the types of those columns of `wanted` that it has.

    The `InvalidInputError` names the file, and the row and the column as far as they are known.
    """
    row = 2 if dialect.header else 1
    with source.opened(on_bytes) as file, _reader(file.stream, source, dialect, wanted) as reader:
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
            # One thread, so that errors know the row.
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                block_size=BLOCK_BYTES,
                column_names=named,
                autogenerate_column_names=not dialect.header and named is None,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.delimiter or ("\t" if source.is_tsv else ","), newlines_in_values=True
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
    """The types that Arrow reads: those of `wanted`, and text for what is converted afterwards."""
    for field in wanted:
        if pa.types.is_nested(field.type):
            raise InvalidInputError(
                f"{source}: column {field.name} of the table is {field.type}, which a CSV file cannot hold",
                "use JSON lines or Parquet",
            )
    return {field.name: _readable_type(field.type) for field in wanted}


def _readable_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if is_bytes(kind) or is_moment(kind) else kind


def _with_texts(batch: pa.Table, wanted: pa.Schema, source: SourceFile, first_row: int) -> pa.Table:
    for position, name in enumerate(batch.column_names):
        if name not in wanted.names:
            continue  # refused later, together with every other difference
        kind = wanted.field(name).type
        if is_bytes(kind) or is_moment(kind):
            try:
                values = from_text(batch.column(position), kind, first_row, name)
            except InvalidInputError as error:
                raise InvalidInputError(f"{source}, {error.problem}", error.next_step) from error
            batch = batch.set_column(position, name, values)
    return batch


def _refusal(source: SourceFile, error: pa.ArrowInvalid, names: list[str]) -> InvalidInputError:
    found = _AT.match(str(error))
    assert found is not None  # every part of it may be missing
    where = [str(source)]
    if found["row"]:
        where.append(f"row {found['row']}")
    if found["column"] and int(found["column"]) < len(names):
        where.append(f"column {names[int(found['column'])]}")
    return InvalidInputError(f"{', '.join(where)}: {found['rest']}", ADVICE)
