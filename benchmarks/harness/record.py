"""The measurements, as values that are stored as JSON: the page is rendered only from these."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
DIGITS = 6
MOST_SAMPLES = 200
"""If there are more samples, this many are kept, evenly over their order, so that quantiles stay the same."""


@dataclass(slots=True)
class Measured:
    """A step of a system: wall and CPU seconds of each round, or why there are none."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    answer: Any = None
    facts: dict[str, Any] = field(default_factory=dict)
    missing: str | None = None

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def cpu_median(self) -> float | None:
        return statistics.median(self.cpu) if self.cpu else None


@dataclass(slots=True)
class SystemRun:
    """A system in a section, and its steps by their labels."""

    engine: str
    versions: dict[str, str] = field(default_factory=dict)
    steps: dict[str, Measured] = field(default_factory=dict)
    missing: str | None = None

    def step(self, label: str) -> Measured:
        return self.steps.setdefault(label, Measured())


@dataclass(slots=True)
class Run:
    """One measurement of a section."""

    section: str
    size: str
    machine: str
    command: str
    parameters: dict[str, Any] = field(default_factory=dict)
    systems: dict[str, SystemRun] = field(default_factory=dict)

    def median(self, system: str, label: str) -> float | None:
        """The median in seconds; None if it was not measured."""
        known = self.systems.get(system)
        step = None if known is None else known.steps.get(label)
        return None if step is None else step.median

    def fact(self, system: str, label: str, name: str) -> Any:
        known = self.systems.get(system)
        step = None if known is None else known.steps.get(label)
        return None if step is None else step.facts.get(name)

    def ratio(self, ours: str, theirs: str, label: str, their_label: str | None = None) -> float | None:
        """Our time divided by theirs; None if one of them was not measured."""
        mine, other = self.median(ours, label), self.median(theirs, their_label or label)
        return None if mine is None or not other else mine / other

    def paired_quartiles(self, ours: str, theirs: str, label: str) -> tuple[float | None, ...]:
        """Our time divided by theirs in each round: the median, the lower and the upper quartile.

        The two are measured one right after the other, so temporary load on the machine affects both sides of
        a ratio. None if one of them was not measured.
        """
        steps = [self.systems[name].steps.get(label) for name in (ours, theirs) if name in self.systems]
        rounds = [step.seconds for step in steps if step is not None and step.seconds]
        if len(rounds) < 2:
            return None, None, None
        ratios = [mine / other for mine, other in zip(*rounds, strict=True)]
        if len(ratios) == 1:
            return ratios[0], ratios[0], ratios[0]
        lower, median, upper = statistics.quantiles(ratios, n=4, method="inclusive")
        return median, lower, upper

    def labels(self) -> list[str]:
        """In the order in which they were measured."""
        return list(dict.fromkeys(label for system in self.systems.values() for label in system.steps))

    def with_engine(self, other: Run) -> Run:
        """This run combined with one of the same section on another engine."""
        told = {
            name: {**mine, **other.parameters[name]} if isinstance(mine, dict) else mine
            for name, mine in self.parameters.items()
        }
        return replace(self, parameters=told, systems={**self.systems, **other.systems})

    def save(self, directory: Path = RESULTS) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.section}.json"
        known = asdict(self)
        for system in known["systems"].values():
            for step in system["steps"].values():
                step["samples"] = thinned(step["samples"])
        path.write_text(json.dumps(_rounded(known), indent=1) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> Run:
        raw = json.loads(path.read_text())
        systems = {name: _system(known) for name, known in raw.pop("systems").items()}
        return cls(**raw, systems=systems)


def _system(raw: Mapping[str, Any]) -> SystemRun:
    steps = {label: Measured(**known) for label, known in raw["steps"].items()}
    return SystemRun(raw["engine"], dict(raw["versions"]), steps, raw["missing"])


def thinned(samples: list[float]) -> list[float]:
    """All samples if they are few; otherwise some of them, sorted, with the first and the last."""
    if len(samples) <= MOST_SAMPLES:
        return samples
    last = len(samples) - 1
    ordered = sorted(samples)
    return [ordered[round(number * last / (MOST_SAMPLES - 1))] for number in range(MOST_SAMPLES)]


def saved(directory: Path = RESULTS) -> dict[str, Run]:
    """All saved runs, by section."""
    return {run.section: run for run in map(Run.load, sorted(directory.glob("*.json")))}


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, DIGITS)
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
        case list() | tuple():
            return [_rounded(each) for each in value]
        case _:
            return value
