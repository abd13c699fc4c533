"""All that can happen to a lake at once: every version that is kept reads as it was, and others say so.

Several tables, with partitions and without; rows that are added, deleted, updated, merged and overwritten;
compactions by any number of compactors at any time, which die, are taken over and have others beside them;
versions that expire, and files that are vacuumed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.maintenance.compaction import Compactor
from headgate.testing.inspector import Inspector
from tests.examples import examples
from tests.maintenance.aging import AgingLake, rows
from tests.maintenance.concurrently import Beside
from tests.maintenance.windows import compact_window

HOUR = timedelta(hours=1)
AT_ONCE = timedelta(0)
POLICIES = (
    ("all:1d", "1:3d", "2:forever"),
    ("all:12h", "1:2d"),
    ("all:1h",),
    ("all:6h", "2:forever"),
    ("all:2d", "1:forever"),
)
ACTS = (
    *("append",) * 7,
    *("delete", "delete", "update", "upsert", "overwrite", "copy-on-write"),
    *("window", "compact", "compact beside others", "compactor dies"),
    *("create", "drop", "tag", "tag", "untag", "expire", "expire", "expire", "both", "properties", "rename"),
    "vacuum",
)
BESIDE = ("append", "delete", "upsert", "both", "compact", "expire")


class DiedError(Exception):
    """A compactor that is gone in the middle of its work, and cleans nothing up."""


@dataclass
class Life:
    """A lake to which anything happens, at times that a dice chooses."""

    dice: random.Random
    aging: AgingLake = field(default_factory=AgingLake)
    next_id: int = 0

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.aging.clock.pass_time(self.dice.choice([1, 3, 10]) * HOUR)
            self.do(self.dice.choice(ACTS))

    def do(self, act: str) -> None:
        lake = self.aging.lake
        free = [name for name in ("t.a", "t.b", "t.c") if name not in lake.tables()]
        if not lake.tables() or (act == "create" and free):
            partitions = self.dice.choice([(), (), ("bucket(2, id)",), ("truncate(10, id)",)])
            lake.create_table(free[0], "id BIGINT, n BIGINT", partition_by=partitions)
        elif act in ("drop", "rename", "tag", "untag", "both"):
            self._to_lake(act, free)
        elif act in ("compact", "compact beside others", "compactor dies", "expire", "vacuum"):
            self._serve(act)
        else:
            self._to_table(act, lake.table(self.dice.choice(lake.tables())))
        self.aging.note()

    def _new(self, count: int) -> pa.Table:
        self.next_id += count
        return rows(*range(self.next_id - count, self.next_id))

    def _some(self, of: int) -> list[int]:
        """Every so-manieth row that there ever was."""
        return [*range(self.dice.randrange(of), self.next_id + of, of)]

    def _among(self, of: int) -> str:
        return f"id IN ({', '.join(map(str, self._some(of)))})"

    # --- rows -----------------------------------------------------------------------------------------------

    def _to_table(self, act: str, table: hg.Table) -> None:
        match act:
            case "append":
                table.append(self._new(self.dice.randrange(1, 4)))
            case "delete":
                table.delete(self._among(3))
            case "update":
                table.update({"n": "n + 1"}, where=self._among(4))
            case "upsert":
                ids = self._some(6)
                table.upsert(pa.table({"id": ids, "n": [self.next_id] * len(ids)}), ["id"])
            case "overwrite":
                table.overwrite(self._new(2))
            case "copy-on-write":
                table.set_properties({"write.delete.mode": "copy-on-write"})
                self.aging.note()
                table.delete(self._among(5))
            case "properties":
                table.set_properties({"k": str(self.next_id)})
            case "window":
                level = self.dice.choice([1, 2])
                size = self.aging.divisor**level
                for last in range(size, self.aging.lake.version + 1, size):
                    compact_window(self.aging.lake, table.name, level, last)
                    self.aging.note()

    def _to_lake(self, act: str, free: Sequence[str]) -> None:
        lake, dice = self.aging.lake, self.dice
        match act:
            case "drop":
                lake.drop_table(dice.choice(lake.tables()))
            case "rename" if free:
                lake.rename_table(dice.choice(lake.tables()), free[0])
            case "both":
                with lake.transaction() as tx:
                    for name in lake.tables():
                        tx.table(name).append(self._new(1))
            case "tag":
                wanted = dice.randrange(1, lake.version + 1)
                if Inspector(lake).refresh().retention.keeps(wanted, self.aging.divisor):
                    lake.tag(dice.choice(["x", "y", "z"]), wanted)
            case "untag" if lake.tags:
                lake.untag(dice.choice([*lake.tags]))

    # --- table services -------------------------------------------------------------------------------------

    def _serve(self, act: str) -> None:
        lake = self.aging.opened()
        match act:
            case "compact":
                lake.compact(patience=AT_ONCE)
            case "compact beside others":
                Compactor(
                    Inspector(lake).handle, rewriter=Beside(self._something_else), patience=AT_ONCE
                ).run()
            case "compactor dies":
                with suppress(DiedError):
                    Compactor(Inspector(lake).handle, rewriter=Beside(_die), patience=AT_ONCE).run()
            case "expire":
                self.aging.expire(*self.dice.choice(POLICIES))
                self.aging.require_sound()
            case "vacuum":
                lake.vacuum(older_than=AT_ONCE)

    def _something_else(self) -> None:
        if self.dice.random() < 0.7:
            self.do(self.dice.choice(BESIDE))

    def require_clean(self) -> None:
        """What nobody needs any more is gone, once it was looked for."""
        self._serve("vacuum")
        self.aging.note()
        self.aging.require_sound()
        assert self.aging.unreferenced() == []


def _die() -> None:
    raise DiedError


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 100_000), st.integers(15, 70))
def test_every_kept_version_reads_as_it_was_and_nothing_else_is_left(seed: int, steps: int) -> None:
    life = Life(random.Random(seed))
    life.live(steps)
    # Nobody comes back to a plan of the dead, unless a compactor looks for it.
    life.do("compact")
    life.do("expire")
    life.require_clean()
