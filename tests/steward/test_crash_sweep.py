"""Writers that die at every one of their requests. Then somebody recovers, and all must be as it should.

The sweep finds the requests by itself: one that is added later is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.history.descriptor import descriptor
from headgate.core.input.arguments import found_table
from headgate.log.layout import RECOVERED
from headgate.model.commit_event import CommitEvent
from headgate.steward.hooks.hook import Hook
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import all_keys
from headgate.testing.inspector import Inspector
from tests.compactions import compact_files
from tests.steward.crashes import OneByOne, copied, deaths

STRATEGIES = ("conditional", "rename", "filetracker")
DIVISOR = 4


@dataclass
class Told:
    """An action that remembers what it was told."""

    events: list[str] = field(default_factory=list)

    def run(self, event: CommitEvent) -> None:
        self.events.append(event.id)

    def describe(self) -> str:
        return "remembers"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{number}" for number in ids]})


def begun(strategy: str, versions: int) -> MemoryStore:
    """A lake with two tables and some rows, at a given version."""
    store = MemoryStore("lake")
    lake = hg.Lake.init(store, strategy=strategy, divisor=DIVISOR)
    for name in ("a.b", "a.c"):
        lake.create_table(name, "id BIGINT, name STRING")
    lake.table("a.b").append(rows(1, 2, 3))
    while lake.version < versions:
        lake.table("a.b").append(rows(10 + lake.version))
    return store


def opened(store: Store, *hooks: Hook) -> hg.Lake:
    return hg.Lake.open(store, hooks=hooks, host=OneByOne())


def content(lake: hg.Lake) -> dict[str, list[tuple[int, str]]]:
    return {
        name: sorted((row["id"], row["name"]) for row in lake.table(name).read_arrow().to_pylist())
        for name in lake.tables()
    } | {name: [(0, found.kind)] for name, found in lake.objects().items()}


def append(lake: hg.Lake) -> None:
    lake.table("a.b").append(rows(100))


def two_tables(lake: hg.Lake) -> None:
    with lake.transaction(args=["both"]) as tx:
        tx.table("a.b").append(rows(100))
        tx.table("a.c").append(rows(200))


def delete(lake: hg.Lake) -> None:
    lake.table("a.b").delete("id = 2")


def upsert(lake: hg.Lake) -> None:
    lake.table("a.b").upsert(pa.table({"id": [2, 50], "name": ["new", "fifty"]}), keys=["id"])


def rewrite(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        compact_files(tx, "a.b", [file.path for file in lake.table("a.b").files()])


def create(lake: hg.Lake) -> None:
    lake.create_table("a.d", "id BIGINT, name STRING")


def table_and_view(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        tx.table("a.b").append(rows(100))
        tx.create_view("a.v", "SELECT * FROM a.b")


CHANGES = (append, two_tables, delete, upsert, rewrite, create, table_and_view)


def require_whole(lake: hg.Lake) -> None:
    """Every version has the entry that its record asks for, and every table is announced as it is."""
    inside = Inspector(lake)
    for number in range(1, lake.version + 1):
        record, digest = inside.record(number), inside.digest(number)
        entry = lake.control(number)
        assert entry is not None, number
        assert (entry.record, entry.txid) == (digest, record.txid)
        assert entry.descriptor == descriptor(record)
        assert [hook.name for hook in entry.hooks] == [*record.hooks]
    store = inside.store
    for name in lake.tables():
        ref = found_table(Inspector(lake).refresh(), name)
        hint = (store.get(f"{ref.location}/metadata/version-hint.text") or b"").decode()
        assert store.get(f"{ref.location}/metadata/v{hint}.metadata.json") == store.get(ref.metadata), name


def require_only_committed_by_path(lake: hg.Lake) -> None:
    """Whatever an engine can find that opens a table by its path was committed, and is what was committed."""
    store = Inspector(lake).store
    found = [key for key in all_keys(store, "data/") if "/metadata" in key and ".metadata.json" in key]
    assert found
    for key in found:
        location, _, name = key.partition("/metadata/")
        number = int(name.removeprefix("v").removesuffix(".metadata.json"))
        assert 0 < number <= lake.version, key
        (ref,) = (
            ref for ref in Inspector(lake).handle.state_at(number).tables.values() if ref.location == location
        )
        assert store.get(key) == store.get(ref.metadata), key


@pytest.mark.parametrize(
    ("strategy", "change"),
    [
        pytest.param(
            strategy,
            change,
            id=f"{strategy}-{change.__name__}",
            # FileTracker has the most requests to die at: two minutes for each change.
            marks=pytest.mark.nightly if strategy == "filetracker" and change is not append else (),
        )
        for strategy in STRATEGIES
        for change in CHANGES
    ],
)
@pytest.mark.parametrize(
    "base",
    [pytest.param(6, id="within a window", marks=pytest.mark.nightly), pytest.param(7, id="at its end")],
)
def test_a_change_that_dies_anywhere(strategy: str, change: Callable[[hg.Lake], None], base: int) -> None:
    before = begun(strategy, base)
    old = content(opened(before))
    complete = False
    seen = set()
    for store, death in deaths(
        partial(copied, before), lambda dying: change(opened(dying, Hook("told", Told())))
    ):
        told = Told()
        lake = opened(store, Hook("told", told))
        require_only_committed_by_path(lake)
        report = lake.recover()
        seen.add(lake.version)
        new = content(lake)
        if not death.came:
            complete = True
            assert lake.version == base + 1
            assert not report.changed
        elif lake.version == base:
            assert new == old, death
        require_whole(lake)
        # All or nothing: the same content whenever the version is there.
        if lake.version > base:
            assert new == expected(strategy, base, change), death
            entry = lake.control(base + 1)
            assert entry is not None and not entry.open_hooks
            assert told.events == [f"{lake.id}-{base + 1}"] * bool(report.hooks_done)
        assert not lake.recover().changed
        lake.table("a.c").append(rows(7))
        assert (7, "n7") in content(lake)["a.c"]
    assert complete
    assert seen == {base, base + 1}


_EXPECTED: dict[tuple[str, int, str], dict[str, list[tuple[int, str]]]] = {}


def expected(strategy: str, base: int, change: Callable[[hg.Lake], None]) -> dict[str, list[tuple[int, str]]]:
    """What the tables hold after a change that nothing disturbed."""
    key = (strategy, base, change.__name__)
    if key not in _EXPECTED:
        lake = opened(begun(strategy, base))
        change(lake)
        _EXPECTED[key] = content(lake)
    return _EXPECTED[key]


def due_for_compaction() -> MemoryStore:
    """A lake with a table in which two windows are due, and with deletes after the end of each."""
    store = begun("conditional", 5)
    lake = opened(store)
    lake.table("a.b").delete("id = 2")
    lake.table("a.b").append(rows(20, 21))
    lake.table("a.b").append(rows(30))
    lake.table("a.b").delete("id = 20")
    lake.set_properties({"compaction.min_inputs": "2"})
    return store


class Later(OneByOne):
    """An hour later: whoever died is taken for dead."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


