"""A workload, described once for all systems: what is done, in which order, and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from benchmarks.harness.system import System


class Size(Enum):
    """How much is measured: to see that it runs, in minutes, or as the page promises."""

    TINY = "tiny"
    SHORT = "short"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Step:
    """An operation of the systems. With a label it is timed; without, it prepares what follows.

    `compared`: all systems must give the same answer.
    """

    operation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    compared: bool = True


@dataclass(frozen=True, slots=True)
class Workload:
    """`before` is done once, `round` once in each round, its number given. The systems take turns.

    Rounds that warm up are not counted. A step that takes longer than the limit ends its system. `parameters`
    are what the page tells of the size.
    """

    name: str
    systems: Sequence[System]
    parameters: Mapping[str, Any]
    round: Callable[[int], Sequence[Step]]
    before: Sequence[Step] = ()
    rounds: int = 5
    warm_up: int = 1
    limit_seconds: float = 600.0
