"""The probe catches storages that break a promise, and init draws the right conclusion."""

from __future__ import annotations

import threading

import pytest

import headgate as hg
from headgate.commit.cleanup import KEEP
from headgate.commit.layout import TRACKER
from headgate.commit.probe import PROBE, probe
from headgate.host import SYSTEM
from headgate.model.probe import Promise
from headgate.storage.capabilities import Page, Store
from headgate.storage.intercept import without_atomic_operations
from headgate.storage.memory import MemoryStore


class IgnoresPreconditions(MemoryStore):
    """A service that accepts `If-None-Match` and overwrites all the same."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.put(key, data)
        return True


class ChecksThenWrites(MemoryStore):
    """A gateway that looks first and writes later: it refuses a second create, but not a racing one."""

    def __init__(self) -> None:
        super().__init__()
        self._meeting = threading.Barrier(2)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        if self.get(key) is not None:
            return False
        if "race" in key:
            # Two racers stand between the look and the write at the same time.
            try:
                self._meeting.wait(timeout=1)
            except threading.BrokenBarrierError:
                return False
        self.put(key, data)
        return True


class ReplacesOnRename(MemoryStore):
    def rename_no_replace(self, source: str, target: str) -> bool:
        data = self.get(source)
        assert data is not None
        self.put(target, data)
        self.delete(source)
        return True


class ForgetsToList(MemoryStore):
    """Lists what was there before the newest object."""

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        page = super().list_page(prefix, after)
        return Page(page.keys[:-1], complete=True)


class ListsBackwards(MemoryStore):
    def list_page(self, prefix: str, after: str | None = None) -> Page:
        return Page(super().list_page(prefix, after).keys[::-1], complete=True)


class ReadsStale(MemoryStore):
    """A cache in between: the second write of an object is not seen."""

    def put(self, key: str, data: bytes) -> None:
        if self.get(key) is None:
            super().put(key, data)


def broken(store: Store) -> set[Promise]:
    report = probe(store, SYSTEM)
    return {finding.promise for finding in report.findings if not finding.held}


def test_a_good_storage_keeps_every_promise_and_nothing_is_left_behind() -> None:
    store = MemoryStore()
    assert broken(store) == set()
    assert store.list_page(PROBE).keys == ()


@pytest.mark.parametrize(
    ("store", "promises"),
    [
        (IgnoresPreconditions(), {Promise.CREATE_REFUSED, Promise.CREATE_RACE}),
        (ChecksThenWrites(), {Promise.CREATE_RACE}),
        (ReplacesOnRename(), {Promise.RENAME_REFUSED, Promise.RENAME_RACE}),
        (ListsBackwards(), {Promise.ORDERED_LISTING}),
    ],
)
def test_a_broken_promise_is_caught(store: Store, promises: set[Promise]) -> None:
    assert broken(store) == promises


def test_a_storage_that_lists_late_is_caught() -> None:
    assert Promise.LIST_AFTER_WRITE in broken(ForgetsToList())


def test_a_storage_that_reads_stale_is_caught() -> None:
    assert Promise.READ_AFTER_WRITE in broken(ReadsStale())


def test_init_avoids_what_is_broken() -> None:
    assert hg.Lake.init(IgnoresPreconditions()).strategy == "rename"
    assert hg.Lake.init(ChecksThenWrites()).strategy == "rename"
    assert hg.Lake.init(without_atomic_operations(MemoryStore())).strategy == "filetracker"
    with pytest.raises(hg.UnsupportedError, match="would be unsafe"):
        hg.Lake.init(IgnoresPreconditions(), strategy="conditional")
    with pytest.raises(hg.UnsupportedError, match="would be unsafe"):
        hg.Lake.init(ReadsStale())


def test_filetracker_works_where_listings_have_no_order() -> None:
    store = ListsBackwards()
    lake = hg.Lake.init(store, strategy="filetracker")
    other = hg.Lake.open(store)
    for number in range(30):
        assert (lake, other)[number % 2].set_properties({str(number): "x"}).version == number + 1
    assert len(hg.Lake.open(store).log()) == 30
    # Clean-up finds the newest marker in any order too.
    assert len(store.list_page(TRACKER.index).keys) <= KEEP + lake.divisor


def test_the_doctor_finds_a_strategy_that_became_unsafe() -> None:
    class Replaced(MemoryStore):
        honest = True

        def put_if_absent(self, key: str, data: bytes) -> bool:
            if self.honest:
                return super().put_if_absent(key, data)
            self.put(key, data)
            return True

    store = Replaced()
    lake = hg.Lake.init(store)
    assert lake.doctor().safe
    store.honest = False
    diagnosis = lake.doctor()
    assert diagnosis.strategy == "conditional"
    assert not diagnosis.safe
