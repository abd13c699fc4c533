"""Headgate with compaction on: commits of one small file each, and the shape that the table keeps."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
from benchmarks.adapters import arrow_rows
from benchmarks.harness.dataset import COLUMNS
from benchmarks.harness.dataset import made as made_rows
from benchmarks.harness.outcome import Outcome

import headgate as hg
from headgate.lake.table import Table
from headgate.system.host import SystemHost

EVENTS, AT_ONCE = "bench.events", "bench.at_once"


class HeadgateUpkeep:
    """A lake on a local disk whose writer also compacts, whenever a window of level 1 is complete."""

    def __init__(self, place: str, cores: int = 2) -> None:  # noqa: ARG002 - as all systems are made
        self._where = Path(place) / "lake"
        self._lake = hg.Lake.init(str(self._where))
        self._bytes_ingested = self._bytes_rewritten = 0

    def versions(self) -> dict[str, str]:
        return {"headgate": hg.__version__, "pyarrow": pa.__version__}

    def _opened_by_a_stranger(self) -> hg.Lake:
        """Opens the lake with a handle that shares nothing with the writer's."""
        return hg.Lake.open(str(self._where), host=SystemHost())

    def create(self, partitions: int) -> None:
        self._partitions = partitions
        self._table_of(EVENTS)

    def _table_of(self, name: str) -> Table:
        return self._lake.create_table(name, f"part INT, {COLUMNS}", partition_by=["part"])

    # --- commits --------------------------------------------------------------------------------------------

    def ingest(self, first: int, count: int, rows: int) -> Outcome:
        """Makes `count` commits of one file each, to the partitions in turn; times compaction separately."""
        table, compacting = self._lake.table(EVENTS), 0.0
        samples: list[float] = []
        for number in range(first, first + count):
            batch = self._batch(number, rows)
            began = time.perf_counter()
            table.append(batch)
            samples.append(time.perf_counter() - began)
            added = table.snapshot
            assert added is not None
            self._bytes_ingested += added.bytes_added
            if self._lake.version % self._lake.divisor == 0:
                began = time.perf_counter()
                self._bytes_rewritten += self._lake.compact(table=EVENTS).bytes_in
                compacting += time.perf_counter() - began
        return Outcome(samples=tuple(samples), facts={"compacting": compacting})

    def _batch(self, number: int, rows: int) -> pa.Table:
        batch = made_rows(number * rows, rows, 1)
        return batch.add_column(0, "part", pa.array([number % self._partitions] * rows, pa.int32()))

    # --- the state of the table -----------------------------------------------------------------------------

    def shape(self) -> Outcome:
        """The state after compaction, for a new handle: files, segments, manifests, and times."""
        began = time.perf_counter()
        lake = self._opened_by_a_stranger()
        opened = time.perf_counter() - began
        began = time.perf_counter()
        plan = lake.table(EVENTS).plan()
        planned = time.perf_counter() - began
        (outlook,) = lake.compaction_outlook(EVENTS)
        return Outcome(
            facts={
                "version": lake.version,
                "levels": _levels(lake.version, lake.divisor),
                "files": len(plan.files),
                "manifests": plan.manifests,
                "small": max(sum(level.small for level in path.levels) for path in outlook.paths),
                "open": opened,
                "plan": planned,
                "amplification": self._bytes_rewritten / self._bytes_ingested,
            }
        )

    def write_at_once(self, commits: int, rows: int) -> None:
        """Writes the same rows to another table in one commit."""
        batches = [self._batch(number, rows) for number in range(commits)]
        self._table_of(AT_ONCE).append(pa.concat_tables(batches))

    def scan(self, at_once: bool = False) -> Outcome:
        """Reads all rows with all columns."""
        table = self._opened_by_a_stranger().table(AT_ONCE if at_once else EVENTS)
        began = time.perf_counter()
        rows = table.read_arrow()
        seconds = time.perf_counter() - began
        return Outcome(arrow_rows.totals(rows), seconds=seconds)


def _levels(version: int, divisor: int) -> int:
    """The number of levels of windows for this many versions."""
    levels = 0
    while divisor ** (levels + 1) <= version:
        levels += 1
    return levels
