"""A workload, described once for all systems: its operations, their order, and what must be equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from benchmarks.harness.system import System


class Size(Enum):
    """How much is measured: just enough to check that it runs, for minutes, or as the page promises."""

    TINY = "tiny"
    SHORT = "short"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Step:
    """An operation of the systems. With a label it is timed; without one it prepares what follows.

    `compared`: all systems must give the same answer.
    """

    operation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    compared: bool = True


@dataclass(frozen=True, slots=True)
class Workload:
    """`before` runs once; `round` runs in each round with its number. The systems take turns.

    Warm-up rounds are not counted. A system leaves when a step takes longer than the limit. `parameters` are
    what the page says about the size.
    """

    name: str
    systems: Sequence[System]
    parameters: Mapping[str, Any]
    round: Callable[[int], Sequence[Step]]
    before: Sequence[Step] = ()
    rounds: int = 5
    warm_up: int = 1
    limit_seconds: float = 600.0
