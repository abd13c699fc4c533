"""pyiceberg with a SqlCatalog on SQLite: Iceberg tables without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg
from benchmarks.adapters import arrow_rows
from benchmarks.adapters.appenders import Append, contended
from benchmarks.adapters.far_writers import AppendRows, FarWriters
from benchmarks.adapters.headgate_arrow import append_for_ever, numbered, repeated
from benchmarks.harness.dataset import SCHEMA
from benchmarks.harness.dataset import made as made_rows
from benchmarks.harness.outcome import NotOfferedError, Outcome, seconds_of
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import StaticTable, Table
from sqlalchemy.exc import OperationalError

ADAPTER = "benchmarks.adapters.pyiceberg_sql:PyIceberg"
EVENTS = "bench.events"
FIELDS = (
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


class PyIceberg:
    """A catalog in SQLite, with tables next to it, or at a `url` with `options` for its file system."""

    REFUSALS = (CommitFailedException, OperationalError)

    def __init__(
        self,
        place: str,
        cores: int = 2,
        url: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._place = Path(place)
        self._settings: dict[str, Any] = {"place": place, "cores": cores, "url": url, "options": options}
        self._url, self._options = url, dict(options or {})
        self._known: dict[str, Table] = {}
        self._metadata: dict[int, str] = {}
        self._rows: pa.Table | None = None
        self._far: FarWriters | None = None

    def versions(self) -> dict[str, str]:
        return {"pyiceberg": pyiceberg.__version__}

    def _catalog(self) -> SqlCatalog:
        self._place.mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{self._place}/catalog.db?timeout=60"
        catalog = SqlCatalog(
            "bench", uri=uri, warehouse=self._url or f"file://{self._place}", **self._options
        )
        catalog.create_namespace_if_not_exists("bench")
        return catalog

    def _made(self, name: str, schema: pa.Schema = SCHEMA) -> Table:
        self._known[name] = self._catalog().create_table(f"bench.{name}", schema)
        return self._known[name]

    def _opened(self, name: str) -> Table:
        return self._catalog().load_table(f"bench.{name}")

    # --- commits of existing files --------------------------------------------------------------------------

    def prepare_appends(self, lake: str = "commits") -> None:
        self._made(lake).append(made_rows(0, 1000, 1000))

    def append_files(
        self, first: int, count: int, lake: str = "commits", limit_seconds: float = 1e9
    ) -> Outcome:
        table = self._known[lake]
        named = _naming(table)

        def append(number: int) -> None:
            _append(table, named(str(number)))

        return repeated(append, first, count, limit_seconds)

    def commits(self, lake: str = "commits") -> int:
        return len(self._opened(lake).snapshots()) - 1

    def open_again(self, lake: str = "commits") -> Outcome:
        snapshot = self._opened(lake).current_snapshot()
        assert snapshot is not None and snapshot.summary is not None
        return Outcome(facts={"rows": int(snapshot.summary["total-records"] or 0)})

    # --- many writers ---------------------------------------------------------------------------------------

    def writers(self, count: int) -> list[Append]:
        return [self._writer() for _ in range(count)]

    def _writer(self) -> Append:
        catalog = self._catalog()
        named = _naming(catalog.load_table("bench.commits"))

        def append(name: str) -> None:
            # Loaded again each time: a table that was loaded before another commit starts with a rejection.
            _append(catalog.load_table("bench.commits"), named(name))

        return append

    def contend(self, writers: int, appends: int, processes: int, number: int) -> Outcome:
        return contended(ADAPTER, self._settings, writers, appends, processes, number)

    # --- far storage ----------------------------------------------------------------------------------------

    def make_far_tables(self, count: int) -> None:
        for number in range(count):
            self._made(f"t{number}", pa.schema([("id", pa.int64())]))

    def far_writer(self, number: int) -> AppendRows:
        table = self._opened(f"t{number}")

        def append(rows: pa.Table) -> None:
            try:
                table.append(rows)
            except self.REFUSALS:
                table.refresh()
                raise

        return append

    def far_rows(self, number: int) -> int:
        return int(self._opened(f"t{number}").scan().to_arrow().num_rows)

    def far_start(self, writers: int, tables: int, name: str) -> None:
        self._far = FarWriters(ADAPTER, self._settings, writers, tables, name)
        self._far.start()

    def far_run(self, seconds: float) -> Outcome:
        assert self._far is not None
        return self._far.run(seconds)

    # --- rows -----------------------------------------------------------------------------------------------

    def load(self, rows: str) -> None:
        self._rows = arrow_rows.loaded(rows)

    def write(self, table: str) -> Outcome:
        made = self._made(table)
        seconds = seconds_of(lambda: made.append(self._rows))
        files = [task.file for task in made.scan().plan_files()]
        mib = round(sum(file.file_size_in_bytes for file in files) / 2**20)
        return Outcome(seconds=seconds, facts={"files": len(files), "mib": mib})

    def scan(self, table: str) -> int:
        return int(self._opened(table).scan().to_arrow().num_rows)

    def filtered(self, table: str, where: str) -> dict[str, int]:
        return arrow_rows.totals(self._opened(table).scan(row_filter=where).to_arrow())

    def aggregate(self, table: str) -> list[Any]:
        wanted = ("kind", "amount", "ts")
        return arrow_rows.grouped(self._opened(table).scan(selected_fields=wanted).to_arrow())

    def totals(self, table: str) -> dict[str, int]:
        return arrow_rows.totals(self._opened(table).scan(selected_fields=("id", "amount")).to_arrow())

    # --- row-level changes ----------------------------------------------------------------------------------

    def merge(self, table: str, changes: str) -> Outcome:  # noqa: ARG002
        raise NotOfferedError("no MERGE; its upsert is listed separately")

    def upsert(self, table: str, changes: str) -> Outcome:
        source = arrow_rows.loaded(changes)
        seconds = seconds_of(lambda: self._opened(table).upsert(source, join_cols=["id"]))
        return Outcome(self.totals(table), seconds=seconds)

    def delete(self, table: str, where: str) -> Outcome:
        seconds = seconds_of(lambda: self._opened(table).delete(where))
        return Outcome(self.totals(table), seconds=seconds)

    # --- small appends --------------------------------------------------------------------------------------

    def create(self, table: str) -> None:
        self._made(table)

    def append_rows(self, table: str, first: int, count: int, rows: int) -> Outcome:
        known = self._known[table]
        batches = [made_rows(number * rows, rows, count * rows) for number in range(first, first + count)]
        return repeated(lambda number: known.append(batches[number - first]), first, count)

    def compact(self, table: str) -> None:  # noqa: ARG002
        raise NotOfferedError("no compaction")

    def files(self, table: str) -> int:
        return len(list(self._opened(table).scan().plan_files()))

    # --- planning -------------------------------------------------------------------------------------------

    def open_files(self, files: int, metadata: str) -> None:
        """The same table that Headgate wrote."""
        self._metadata[files] = metadata

    def plan(self, files: int, where: str) -> int:
        table = StaticTable.from_metadata(self._metadata[files])
        return len(list(table.scan(row_filter=where).plan_files()))

    # --- crashes --------------------------------------------------------------------------------------------

    def append_until_killed(self, told: str) -> None:
        table = self._made("crashes", numbered(0).schema)
        append_for_ever(lambda number: table.append(numbered(number)), told)

    def recover(self, number: int) -> Outcome:
        started = time.perf_counter()
        table = self._opened("crashes")
        table.append(numbered(number))
        seconds = time.perf_counter() - started
        numbers = sorted(table.scan().to_arrow()["n"].to_pylist())
        return Outcome(seconds=seconds, facts={"numbers": numbers})

    # --- requests -------------------------------------------------------------------------------------------

    def prepare_rows(self) -> None:
        self._made("requests")
        self.append_small(0)

    def append_small(self, number: int) -> None:
        self._known["requests"].append(made_rows(number * 1000, 1000, 1_000_000))


def _naming(table: Table) -> Any:
    """Creates data files like the one of a table, with other names."""
    (task, *_) = table.scan().plan_files()
    known = {name: getattr(task.file, name) for name in FIELDS}

    def named(name: str) -> DataFile:
        file = DataFile.from_args(**known | {"file_path": f"{task.file.file_path}-{name}"})
        file.spec_id = task.file.spec_id
        return file

    return named


def _append(table: Table, file: DataFile) -> None:
    """With `fast_append`, as pyiceberg's own writes; `add_files` would also read the footer of the file."""
    with table.transaction() as tx, tx.update_snapshot().fast_append() as update:
        update.append_data_file(file)
