"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MADE = "<!-- Made by `make reference` from the code; changes of this file are lost. -->"


def page(title: str, introduction: str, *parts: str) -> str:
    """A page of the reference, with the remark that it is made."""
    return "\n\n".join((f"# {title}", MADE, introduction.strip(), *(part.strip() for part in parts))) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are one line each."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell(text) for text in row)} |" for row in lines)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Text in the font of code; empty if there is none."""
    return f"`{text}`" if text else ""


def block(text: str) -> str:
    """A block that is shown, not run."""
    return f"```text\n{text.rstrip()}\n```"


def anchored(text: str) -> str:
    """The anchor of a heading, in the way of GitHub and of the site."""
    kept = "".join(letter for letter in text if letter.isalnum() or letter in " -_")
    return "-".join(kept.strip().lower().split())
