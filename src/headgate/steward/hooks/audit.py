"""The action `audit`: writes what changed, table by table and path by path."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from headgate.core.audit import audit_lines
from headgate.model.commit_event import CommitEvent
from headgate.steward.hooks.lines import Lines, lines_to


@dataclass(frozen=True, slots=True)
class Audit:
    """Appends a line of JSON for each table and virtual path that a commit changed to `file`, or prints them
    to `stream` (`stdout` or `stderr`).

    All lines of a commit are written at once, and carry the `event` by which repeated ones are known.
    """

    file: str | os.PathLike[str] | None = None
    stream: str | None = None
    _lines: Lines = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lines", lines_to(self.file, self.stream))

    def run(self, event: CommitEvent) -> None:
        self._lines.write([*audit_lines(event)])

    def describe(self) -> str:
        return f"writes changes to {self._lines}"
