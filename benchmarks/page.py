"""What all benchmarks share: a table with ratios, shown on a terminal and kept as a part of a page."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import headgate as hg


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise: what was measured must not be above `limit`."""

    what: str
    measured: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.measured <= self.limit

    def text(self) -> str:
        return (
            f"{self.what}: {self.measured:.2f}, at most {self.limit:.2f}{'' if self.holds else ' — MISSED'}"
        )


@dataclass(frozen=True, slots=True)
class Part:
    """The results of one benchmark: a heading, what was done in a few lines, a table, and the promises."""

    name: str
    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    bars: Sequence[Bar] = ()

    def markdown(self) -> str:
        """The part of a page, between two marks by which it is found and replaced."""
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, *self.rows)]
        aligned = ("---:" if _is_figure(self, name) else "---" for name in self.columns)
        lines.insert(1, f"|{'|'.join(aligned)}|")
        bars = [f"- {bar.text()}" for bar in self.bars]
        text = [f"## {self.title}", "", self.text.strip(), "", *lines, *([""] if bars else []), *bars]
        return "\n".join([_begin(self.name), *text, _end(self.name), ""])

    def show(self) -> None:
        """The same on the terminal."""
        console = Console(width=150)
        table = Table(title=self.title, title_justify="left")
        for column in self.columns:
            table.add_column(column, justify="right" if _is_figure(self, column) else "left")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for bar in self.bars:
            console.print(bar.text(), style="green" if bar.holds else "bold red")


def _is_figure(part: Part, column: str) -> bool:
    """Whether the cells of a column are numbers, as those that stand to the right."""
    position = list(part.columns).index(column)
    cells = [row[position].replace(",", "") for row in part.rows]
    return all(cell.replace(".", "", 1).isdigit() for cell in cells if cell)


def _begin(name: str) -> str:
    return f"<!-- {name} -->"


def _end(name: str) -> str:
    return f"<!-- /{name} -->"


def with_part(page: str, part: Part) -> str:
    """The page with `part` in the place of the one of this name, or at its end."""
    text = part.markdown()
    if _begin(part.name) not in page:
        return f"{page.rstrip()}\n\n{text}"
    before, _, rest = page.partition(_begin(part.name))
    return before + text + rest.partition(_end(part.name))[2].lstrip("\n")


def machine() -> str:
    """The machine, by what matters here."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    software = f"Python {platform.python_version()}, headgate {hg.__version__}"
    return f"{os.cpu_count()} cores and {memory_gib:.0f} GiB of memory, {software}"


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds by the clock, and of the processors: other work on the machine does not count in the latter."""

    wall: float
    cpu: float


def timed(work: Callable[[], object]) -> Time:
    """How long `work` takes in this process."""
    started, busy = time.perf_counter(), time.process_time()
    work()
    return Time(time.perf_counter() - started, time.process_time() - busy)


def median(times: Iterable[Time]) -> Time:
    """The middle by the clock, and the middle by the processor."""
    known = list(times)
    return Time(statistics.median(t.wall for t in known), statistics.median(t.cpu for t in known))


def run(measure: Callable[[bool], Part], description: str | None) -> int:
    """The command line of a benchmark. `measure` is told whether to be quick rather than exact."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="smaller sizes, in seconds; the bars may not hold"
    )
    parser.add_argument("--json", type=Path, help="also write the table here")
    parser.add_argument("--markdown", type=Path, help="also write it into this page")
    given = parser.parse_args()
    part = measure(given.quick)
    part.show()
    if given.json is not None:
        rows = [dict(zip(part.columns, row, strict=True)) for row in part.rows]
        given.json.write_text(json.dumps(rows, indent=2))
    if given.markdown is not None:
        given.markdown.write_text(with_part(given.markdown.read_text(), part))
    return 0
