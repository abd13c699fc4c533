"""The commands that move rows: ingest, read, sql."""

from __future__ import annotations

import json as json_text
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.engine import engine
from headgate.cli.failure import reported
from headgate.cli.hook_output import tell_warnings
from headgate.cli.options import (
    AllowMounts,
    AsJson,
    AtTag,
    AtTimestamp,
    AtVersion,
    Config,
    MaxCellLines,
    Place,
    StoreOptions,
    TableName,
    examples,
    open_at,
    open_with_hooks,
)
from headgate.cli.progress import loading, working
from headgate.cli.row_format import SHOWN_ROWS, RowFormat, default_format
from headgate.errors import InvalidInputError

if TYPE_CHECKING:
    from headgate.lake.ingest.load import IngestOptions, IngestResult
    from headgate.lake.lake import Lake
    from headgate.lake.table import Table

Output = Annotated[
    RowFormat | None,
    typer.Option(
        "--output", help="How to print the rows; by default a table on a terminal, and CSV in a pipe."
    ),
]


@app.command(
    epilog=examples(
        "headgate ingest ./lake sales.orders 'orders/*.csv' --partition-by 'day(ts)'",
        "headgate ingest ./lake sales.orders new.jsonl --app loader --batch 42",
    )
)
def ingest(
    place: Place,
    table: TableName,
    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Files or patterns such as 'a/*.csv'.")
    ],
    format: Annotated[
        str | None,
        typer.Option(
            help="csv, json (lines), parquet or text; inferred from the file extension if not given."
        ),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="Partition a new table: a column, or bucket(n, c), truncate(n, c), year(c), month(c), "
            "day(c), hour(c). Can be given several times.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="DDL", help="The columns of a new table, such as 'id BIGINT NOT NULL, ts TIMESTAMP'."
        ),
    ] = None,
    header: Annotated[bool, typer.Option(help="CSV: whether the first row names the columns.")] = True,
    delimiter: Annotated[
        str | None, typer.Option(help="CSV: the separator of values; a comma if not given.")
    ] = None,
    max_cell_lines: MaxCellLines = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace all rows of the table.")] = False,
    app_name: Annotated[
        str | None,
        typer.Option("--app", help="An application name; with --batch, no batch is loaded twice."),
    ] = None,
    batch: Annotated[int | None, typer.Option(min=0, help="The number of this batch of --app.")] = None,
    spark: Annotated[bool, typer.Option(help="Use Spark. The default is Arrow, without a JVM.")] = False,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Load CSV, JSON lines, Parquet or text files into a table, in one version.

    Creates the table if needed.
    """
    with reported(as_json=json):
        from headgate.files.csv_file import Dialect, checked_cell_lines, checked_delimiter
        from headgate.lake.ingest.load import IngestOptions

        if (app_name is None) != (batch is None):
            raise InvalidInputError("--app and --batch must be given together", "give both, or neither")
        options = IngestOptions(
            format=_format(format),
            schema=schema,
            partition_by=tuple(partition_by or ()),
            dialect=Dialect(header, checked_delimiter(delimiter), checked_cell_lines(max_cell_lines)),
            app=None if app_name is None or batch is None else (app_name, batch),
            overwrite=overwrite,
        )
        lake = open_with_hooks(place, option, config)
        result = _ingest(lake, table, files, options, spark)
        if json:
            output.print_json(_result_json(result))
        else:
            output.say(_result_text(result))
        tell_warnings(lake, result)


def _format(given: str | None) -> Any:
    from headgate.model.named_object import Format

    known = [each.value for each in Format]
    if given is not None and given not in known:
        raise InvalidInputError(f"{given!r} is not a format", f"choose one of {', '.join(known)}")
    return None if given is None else Format(given)


def _ingest(
    lake: Lake, table: str, files: list[str], options: IngestOptions, with_spark: bool
) -> IngestResult:
    from headgate.lake.ingest.load import ingest as load

    args = ["headgate", "ingest", table, *files]
    if with_spark:
        with engine() as spark:
            return load(lake, table, files, options, args=args, spark=spark)
    with loading(output.visible(table)) as on_progress:
        return load(lake, table, files, options, args=args, on_progress=on_progress)


def _result_json(result: IngestResult) -> dict[str, Any]:
    return {
        "table": result.table,
        "version": result.version,
        "created": result.created,
        "rows": result.rows,
        "files": result.files,
        "bytes": result.size_bytes,
        "sources": result.sources,
        "already_committed": result.already_committed,
        "hook_failures": list(result.hook_failures),
        "clock_warning": result.clock_warning,
    }


def _result_text(result: IngestResult) -> str:
    if result.already_committed:
        return f"version {result.version}: this batch was already committed; nothing was loaded"
    made = " (new)" if result.created else ""
    rows_read, sources = output.count(result.rows, "row"), output.count(result.sources, "file")
    data_files = output.count(result.files, "data file")
    return (
        f"version {result.version}: {rows_read} from {sources} into {result.table}{made}, "
        f"as {data_files} of {result.size_bytes:,} bytes"
    )


@app.command(
    epilog=examples(
        "headgate read ./lake sales.orders --where 'id < 10' --columns id,amount --limit 5",
        "headgate read ./lake sales.orders --version 3 --output jsonl",
        "headgate read ./lake sales.orders --since 40",
    )
)
def read(
    place: Place,
    table: TableName,
    where: Annotated[
        str | None, typer.Option(help='Only rows for which this is true, such as "id < 10".')
    ] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="At most this many rows, in any order.")] = None,
    since: Annotated[
        int | None,
        typer.Option(
            metavar="VERSION", help="The changes after this version: rows with _change_type and _version."
        ),
    ] = None,
    version: AtVersion = None,
    timestamp: AtTimestamp = None,
    tag: AtTag = None,
    output_as: Output = None,
    allow_mounts: AllowMounts = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Print rows of a table or mount, current or as of an earlier version, or the changes since a version.

    Starts no JVM, except for a view: its query runs with Spark on this machine.
    """
    with reported(as_json=json):
        wanted = output_as or default_format()
        view = open_at(place, option, version, timestamp, tag, allow_mounts)
        selected = None if columns is None else [name.strip() for name in columns.split(",")]
        asked, more = _asked(limit, wanted, json)
        if since is not None and where is not None:
            raise InvalidInputError("--where and --since cannot be combined", "leave one of them out")
        chosen = view.table(table)
        if since is None and not json and wanted is not RowFormat.TABLE and chosen.kind == "table":
            from headgate.cli.rows import print_batches

            print_batches(chosen.read_batches(where=where, columns=selected, limit=asked), wanted)
            return
        with working("reading …"):
            found = (
                _read(chosen, where, selected, asked)
                if since is None
                else chosen.changes_arrow(since, columns=selected).slice(0, asked)
            )
        _print_found(
            f"{table}, version {view.version}",
            found,
            wanted,
            more,
            json,
            {"table": table, "version": view.version},
        )


