"""Rows as text: a table for people, CSV, JSON lines, or one JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from headgate.cli import output
from headgate.cli.row_format import RowFormat
from headgate.cli.values import column_values, text_of

if TYPE_CHECKING:
    import pyarrow as pa

_QUOTED = frozenset(',"\r\n')


def print_rows(title: str, rows: pa.Table, wanted: RowFormat) -> None:
    match wanted:
        case RowFormat.TABLE:
            _print_table(title, rows)
        case RowFormat.CSV:
            write_csv(rows)
        case RowFormat.JSONL:
            _print_lines(rows, wanted)


def print_batches(batches: pa.RecordBatchReader, wanted: RowFormat) -> None:
    """Prints rows while they are read, as CSV or JSON lines."""
    import pyarrow as pa

    if wanted is RowFormat.CSV:
        write_csv(pa.Table.from_batches([], batches.schema))
    for batch in batches:
        _print_lines(pa.Table.from_batches([batch]), wanted)


def _print_lines(rows: pa.Table, wanted: RowFormat) -> None:
    if wanted is RowFormat.CSV:
        _write_csv_rows(rows)
        return
    for row in json_rows(rows):
        sys.stdout.write(_shown()(json.dumps(row, ensure_ascii=False)) + "\n")


def json_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Each row by the names of its columns."""
    columns = [column_values(column) for column in rows.columns]
    for number in range(rows.num_rows):
        yield {name: column[number] for name, column in zip(rows.column_names, columns, strict=True)}


def columns_json(rows: pa.Table) -> list[dict[str, str]]:
    return [{"name": field.name, "type": str(field.type)} for field in rows.schema]


def write_csv(rows: pa.Table) -> None:
    """Writes a header and a line for each row. A null is an empty cell, and an empty string is `""`."""
    sys.stdout.write(",".join(csv_cell(_shown()(name)) for name in rows.column_names) + "\n")
    _write_csv_rows(rows)


def _write_csv_rows(rows: pa.Table) -> None:
    shown = _shown()
    columns = [column_values(column) for column in rows.columns]
    for number in range(rows.num_rows):
        texts = (text_of(column[number]) for column in columns)
        sys.stdout.write(",".join(csv_cell(None if text is None else shown(text)) for text in texts) + "\n")


def _shown() -> Callable[[str], str]:
    """How the text of a cell is written: unchanged in a pipe, escaped on a terminal."""
    return output.visible if sys.stdout.isatty() else str


def csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    if text == "" or _QUOTED & set(text) or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _print_table(title: str, rows: pa.Table) -> None:
    columns = [column_values(column) for column in rows.columns]
    if not sys.stdout.isatty():
        cells = [
            ["NULL" if c[n] is None else text_of(c[n]) or "" for c in columns] for n in range(rows.num_rows)
        ]
        output.print_rows(title, rows.column_names, cells)
        return
    table = Table(
        title=Text(output.visible(title)), title_justify="left", title_style="bold", header_style="bold cyan"
    )
    for name, column in zip(rows.column_names, columns, strict=True):
        numbers = any(isinstance(value, int | float) and not isinstance(value, bool) for value in column)
        table.add_column(Text(output.visible(name)), justify="right" if numbers else "left", overflow="fold")
    for number in range(rows.num_rows):
        table.add_row(*(_cell(column[number]) for column in columns))
    output.console().print(table)


def _cell(value: Any) -> Text:
    text = text_of(value)
    return Text("NULL", style="dim") if text is None else Text(output.visible(text))
