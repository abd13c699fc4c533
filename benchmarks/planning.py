"""Planning a read of one partition among many, beside pyiceberg on the same table.

Both begin cold: nothing of the table is in memory. `ours / theirs` is the part of pyiceberg's time that
Headgate needs, opening the lake included, by the clock and by the processor; the bar is a fifth.

    .venv/bin/python benchmarks/planning.py [--files 10000] [--partitions 100] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import StaticTable
from rich.console import Console
from rich.table import Table as Lines

import headgate as hg
from headgate.changes import TableChange
from headgate.table import Table

PAGE_BEGIN, PAGE_END = "<!-- planning -->", "<!-- /planning -->"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One predicate: medians of several runs, and what was passed over."""

    predicate: str
    ours_seconds: float
    theirs_seconds: float
    ours_cpu_seconds: float
    theirs_cpu_seconds: float
    files: int
    skipped: str

    @property
    def ratio(self) -> float:
        return self.ours_seconds / self.theirs_seconds

    @property
    def cpu_ratio(self) -> float:
        return self.ours_cpu_seconds / self.theirs_cpu_seconds


def prepared(place: Path, files: int, partitions: int) -> Table:
    """A table whose manifests name `files` files in ten commits; one of each partition is really there."""
    lake = hg.Lake.init(place, divisor=100)
    table = lake.create_table(
        "bench.events", "part INT, id BIGINT, name STRING, amount DOUBLE", partition_by=["part"]
    )
    numbers = range(partitions)
    table.append(
        pa.table(
            {
                "part": pa.array(numbers, pa.int32()),
                "id": pa.array(numbers, pa.int64()),
                "name": [f"customer {number}" for number in numbers],
                "amount": [float(number) for number in numbers],
            }
        )
    )
    real = [planned.file for planned in table.plan().files]
    commits, each = 10, files // 10
    for commit in range(commits):
        named = tuple(
            replace(real[number % partitions], path=f"{real[number % partitions].path}-{commit}-{number}")
            for number in range(each - (partitions if commit == 0 else 0))
        )
        with lake.transaction() as tx:
            base = lake._table_ref("bench.events", None)
            tx._open().note(TableChange("bench.events", base=base, added=named))
    return table


def measure(place: Path, predicate: str, runs: int) -> Measurement:
    metadata_file = hg.Lake.open(place).table("bench.events").metadata_location
    found = hg.Lake.open(place).table("bench.events").plan(predicate)

    def ours() -> int:
        return len(hg.Lake.open(place).table("bench.events").plan(predicate).files)

    def theirs() -> int:
        return len(list(StaticTable.from_metadata(metadata_file).scan(row_filter=predicate).plan_files()))

    assert ours() == theirs() == len(found.files)
    pairs = [(_timed(ours), _timed(theirs)) for _ in range(runs)]
    return Measurement(
        predicate=predicate,
        ours_seconds=statistics.median(mine[0] for mine, _ in pairs),
        theirs_seconds=statistics.median(other[0] for _, other in pairs),
        ours_cpu_seconds=statistics.median(mine[1] for mine, _ in pairs),
        theirs_cpu_seconds=statistics.median(other[1] for _, other in pairs),
        files=len(found.files),
        skipped=f"{found.files_skipped} files, {found.manifests_skipped} of {found.manifests} manifests",
    )


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor: other work on the machine does not count in the latter."""
    started, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - busy


def show(measurements: list[Measurement]) -> None:
    lines = Lines(title="Planning, cold", title_justify="left")
    for column in ("predicate", "files", "skipped", "ours ms", "pyiceberg ms", "ours / theirs", "cpu"):
        lines.add_column(column, justify="left" if column in ("predicate", "skipped") else "right")
    for line in measurements:
        lines.add_row(*_cells(line))
    Console(width=140).print(lines)


def _cells(line: Measurement) -> tuple[str, ...]:
    ours, theirs = f"{line.ours_seconds * 1000:.1f}", f"{line.theirs_seconds * 1000:.1f}"
    return (
        line.predicate,
        str(line.files),
        line.skipped,
        ours,
        theirs,
        f"{line.ratio:.2f}",
        f"{line.cpu_ratio:.2f}",
    )


def markdown(measurements: list[Measurement], files: int, partitions: int) -> str:
    """The part of `docs/benchmarks.md` that this makes."""
    rows = [f"| `{line.predicate}` | {' | '.join(_cells(line)[1:])} |" for line in measurements]
    return "\n".join(
        [
            PAGE_BEGIN,
            "## Planning",
            "",
            "Made by `.venv/bin/python benchmarks/planning.py --markdown docs/benchmarks.md` on a machine",
            f"with {os.cpu_count()} cores, Python {platform.python_version()}, headgate {hg.__version__}:",
            f"a table of {files:,} files in {partitions} partitions on a local disk, opened anew each time.",
            "Medians of several runs; `cpu` is the same for the time of the processor alone.",
            "",
            "| predicate | files | skipped | ours ms | pyiceberg ms | ours / theirs | cpu |",
            "|---|---:|---|---:|---:|---:|---:|",
            *rows,
            PAGE_END,
            "",
        ]
    )


def with_part(page: str, part: str) -> str:
    """The page with `part` in the place of the one that it had."""
    if PAGE_BEGIN not in page:
        return f"{page.rstrip()}\n\n{part}"
    before, _, rest = page.partition(PAGE_BEGIN)
    return before + part + rest.partition(PAGE_END)[2].lstrip("\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the results here")
    parser.add_argument("--markdown", type=Path, help="also write them into this page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "lake"
        prepared(place, given.files, given.partitions)
        predicates = ["part = 7", "part = 7 and id > 100", "id = 7"]
        measurements = [measure(place, predicate, given.runs) for predicate in predicates]
    show(measurements)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(line) for line in measurements], indent=2))
    if given.markdown is not None:
        part = markdown(measurements, given.files, given.partitions)
        given.markdown.write_text(with_part(given.markdown.read_text(), part))
    return 0


if __name__ == "__main__":
    sys.exit(main())
