"""The commands of the steward: recover, hooks."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.examples import examples
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
from headgate.cli.options import AsJson, Config, Place, StoreOptions, open_lake, open_with_hooks
from headgate.cli.progress import working

hooks = typer.Typer(
    help="Show and run the actions that follow commits. They are registered in a headgate.toml.",
    epilog=examples("headgate hooks status ./lake", "headgate hooks retry ./lake --config hooks.toml"),
    no_args_is_help=True,
)
app.add_typer(hooks, name="hooks")


@app.command(epilog=examples("headgate recover ./lake"))
def recover(place: Place, config: Config = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Make up for what writers that died had still to do, and say what that was.

    Control entries, checkpoints, publishing, plans that nobody carries out, and hooks that are registered
    here. Can be repeated; writers may be running.
    """
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        with working("looking for what was left undone …"):
            report = lake.recover()
        if json:
            output.print_json(recovery_json(report))
        else:
            for line in recovery_lines(report):
                output.say(line)


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
    """Show the hooks that are due and not done, oldest version first. Changes nothing."""
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
    """Give up a hook for all versions that it is due for and not done: nobody runs it for them any more."""
    with reported(as_json=json):
        versions = open_lake(place, option).skip_hooks(name)
        if json:
            output.print_json({"hook": name, "versions": list(versions)})
        else:
            output.say(f"{name} is given up for {output.count(len(versions), 'version')}")


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
