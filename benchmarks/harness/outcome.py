"""What an operation of a system tells the harness. Standard library only: it runs in every environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """`answer` must be the same for every system; `samples` are the seconds of each repetition inside.

    `facts` are shown and not compared, as how many files were written. `seconds` takes the place of the time
    of the whole operation, if only a part of it is what is measured.
    """

    answer: Any = None
    samples: tuple[float, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "answer": self.answer,
            "samples": list(self.samples),
            "facts": dict(self.facts),
            "seconds": self.seconds,
        }


class NotOfferedError(Exception):
    """The system has no such operation; the text says why, if that is not plain."""


def seconds_of(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    started = perf_counter()
    work()
    return perf_counter() - started
