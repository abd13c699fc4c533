"""A section of the benchmarks: how it is measured, and how its results are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.harness.bench import Bench
from benchmarks.harness.record import Run
from benchmarks.pages.part import Part


@dataclass(frozen=True, slots=True)
class Section:
    """`measure` takes minutes or more; `part` is a pure function of the saved results."""

    name: str
    measure: Callable[[Bench], Run]
    part: Callable[[Run], Part]
