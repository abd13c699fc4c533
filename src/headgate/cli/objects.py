"""The commands for views and mounts, and for dropping: view, mount, refresh, drop."""

from __future__ import annotations

from pathlib import Path
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
    Config,
    MaxCellLines,
    Place,
    StoreOptions,
    examples,
    open_with_hooks,
)
from headgate.errors import InvalidInputError

if TYPE_CHECKING:
    from headgate.lake.lake import Lake
    from headgate.lake.materialized_views import RefreshResult
    from headgate.transaction.result import CommitResult

ObjectName = Annotated[str, typer.Argument(metavar="NAME", help="A name, such as sales.recent.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace a view or mount of this name, if there is one.")
]


@app.command(
    epilog=examples(
        'headgate view ./lake sales.recent --sql "SELECT * FROM sales.orders WHERE id > 9"',
        "headgate view ./lake sales.totals --file totals.sql --materialized",
    )
)
def view(
    place: Place,
    name: ObjectName,
    sql: Annotated[str | None, typer.Option(metavar="QUERY", help="The query.")] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A file with the query, instead of --sql.")
    ] = None,
    materialized: Annotated[
        bool,
        typer.Option(
            "--materialized",
            help="Store the result in a table that headgate refresh brings up to date; needs Java.",
        ),
    ] = False,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD", help="Partition the table of a materialized view; can be given several times."
        ),
    ] = None,
    replace: Replace = False,
    allow_mounts: AllowMounts = None,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Create a view: a named query over tables, views and mounts of the lake."""
    with reported(as_json=json):
        query = _query(sql, file)
        lake = open_with_hooks(place, option, config, allow_mounts)
        if not materialized:
            if partition_by:
                raise InvalidInputError(
                    "--partition-by needs --materialized: a view has no files",
                    "add --materialized, or leave --partition-by out",
                )
            _print_done(lake, name, "view", lake.create_view(name, query, replace=replace), json)
            return
        if replace:
            raise InvalidInputError(
                "--replace cannot replace a materialized view, which is a table",
                "leave --replace out, and drop the old view first",
            )
        with engine() as spark:
            made = lake.create_materialized_view(spark, name, query, partition_by=tuple(partition_by or ()))
        assert made.made is not None
        _print_done(lake, name, "materialized view", made.made, json)


def _query(sql: str | None, file: Path | None) -> str:
    if (sql is None) == (file is None):
        raise InvalidInputError("a view needs a query", "give --sql or --file")
    if sql is not None:
        return sql
    assert file is not None
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        problem = f"cannot read {file}: {reason}"
        raise InvalidInputError(problem, "check the path given with --file") from error


@app.command(
    epilog=examples(
        "headgate mount ./lake raw.orders ./inbox --format csv",
        "headgate mount ./lake raw.events /data/events --format json --schema 'id BIGINT, ts TIMESTAMP'",
    )
)
def mount(
    place: Place,
    name: ObjectName,
    directory: Annotated[str, typer.Argument(metavar="DIRECTORY", help="A directory on this host.")],
    format: Annotated[str, typer.Option(help="csv, parquet, json (lines) or text.")] = "csv",
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="DDL",
            help="The columns, such as 'id BIGINT, ts DATE'; inferred from the files if not given.",
        ),
    ] = None,
    header: Annotated[bool, typer.Option(help="CSV: whether the first row names the columns.")] = True,
    delimiter: Annotated[
        str | None, typer.Option(help="CSV: the separator of values; a comma if not given.")
    ] = None,
    max_cell_lines: MaxCellLines = None,
    replace: Replace = False,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Make the files of a directory readable as a table. The files are neither moved nor changed."""
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        if format == "csv":
            options = {
                "header": str(header).lower(),
                **({} if delimiter is None else {"delimiter": delimiter}),
                **({} if max_cell_lines is None else {"max_cell_lines": str(max_cell_lines)}),
            }
            done = lake.mount_csv(name, directory, schema=schema, options=options, replace=replace)
        else:
            if delimiter is not None or max_cell_lines is not None or not header:
                raise InvalidInputError(
                    "--delimiter, --max-cell-lines and --no-header need --format csv", "leave them out"
                )
            done = lake.mount_directory(name, directory, format=format, schema=schema, replace=replace)
        _print_done(lake, name, "mount", done, json)
        if not json:
            output.say(f"to read it: --allow-mounts {Path(directory).absolute()}, or HEADGATE_MOUNTS_ALLOW")


def _print_done(lake: Lake, name: str, kind: str, done: CommitResult, json: bool) -> None:
    if json:
        output.print_json(_done_json(name, kind, done))
    else:
        output.say(f"version {done.version}: {name} is a {kind}")
    tell_warnings(lake, done)


def _done_json(name: str, kind: str, done: CommitResult) -> dict[str, Any]:
    told = {"name": name, "kind": kind, "version": done.version}
    return told | {"hook_failures": list(done.hook_failures), "clock_warning": done.clock_warning}


@app.command(epilog=examples("headgate refresh ./lake sales.totals"))
def refresh(
    place: Place,
    name: ObjectName,
    allow_mounts: AllowMounts = None,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Bring a materialized view up to date with Spark on this machine, and print how and why.

    Commits no version if nothing that the view reads has changed.
    """
    with reported(as_json=json):
        from headgate.lake.materialized_views import require_materialized

        lake = open_with_hooks(place, option, config, allow_mounts)
        require_materialized(lake.table(name))  # before Spark starts
        with engine() as spark:
            result = lake.refresh(spark, name)
        if json:
            output.print_json(_refresh_json(result))
        else:
            output.say(_refresh_text(result))
        tell_warnings(lake, result)


def _refresh_json(result: RefreshResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "version": result.version,
        "source_version": result.source_version,
        "mode": result.mode,
        "rows": result.rows,
        "reason": result.reason,
        "hook_failures": list(result.hook_failures),
        "clock_warning": result.clock_warning,
    }


def _refresh_text(result: RefreshResult) -> str:
    if result.mode == "unchanged":
        return f"version {result.version}: {result.name} is up to date: {result.reason}"
    rows = output.count(result.rows, "row")
    return f"version {result.version}: {result.name}, {result.mode} refresh, {rows}: {result.reason}"


@app.command(epilog=examples("headgate drop ./lake sales.recent"))
def drop(
    place: Place, name: ObjectName, config: Config = None, option: StoreOptions = None, json: AsJson = False
) -> None:
    """Drop a table, a view or a mount. Earlier versions still contain it."""
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        kind, done = _drop(lake, name)
        if json:
            output.print_json(_done_json(name, kind, done))
        else:
            output.say(f"version {done.version}: the {kind} {name} is dropped")
        tell_warnings(lake, done)


def _drop(lake: Lake, name: str) -> tuple[str, CommitResult]:
    table = lake.table(name)
    kind = table.kind
    if table.definition is not None:
        return kind, lake.drop_object(name)
    return kind, lake.drop_table(name, args=["headgate", "drop", name])
