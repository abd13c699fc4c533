"""delta-rs, the package `deltalake`: Delta tables without Spark, on its own engine in Rust."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from benchmarks.adapters import arrow_rows
from benchmarks.adapters.appenders import Append, contended
from benchmarks.adapters.far_writers import AppendRows, FarWriters
from benchmarks.adapters.headgate_arrow import append_for_ever, numbered, one_of_each, repeated
from benchmarks.harness.dataset import made as made_rows
from benchmarks.harness.outcome import Outcome, seconds_of
from deltalake import DeltaTable, QueryBuilder, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

ADAPTER = "benchmarks.adapters.delta_rs:DeltaRs"
ZSTD = WriterProperties(compression="ZSTD")
MOMENT = 1_700_000_000_000


class DeltaRs:
    """Delta tables on a local disk, or at a `url` with storage `options`."""

    REFUSALS = (CommitFailedError,)

    def __init__(
        self,
        place: str,
        cores: int = 2,
        url: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._place = Path(place)
        self._settings: dict[str, Any] = {"place": place, "cores": cores, "url": url, "options": options}
        self._url, self._options = url, None if options is None else dict(options)
        self._known: dict[str, DeltaTable] = {}
        self._prepared: dict[str, dict[str, Any]] = {}
        self._rows: pa.Table | None = None
        self._far: FarWriters | None = None

    def versions(self) -> dict[str, str]:
        return {"deltalake": deltalake.__version__}

    def _where(self, name: str) -> str:
        return f"{self._url}/{name}" if self._url else str(self._place / name)

    def _opened(self, name: str) -> DeltaTable:
        return DeltaTable(self._where(name), storage_options=self._options)

    def _write(self, name: str, rows: pa.Table) -> None:
        write_deltalake(
            self._where(name), rows, mode="append", writer_properties=ZSTD, storage_options=self._options
        )

    # --- commits of existing files --------------------------------------------------------------------------

    def prepare_appends(self, lake: str = "commits") -> None:
        self._write(lake, made_rows(0, 1000, 1000))
        self._known[lake] = self._opened(lake)

    def append_files(
        self, first: int, count: int, lake: str = "commits", limit_seconds: float = 1e9
    ) -> Outcome:
        append = self._appender(lake, self._known[lake])
        return repeated(lambda number: append(str(number)), first, count, limit_seconds)

    def _appender(self, lake: str, table: DeltaTable) -> Append:
        if lake not in self._prepared:
            # The only file that exists so far; those that follow exist only by name.
            (self._prepared[lake],) = (
                pa.table(table.get_add_actions()).select(["path", "size_bytes"]).to_pylist()
            )
        path, size = self._prepared[lake].values()
        schema, stats = table.schema(), _statistics(made_rows(0, 1000, 1000))

        def append(name: str) -> None:
            action = AddAction(f"{path}-{name}", size, {}, MOMENT, True, stats)
            table.create_write_transaction([action], "append", schema, [])
            # Otherwise the next commit would check all commits that this handle has not seen.
            table.update_incremental()

        return append

    def commits(self, lake: str = "commits") -> int:
        return int(self._opened(lake).version())

    def open_again(self, lake: str = "commits") -> Outcome:
        actions = self._opened(lake).get_add_actions(flatten=True)
        return Outcome(facts={"rows": sum(pa.table(actions)["num_records"].to_pylist())})

    # --- many writers ---------------------------------------------------------------------------------------

    def writers(self, count: int) -> list[Append]:
        return [self._appender("commits", self._opened("commits")) for _ in range(count)]

    def contend(self, writers: int, appends: int, processes: int, number: int) -> Outcome:
        return contended(ADAPTER, self._settings, writers, appends, processes, number)

    # --- far storage ----------------------------------------------------------------------------------------

    def make_far_tables(self, count: int) -> None:
        schema = pa.schema([("id", pa.int64())])
        for number in range(count):
            DeltaTable.create(self._where(f"t{number}"), schema, storage_options=self._options)

    def far_writer(self, number: int) -> AppendRows:
        table = self._opened(f"t{number}")

        def append(rows: pa.Table) -> None:
            write_deltalake(table, rows, mode="append", writer_properties=ZSTD)

        return append

    def far_rows(self, number: int) -> int:
        actions = self._opened(f"t{number}").get_add_actions(flatten=True)
        return sum(pa.table(actions)["num_records"].to_pylist())

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
        assert self._rows is not None
        rows = self._rows
        seconds = seconds_of(lambda: self._write(table, rows))
        files = [Path(uri) for uri in self._opened(table).file_uris()]
        mib = round(sum(file.stat().st_size for file in files) / 2**20)
        return Outcome(seconds=seconds, facts={"files": len(files), "mib": mib})

    def _read(self, table: str, columns: list[str] | None = None, where: str | None = None) -> pa.Table:
        return pa.table(self._opened(table).scan(columns=columns, predicate=where))

    def scan(self, table: str) -> int:
        return int(self._read(table).num_rows)

    def filtered(self, table: str, where: str) -> dict[str, int]:
        return arrow_rows.totals(self._read(table, where=where))

    def aggregate(self, table: str) -> list[Any]:
        """With the engine that comes with it."""
        query = "SELECT kind, sum(amount) a, max(ts) t, count(*) n FROM t GROUP BY kind"
        found = pa.table(QueryBuilder().register("t", self._opened(table)).execute(query))
        amounts = [round(amount * 64) for amount in found["a"].to_pylist()]
        moments = found["t"].cast(pa.int64()).to_pylist()
        columns = (found["kind"].to_pylist(), amounts, moments, found["n"].to_pylist())
        return arrow_rows.digest(zip(*columns, strict=True))

    def totals(self, table: str) -> dict[str, int]:
        return arrow_rows.totals(self._read(table, columns=["id", "amount"]))

    # --- row-level changes ----------------------------------------------------------------------------------

    def _merging(self, table: str, changes: str) -> Any:
        source = arrow_rows.loaded(changes)
        return self._opened(table).merge(
            source, "t.id = s.id", source_alias="s", target_alias="t", writer_properties=ZSTD
        )

    def merge(self, table: str, changes: str) -> Outcome:
        merge = self._merging(table, changes).when_matched_update({"amount": "s.amount"})
        seconds = seconds_of(merge.when_not_matched_insert_all().execute)
        return Outcome(self.totals(table), seconds=seconds)

    def upsert(self, table: str, changes: str) -> Outcome:
        merge = self._merging(table, changes).when_matched_update_all().when_not_matched_insert_all()
        seconds = seconds_of(merge.execute)
        return Outcome(self.totals(table), seconds=seconds)

    def delete(self, table: str, where: str) -> Outcome:
        seconds = seconds_of(lambda: self._opened(table).delete(where, writer_properties=ZSTD))
        return Outcome(self.totals(table), seconds=seconds)

    # --- small appends and compaction -----------------------------------------------------------------------

    def create(self, table: str) -> None:
        DeltaTable.create(self._where(table), made_rows(0, 1, 1).schema)

    def append_rows(self, table: str, first: int, count: int, rows: int) -> Outcome:
        batches = [made_rows(number * rows, rows, count * rows) for number in range(first, first + count)]
        known = self._opened(table)

        def append(number: int) -> None:
            write_deltalake(known, batches[number - first], mode="append", writer_properties=ZSTD)

        return repeated(append, first, count)

    def compact(self, table: str) -> None:
        self._opened(table).optimize.compact(writer_properties=ZSTD)

    def files(self, table: str) -> int:
        return len(self._opened(table).file_uris())

    # --- planning -------------------------------------------------------------------------------------------

    def prepare_files(self, files: int, partitions: int) -> None:
        where = self._where(f"files-{files}")
        rows = one_of_each(partitions)
        write_deltalake(where, rows, partition_by=["part"], writer_properties=ZSTD)
        table = DeltaTable(where)
        schema, size = table.schema(), Path(table.file_uris()[0]).stat().st_size
        known = [_statistics(rows.slice(part, 1).drop_columns(["part"])) for part in range(partitions)]
        for commit in range(10):
            wanted = files // 10 - (partitions if commit == 0 else 0)
            actions: list[Any] = [
                AddAction(
                    f"part={number % partitions}/{commit}-{number}.parquet",
                    size,
                    {"part": str(number % partitions)},
                    MOMENT,
                    True,
                    known[number % partitions],
                )
                for number in range(wanted)
            ]
            table.create_write_transaction(actions, "append", schema, ["part"])
            table.update_incremental()
        table.create_checkpoint()

    def plan(self, files: int, where: str) -> int:
        table = DeltaTable(self._where(f"files-{files}"))
        return len(table.file_uris(file_pruning_predicate=where))

    # --- crashes --------------------------------------------------------------------------------------------

    def append_until_killed(self, told: str) -> None:
        append_for_ever(lambda number: self._write("crashes", numbered(number)), told)

    def recover(self, number: int) -> Outcome:
        started = time.perf_counter()
        write_deltalake(self._opened("crashes"), numbered(number), mode="append", writer_properties=ZSTD)
        seconds = time.perf_counter() - started
        return Outcome(seconds=seconds, facts={"numbers": sorted(self._read("crashes")["n"].to_pylist())})

    # --- requests -------------------------------------------------------------------------------------------

    def prepare_rows(self) -> None:
        self._write("requests", made_rows(0, 1000, 1_000_000))
        self._known["requests"] = self._opened("requests")
        self.append_small(1)

    def append_small(self, number: int) -> None:
        """Appends to an open table, as with a warm handle."""
        table = self._known["requests"]
        write_deltalake(
            table, made_rows(number * 1000, 1000, 1_000_000), mode="append", writer_properties=ZSTD
        )


def _statistics(rows: pa.Table) -> str:
    def bound(value: Any) -> Any:
        return value.isoformat() if hasattr(value, "isoformat") else value

    first, last = rows.slice(0, 1).to_pylist()[0], rows.slice(rows.num_rows - 1).to_pylist()[0]
    return json.dumps(
        {
            "numRecords": rows.num_rows,
            "minValues": {name: bound(value) for name, value in first.items()},
            "maxValues": {name: bound(value) for name, value in last.items()},
            "nullCount": dict.fromkeys(rows.column_names, 0),
        }
    )
