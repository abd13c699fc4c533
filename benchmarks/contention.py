"""Many writers that append to one table at the same moment: how long until all have committed.

Headgate beside delta-rs and pyiceberg (a SqlCatalog on SQLite), on a local disk; Headgate also on an S3 API
server on this machine. Each writer is a thread in one of a few processes, and appends one prepared data file
several times. delta-rs tries again by itself; pyiceberg does not, so its
writers load the table again and repeat, as its users do.

    .venv/bin/python -m benchmarks.contention [--quick]
"""

from __future__ import annotations

import multiprocessing as mp
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.appends import PYICEBERG_FIELDS, ROWS
from benchmarks.page import Bar, Part, run
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from sqlalchemy.exc import OperationalError

import headgate as hg
from headgate.changes import TableChange
from headgate.testing.s3 import s3_server

PROCESSES, THREADS = 4, 8
NAME = "bench.events"
PATIENT = hg.RetryPolicy(total=timedelta(minutes=10))
Append = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Headgate:
    """A lake, by its place and options. The threads of a process share a handle, or have one each."""

    place: str
    options: tuple[tuple[str, str], ...] = ()
    shared: bool = True

    def make(self) -> None:
        lake = hg.Lake.init(self.place, options=dict(self.options))
        lake.create_table(NAME, ROWS.schema).append(ROWS)

    def writers(self) -> list[Append]:
        shared = self._opened()
        return [self._writer(shared if self.shared else self._opened()) for _ in range(THREADS)]

    def _opened(self) -> hg.Lake:
        return hg.Lake.open(self.place, options=dict(self.options), retry=PATIENT)

    def _writer(self, lake: hg.Lake) -> Append:
        (prepared,) = (planned.file for planned in lake.table(NAME).plan(version=2).files)

        def append(name: str) -> None:
            with lake.transaction() as tx:
                opened = tx._open()
                named = replace(prepared, path=f"{prepared.path}-{name}")
                opened.note(TableChange(NAME, base=opened.base.tables[NAME], added=(named,)))

        return append

    def commits(self) -> int:
        return hg.Lake.open(self.place, options=dict(self.options)).version - 2


@dataclass(frozen=True, slots=True)
class Delta:
    """A Delta table."""

    place: str

    def make(self) -> None:
        write_deltalake(self.place, ROWS)

    def writers(self) -> list[Append]:
        return [self._writer() for _ in range(THREADS)]

    def _writer(self) -> Append:
        size = Path(DeltaTable(self.place).file_uris()[0]).stat().st_size

        def append(name: str) -> None:
            action = AddAction(f"{name}.parquet", size, {}, 1_700_000_000_000, True, "{}")
            while True:
                table = DeltaTable(self.place)
                try:
                    patient = CommitProperties(max_commit_retries=1000)
                    table.create_write_transaction(
                        [action], "append", table.schema(), [], commit_properties=patient
                    )
                except CommitFailedError:
                    continue
                return

        return append

    def commits(self) -> int:
        return int(DeltaTable(self.place).version())


@dataclass(frozen=True, slots=True)
class PyIceberg:
    """A table in a catalog in SQLite."""

    place: str

    def _catalog(self) -> SqlCatalog:
        uri = f"sqlite:///{self.place}/catalog.db?timeout=60"
        return SqlCatalog("bench", uri=uri, warehouse=f"file://{self.place}")

    def make(self) -> None:
        Path(self.place).mkdir()
        catalog = self._catalog()
        catalog.create_namespace("bench")
        catalog.create_table(NAME, ROWS.schema).append(ROWS)

    def writers(self) -> list[Append]:
        return [self._writer() for _ in range(THREADS)]

    def _writer(self) -> Append:
        catalog = self._catalog()
        (task, *_) = catalog.load_table(NAME).scan().plan_files()
        known = {name: getattr(task.file, name) for name in PYICEBERG_FIELDS}

        def append(name: str) -> None:
            named = DataFile.from_args(**known | {"file_path": f"{task.file.file_path}-{name}"})
            named.spec_id = task.file.spec_id
            while True:
                try:
                    table = catalog.load_table(NAME)
                    with table.transaction() as tx, tx.update_snapshot().fast_append() as update:
                        update.append_data_file(named)
                except (CommitFailedException, OperationalError):
                    continue
                return

        return append

    def commits(self) -> int:
        return len(self._catalog().load_table(NAME).snapshots()) - 1


def _write(side: Any, number: int, appends: int, ready: Any) -> None:
    """One process: its threads wait until all writers are there."""
    writers = side.writers()

    def all_of(thread: int) -> None:
        for turn in range(appends):
            writers[thread](f"{number}-{thread}-{turn}")

    ready.wait()
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(all_of, range(THREADS)))


def seconds(side: Any, appends: int) -> float:
    """From the moment at which all writers are ready until the last one has committed."""
    side.make()
    context = mp.get_context("spawn")
    ready = context.Barrier(PROCESSES + 1)
    processes = [
        context.Process(target=_write, args=(side, number, appends, ready)) for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    ready.wait()
    started = time.perf_counter()
    for process in processes:
        process.join()
    took = time.perf_counter() - started
    wanted = PROCESSES * THREADS * appends
    assert side.commits() == wanted, (side, side.commits(), wanted)
    return took


def measure(quick: bool) -> Part:
    appends = 2 if quick else 5
    with tempfile.TemporaryDirectory() as directory, s3_server() as server:
        sides: list[tuple[str, Callable[[], Any]]] = [
            ("headgate", partial(Headgate, f"{directory}/hg")),
            ("headgate, 32 handles", partial(Headgate, f"{directory}/hg-handles", shared=False)),
            ("delta-rs", partial(Delta, f"{directory}/delta")),
            ("pyiceberg", partial(PyIceberg, f"{directory}/pyiceberg")),
            ("headgate, S3 API server", partial(Headgate, server.url("hg"), tuple(server.options.items()))),
        ]
        times = {name: seconds(make(), appends) for name, make in sides}
    ours, each, writers = times["headgate"], times["headgate, 32 handles"], PROCESSES * THREADS
    return Part(
        name="contention",
        title="Many writers",
        text=f"""
{writers} writers ({PROCESSES} processes with {THREADS} threads) append to one table at the same moment,
{appends} times each, a data file that is there already. All succeed. The threads of a process share a
handle of Headgate, as is usual, or have one each.
""",
        columns=("", "seconds", "commits per second", "headgate / this"),
        rows=[
            (name, f"{took:.2f}", f"{writers * appends / took:.1f}", f"{ours / took:.2f}")
            for name, took in times.items()
        ],
        bars=(
            Bar("headgate / delta-rs", ours / times["delta-rs"], 1 / 3),
            Bar("headgate / pyiceberg", ours / times["pyiceberg"], 1 / 3),
            Bar("headgate, 32 handles / delta-rs", each / times["delta-rs"], 1 / 3),
            Bar("headgate, 32 handles / pyiceberg", each / times["pyiceberg"], 1 / 3),
        ),
    )


if __name__ == "__main__":
    sys.exit(run(measure, __doc__))