@pytest.mark.slow
def test_a_compaction_that_dies_anywhere_is_taken_over() -> None:
    """Whatever it left is completed by the next one, and no row changes at any version."""
    before = due_for_compaction()
    old, then = content(opened(before)), opened(before).table("a.b").read_arrow(version=8)
    seen: set[str] = set()
    for store, death in deaths(partial(copied, before), lambda dying: opened(dying).compact()):
        left = {txid.text for txid in Inspector(opened(store)).refresh().plans}
        lake = hg.Lake.open(store, host=Later())
        report = lake.compact()
        seen.add("taken over" if report.taken_over else "planned" if report.planned else "done")
        assert set(report.taken_over) == left, death
        assert not report.cancelled
        assert content(lake) == old, death
        assert Inspector(lake).refresh().plans == {}
        assert {file.path.rsplit("/data/", 1)[1][:6] for file in lake.table("a.b").files()} == {
            "L1-1-4",
            "L1-5-8",
        }
        assert sorted(lake.table("a.b").read_arrow(version=8).column("id").to_pylist()) == sorted(
            then.column("id").to_pylist()
        )
        lake.recover()
        require_whole(lake)
    assert seen == {"taken over", "planned", "done"}


def test_hooks_that_die_anywhere_are_run_at_least_once() -> None:
    """The hook itself asks the storage: it dies inside, too."""
    before = begun("conditional", 6)
    for store, _ in deaths(
        partial(copied, before), lambda dying: append(opened(dying, Hook("copy", Copies(dying))))
    ):
        lake = opened(store, Hook("copy", Copies(store)))
        lake.recover()
        if lake.version > 6:
            assert store.get("data/copied") == f"{lake.id}-7".encode()
            assert lake.open_hooks() == ()
        require_whole(lake)


@dataclass
class Copies:
    """An action that writes to the storage."""

    store: Store

    def run(self, event: CommitEvent) -> None:
        self.store.put("data/copied", event.id.encode())

    def describe(self) -> str:
        return "copies"


