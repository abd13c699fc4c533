"""The commands. Each opens a lake, calls one method, and prints what it returned."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli import output, streams
from headgate.cli.failure import REFUSED, reported
from headgate.errors import InvalidInputError
from headgate.lake import Lake
from headgate.model.probe import ProbeReport
from headgate.release import __version__

app = typer.Typer(
    name="headgate",
    help="A transactional lakehouse: any number of writers, any storage, no server.",
    epilog="LAKE is a path, or a URL: s3://bucket/path, gs://bucket/path, az://container/path. Exit codes: "
    "0 done, 1 refused or failed, 2 wrong usage, 3 conflict, 4 outcome unknown.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Place = Annotated[str, typer.Argument(metavar="LAKE", help="Where the lake is: a path or a URL.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the storage, such as endpoint=http://localhost:9000. Can be given several times; "
        "credentials are better kept in the environment.",
    ),
]


def main() -> None:
    """The entry point of the `headgate` command."""
    sys.exit(streams.run(app))


def _options(given: list[str] | None) -> dict[str, str]:
    options: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InvalidInputError(f"the option {text!r} has no value", "write it as --option NAME=VALUE")
        options[name] = value
    return options


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headgate {__version__}")
        raise typer.Exit


@app.callback()
def headgate(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the release and exit.")
    ] = False,
) -> None:
    del version  # handled by its callback before any command runs


@app.command(epilog="Example: headgate init ./lake")
def init(
    place: Place,
    strategy: Annotated[
        str | None,
        typer.Option(help="conditional, rename or filetracker; refused if the probe proves it unsafe."),
    ] = None,
    divisor: Annotated[
        int, typer.Option(help="How many commits make a window; cannot be changed later.")
    ] = 10,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Make a new, empty lake. Tries out the storage and chooses the best commit strategy for it."""
    with reported(as_json=json):
        reports: list[ProbeReport] = []
        lake = Lake.init(
            place, strategy=strategy, divisor=divisor, options=_options(option), on_probe=reports.append
        )
        if json:
            found = {"promises": output.report_json(reports[0]), "left_by_probe": list(reports[0].left)}
            output.print_json(output.lake_json(lake) | found)
            return
        output.print_report(reports[0])
        output.say(f"made a lake at {lake.place} with the strategy {lake.strategy}")


@app.command(epilog="Example: headgate tables ./lake")
def tables(
    place: Place,
    version: Annotated[
        int | None, typer.Option(min=0, help="The tables as they were at this version.")
    ] = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """List the tables, with their rows, files and bytes."""
    with reported(as_json=json):
        lake = Lake.open(place, options=_options(option))
        seen = lake.version if version is None else version
        shown = [output.table_json(lake, name, seen) for name in lake.tables(version=seen)]
        if json:
            output.print_json(shown)
        else:
            output.print_rows(
                f"{lake.place}", output.TABLE_COLUMNS, [output.table_row(line) for line in shown]
            )


@app.command(epilog="Example: headgate log ./lake --limit 5")
def log(
    place: Place,
    limit: Annotated[int, typer.Option(min=1, help="How many commits to show.")] = 20,
    before: Annotated[int | None, typer.Option(min=1, help="Only commits below this version.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all commits.")] = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Show the commits, newest first. Every record is checked against the digest in the next one."""
    with reported(as_json=json):
        lake = Lake.open(place, options=_options(option))
        entries = lake.log(limit=None if everything else limit, before=before)
        if json:
            output.print_json([entry.record for entry in entries])
            return
        rows = [output.log_row(entry) for entry in entries]
        output.print_rows(f"{lake.place}, version {lake.version}", output.LOG_COLUMNS, rows)
        left = entries[-1].version - 1 if entries else 0
        if left and sys.stdout.isatty():
            older = output.command_line("log", place, "--before", str(entries[-1].version))
            output.say(f"{left} older: {older}")


@app.command(epilog="Example: headgate show ./lake --version 3")
def show(
    place: Place,
    version: Annotated[int | None, typer.Option(min=1, help="Show the record of this version.")] = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Show what the lake is now, or the whole record of one version."""
    with reported(as_json=json):
        lake = Lake.open(place, options=_options(option))
        if version is not None:
            lake.at(version)  # says which versions there are if this one is not among them
            output.print_json(lake.log(limit=1, before=version + 1)[0].record)
        elif json:
            output.print_json(output.lake_json(lake))
        else:
            output.print_fields("lake", output.lake_fields(lake))


@app.command(epilog="Example: headgate doctor s3://bucket/lake --switch-to filetracker")
def doctor(
    place: Place,
    switch_to: Annotated[
        str | None,
        typer.Option(help="Change the lake to this strategy, if it is safe; writers may be running."),
    ] = None,
    resolve: Annotated[
        str | None,
        typer.Option(
            metavar="TXID",
            help="Settle what became of this transaction, and do nothing else: it was committed, or is "
            "cancelled for ever.",
        ),
    ] = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Try out the storage again, and say which commit strategies are safe on it.

    Exits with 1 if the strategy that the lake uses is not.
    """
    with reported(as_json=json):
        if resolve is not None and switch_to is not None:
            raise InvalidInputError("--resolve and --switch-to do not go together", "run one after the other")
        lake = Lake.open(place, options=_options(option))
        if resolve is not None:
            _resolve(lake, resolve, json=json)
            return
        if switch_to is not None:
            result = lake.change_strategy(switch_to, args=["headgate", "doctor", "--switch-to", switch_to])
            if not json:
                output.say(f"version {result.version}: from now on {switch_to}")
        diagnosis = lake.doctor()
        if json:
            output.print_json(output.diagnosis_json(diagnosis))
        else:
            output.print_report(diagnosis.report)
            output.print_rows("What that means", output.VERDICT_COLUMNS, output.verdict_rows(diagnosis))
    if not diagnosis.safe:
        raise typer.Exit(REFUSED)


def _resolve(lake: Lake, txid: str, *, json: bool) -> None:
    resolution = lake.resolve(txid)
    if json:
        output.print_json(output.resolution_json(resolution))
    else:
        output.say(output.resolution_text(resolution))


@app.command(epilog="Example: headgate demo --dir ./demo-lake")
def demo(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Where to make the lake; a new temporary directory if not given."),
    ] = None,
) -> None:
    """See Headgate at work: several processes write to one lake at once, and one of them is killed."""
    from headgate.demo import story

    with reported(as_json=False):
        place = directory or Path(tempfile.mkdtemp(prefix="headgate-demo-"))
        story.tell(place, output.console())
        output.console().print("[bold]Try next[/bold]")
        for command in ("log", "show", "doctor"):
            output.say(f"  {output.command_line(command, str(place))}")
