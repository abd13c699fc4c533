"""A section of the page: a description, tables, promises, and where Headgate is slower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.harness.record import Run
from benchmarks.pages.picture import Picture

NEAR = 1.05
"""Times within this factor of the fastest count as equally fast."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise: `measured` must not be above `limit`. None: it could not be measured."""

    what: str
    measured: float | None
    limit: float
    unit: str = ""

    @property
    def holds(self) -> bool:
        return self.measured is not None and self.measured <= self.limit

    def text(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if self.measured is None:
            return f"{self.what}: not measured (at most {self.limit:.2f}{unit})"
        missed = "" if self.holds else " — **missed**"
        return f"{self.what}: {self.measured:.2f}, at most {self.limit:.2f}{unit}{missed}"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as strings. `title` is shown above the table, if there are several."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def markdown(self) -> str:
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, *self.rows)]
        aligned = ("---:" if self.is_figure(name) else "---" for name in range(len(self.columns)))
        lines.insert(1, f"|{'|'.join(aligned)}|")
        return "\n".join([*([f"**{self.title}**", ""] if self.title else []), *lines])

    def is_figure(self, position: int) -> bool:
        """Whether the cells of a column are numbers, which are right-aligned."""
        cells = [row[position].replace(",", "") for row in self.rows]
        known = [cell for cell in cells if cell and cell != "–"]
        return bool(known) and all(cell.replace(".", "", 1).isdigit() for cell in known)


@dataclass(frozen=True, slots=True)
class Behind:
    """A step in which another system of the same engine is faster."""

    label: str
    engine: str
    ours: float
    fastest: str
    best: float

    def text(self) -> str:
        times = self.ours / self.best
        return f"{self.label} ({self.engine}): {times:.2f} times the time of {self.fastest}"


@dataclass(frozen=True, slots=True)
class Part:
    """The contents of a section."""

    run: Run
    title: str
    text: str
    tables: Sequence[Table]
    bars: Sequence[Bar] = ()
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    behind: Sequence[Behind] | None = None


def ms(seconds: float | None, digits: int = 1) -> str:
    return "–" if seconds is None else f"{seconds * 1000:,.{digits}f}"


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def systems_of(run: Run, engine: str) -> list[str]:
    return [name for name, system in run.systems.items() if system.engine == engine]


def engines_of(run: Run) -> list[str]:
    return list(dict.fromkeys(system.engine for system in run.systems.values()))


def is_ours(system: str) -> bool:
    return system.startswith("headgate")


def is_limit(system: str) -> bool:
    return system.startswith(("Parquet", "durable files"))


def behind(run: Run, ours: Mapping[str, str], labels: Sequence[str] | None = None) -> list[Behind]:
    """The steps in which a peer of the same engine is faster by over 5 %. `ours`: our system by engine."""
    found = []
    for engine, mine in ours.items():
        for label in run.labels() if labels is None else labels:
            own = run.median(mine, label)
            times = {
                name: run.median(name, label)
                for name in systems_of(run, engine)
                if not is_ours(name) and not is_limit(name)
            }
            known = {name: seconds for name, seconds in times.items() if seconds is not None}
            if own is None or not known:
                continue
            fastest = min(known, key=lambda name: known[name])
            if own > NEAR * known[fastest]:
                found.append(Behind(label, engine, own, fastest, known[fastest]))
    return found


def medians(run: Run, ours: Mapping[str, str], digits: int = 2) -> list[Table]:
    """A table per engine: steps as rows, systems as columns, and the ratio to the best peer's time."""
    tables = []
    for engine in engines_of(run):
        names = systems_of(run, engine)
        mine = ours.get(engine)
        rows = []
        for label in run.labels():
            cells = [number(run.median(name, label), digits) for name in names]
            if any(cell != "–" for cell in cells):
                rows.append((label, *cells, _beside(run, names, mine, label)))
        tables.append(Table(("seconds", *names, "headgate / best peer"), rows, f"{engine}"))
    return tables


def _beside(run: Run, names: Sequence[str], mine: str | None, label: str) -> str:
    peers = [run.median(name, label) for name in names if not is_ours(name) and not is_limit(name)]
    known = [seconds for seconds in peers if seconds is not None]
    own = None if mine is None else run.median(mine, label)
    return "–" if own is None or not known else f"{own / min(known):.2f}"


def left_out(run: Run) -> list[str]:
    """What was not measured, and why."""
    lines = [f"{name}: {system.missing}" for name, system in run.systems.items() if system.missing]
    for name, system in run.systems.items():
        lines += [f"{name}, {label}: {step.missing}" for label, step in system.steps.items() if step.missing]
    return lines
