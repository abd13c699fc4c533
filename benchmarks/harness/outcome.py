"""The result of an operation of a system. Standard library only: it runs in every environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """`answer` must be the same for every system; `samples` are the seconds of each repetition.

    `facts` are shown but not compared, such as the number of files. `seconds` replaces the time of the whole
    operation, if only a part of it is measured.
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
    """The system has no such operation; the text gives the reason, unless it is obvious."""


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds that `work` takes."""
    started = perf_counter()
    work()
    return perf_counter() - started
