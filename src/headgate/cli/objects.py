"""The commands for what a lake has beside tables: view, mount, refresh, drop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.engine import engine
from headgate.cli.examples import examples
from headgate.cli.failure import reported
from headgate.cli.hook_output import tell_hook_failures
from headgate.cli.options import AsJson, Config, Place, StoreOptions, open_with_hooks
from headgate.errors import InvalidInputError

if TYPE_CHECKING:
    from headgate.lake import Lake
    from headgate.materializing import RefreshResult
    from headgate.result import CommitResult

ObjectName = Annotated[str, typer.Argument(metavar="NAME", help="A name, as sales.recent.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Take the place of a view or mount of this name, if there is one.")
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
            help="Keep the result in a table, which headgate refresh brings up to date; needs Java.",
        ),
    ] = False,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD", help="Partition the table of a materialized view; can be given several times."
        ),
    ] = None,
    replace: Replace = False,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Make a view: a query over tables, views and mounts of the lake, under a name of its own."""
    with reported(as_json=json):
        query = _query(sql, file)
        lake = open_with_hooks(place, option, config)
        if not materialized:
            if partition_by:
                raise InvalidInputError("a view has no files", "add --materialized, or drop --partition-by")
            _print_done(lake, name, "view", lake.create_view(name, query, replace=replace), json)
            return
        if replace:
            raise InvalidInputError("a materialized view is a table", "drop it first; leave --replace out")
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
        problem = f"{file} cannot be read: {reason}"
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
    directory: Annotated[str, typer.Argument(metavar="DIRECTORY", help="A directory of this host.")],
    format: Annotated[str, typer.Option(help="csv, parquet, json (lines) or text.")] = "csv",
    schema: Annotated[
        str | None,
        typer.Option(metavar="DDL", help="The columns, as 'id BIGINT, ts DATE'; else told by the files."),
    ] = None,
    header: Annotated[bool, typer.Option(help="CSV: whether the first row names the columns.")] = True,
    delimiter: Annotated[
        str | None, typer.Option(help="CSV: what separates values; a comma if not given.")
    ] = None,
    replace: Replace = False,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Make the files of a directory readable as a table. They stay where they are, and are never changed."""
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        if format == "csv":
            options = {
                "header": str(header).lower(),
                **({} if delimiter is None else {"delimiter": delimiter}),
            }
            done = lake.mount_csv(name, directory, schema=schema, options=options, replace=replace)
        else:
            if delimiter is not None or not header:
                raise InvalidInputError("--delimiter and --no-header are for CSV files", "leave them out")
            done = lake.mount_directory(name, directory, format=format, schema=schema, replace=replace)
        _print_done(lake, name, "mount", done, json)


def _print_done(lake: Lake, name: str, kind: str, done: CommitResult, json: bool) -> None:
    if json:
        output.print_json(_done_json(name, kind, done))
    else:
        output.say(f"version {done.version}: {name} is a {kind}")
    tell_hook_failures(lake, done.version, done.hook_failures)


def _done_json(name: str, kind: str, done: CommitResult) -> dict[str, Any]:
    told = {"name": name, "kind": kind, "version": done.version}
    return told | {"hook_failures": list(done.hook_failures)}


@app.command(epilog=examples("headgate refresh ./lake sales.totals"))
def refresh(
    place: Place, name: ObjectName, config: Config = None, option: StoreOptions = None, json: AsJson = False
) -> None:
    """Bring a materialized view up to date, with Spark on this machine, and say how and why so.

    If nothing that it reads has changed, no version is made.
    """
    with reported(as_json=json):
        from headgate.materializing import require_materialized

        lake = open_with_hooks(place, option, config)
        require_materialized(lake.table(name))  # before Spark is started
        with engine() as spark:
            result = lake.refresh(spark, name)
        if json:
            output.print_json(_refresh_json(result))
        else:
            output.say(_refresh_text(result))
        tell_hook_failures(lake, result.version, result.hook_failures)


def _refresh_json(result: RefreshResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "version": result.version,
        "source_version": result.source_version,
        "mode": result.mode,
        "rows": result.rows,
        "reason": result.reason,
        "hook_failures": list(result.hook_failures),
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
    """Drop a table, a view or a mount. Earlier versions still have it."""
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        kind, done = _dropped(lake, name)
        if json:
            output.print_json(_done_json(name, kind, done))
        else:
            output.say(f"version {done.version}: the {kind} {name} is dropped")
        tell_hook_failures(lake, done.version, done.hook_failures)


def _dropped(lake: Lake, name: str) -> tuple[str, CommitResult]:
    table = lake.table(name)
    kind = table.kind
    if table.definition is not None:
        return kind, lake.drop_object(name)
    return kind, lake.drop_table(name, args=["headgate", "drop", name])
