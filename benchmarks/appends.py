"""Appending one prepared data file to a table on a local disk: the metadata and the commit, nothing else.

Headgate beside delta-rs and pyiceberg (a SqlCatalog on SQLite). The data file exists and all is known of it,
so none of them reads or writes rows. They take turns in blocks of commits, so that all of them see the
machine in the same moods.

    .venv/bin/python -m benchmarks.appends [--quick]
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from benchmarks.page import Bar, Part, Time, run, timed
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile

import headgate as hg
from headgate.changes import TableChange
from headgate.storage.location import open_store

ROWS = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "name": [f"customer {number}" for number in range(1000)],
        "amount": [number / 7 for number in range(1000)],
    }
)
TURN = 20
PYICEBERG_FIELDS = (
    "content",
    "file_format",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
    "split_offsets",
)
Append = Callable[[int], object]


@dataclass(slots=True)
class Line:
    """One way to append, and the times of its commits so far."""

    name: str
    durable: str
    append: Append
    times: list[Time] = field(default_factory=list)

    def mean_ms(self, first: int, last: int) -> float:
        """Of the commits from the `first` to the `last`, counted from 1."""
        return 1000 * statistics.fmean(time.wall for time in self.times[first - 1 : last])

    def cpu_ms(self, first: int, last: int) -> float:
        return 1000 * statistics.fmean(time.cpu for time in self.times[first - 1 : last])


def headgate(place: Path, *, fsync: bool) -> Append:
    """Through the seam that every write of Headgate goes through: a change with files that are there."""
    lake = hg.Lake.init(open_store(place, {"fsync": "true" if fsync else "false"}))
    table = lake.create_table("bench.events", ROWS.schema)
    table.append(ROWS)
    (prepared,) = (planned.file for planned in table.plan().files)

    def append(number: int) -> None:
        with lake.transaction() as tx:
            opened = tx._open()
            named = replace(prepared, path=f"{prepared.path}-{number}")
            base = opened.base.tables["bench.events"]
            opened.note(TableChange("bench.events", base=base, added=(named,)))

    return append


def delta(place: Path) -> Append:
    write_deltalake(str(place), ROWS)
    table = DeltaTable(str(place))
    (path,) = (Path(uri) for uri in table.file_uris())
    schema, size = table.schema(), path.stat().st_size
    stats = json.dumps(
        {
            "numRecords": ROWS.num_rows,
            "minValues": ROWS.slice(0, 1).to_pylist()[0],
            "maxValues": ROWS.slice(ROWS.num_rows - 1).to_pylist()[0],
            "nullCount": dict.fromkeys(ROWS.column_names, 0),
        }
    )

    def append(number: int) -> None:
        action = AddAction(f"{path.name}-{number}", size, {}, 1_700_000_000_000, True, stats)
        table.create_write_transaction([action], "append", schema, [])
        # Otherwise the next commit would check all those that this handle has not seen.
        table.update_incremental()

    return append


def pyiceberg(place: Path) -> Append:
    """With `fast_append`, as its own writes; `add_files` would read the footer of the file besides."""
    place.mkdir()
    catalog = SqlCatalog("bench", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
    catalog.create_namespace("bench")
    table = catalog.create_table("bench.events", ROWS.schema)
    table.append(ROWS)
    (task,) = table.scan().plan_files()
    known = {name: getattr(task.file, name) for name in PYICEBERG_FIELDS}

    def append(number: int) -> None:
        named = DataFile.from_args(**known | {"file_path": f"{task.file.file_path}-{number}"})
        named.spec_id = task.file.spec_id
        with table.transaction() as tx, tx.update_snapshot().fast_append() as update:
            update.append_data_file(named)

    return append


def measured(place: Path, commits: int) -> list[Line]:
    """The times of `commits` commits of each."""
    lines = [
        Line("headgate", "record, metadata and manifests synced", headgate(place / "hg", fsync=True)),
        Line("headgate, fsync off", "nothing synced", headgate(place / "hg-nosync", fsync=False)),
        Line("delta-rs", "nothing synced", delta(place / "delta")),
        Line("pyiceberg", "catalog synced by SQLite, files not", pyiceberg(place / "pyiceberg")),
    ]
    for start in range(1, commits + 1, TURN):
        for line in lines:
            _tidied()
            line.times += [timed(partial(line.append, number)) for number in range(start, start + TURN)]
    return lines


def _tidied() -> None:
    """Whoever comes next pays neither for what the others keep in memory nor for what they left to write."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    os.sync()


def measure(quick: bool) -> Part:
    commits = 200 if quick else 1000
    with tempfile.TemporaryDirectory() as directory:
        lines = measured(Path(directory), commits)
    tenth = commits // 10
    last, first = (commits - tenth + 1, commits), (1, tenth)
    ours, unsynced, rust, python = lines
    return Part(
        name="appends",
        title="Appends",
        text=f"""
Append of one prepared data file: metadata and commit only, {commits:,} commits to one table on a local
disk, in turns of {TURN}. `first` and `last`: mean of the first and the last {tenth} commits; `cpu`: of
the last ones, by the processor; `growth`: last / first. `headgate / this`: the part of the time of the
line that Headgate with all its syncs needs.
""",
        columns=("", "on disk when it returns", "first ms", "last ms", "cpu ms", "growth", "headgate / this"),
        rows=[
            (
                line.name,
                line.durable,
                f"{line.mean_ms(*first):.2f}",
                f"{line.mean_ms(*last):.2f}",
                f"{line.cpu_ms(*last):.2f}",
                f"{line.mean_ms(*last) / line.mean_ms(*first):.2f}",
                f"{ours.mean_ms(*last) / line.mean_ms(*last):.2f}",
            )
            for line in lines
        ],
        bars=(
            Bar("headgate / delta-rs", ours.mean_ms(*last) / rust.mean_ms(*last), 1.0),
            Bar("headgate, fsync off / delta-rs", unsynced.mean_ms(*last) / rust.mean_ms(*last), 1.0),
            Bar("headgate / pyiceberg", ours.mean_ms(*last) / python.mean_ms(*last), 0.2),
            Bar("headgate, growth", ours.mean_ms(*last) / ours.mean_ms(*first), 1.2),
        ),
    )


if __name__ == "__main__":
    sys.exit(run(measure, __doc__))
