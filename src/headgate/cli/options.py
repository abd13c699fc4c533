"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.watching import watch
from headgate.errors import InvalidInputError

if TYPE_CHECKING:
    from headgate.lake import Lake
    from headgate.view import LakeView

Place = Annotated[str, typer.Argument(metavar="LAKE", help="Where the lake is: a path or a URL.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="A table, as sales.orders.")]
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
AtVersion = Annotated[int | None, typer.Option("--version", min=0, help="As it was at this version.")]
AtTimestamp = Annotated[
    str | None,
    typer.Option("--timestamp", help="As it was at this moment: 2026-11-15T10:00:00Z. UTC without a zone."),
]
AtTag = Annotated[str | None, typer.Option("--tag", help="As it was where this tag points to.")]

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="HEADGATE_CONFIG",
        help="The hooks to run after a commit; ./headgate.toml if it is there. Never one inside a lake.",
    ),
]
USUAL_CONFIG = Path("headgate.toml")


def store_options(given: list[str] | None, flag: str = "--option") -> dict[str, str]:
    """The options of the storage by name, as they were given with `flag`."""
    options: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InvalidInputError(f"the option {text!r} has no value", f"write it as {flag} NAME=VALUE")
        options[name] = value
    return options


def open_lake(place: str, option: list[str] | None) -> Lake:
    """The lake of a command; what it does is written to the file of `--metrics-file`, if there is one."""
    from headgate.lake import Lake  # not before it is needed: `--help` does not wait for it

    lake = Lake.open(place, options=store_options(option))
    watch(lake)
    return lake


def open_with_hooks(place: str, option: list[str] | None, config: Path | None) -> Lake:
    """The lake, for a command that may commit, with the hooks that this machine has for it."""
    from headgate import hooks

    lake = open_lake(place, option)
    # A link that leads nowhere is there too, and says so when it is read.
    usual = USUAL_CONFIG if USUAL_CONFIG.exists() or USUAL_CONFIG.is_symlink() else None
    chosen = config or usual
    if chosen is not None:
        hooks.register(lake, chosen)
    return lake


def open_at(
    place: str, option: list[str] | None, version: int | None, timestamp: str | None, tag: str | None
) -> LakeView:
    """The lake as it was, or as it is now and unchanging from then on."""
    return open_lake(place, option).at(version, timestamp=timestamp, tag=tag)