def _read(table: Table, where: str | None, columns: list[str] | None, limit: int | None) -> Any:
    if table.kind != "view":
        return table.read_arrow(where=where, columns=columns, limit=limit)
    with engine() as spark:
        rows = table.read(spark, where=where, columns=columns)
        return (rows if limit is None else rows.limit(limit)).toArrow()


@app.command(
    epilog=examples(
        'headgate sql ./lake "SELECT customer, sum(amount) FROM sales.orders GROUP BY 1"',
        'headgate sql ./lake "SELECT count(*) FROM sales.orders VERSION AS OF 3"',
    )
)
def sql(
    place: Place,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="A SELECT query over the tables of the lake.")
    ],
    limit: Annotated[int | None, typer.Option(min=0, help="At most this many rows.")] = None,
    version: AtVersion = None,
    timestamp: AtTimestamp = None,
    tag: AtTag = None,
    output_as: Output = None,
    allow_mounts: AllowMounts = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Run a query with Spark on this machine, against one version of the lake, and print its result."""
    with reported(as_json=json):
        from headgate.core.sql.query import find_mentions

        wanted = output_as or default_format()
        view = open_at(place, option, version, timestamp, tag, allow_mounts)
        find_mentions(query, view.tables())  # rejects anything but a query before Spark starts
        asked, more = _asked(limit, wanted, json)
        with engine() as spark:
            result = view.sql(spark, query)
            found = (result if asked is None else result.limit(asked)).toArrow()
        _print_found(f"version {view.version}", found, wanted, more, json, {"version": view.version})


def _asked(limit: int | None, wanted: RowFormat, json: bool) -> tuple[int | None, bool]:
    """How many rows to ask for, and whether the last one only shows that there are more."""
    if limit is not None or json or wanted is not RowFormat.TABLE or not sys.stdout.isatty():
        return limit, False
    return SHOWN_ROWS + 1, True


def _print_found(
    title: str, found: Any, wanted: RowFormat, more: bool, json: bool, about: dict[str, Any]
) -> None:
    from headgate.cli import rows  # loads Arrow

    if json:
        shown = {"columns": rows.columns_json(found), "rows": list(rows.json_rows(found))}
        sys.stdout.write(json_text.dumps(about | shown, indent=2) + "\n")
        return
    rows.print_rows(title, found.slice(0, SHOWN_ROWS) if more else found, wanted)
    if more and found.num_rows > SHOWN_ROWS:
        output.say(f"the first {SHOWN_ROWS} rows; more with --limit")
