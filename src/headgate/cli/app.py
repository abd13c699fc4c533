"""The commands. Each opens a lake, calls one method, and prints what it returned."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import output, streams
from headgate.cli import tables as table_output
from headgate.cli.engine import engine
from headgate.cli.failure import REFUSED, reported
from headgate.cli.hook_output import tell_hook_failures, tell_warnings
from headgate.cli.metrics import begin_watching
from headgate.cli.options import (
    AsJson,
    AtTag,
    AtTimestamp,
    AtVersion,
    Config,
    Place,
    StoreOptions,
    examples,
    open_at,
    open_lake,
    open_with_hooks,
    store_options,
)
from headgate.cli.progress import working
from headgate.cli.timeline_output import INSTANT_COLUMNS, instant_json, instant_row, print_attempts
from headgate.errors import InvalidInputError
from headgate.model.identity import DEFAULT_DIVISOR
from headgate.release import __version__

if TYPE_CHECKING:
    from headgate.lake.lake import Lake
    from headgate.model.probe import ProbeReport

app = typer.Typer(
    name="headgate",
    help="A transactional lakehouse: any number of writers, any storage, no server.",
    epilog="LAKE is a path or a URL: s3://bucket/path, gs://bucket/path, az://container/path. Exit codes: "
    "0 success, 1 rejected or failed, 2 wrong usage, 3 conflict, 4 unknown outcome.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """The entry point of the `headgate` command."""
    if _names_a_shell(sys.argv):
        os.environ.setdefault(_NO_DETECTION, "1")
    streams.end(streams.run(app))


_NO_DETECTION = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"
"""Makes typer take the name of a shell after these options. By default it ignores the name."""
_COMPLETION = frozenset({"--install-completion", "--show-completion"})


def _names_a_shell(words: Sequence[str]) -> bool:
    return any(
        option in _COMPLETION and not name.startswith("-") for option, name in itertools.pairwise(words)
    )


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headgate {__version__}")
        raise typer.Exit


@app.callback()
def headgate(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version of Headgate and exit."
        ),
    ] = False,
    metrics_file: Annotated[
        Path | None,
        typer.Option(
            help="Write counters of what the command did to this file, in the Prometheus text format."
        ),
    ] = None,
) -> None:
    del version  # handled by its callback before any command runs
    if metrics_file is not None:
        with reported(as_json=False):
            ctx.call_on_close(begin_watching(metrics_file))


@app.command(epilog=examples("headgate init ./lake"))
def init(
    place: Place,
    strategy: Annotated[
        str | None,
        typer.Option(help="conditional, rename or filetracker; rejected if the probe proves it unsafe."),
    ] = None,
    divisor: Annotated[
        int, typer.Option(help="The number of commits in a window; cannot be changed later.")
    ] = DEFAULT_DIVISOR,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Create a new, empty lake. Probes the storage and chooses the best commit strategy for it."""
    with reported(as_json=json):
        from headgate.lake.lake import Lake

        reports: list[ProbeReport] = []
        with working("probing the storage …"):
            lake = Lake.init(
                place,
                strategy=strategy,
                divisor=divisor,
                options=store_options(option),
                on_probe=reports.append,
                args=_init_args(place, strategy, divisor),
            )
        if json:
            found = {"promises": output.report_json(reports[0]), "left_by_probe": list(reports[0].left)}
            output.print_json(output.lake_json(lake) | found)
            return
        output.print_report(reports[0])
        output.say(f"created a lake at {lake.place} with the strategy {lake.strategy}")


def _init_args(place: str, strategy: str | None, divisor: int) -> list[str]:
    chosen = [] if strategy is None else ["--strategy", strategy]
    window = [] if divisor == DEFAULT_DIVISOR else ["--divisor", str(divisor)]
    return ["headgate", "init", place, *chosen, *window]


