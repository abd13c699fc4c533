"""Planning a read of one partition among many, beside pyiceberg on the same table.

Both begin cold: nothing of the table is in memory. The ratio is the part of pyiceberg's time that Headgate
needs, opening the lake included, by the clock and by the processor; the bar is a fifth.

    .venv/bin/python -m benchmarks.planning [--quick]
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from benchmarks.page import Bar, Part, Time, median, run, timed
from pyiceberg.table import StaticTable

import headgate as hg
from headgate.changes import TableChange
from headgate.table import Table

PREDICATES = ("part = 7", "part = 7 and id > 100", "id = 7")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One predicate: medians of several runs, and what was passed over."""

    predicate: str
    ours: Time
    theirs: Time
    files: int
    skipped: str

    @property
    def ratio(self) -> float:
        return self.ours.wall / self.theirs.wall

    @property
    def cpu_ratio(self) -> float:
        return self.ours.cpu / self.theirs.cpu


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
            opened = tx._open()
            base = opened.base.tables["bench.events"]
            opened.note(TableChange("bench.events", base=base, added=named))
    return table


def measure(place: Path, predicate: str, runs: int) -> Measurement:
    metadata_file = hg.Lake.open(place).table("bench.events").metadata_location
    found = hg.Lake.open(place).table("bench.events").plan(predicate)

    def ours() -> int:
        return len(hg.Lake.open(place).table("bench.events").plan(predicate).files)

    def theirs() -> int:
        return len(list(StaticTable.from_metadata(metadata_file).scan(row_filter=predicate).plan_files()))

    assert ours() == theirs() == len(found.files)
    pairs = [(timed(ours), timed(theirs)) for _ in range(runs)]
    return Measurement(
        predicate=predicate,
        ours=median(mine for mine, _ in pairs),
        theirs=median(other for _, other in pairs),
        files=len(found.files),
        skipped=f"{found.files_skipped} files, {found.manifests_skipped} of {found.manifests} manifests",
    )


def part(quick: bool) -> Part:
    files, partitions, runs = (1_000, 20, 5) if quick else (10_000, 100, 9)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "lake"
        prepared(place, files, partitions)
        lines = [measure(place, predicate, runs) for predicate in PREDICATES]
    return Part(
        name="planning",
        title="Planning",
        text=f"""
Which of {files:,} files in {partitions} partitions on a local disk a read must look at; the lake is
opened anew each time. Medians of runs in turns; `cpu` is the same ratio for the time of the processor
alone. The last predicate is of no partition: every file is asked for its bounds.
""",
        columns=("predicate", "files", "skipped", "headgate ms", "pyiceberg ms", "ratio", "cpu"),
        rows=[
            (
                f"`{line.predicate}`",
                str(line.files),
                line.skipped,
                f"{line.ours.wall * 1000:.1f}",
                f"{line.theirs.wall * 1000:.1f}",
                f"{line.ratio:.2f}",
                f"{line.cpu_ratio:.2f}",
            )
            for line in lines
        ],
        bars=[Bar(f"headgate / pyiceberg, {line.predicate}", line.ratio, 0.2) for line in lines[:2]],
    )


if __name__ == "__main__":
    sys.exit(run(part, __doc__))
