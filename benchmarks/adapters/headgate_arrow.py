"""Headgate without Spark: rows are written from, and read into, Arrow tables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.adapters import arrow_rows
from benchmarks.adapters.appenders import Append, contended
from benchmarks.adapters.far_writers import AppendRows, FarWriters
from benchmarks.harness.dataset import COLUMNS, SCHEMA
from benchmarks.harness.dataset import made as made_rows
from benchmarks.harness.outcome import NotOfferedError, Outcome, seconds_of

import headgate as hg
from headgate.iceberg.format.data_file import DataFile
from headgate.lake.lake import Lake
from headgate.lake.table import Table
from headgate.storage.location import open_store
from headgate.system.host import SystemHost
from headgate.transaction.changes import TableChange

EVENTS = "bench.events"
ADAPTER = "benchmarks.adapters.headgate_arrow:Headgate"


class Headgate:
    """A lake on a local disk, or at a `url` with its `options`.

    `fsync`: whether commits are synced. `shared`: whether threads that write at the same time share a handle.
    """

    REFUSALS = (hg.ConflictError,)

    def __init__(
        self,
        place: str,
        cores: int = 2,
        fsync: bool = True,
        strategy: str | None = None,
        url: str | None = None,
        options: Mapping[str, str] | None = None,
        shared: bool = True,
    ) -> None:
        self._place = Path(place)
        self._settings: dict[str, Any] = {
            "place": place,
            "cores": cores,
            "fsync": fsync,
            "strategy": strategy,
            "url": url,
            "options": None if options is None else dict(options),
            "shared": shared,
        }
        self._strategy, self._shared = strategy, shared
        self._url = url
        self._options = dict(options or {}) if url else {"fsync": "true" if fsync else "false"}
        self._lakes: dict[str, Lake] = {}
        self._prepared: DataFile | None = None
        self._rows: pa.Table | None = None
        self._small: Table | None = None
        self._far: FarWriters | None = None

    def versions(self) -> dict[str, str]:
        return {"headgate": hg.__version__, "pyarrow": pa.__version__}

    # --- lakes ----------------------------------------------------------------------------------------------

    def _where(self, name: str) -> str:
        return f"{self._url}/{name}" if self._url else str(self._place / name)

    def _made(self, name: str) -> Lake:
        store = open_store(self._where(name), self._options)
        self._lakes[name] = Lake.init(store, strategy=self._strategy)
        return self._lakes[name]

    def _opened(self, name: str) -> Lake:
        return Lake.open(open_store(self._where(name), self._options))

    def _opened_by_a_stranger(self, name: str) -> Lake:
        """Opens the lake with a new handle, which shares no cache with other handles of this process."""
        return Lake.open(open_store(self._where(name), self._options), host=SystemHost())

    def _lake(self, name: str) -> Lake:
        if name not in self._lakes:
            self._lakes[name] = self._opened(name)
        return self._lakes[name]

    # --- commits of existing files --------------------------------------------------------------------------

    def prepare_appends(self, lake: str = "commits") -> None:
        """A table with a data file whose metadata is known."""
        table = self._made(lake).create_table(EVENTS, SCHEMA)
        table.append(made_rows(0, 1000, 1000))
        (self._prepared,) = (planned.file for planned in table.plan().files)

    def append_files(
        self, first: int, count: int, lake: str = "commits", limit_seconds: float = 1e9
    ) -> Outcome:
        """Makes `count` commits of one more file each: only metadata and commit."""
        append = self._appender(self._lake(lake))
        return repeated(lambda number: append(str(number)), first, count, limit_seconds)

    def _appender(self, lake: Lake) -> Append:
        if self._prepared is None:
            (self._prepared,) = (planned.file for planned in lake.table(EVENTS).plan(version=2).files)
        prepared = self._prepared

        def append(name: str) -> None:
            # The interface that every write of Headgate uses: a change with existing files.
            with lake.transaction() as tx:
                opened = tx._work
                named = replace(prepared, path=f"{prepared.path}-{name}")
                opened.note(TableChange(EVENTS, base=opened.base.tables[EVENTS], added=(named,)))

        return append

    def commits(self, lake: str = "commits") -> int:
        """The number of commits of the table, after the first rows."""
        return self._opened(lake).version - 2

    def open_again(self, lake: str = "commits") -> Outcome:
        """Opens the table and reads its number of rows."""
        snapshot = self._opened_by_a_stranger(lake).table(EVENTS).snapshot
        assert snapshot is not None
        return Outcome(facts={"rows": snapshot.rows})

    # --- many writers ---------------------------------------------------------------------------------------

    def writers(self, count: int) -> list[Append]:
        shared = self._opened("commits")
        return [self._appender(shared if self._shared else self._opened("commits")) for _ in range(count)]

    def contend(self, writers: int, appends: int, processes: int, number: int) -> Outcome:
        return contended(ADAPTER, self._settings, writers, appends, processes, number)

    # --- far storage ----------------------------------------------------------------------------------------

    def make_far_tables(self, count: int) -> None:
        lake = self._made("far")
        for number in range(count):
            lake.create_table(f"far.t{number}", "id BIGINT")

    def far_writer(self, number: int) -> AppendRows:
        return self._opened("far").table(f"far.t{number}").append

    def far_rows(self, number: int) -> int:
        return int(self._lake("far").table(f"far.t{number}").read_arrow().num_rows)

    def far_start(self, writers: int, tables: int, name: str) -> None:
        self._far = FarWriters(ADAPTER, self._settings, writers, tables, name)
        self._far.start()

    def far_run(self, seconds: float) -> Outcome:
        assert self._far is not None
        return self._far.run(seconds)

    # --- rows -----------------------------------------------------------------------------------------------

    def load(self, rows: str) -> None:
        """Keeps rows in memory, so that reading them is not measured as part of writing them."""
        self._rows = arrow_rows.loaded(rows)

    def write(self, table: str) -> Outcome:
        """Writes all rows to a new table."""
        assert self._rows is not None
        made = self._table_for(table)
        seconds = seconds_of(lambda: made.append(self._rows))
        return Outcome(seconds=seconds, facts=_files(made))

    def _table_for(self, table: str) -> Table:
        if "rows" not in self._lakes:
            self._made("rows")
        return self._lakes["rows"].create_table(f"bench.{table}", COLUMNS)

    def _table(self, table: str) -> Table:
        return self._lake("rows").table(f"bench.{table}")

    def scan(self, table: str) -> int:
        """Reads all rows with all columns."""
        return int(self._table(table).read_arrow().num_rows)

    def filtered(self, table: str, where: str) -> dict[str, int]:
        """Reads the rows that a predicate selects."""
        return arrow_rows.totals(self._table(table).read_arrow(where=where))

    def aggregate(self, table: str) -> list[Any]:
        """The sum, the count and the latest timestamp of each kind."""
        return arrow_rows.grouped(self._table(table).read_arrow(columns=["kind", "amount", "ts"]))

    def totals(self, table: str) -> dict[str, int]:
        return arrow_rows.totals(self._table(table).read_arrow(columns=["id", "amount"]))

    # --- row-level changes ----------------------------------------------------------------------------------

    def merge(self, table: str, changes: str) -> Outcome:
        """Sets one column of the rows that match, and inserts the others."""
        source = arrow_rows.loaded(changes)
        merge = self._table(table).merge(source, on="t.id = s.id")
        whole = merge.when_matched_update({"amount": "s.amount"}).when_not_matched_insert()
        try:
            seconds = seconds_of(whole.commit)
        except hg.UnsupportedError as error:
            raise NotOfferedError(error.problem) from error
        return Outcome(self.totals(table), seconds=seconds)

    def upsert(self, table: str, changes: str) -> Outcome:
        """Replaces or inserts the rows with the ids of the changes."""
        source = arrow_rows.loaded(changes)
        seconds = seconds_of(lambda: self._table(table).upsert(source, ["id"]))
        return Outcome(self.totals(table), seconds=seconds)

    def delete(self, table: str, where: str) -> Outcome:
        seconds = seconds_of(lambda: self._table(table).delete(where))
        return Outcome(self.totals(table), seconds=seconds)

    # --- small appends and compaction -----------------------------------------------------------------------

    def create(self, table: str) -> None:
        self._table_for(table)

    def append_rows(self, table: str, first: int, count: int, rows: int) -> Outcome:
        """Makes `count` commits of a few rows each."""
        known = self._table(table)
        batches = [made_rows(number * rows, rows, count * rows) for number in range(first, first + count)]
        return repeated(lambda number: known.append(batches[number - first]), first, count)

    def compact(self, table: str) -> None:
        self._lake("rows").compact(table=f"bench.{table}")

    def files(self, table: str) -> int:
        return len(self._table(table).files())

    # --- planning -------------------------------------------------------------------------------------------

    def prepare_files(self, files: int, partitions: int) -> Outcome:
        """A table whose metadata lists `files` files in ten commits; only one file per partition exists."""
        lake = self._made(f"files-{files}")
        columns = "part INT, id BIGINT, name STRING, amount DOUBLE"
        table = lake.create_table(EVENTS, columns, partition_by=["part"])
        table.append(one_of_each(partitions))
        real = [planned.file for planned in table.plan().files]
        for commit in range(10):
            # The files that exist belong to the first commit.
            wanted = files // 10 - (partitions if commit == 0 else 0)
            named = tuple(
                replace(real[number % partitions], path=f"{real[number % partitions].path}-{commit}-{number}")
                for number in range(wanted)
            )
            with lake.transaction() as tx:
                opened = tx._work
                opened.note(TableChange(EVENTS, base=opened.base.tables[EVENTS], added=named))
        return Outcome(facts={"metadata": table.metadata_location})

    def plan(self, files: int, where: str) -> Outcome:
        """Finds the files that a read needs."""
        found = self._opened_by_a_stranger(f"files-{files}").table(EVENTS).plan(where)
        skipped = f"{found.files_skipped} files, {found.manifests_skipped} of {found.manifests} manifests"
        return Outcome(len(found.files), facts={"skipped": skipped})

    # --- crashes --------------------------------------------------------------------------------------------

    def append_until_killed(self, told: str) -> None:
        """Appends rows with ascending numbers forever, and notes each number whose commit was reported."""
        lake = self._made("crashes")
        lake.create_table(EVENTS, "n BIGINT")
        append_for_ever(lambda number: lake.table(EVENTS).append(numbered(number)), told)

    def recover(self, number: int) -> Outcome:
        """Opens what a dead writer left, recovers it, and appends one more row."""
        started = time.perf_counter()
        lake = self._opened_by_a_stranger("crashes")
        report = lake.recover()
        lake.table(EVENTS).append(numbered(number))
        seconds = time.perf_counter() - started
        facts = {"numbers": self._numbers(lake), "made_up": len(report.entries)}
        return Outcome(seconds=seconds, facts=facts)

    def _numbers(self, lake: Lake) -> list[int]:
        return sorted(lake.table(EVENTS).read_arrow()["n"].to_pylist())

    # --- requests -------------------------------------------------------------------------------------------

    def prepare_rows(self) -> None:
        """A table for small appends, and a warm handle."""
        self._small = self._made("requests").create_table(EVENTS, SCHEMA)
        self.append_small(0)

    def append_small(self, number: int) -> None:
        """Appends a thousand rows: a data file, and its commit."""
        assert self._small is not None
        self._small.append(made_rows(number * 1000, 1000, 1_000_000))


def repeated(work: Any, first: int, count: int, limit_seconds: float = 1e9) -> Outcome:
    """Times `work` with ascending numbers starting at `first`; stops when the time limit is over."""
    samples: list[float] = []
    until = time.perf_counter() + limit_seconds
    for number in range(first, first + count):
        if time.perf_counter() >= until:
            break
        started = time.perf_counter()
        work(number)
        samples.append(time.perf_counter() - started)
    return Outcome(samples=tuple(samples))


def one_of_each(partitions: int) -> pa.Table:
    """One row for every partition."""
    numbers = range(partitions)
    return pa.table(
        {
            "part": pa.array(numbers, pa.int32()),
            "id": pa.array(numbers, pa.int64()),
            "name": [f"customer {number}" for number in numbers],
            "amount": [float(number) for number in numbers],
        }
    )


def numbered(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64())})


def append_for_ever(append: Any, told: str) -> None:
    """Calls `append` with 1, 2, 3, …; adds a line to the file `told` for each call that returned."""
    number = 0
    with Path(told).open("w", buffering=1) as lines:
        while True:
            number += 1
            append(number)
            lines.write(f"{number}\n")


def _files(table: Table) -> dict[str, int]:
    known = table.files()
    return {"files": len(known), "mib": round(sum(file.size_bytes for file in known) / 2**20)}
