"""Lakes that are whole have no damage, however they came about; looking at them changes nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.errors import NotFoundError
from headgate.storage.capabilities import Store
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Put
from headgate.testing.faulty import Fault, SplitListing, faulty, refuse
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import counted, without_atomic_operations
from tests.servers.s3 import S3Server
from tests.steward.crashes import OneByOne, copied, deaths
from tests.steward.shop import Scene, fill, fingerprint, make, orders

NOBODY = 65534


def assert_whole(lake: hg.Lake, *notes: str) -> None:
    for report in (lake.fsck(), lake.fsck(all_versions=True), lake.fsck(deep=True)):
        assert report.damage == ()
        assert {one.kind for one in report.notes} <= set(notes), report.notes
        assert report.version == lake.version


@pytest.mark.parametrize("strategy", ["conditional", "rename", "filetracker"])
def test_each_strategy(strategy: str, tmp_path: Path) -> None:
    lake = make(tmp_path / "lake", strategy)
    before = fingerprint(tmp_path / "lake")
    assert_whole(lake)
    assert fingerprint(tmp_path / "lake") == before


def test_after_strategies_were_changed(tmp_path: Path) -> None:
    lake = make(tmp_path / "lake", "conditional")
    table = lake.table("shop.orders")
    for strategy in ("filetracker", "rename", "filetracker", "conditional"):
        lake.change_strategy(strategy)
        table.append(orders(7))
    assert_whole(lake)


def test_an_empty_lake(tmp_path: Path) -> None:
    assert_whole(hg.Lake.init(tmp_path / "lake"))


def test_in_memory_and_on_storage_that_can_only_put_get_and_list() -> None:
    for store in (MemoryStore("shop"), without_atomic_operations(MemoryStore("plain"))):
        assert_whole(make(store))


def test_where_listings_come_in_pages() -> None:
    store, _ = faulty(MemoryStore("pages"), Fault(lambda _: True, SplitListing(3), times=None))
    assert_whole(make(store, "conditional"))


def test_a_replica(tmp_path: Path) -> None:
    make(tmp_path / "lake").replicate(tmp_path / "replica")
    replica = hg.Lake.open(tmp_path / "replica")
    assert_whole(replica, "hint-missing")
    small = hg.Lake.init(tmp_path / "small")
    small.create_table("a.b", "id BIGINT")
    small.replicate(tmp_path / "small replica")
    assert_whole(hg.Lake.open(tmp_path / "small replica"), "hint-missing")


def test_views_and_mounts(tmp_path: Path) -> None:
    lake = make(tmp_path / "lake")
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.csv").write_text("id\n1\n")
    lake.create_view("shop.north", "SELECT * FROM shop.orders WHERE region = 'north'")
    lake.mount_csv("shop.lines", tmp_path / "files")
    assert_whole(lake)


@pytest.mark.slow
def test_on_s3(s3: S3Server) -> None:
    lake = make_on(s3, "whole")
    assert_whole(lake)
    assert hg.fsck(s3.url("whole"), options=s3.options, deep=True).ok


def make_on(s3: S3Server, name: str) -> hg.Lake:
    return fill(hg.Lake.init(s3.url(name), options=s3.options, divisor=4))


# --- leftovers ---------------------------------------------------------------------------------------------


def test_what_a_crash_leaves_behind_is_no_damage(tmp_path: Path) -> None:
    """Writers that die after the decision, at every request that follows it."""
    inside = LocalStore(tmp_path / "lake")
    fill(hg.Lake.init(inside, divisor=4, strategy="rename"))
    for skip in range(8):
        store, schedule = faulty(inside)
        lake = hg.Lake.open(store)
        schedule.add(Fault(lambda request: isinstance(request, Put), refuse, skip=skip, times=None))
        try:
            lake.table("shop.orders").append(orders(skip))
        except hg.StorageError:
            continue
    lake = hg.Lake.open(inside)
    report = lake.fsck(deep=True)
    assert report.damage == ()
    assert {one.kind for one in report.notes} >= {"entry-due", "hint-old", "files-unreferenced"}
    lake.recover()
    assert {one.kind for one in lake.fsck(deep=True).notes} == {"files-unreferenced"}


LEFT_BY_THE_DEAD = {"entry-due", "hint-old", "hint-missing", "files-unreferenced", "log-leftovers"}


@pytest.mark.parametrize("strategy", ["conditional", "rename", "filetracker"])
@pytest.mark.parametrize("where", ["id = 1", None], ids=["delete", "overwrite"])
def test_a_writer_that_dies_anywhere_leaves_no_damage(strategy: str, where: str | None) -> None:
    """At every request of a commit at a boundary: neither before nor after recovery."""
    before = MemoryStore("sweep")
    lake = hg.Lake.init(before, strategy=strategy, divisor=3)
    lake.create_table("a.b", "id BIGINT, region STRING", partition_by=["region"]).append(orders(1, 2, 3))

    def change(dying: Store) -> None:
        table = hg.Lake.open(dying, host=OneByOne()).table("a.b")
        table.delete(where) if where else table.overwrite(orders(4))

    for store, death in deaths(partial(copied, before), change):
        report = hg.fsck(store, deep=True)
        assert report.damage == (), death
        assert {one.kind for one in report.notes} <= {*LEFT_BY_THE_DEAD, "checkpoint-missing"}, death
        hg.Lake.open(store).recover()
        after = hg.fsck(store, deep=True)
        assert after.damage == (), death
        assert {one.kind for one in after.notes} <= {"files-unreferenced", "log-leftovers"}, death


def test_an_aborted_transaction_leaves_files_and_no_damage(tmp_path: Path) -> None:
    lake = make(tmp_path / "lake")
    with lake.transaction() as tx:
        tx.table("shop.orders").append(orders(1))
        tx.abort()
    (note,) = lake.fsck().notes
    assert note.kind == "files-unreferenced"


def test_a_table_that_was_made_again_at_the_same_place(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    for number in range(3):
        lake.create_table("a.b", "id BIGINT").append(pa.table({"id": [number]}))
        lake.drop_table("a.b")
    lake.create_table("a.b", "id BIGINT")
    assert_whole(lake)


def test_a_table_with_many_snapshots(tmp_path: Path) -> None:
    """Older snapshots are not in the newest metadata file any more."""
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False), divisor=10)
    table = lake.create_table("a.b", "id BIGINT")
    for number in range(105):
        table.append(pa.table({"id": [number]}))
    assert_whole(lake)


# --- beside writers ----------------------------------------------------------------------------------------


def test_beside_writers_nothing_is_taken_for_damage(tmp_path: Path) -> None:
    lake = make(tmp_path / "lake")
    started, stop, failures = threading.Event(), threading.Event(), list[BaseException]()

    def write() -> None:
        own = hg.Lake.open(tmp_path / "lake")
        number = 0
        try:
            while not stop.is_set():
                own.table("shop.orders").append(orders(number))
                started.set()
                number += 1
                if number % 5 == 0:
                    own.table("shop.orders").delete(f"id = {number}")
        except BaseException as error:  # noqa: BLE001 — told to the test
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert started.wait(60)
        for deep in (False, True, False, True):
            report = hg.fsck(tmp_path / "lake", deep=deep)
            assert report.damage == ()
    finally:
        stop.set()
        writer.join(60)
    assert failures == []
    lake.recover()
    assert lake.fsck(deep=True).ok


# --- what it costs, and that it only looks -----------------------------------------------------------------


def test_it_sends_only_get_and_list(tmp_path: Path) -> None:
    make(tmp_path / "lake")
    for inside in (LocalStore(tmp_path / "lake"), without_atomic_operations(LocalStore(tmp_path / "lake"))):
        for deep in (False, True):
            store, tally = counted(inside)
            assert hg.fsck(store, deep=deep).ok
            assert set(tally.counts()) == {"get", "list"}


def test_files_are_looked_for_in_a_listing() -> None:
    """However many files there are: no request for each of them, where the storage lists sizes."""

    def requests(files: int) -> dict[str, int]:
        store, tally = counted(MemoryStore(f"{files} files"))
        lake = hg.Lake.init(store)
        table = lake.create_table("a.b", "id BIGINT", partition_by=["id"])
        table.append(pa.table({"id": list(range(files))}))
        tally.reset()
        assert lake.fsck().checked["data files"] == files
        return tally.counts()

    assert requests(2) == requests(50)


@contextmanager
def without_rights(root: Path) -> Iterator[None]:
    """Nobody may write there, not even the owner; and root becomes somebody who is bound by that."""
    for path in (root, *root.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if own == 0:
            os.seteuid(own)
        for path in (root, *root.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_it_works_on_a_directory_that_cannot_be_written() -> None:
    # Not below pytest's own directory, which other users may not enter.
    top = Path(tempfile.mkdtemp())
    try:
        top.chmod(0o755)
        make(top / "lake")
        assert Scene(top / "lake").fsck(deep=True).ok  # everything that it needs is loaded now
        with without_rights(top / "lake"):
            with pytest.raises(OSError):
                (top / "lake/new").write_text("")
            assert hg.fsck(top / "lake", deep=True).findings == ()
    finally:
        shutil.rmtree(top)


def test_what_a_handle_remembers_does_not_hide_damage(tmp_path: Path) -> None:
    lake = make(tmp_path / "lake", "conditional")
    scene = Scene(tmp_path / "lake")
    lake.table("shop.orders").read_arrow()
    scene.record(3).write_bytes(b"{}")
    scene.manifest_list().unlink()
    kinds = {one.kind for one in lake.fsck().damage}
    assert {"record-unreadable", "manifest-list-missing"} <= kinds


def test_a_place_without_a_lake(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        hg.fsck(tmp_path)
    with pytest.raises(NotFoundError):
        hg.fsck(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told(tmp_path: Path) -> None:
    lake = make(tmp_path / "lake")
    told: list[tuple[str, int, int]] = []
    lake.fsck(deep=True, progress=lambda *step: told.append(step))
    assert {what for what, _, _ in told} == {"log", "tables", "files"}
    for what in ("log", "tables", "files"):
        steps = [(done, of) for name, done, of in told if name == what]
        assert steps == sorted(steps) and steps[-1][0] == steps[-1][1]


def test_what_was_looked_at_is_counted(tmp_path: Path) -> None:
    lake = make(tmp_path / "lake")
    checked = lake.fsck().checked
    assert checked["records"] == checked["control entries"] == lake.version
    assert checked["tables"] == checked["table versions"] == 3
    assert lake.fsck(all_versions=True).checked["table versions"] > 10


def test_on_a_store_that_is_open(tmp_path: Path) -> None:
    store: Store = LocalStore(tmp_path / "lake")
    make(store)
    assert hg.fsck(store).ok


def test_position_files_of_changes_on_write_are_needed() -> None:
    """They are in no manifest, and the feed of changes reads them."""
    lake = hg.Lake.init(MemoryStore())
    properties = {"write.delete.mode": "copy-on-write"}
    table = lake.create_table("a.b", "id BIGINT", properties=properties)
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    assert any("-positions-" in key for key in Inspector(lake).keys("data/"))
    assert lake.fsck(deep=True).findings == ()
