"""The errors: the tree, and for each error its kind, when it is raised, the next step, and the exit code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from headgate import errors
from headgate.cli.failure import exit_code
from headgate.errors import HeadgateError
from scripts.reference.markdown import block, code, page

INTRODUCTION = """
Every error that Headgate raises on purpose is a `HeadgateError` with a stable `kind`, a `problem` and a
`next_step`; with `--json`, commands print all three. The class of an error says what you can do next, not
where it was raised. Errors that are not in `headgate` itself are in `headgate.errors`.
[Troubleshooting](../troubleshooting.md) covers the usual causes.
"""


def errors_page() -> str:
    drawn = (errors.__doc__ or "").split("```")[1]
    sections = (_section(kind, depth) for kind, depth in _tree(HeadgateError, 0) if depth)
    return page("Errors", INTRODUCTION, block(drawn.strip()), *sections)


def _tree(kind: type[HeadgateError], depth: int) -> Iterator[tuple[type[HeadgateError], int]]:
    yield kind, depth
    for child in kind.__subclasses__():
        # Classes elsewhere add details of one operation, such as the conflicts that were found.
        if child.__module__ == errors.__name__:
            yield from _tree(child, depth + 1)


def _article(name: str) -> str:
    return "an" if name[0] in "AEIOU" else "a"


def _section(kind: type[HeadgateError], depth: int) -> str:
    is_a = "" if depth == 1 else f", is {_article(kind.__bases__[0].__name__)} `{kind.__bases__[0].__name__}`"
    facts = f"`kind` {code(kind.kind)}{is_a}, exit code {exit_code(kind('x'))}"
    step = f"**Next**: {kind.usual_step}." if kind.usual_step else "**Next**: see the error."
    return "\n\n".join((f"## {kind.__name__}", facts, inspect.getdoc(kind) or "", step))
