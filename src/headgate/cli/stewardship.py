"""The commands of the steward: recover, hooks, metrics."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.failure import REFUSED, reported
from headgate.cli.hook_output import (
    HOOK_COLUMNS,
    OPEN_COLUMNS,
    hook_json,
    hook_row,
    open_json,
    open_row,
    recovery_json,
    recovery_lines,
)
from headgate.cli.metrics import SIZE_COLUMNS, metrics_fields, size_row
from headgate.cli.options import AsJson, Config, Place, StoreOptions, examples, open_lake, open_with_hooks
from headgate.cli.progress import working

if TYPE_CHECKING:
    from headgate.model.reports import RecoveryNeed

hooks = typer.Typer(
    help="Show and run hooks: the actions that follow commits. Register them in a headgate.toml.",
    epilog=examples("headgate hooks status ./lake", "headgate hooks retry ./lake --config hooks.toml"),
    no_args_is_help=True,
)
app.add_typer(hooks, name="hooks")


@app.command(epilog=examples("headgate recover ./lake", "headgate recover ./lake --dry-run"))
def recover(
    place: Place,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what is left to do. Changes nothing.")
    ] = False,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Finish the work of writers that died, and print what was done.

    Backfills control entries and checkpoints, publishes tables, cancels abandoned plans, and runs the hooks
    that are registered here. You can run it at any time, also while writers are running.
    """
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        if dry_run:
            _show_need(lake.recovery_needed(), json=json)
            return
        with working("looking for unfinished work …"):
            report = lake.recover()
        if json:
            output.print_json(recovery_json(report))
        else:
            for line in recovery_lines(report):
                output.say(line)


@app.command(epilog=examples("headgate metrics ./lake", "headgate metrics ./lake --prometheus"))
def metrics(
    place: Place,
    versions: Annotated[
        int, typer.Option(min=0, help="How many of the newest control entries to sum up.")
    ] = 1000,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print text for Prometheus.")] = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Show the size of the lake, its history and its tables, and the activity in its newest versions."""
    with reported(as_json=json):
        lake = open_lake(place, option)
        with working("reading control entries …"):
            found = lake.measure(versions=versions)
        if prometheus:
            from headgate.core.history.metrics import lake_prometheus_text

            output.print_text(lake_prometheus_text(found, lake.id))
        elif json:
            output.print_json(asdict(found))
        else:
            output.print_fields(f"{lake.place}, version {found.version}", metrics_fields(found))
            output.print_rows("tables", SIZE_COLUMNS, [size_row(*table) for table in found.tables.items()])


def _show_need(need: RecoveryNeed, *, json: bool) -> None:
    if json:
        output.print_json({**asdict(need), "needed": bool(need), "reasons": list(need.reasons)})
    else:
        for line in need.reasons or (f"nothing to recover up to version {need.until}",):
            output.say(line)
        if need.failed_hooks:
            versions = ", ".join(map(str, need.failed_hooks))
            output.say(
                "versions with failed hooks (run `headgate hooks retry` or `headgate hooks skip`): "
                f"{versions}"
            )


@hooks.command("list", epilog=examples("headgate hooks list ./lake --config hooks.toml"))
def list_hooks(
    place: Place, config: Config = None, option: StoreOptions = None, json: AsJson = False
) -> None:
    """List the registered hooks in the order in which they run."""
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        if json:
            output.print_json([hook_json(hook) for hook in lake.hooks])
        else:
            output.print_rows("hooks", HOOK_COLUMNS, [hook_row(hook) for hook in lake.hooks])


@hooks.command(epilog=examples("headgate hooks status ./lake"))
def status(place: Place, config: Config = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Show the hooks that are pending, failed, undone or still to be undone. Changes nothing."""
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        found = lake.open_hooks()
        if json:
            output.print_json([open_json(hook) for hook in found])
        else:
            output.print_rows(f"{lake.place}: open hooks", OPEN_COLUMNS, [open_row(hook) for hook in found])


@hooks.command(epilog=examples("headgate hooks run ./lake"))
def run(place: Place, config: Config = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Run the pending hooks that are registered here. Exits with 1 if some are still open."""
    _run(place, config, option, json=json, retry=False)


@hooks.command(epilog=examples("headgate hooks retry ./lake"))
def retry(place: Place, config: Config = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Run the pending and the failed hooks that are registered here. Exits with 1 if some are still open."""
    _run(place, config, option, json=json, retry=True)


@hooks.command(epilog=examples("headgate hooks skip ./lake old-hook"))
def skip(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="HOOK", help="The name of the hook.")],
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Skip a hook for every version where it (or its undo) is pending or failed. It never runs for them."""
    with reported(as_json=json):
        versions = open_lake(place, option).skip_hooks(name)
        if json:
            output.print_json({"hook": name, "versions": list(versions)})
        else:
            output.say(f"skipped {name} for {output.count(len(versions), 'version')}")


def _run(place: str, config: Config, option: StoreOptions, *, json: bool, retry: bool) -> None:
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        with working("running hooks …"):
            ran = lake.run_hooks(retry=retry)
        if json:
            output.print_json({"done": list(ran.done), "open": list(ran.open)})
        else:
            told = [f"done: version {hook}" for hook in ran.done] + [
                f"open: version {hook}" for hook in ran.open
            ]
            for line in told or ["no hook is open"]:
                output.say(line)
    if ran.open:
        raise typer.Exit(REFUSED)
