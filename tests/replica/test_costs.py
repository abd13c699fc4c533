"""What following one commit costs, in requests: the same however long the log is."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import headgate as hg
from headgate.log.driver import Driver
from headgate.steward.replica.replication import Replicator
from headgate.steward.replica.target import open_steward
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Get, Put
from headgate.system.host import SYSTEM
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Tally, counted
from tests.lake.test_budgets import kind_of


def rows(part: int) -> pa.Table:
    return pa.table({"part": pa.array([part % 5], pa.int32()), "id": pa.array([part], pa.int64())})


class Followed:
    """A lake, and a warm replication that follows it, with tallies of both sides."""

    def __init__(self) -> None:
        inner = MemoryStore("source")
        self.lake = hg.Lake.init(inner, divisor=10)
        self.table = self.lake.create_table("a.b", "part INT, id BIGINT", partition_by=["part"])
        read, self.source = counted(inner)
        written, self.target = counted(MemoryStore("replica"))
        source = open_steward(Driver(read, SYSTEM))
        self.replicator = Replicator(source, Driver(written, SYSTEM))
        self.replicator.run()

    def append_to(self, version: int) -> None:
        while self.lake.version < version:
            self.table.append(rows(self.lake.version))

    def cost(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Appends and follows: requests to the target by kind, what is written there, read at the source."""
        self.table.append(rows(1))
        self.source.reset()
        self.target.reset()
        assert self.replicator.run().versions == 1
        puts = Counter(kind_of(r.key) for r in self.target.history if isinstance(r, Put))
        return self.target.counts(), dict(puts), read(self.source)


def read(tally: Tally) -> dict[str, int]:
    return dict(Counter(kind_of(request.key) for request in tally.history if isinstance(request, Get)))


def test_following_an_append_writes_what_the_append_wrote() -> None:
    followed = Followed()
    followed.append_to(4)
    followed.replicator.run()
    counts, written, fetched = followed.cost()
    objects = ("data", "manifest", "manifest list", "metadata", "published", "hint", "control entry")
    assert written == dict.fromkeys(objects, 1)
    # The mark; is there anything new, before and after; is the newest version complete.
    assert counts == {"create": 1, "put": len(objects), "get": 4}
    assert fetched == {"record": 3, "metadata": 1, "manifest list": 1, "manifest": 1, "data": 1}


def test_a_commit_without_tables_costs_its_record() -> None:
    followed = Followed()
    followed.lake.set_properties({"a": "1"})
    followed.target.reset()
    followed.replicator.run()
    assert followed.target.counts() == {"create": 1, "put": 1, "get": 3}


def test_nothing_new_costs_a_look_at_either_side() -> None:
    followed = Followed()
    followed.source.reset()
    followed.target.reset()
    followed.replicator.run()
    assert followed.source.counts() == {"get": 1}
    assert followed.target.counts() == {"get": 3}


@pytest.mark.slow
def test_following_an_append_costs_the_same_at_version_10_and_at_version_300() -> None:
    followed = Followed()
    costs = {}
    for version in (11, 301):
        followed.append_to(version)
        followed.replicator.run()
        costs[version] = followed.cost()
    assert costs[11] == costs[301]
    # Not only for a warm one: opening reads a checkpoint and a window.
    lake = hg.Lake.open(Inspector(followed.lake).store)
    for version in (313, 415):
        followed.append_to(version)
        store = followed.replicator._driver.store
        lake.replicate(store)
        followed.table.append(rows(1))
        followed.target.reset()
        lake.replicate(store)
        assert sum(followed.target.counts().values()) <= 45
