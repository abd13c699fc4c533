"""The action `notify`: appends the event to a file, or prints it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from headgate.model.commit_event import CommitEvent
from headgate.steward.hooks.lines import Lines, lines_to


@dataclass(frozen=True, slots=True)
class Notify:
    """Appends each event as one line of JSON to `file`, or prints it to `stream` (`stdout` or `stderr`).

    Readers of the file know repeated events by their `id`.
    """

    file: str | os.PathLike[str] | None = None
    stream: str | None = None
    _lines: Lines = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lines", lines_to(self.file, self.stream))

    def run(self, event: CommitEvent) -> None:
        self._lines.write([event.to_json()])

    def describe(self) -> str:
        return f"writes events to {self._lines}"