def unfinished(versions: int, missing: int) -> MemoryStore:
    """A lake whose last versions lack their entries, checkpoints and announcements, with hooks to run."""
    store = begun("conditional", versions - missing)
    lake = opened(store, Hook("told", Told()))
    hints = {
        name: f"{found_table(Inspector(lake).refresh(), name).location}/metadata/version-hint.text"
        for name in lake.tables()
    }
    kept = {key: store.get(key) for key in (*hints.values(), RECOVERED)}
    for number in range(missing):
        lake.table("a.b").append(rows(500 + number))
    for number in range(versions - missing + 1, versions + 1):
        store.delete(f"control/txn/{number:020d}.json")
        store.delete(f"control/checkpoint/{number:020d}.json")
    for key, data in kept.items():
        store.delete(key) if data is None else store.put(key, data)
    return store


def test_a_recovery_that_dies_anywhere_is_recovered() -> None:
    before = unfinished(10, 5)
    rows_before = content(opened(before))
    for store, _ in deaths(
        partial(copied, before), lambda dying: opened(dying, Hook("told", Told())).recover()
    ):
        lake = opened(store, Hook("told", Told()))
        lake.recover()
        assert not lake.recover().changed
        assert content(lake) == rows_before
        assert lake.open_hooks() == ()
        require_whole(lake)
        assert store.get(f"control/checkpoint/{8:020d}.json") is not None


def test_rebuilding_that_dies_anywhere_is_rebuilt() -> None:
    before = unfinished(9, 3)
    before.put(f"control/txn/{2:020d}.json", b"damaged")
    before.put(f"control/txn/{77:020d}.json", b"of no version")
    rows_before = content(opened(before))
    for store, _ in deaths(partial(copied, before), lambda dying: opened(dying).rebuild_control()):
        lake = opened(store)
        lake.rebuild_control()
        assert content(lake) == rows_before
        require_whole(lake)
        assert {hook.version for hook in lake.open_hooks()} == {7, 8, 9}


# --- letting go of the past ---------------------------------------------------------------------------------


class Aging(OneByOne):
    """Days ahead of the writers that made the lake."""

    def now(self) -> datetime:
        return super().now() + timedelta(days=9)


def with_a_past() -> tuple[MemoryStore, dict[int, list[tuple[int, str]]]]:
    """A lake with rewritten files, a tag, a dropped table and a transaction that died; and its rows."""
    store = begun("conditional", 5)
    lake = opened(store)
    table = lake.table("a.b")
    table.delete("id = 2")
    table.overwrite(rows(50, 51))
    lake.tag("kept", 6)
    lake.drop_table("a.c")
    lake.transaction().table("a.b").append(rows(99))
    table.append(rows(60))
    table.set_properties({"write.delete.mode": "copy-on-write"})
    table.delete("id = 51")
    lake.create_table("a.c", "id BIGINT, name STRING")
    return store, {
        version: sorted((row["id"], row["name"]) for row in table.read_arrow(version=version).to_pylist())
        for version in range(3, lake.version + 1)
    }


KEEP = ("all:1h", "1:forever")


def expire(lake: hg.Lake) -> None:
    lake.expire(KEEP)


def vacuum(lake: hg.Lake) -> None:
    lake.vacuum()


@pytest.mark.parametrize("act", [expire, vacuum], ids=lambda act: act.__name__)
def test_letting_go_that_dies_anywhere_is_finished(act: Callable[[hg.Lake], None]) -> None:
    before, expected_rows = with_a_past()

    def there(store: Store) -> hg.Lake:
        return hg.Lake.open(store, host=Aging())

    for store, death in deaths(partial(copied, before), lambda dying: act(there(dying))):
        lake = there(store)
        lake.recover()
        for version, found in expected_rows.items():
            if Inspector(lake).refresh().retention.keeps(version, DIVISOR):
                table = lake.table("a.b", version=version)
                assert sorted((r["id"], r["name"]) for r in table.read_arrow().to_pylist()) == found, death
        act(lake)
        lake.expire(KEEP)
        lake.vacuum(older_than="0s")
        require_whole(lake)
        report = lake.fsck(all_versions=True)
        assert report.ok, (death, report.damage)
        assert not [one for one in report.notes if one.kind == "files-unreferenced"], death
        assert set(lake.expire(KEEP, dry_run=True).kept) == {4, 6, 8, 12}
        lake.table("a.b").append(rows(7))
