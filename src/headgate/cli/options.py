"""Arguments and options that several commands share, and the examples at the end of each help text."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.metrics import watch
from headgate.errors import InvalidInputError

if TYPE_CHECKING:
    from headgate.lake.lake import Lake
    from headgate.lake.lake_view import LakeView


Place = Annotated[str, typer.Argument(metavar="LAKE", help="The lake: a path or a URL.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="A table, such as sales.orders.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the storage, such as endpoint=http://localhost:9000. Can be given several times. "
        "Keep credentials in the environment instead.",
    ),
]
AllowMounts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-mounts",
        metavar="DIRECTORY",
        help="A directory on this host from which mounts may be read, including its subdirectories. Can be "
        "given several times. Directories in HEADGATE_MOUNTS_ALLOW are allowed too.",
    ),
]
AtVersion = Annotated[int | None, typer.Option("--version", min=0, help="As of this version.")]
AtTimestamp = Annotated[
    str | None,
    typer.Option("--timestamp", help="As of this time: 2026-11-15T10:00:00Z. UTC if it has no zone."),
]
MaxCellLines = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=2**31 - 1,
        help="CSV: the most lines that a quoted value may span; 500 if not given. Longer values are "
        "rejected, "
        "because usually a closing quote is missing.",
    ),
]
AtTag = Annotated[str | None, typer.Option("--tag", help="As of the version of this tag.")]

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="HEADGATE_CONFIG",
        help="A file with hooks to run after a commit; ./headgate.toml if it exists. Must not be inside a "
        "lake.",
    ),
]
USUAL_CONFIG = Path("headgate.toml")


def store_options(given: list[str] | None, flag: str = "--option") -> dict[str, str]:
    """The storage options by name, as given with `flag`."""
    options: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InvalidInputError(f"the option {text!r} has no value", f"write it as {flag} NAME=VALUE")
        options[name] = value
    return options


def open_lake(place: str, option: list[str] | None, allow_mounts: list[str] | None = None) -> Lake:
    """The lake of a command. Counts what the command does if `--metrics-file` is given."""
    from headgate.lake.lake import Lake  # imported late, so that `--help` does not wait for it

    # What a command reports includes what it postponed.
    known = store_options(option)
    lake = Lake.open(place, options=known, allow_mounts=allow_mounts, follow_up="inline")
    watch(lake)
    return lake


def open_with_hooks(
    place: str, option: list[str] | None, config: Path | None, allow_mounts: list[str] | None = None
) -> Lake:
    """The lake, for a command that may commit, with the hooks that this machine registers."""
    from headgate import hooks

    lake = open_lake(place, option, allow_mounts)
    # A broken link counts as present, so that reading it raises an error.
    usual = USUAL_CONFIG if USUAL_CONFIG.exists() or USUAL_CONFIG.is_symlink() else None
    chosen = config or usual
    if chosen is not None:
        hooks.register(lake, chosen)
    return lake


def open_at(
    place: str,
    option: list[str] | None,
    version: int | None,
    timestamp: str | None,
    tag: str | None,
    allow_mounts: list[str] | None = None,
) -> LakeView:
    """The lake as of an earlier version, or a fixed view of the current one."""
    return open_lake(place, option, allow_mounts).at(version, timestamp=timestamp, tag=tag)


_TITLE = "Examples:"
_BREAK = "\n\n"
"""What the help renders as the end of a line."""


def examples(*commands: str) -> str:
    """An epilog of a help text that shows these commands."""
    return _BREAK.join((_TITLE, *commands))


def examples_in(epilog: str | None) -> list[str]:
    """The commands in such an epilog; none for any other text."""
    title, *commands = (epilog or "").split(_BREAK)
    return commands if title == _TITLE else []


def unwrap_help(group: typer.Typer) -> None:
    """Joins the lines of each paragraph of a help text: Typer prints the line breaks of docstrings."""
    for command in group.registered_commands:
        paragraphs = inspect.cleandoc((command.callback and command.callback.__doc__) or "").split(_BREAK)
        command.help = _BREAK.join(" ".join(each.split()) for each in paragraphs)
