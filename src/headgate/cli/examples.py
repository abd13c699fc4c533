"""The examples that close the help of each command, one a line."""

from __future__ import annotations

_TITLE = "Examples:"
_BREAK = "\n\n"
"""What the help keeps as the end of a line."""


def examples(*commands: str) -> str:
    """The end of a help text that shows these commands."""
    return _BREAK.join((_TITLE, *commands))


def examples_in(epilog: str | None) -> list[str]:
    """The commands of such an end; none of another text."""
    title, *commands = (epilog or "").split(_BREAK)
    return commands if title == _TITLE else []