@app.command(epilog=examples("headgate tables ./lake --version 3"))
def tables(
    place: Place,
    version: AtVersion = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """List the tables, with their rows, files and bytes, and the views and mounts. Opens no data file."""
    with reported(as_json=json):
        view = open_at(place, option, version, None, None)
        names = sorted((*view.tables(), *view.objects))
        with working("reading the tables …"):
            shown = [table_output.listed_json(view, name) for name in names]
        if json:
            output.print_json(shown)
        else:
            lines = [table_output.listed_row(table) for table in shown]
            output.print_rows(f"{place}, version {view.version}", table_output.TABLE_COLUMNS, lines)


@app.command(epilog=examples("headgate log ./lake --limit 5"))
def log(
    place: Place,
    limit: Annotated[int, typer.Option(min=1, help="How many commits to show.")] = 20,
    before: Annotated[int | None, typer.Option(min=1, help="Only commits below this version.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all commits.")] = False,
    table: Annotated[
        str | None, typer.Option(help="Only commits that changed this table, or tables such as sales.*.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only commits by this user.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only commits since this time: 2026-11-15T10:00:00Z, or a date.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Only commits of this kind: commit, plan, cancel, create, drop, append, delete, …"),
    ] = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Show the commits, newest first, down to version 0, which created the lake.

    Checks every record against the digest in the next record.
    """
    with reported(as_json=json):
        lake = open_lake(place, option)
        with working("reading the log …"):
            entries = lake.log(
                limit=None if everything else limit,
                before=before,
                table=table,
                user=user,
                since=since,
                kind=kind,
                init=True,
            )
        if json:
            output.print_json([entry.record for entry in entries])
            return
        rows = [output.log_row(entry) for entry in entries]
        output.print_rows(f"{lake.place}, version {lake.version}", output.LOG_COLUMNS, rows)
        filtered = any(given is not None for given in (table, user, since, kind))
        left = entries[-1].version if entries and not filtered else 0
        if left and sys.stdout.isatty():
            older = output.command_line("log", place, "--before", str(entries[-1].version))
            output.say(f"{left} older: {older}")


@app.command(epilog=examples("headgate timeline ./lake --pending", "headgate timeline ./lake --cancel TXID"))
def timeline(
    place: Place,
    limit: Annotated[int, typer.Option(min=0, help="How many commits to show.")] = 20,
    pending: Annotated[
        bool, typer.Option("--pending", help="Show only what is running or planned; reads no commit.")
    ] = False,
    cancel: Annotated[
        str | None,
        typer.Option(
            metavar="TXID",
            help="Cancel this plan or running transaction, and do nothing else. It can never commit "
            "afterwards.",
        ),
    ] = None,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Show what is running and planned, then what has ended, newest first.

    Plain appends are not announced; they appear once they are committed.
    """
    with reported(as_json=json):
        if cancel is not None:
            _cancel(open_with_hooks(place, option, config), cancel, json=json)
            return
        lake = open_lake(place, option)
        with working("reading the log …"):
            instants = lake.timeline(limit=limit, pending=pending)
        if json:
            output.print_json([instant_json(instant) for instant in instants])
        else:
            title = f"{lake.place}, version {lake.version}"
            output.print_rows(title, INSTANT_COLUMNS, [instant_row(instant) for instant in instants])


def _cancel(lake: Lake, txid: str, *, json: bool) -> None:
    result = lake.cancel(txid, args=["headgate", "timeline", "--cancel", txid])
    if json:
        told = {"txid": txid, "cancelled": True, "version": result.version}
        output.print_json(told | {"hook_failures": list(result.hook_failures)})
    else:
        output.say(f"version {result.version}: {txid} is cancelled and can never commit")
    tell_warnings(lake, result)


@app.command(
    epilog=examples(
        "headgate show ./lake --version 3",
        "headgate show ./lake sales.orders --tag eom",
        "headgate show ./lake --version 3 --attempts",
    )
)
def show(
    place: Place,
    table: Annotated[
        str | None,
        typer.Argument(metavar="[TABLE]", help="A table, view or mount; without it, the lake itself."),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            min=0, help="Show the table as of this version; without TABLE, the record of the version."
        ),
    ] = None,
    timestamp: AtTimestamp = None,
    tag: AtTag = None,
    attempts: Annotated[
        bool,
        typer.Option("--attempts", help="Show which writers competed for the version, and which one won."),
    ] = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Show the current lake, the complete record of one version, or a table, view or mount.

    Other engines can open the file that `headgate show LAKE TABLE --json` prints as metadata.
    """
    with reported(as_json=json):
        lake = open_lake(place, option)
        travels = version is not None or timestamp is not None or tag is not None
        if attempts:
            if table is not None or not travels:
                raise InvalidInputError(
                    "--attempts needs a version and no table", "give --version and no TABLE"
                )
            chosen = lake.at(version, timestamp=timestamp, tag=tag).version
            print_attempts(lake.attempts(chosen), json=json)
        elif table is None and travels:
            output.print_json(_record(lake, lake.at(version, timestamp=timestamp, tag=tag).version))
        elif table is None:
            _show_lake(lake, json=json)
        elif json:
            output.print_json(table_output.table_json(lake.at(version, timestamp=timestamp, tag=tag), table))
        else:
            table_output.print_table(lake.at(version, timestamp=timestamp, tag=tag), table)


def _show_lake(lake: Lake, *, json: bool) -> None:
    if json:
        output.print_json(output.lake_json(lake))
    else:
        output.print_fields("lake", output.lake_fields(lake))


def _record(lake: Lake, version: int) -> object:
    return lake.log(limit=1, before=version + 1, init=True)[0].record


@app.command(epilog=examples("headgate doctor s3://bucket/lake --switch-to filetracker"))
def doctor(
    place: Place,
    switch_to: Annotated[
        str | None,
        typer.Option(help="Switch the lake to this strategy, if it is safe. Writers may keep running."),
    ] = None,
    resolve: Annotated[
        str | None,
        typer.Option(
            metavar="TXID",
            help="Resolve the unknown outcome of this transaction, and do nothing else: it was committed, or "
            "it is cancelled and can never commit.",
        ),
    ] = None,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Probe the storage again, and report which commit strategies are safe on it.

    Exits with 1 if the strategy of the lake is not safe.
    """
    with reported(as_json=json):
        if resolve is not None and switch_to is not None:
            raise InvalidInputError("--resolve and --switch-to cannot be combined", "run one after the other")
        commits = resolve is not None or switch_to is not None
        lake = open_with_hooks(place, option, config) if commits else open_lake(place, option)
        if resolve is not None:
            _resolve(lake, resolve, json=json)
            return
        switched: dict[str, object] = {}
        if switch_to is not None:
            result = lake.change_strategy(switch_to, args=["headgate", "doctor", "--switch-to", switch_to])
            switched = {"switched_by": result.version, "hook_failures": list(result.hook_failures)}
            if not json:
                output.say(f"version {result.version}: switched the lake to {switch_to}")
            tell_warnings(lake, result)
        with working("probing the storage …"):
            diagnosis = lake.doctor()
        if json:
            output.print_json(output.diagnosis_json(diagnosis) | switched)
        else:
            output.print_report(diagnosis.report)
            output.print_rows("Commit strategies", output.VERDICT_COLUMNS, output.verdict_rows(diagnosis))
            if diagnosis.clock_warning is not None:
                output.say(f"clock: {diagnosis.clock_warning}")
    if not diagnosis.safe:
        raise typer.Exit(REFUSED)


def _resolve(lake: Lake, txid: str, *, json: bool) -> None:
    resolution = lake.resolve(txid)
    if json:
        output.print_json(output.resolution_json(resolution))
    else:
        output.say(output.resolution_text(resolution))
    if resolution.cancelled_by is not None:
        tell_hook_failures(lake, resolution.cancelled_by, resolution.hook_failures)


@app.command(epilog=examples("headgate demo --dir ./demo-lake"))
def demo(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="The directory of the new lake; a new temporary directory if not given."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show Headgate at work: a small shop on a new lake, with several concurrent writers, one of them killed.

    Four processes append orders and customers with Spark; one is killed, and recovery cleans up after it.
    Then follow a merge with a hook, a conflict, a compaction, time travel, a query, and DuckDB on the same
    table. Needs Java, and takes a minute or two. With --json the demo prints to standard error.
    """
    from headgate.cli.demo import story

    with reported(as_json=json):
        with engine(alive=False, spark_sql_shuffle_partitions=4) as spark:
            place = directory or Path(tempfile.mkdtemp(prefix="headgate-demo-"))
            lake = story.tell(place, output.console(stderr=json), spark)
        if json:
            output.print_json(output.lake_json(lake))
            return
        output.console().print("[bold]Try next[/bold]")
        for words in story.LOOK_FURTHER:
            output.say(f"  {output.command_line(words[0], str(place), *words[1:])}")
