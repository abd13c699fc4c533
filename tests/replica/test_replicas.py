"""A replica is the same lake at another place, at every version."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.input.arguments import found_table
from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.commit_event import CommitEvent
from headgate.model.control_entry import HookState
from headgate.steward.hooks.hook import Hook
from headgate.steward.replica.copying import Expired
from headgate.storage.capabilities import PutIfAbsent
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import _offering
from tests.compactions import compact_files
from tests.replica.shop import (
    ORDERS,
    assert_complete,
    assert_same,
    contents,
    contents_at,
    fill,
    objects,
    rows,
)

STRATEGIES = ("conditional", "rename", "filetracker")


def filled(strategy: str = "conditional", name: str = "source", divisor: int = 4) -> hg.Lake:
    lake = hg.Lake.init(MemoryStore(name), strategy=strategy, divisor=divisor)
    fill(lake)
    return lake


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_replica_is_the_same_lake(strategy: str) -> None:
    source, store = filled(strategy), MemoryStore("replica")
    told: list[tuple[int, int]] = []
    report = source.replicate(store, progress=lambda done, of: told.append((done, of)))
    replica = hg.Lake.open(store)
    assert_same(source, replica)
    assert_complete(replica)
    assert report.created and (report.since, report.until) == (0, source.version)
    assert (report.source, report.target) == ("memory://source", "memory://replica")
    assert told == [(done, source.version) for done in range(1, source.version + 1)]
    assert report.expired == ()


def test_records_are_the_same_bytes_and_nothing_names_the_source() -> None:
    source, store = filled(), MemoryStore("replica")
    source.replicate(store)
    ours, theirs = objects(source), objects(hg.Lake.open(store))
    assert theirs.keys() <= ours.keys()
    for key, data in theirs.items():
        if key.startswith("control/log/") or key == "headgate.json" or key.endswith((".text", "-carried")):
            assert data == ours[key], key
        if key.endswith((".json", ".avro")) and key.startswith("data/"):
            assert b"memory://source" not in data, key


def test_a_second_replication_finds_nothing_to_do() -> None:
    source, store = filled(), MemoryStore("replica")
    source.replicate(store)
    before = objects(hg.Lake.open(store))
    report = source.replicate(store)
    assert (report.created, report.versions, report.files, report.bytes) == (False, 0, 0, 0)
    assert objects(hg.Lake.open(store)) == before


@pytest.mark.parametrize(
    "strategy", ["conditional", *(pytest.param(name, marks=pytest.mark.slow) for name in STRATEGIES[1:])]
)
def test_a_replica_catches_up_over_many_versions(strategy: str) -> None:
    source, store = filled(strategy), MemoryStore("replica")
    source.replicate(store)
    reader = hg.Lake.open(store)
    first = source.version
    for number in range(30):
        source.table(ORDERS).append(_later(number))
    source.table(ORDERS).delete("id = 107")
    report = source.replicate(store)
    assert (report.created, report.since, report.versions) == (False, first, 31)
    assert_same(source, reader)
    assert_complete(reader)


def _later(number: int) -> pa.Table:
    return rows(100 + number).rename_columns(["id", "day", "label"])


def test_a_lake_that_changed_its_strategy() -> None:
    source, store = filled("filetracker"), MemoryStore("replica")
    for strategy in ("rename", "conditional", "filetracker"):
        source.change_strategy(strategy)
        source.set_properties({strategy: "1"})
    source.replicate(store)
    assert_same(source, hg.Lake.open(store))


def test_records_of_an_earlier_rename_go_to_a_storage_that_only_creates() -> None:
    source, inner = filled("rename"), MemoryStore("replica")
    source.change_strategy("conditional")
    source.set_properties({"a": "1"})
    only_creating = _offering(PutIfAbsent)(inner, lambda request, proceed: proceed(request))
    source.replicate(only_creating)
    assert_same(source, hg.Lake.open(inner))


def test_an_empty_lake_has_a_replica_too() -> None:
    source, store = hg.Lake.init(MemoryStore("source")), MemoryStore("replica")
    report = source.replicate(store)
    assert (report.created, report.until) == (True, 0)
    source.set_properties({"a": "1"})
    assert source.replicate(store).versions == 1
    assert_same(source, hg.Lake.open(store))


def test_a_replica_of_a_replica_is_the_replica_of_the_first() -> None:
    source, second, third = filled(), MemoryStore("second"), MemoryStore("third")
    source.replicate(second)
    hg.Lake.open(second).replicate(third)
    assert_same(source, hg.Lake.open(third))
    direct = MemoryStore("third")
    source.replicate(direct)
    assert objects(hg.Lake.open(third)) == objects(hg.Lake.open(direct))
    # Either of them may feed it.
    source.set_properties({"a": "1"})
    source.replicate(third)
    source.replicate(second)
    assert hg.Lake.open(second).replicate(third).versions == 0


def test_hooks_of_the_source_are_not_due_in_the_replica() -> None:
    source, store = hg.Lake.init(MemoryStore("source")), MemoryStore("replica")
    source.add_hook(hg_hook("told"))
    source.set_properties({"a": "1"})
    source.replicate(store)
    replica = hg.Lake.open(store)
    entry = replica.control(1)
    assert entry is not None
    assert [(run.name, run.state, run.attempts) for run in entry.hooks] == [("told", HookState.DONE, 0)]
    assert replica.open_hooks() == ()


class _Nothing:
    def run(self, event: CommitEvent) -> None:
        pass

    def describe(self) -> str:
        return "nothing"


def hg_hook(name: str) -> Hook:
    return Hook(name, _Nothing())


def test_recovery_and_rebuilding_of_a_replica_change_nothing_of_worth() -> None:
    source, store = filled(), MemoryStore("replica")
    with source.transaction() as tx:
        tx.plan("compaction", ORDERS, [], ["/shop/orders"])
    source.replicate(store)
    replica = hg.Lake.open(store)
    report = replica.recover(patience=timedelta(0))
    assert (report.entries, report.cancelled_plans) == ((), ())
    replica.rebuild_control()
    assert_same(source, hg.Lake.open(store))
    source.set_properties({"a": "1"})
    assert source.replicate(store).versions == 1
    with pytest.raises(UnsupportedError):
        hg.Lake.open(store).set_properties({"a": "1"})


# --- what the source has lost -------------------------------------------------------------------------------


def test_versions_that_the_source_expired_are_left_out_and_the_rest_is_whole() -> None:
    """As after an expiry: metadata, manifests and files that only older versions need are gone."""
    source, store = filled(), MemoryStore("replica")
    kept = needed(source)
    inside = Inspector(source)
    for key in inside.keys("data/"):
        if key not in kept:
            inside.store.delete(key)
    reopened = hg.Lake.open(inside.store)
    report = reopened.replicate(store)
    assert report.expired
    replica = hg.Lake.open(store)
    assert replica.log() == reopened.log()
    assert contents_at(replica, replica.version) == contents_at(reopened, reopened.version)


def needed(lake: hg.Lake) -> set[str]:
    """The keys that the newest version needs."""
    found: set[str] = set()
    for name in lake.tables():
        expired = Expired(Inspector(lake).loader(), Inspector(lake).newest, lambda: Inspector(lake).newest)
        found |= expired._keys_of(found_table(Inspector(lake).newest, name).uuid)
    return found


def test_a_source_that_lacks_what_it_needs_is_reported_and_the_replica_stays_whole() -> None:
    source, store = filled(), MemoryStore("replica")
    source.replicate(store)
    before = source.version
    source.table(ORDERS).append(_later(1))
    lost = Inspector(source).loader().key(source.table(ORDERS).files()[-1].path)
    Inspector(source).store.delete(lost)
    source.set_properties({"a": "1"})
    with pytest.raises(CorruptLakeError, match="which is missing"):
        source.replicate(store)
    assert hg.Lake.open(store).version == before


# --- after the promotion ------------------------------------------------------------------------------------


def test_a_promoted_replica_goes_on_as_a_lake() -> None:
    """Manifests that were copied are merged, rows in copied files are deleted, files are compacted."""
    source, store = filled(), MemoryStore("replica")
    for number in range(12):
        source.table(ORDERS).append(_later(number))
    source.replicate(store)
    promoted = hg.Lake.open(store)
    promoted.promote()
    for lake in (source, promoted):
        orders = lake.table(ORDERS)
        for number in range(20, 36):
            orders.append(_later(number))
        orders.delete("id in (1, 3, 105, 125)")
        orders.update({"label": "'late'"}, where="id > 130")
        with lake.transaction() as tx:
            compact_files(tx, ORDERS, [file.path for file in orders.files()])
        lake.table("shop.careful").delete("id = 4")
    assert [entry[-1] for entry in contents(promoted)] == [entry[-1] for entry in contents(source)]
