"""The command line: every command with its arguments, options and examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import headgate.cli  # noqa: F401  # so that all commands have joined the app
from headgate.cli.app import app
from headgate.cli.options import examples_in
from scripts.reference.markdown import anchored, block, code, page, table

INTRODUCTION = """
This page contains the output of `headgate COMMAND --help` for every command. [The command line](../cli.md)
explains the commands in the order in which you need them, with exit codes and output formats.
"""


def commands_page() -> str:
    root: Any = typer.main.get_group(app)
    found = [*_commands(root, "headgate")]
    index = table(
        ("command", "description"),
        ((f"[`{name}`](#{anchored(name)})", _first_sentence(command.help)) for name, command in found),
    )
    common = "\n\n".join(("## headgate", (root.help or "").strip(), _options(root), root.epilog or ""))
    return page("Commands", INTRODUCTION, index, common, *(_section(name, each) for name, each in found))


def _commands(group: Any, words: str) -> Iterator[tuple[str, Any]]:
    for name, command in sorted(group.commands.items()):
        inner = f"{words} {name}"
        if getattr(command, "commands", None):
            yield from _commands(command, inner)
        else:
            yield inner, command


def _first_sentence(text: str | None) -> str:
    return (text or "").strip().split("\n\n")[0]


def _section(name: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join([name, "[OPTIONS]", *(_metavar(argument) for argument in arguments)])
    parts = [f"## {name}", block(usage), (command.help or "").strip()]
    if arguments:
        rows = ((code(_metavar(argument)), argument.help or "") for argument in arguments)
        parts.append(table(("argument", "description"), rows))
    parts.append(_options(command))
    shown = examples_in(command.epilog)
    if shown:
        parts += ["For example:", block("\n".join(shown))]
    return "\n\n".join(parts)


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _options(command: Any) -> str:
    options = [each for each in command.params if each.param_type_name == "option"]
    rows = ((code(_spelled(option)), _explained(option)) for option in options)
    return table(("option", "description"), rows)


def _spelled(option: Any) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {option.metavar or _kind(option.type_descriptor)}"


def _kind(described: Any) -> str:
    """The kind of a value: one of a few choices, or a type."""
    if described.choices:
        return "|".join(str(choice) for choice in described.choices)
    return {int: "NUMBER", Path: "PATH"}.get(described.annotation, "TEXT")


def _explained(option: Any) -> str:
    text = option.help or ""
    default = option.default
    if not option.is_flag and isinstance(default, int | str) and default != "":
        text += f" Default: {default}."
    if option.envvar:
        text += f" Can also be set with the environment variable `{option.envvar}`."
    return text
