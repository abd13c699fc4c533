"""The probe catches storages that break a promise, and init draws the right conclusion."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import headgate as hg
from headgate.errors import NotOfferedError, StorageRefusedError
from headgate.log.cleanup import KEEP
from headgate.log.layout import TRACKER
from headgate.log.probe import PROBE, RACERS, TRIES, probe
from headgate.model.probe import ProbeReport, Promise, Seen
from headgate.storage.capabilities import Page, Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Create, Delete, Get, ListPage, Put, Rename, Request
from headgate.system.host import SYSTEM, SystemHost
from headgate.testing.faulty import Action, Fault, faulty, lose_answer, lose_request, refuse
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import without_atomic_operations


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
    with pytest.raises(hg.UnsupportedError, match="is unsafe"):
        hg.Lake.init(IgnoresPreconditions(), strategy="conditional")
    with pytest.raises(hg.UnsupportedError, match="cannot create a lake"):
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


# --- a storage that does not answer ------------------------------------------------------------------------


class Hasty(SystemHost):
    """Wastes no time of the tests on patience."""

    def sleep(self, seconds: float) -> None:
        del seconds


HASTY = Hasty()


def in_probe(*kinds: type) -> Callable[[Request], bool]:
    def wanted(request: Request) -> bool:
        place = request.prefix if isinstance(request, ListPage) else getattr(request, "key", PROBE)
        return isinstance(request, kinds) and place.startswith(PROBE)

    return wanted


@pytest.mark.parametrize("action", [lose_answer, lose_request])
@pytest.mark.parametrize("kind", [Create, Get, Put, ListPage, Rename, Delete])
@pytest.mark.parametrize("skip", [0, 3, 9])
def test_one_lost_answer_does_not_decide_the_strategy(action: Action, kind: type, skip: int) -> None:
    store, _ = faulty(MemoryStore(), Fault(in_probe(kind), action, skip=skip, times=TRIES - 1))
    lake = hg.Lake.init(store, host=HASTY)
    assert lake.strategy == "conditional"
    assert Inspector(lake).identity.ordered_listing


class RepeatsBelowUs(MemoryStore):
    """A client that repeats a create whose answer was lost, and is refused by the object it made itself."""

    repeated = 0

    def put_if_absent(self, key: str, data: bytes) -> bool:
        created = super().put_if_absent(key, data)
        if created and self.repeated < 2:
            self.repeated += 1
            return super().put_if_absent(key, data)
        return created


def test_an_attempt_that_is_refused_by_itself_proves_nothing() -> None:
    store = RepeatsBelowUs()
    assert hg.Lake.init(store, host=HASTY).strategy == "conditional"
    assert store.repeated == 2


def test_a_storage_that_stays_silent_is_not_judged() -> None:
    store, _ = faulty(MemoryStore(), Fault(in_probe(Create), lose_request, times=None))
    report = probe(store, HASTY)
    assert {finding.promise for finding in report.findings if finding.seen is Seen.UNANSWERED} == {
        Promise.CREATE_REFUSED,
        Promise.CREATE_RACE,
    }
    assert not any(finding.seen is Seen.BROKEN for finding in report.findings)
    with pytest.raises(hg.StorageError, match="conditional") as caught:
        hg.Lake.init(store, host=HASTY)
    assert "choose rename or filetracker yourself" in caught.value.next_step
    assert store.list_page("").keys == ()
    # Whoever names a strategy that was answered for, gets it.
    assert hg.Lake.init(store, host=HASTY, strategy="filetracker").strategy == "filetracker"
    diagnosis = hg.Lake.open(store, host=HASTY).doctor()
    assert diagnosis.safe
    assert [(v.broken, len(v.unanswered)) for v in diagnosis.verdicts] == [((), 2), ((), 0), ((), 0)]


class KnowsNoConditions(MemoryStore):
    """A service that answers 501 to `If-None-Match`."""

    asked = 0

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.asked += 1
        raise NotOfferedError(f"cannot create {key}: answered 501 Not Implemented")


def test_a_storage_that_says_it_knows_no_conditions_has_answered() -> None:
    store = KnowsNoConditions()
    lake = hg.Lake.init(store, host=HASTY)
    assert lake.strategy == "rename"  # the next best one; object storage, which has none, gets filetracker
    assert store.asked == 1 + RACERS + 1  # one trial of each kind, and the copy of the identity
    verdict = next(v for v in lake.doctor().verdicts if v.strategy.value == "conditional")
    assert set(verdict.broken) == {Promise.CREATE_REFUSED, Promise.CREATE_RACE}
    with pytest.raises(hg.UnsupportedError, match="501 Not Implemented"):
        hg.Lake.init(KnowsNoConditions(), host=HASTY, strategy="conditional")


def test_init_needs_listings_whatever_the_strategy() -> None:
    """Version 0 is decided with FileTracker."""
    for strategy in (None, "conditional", "rename", "filetracker"):
        with pytest.raises(hg.UnsupportedError, match=Promise.LIST_AFTER_WRITE.value):
            hg.Lake.init(ForgetsToList(), strategy=strategy)
    silent, _ = faulty(MemoryStore(), Fault(in_probe(ListPage), lose_request, times=None))
    with pytest.raises(hg.StorageError, match="did not answer"):
        hg.Lake.init(silent, host=HASTY)


def test_what_cannot_be_removed_is_reported_and_stops_nobody() -> None:
    inside = MemoryStore()
    store, _ = faulty(inside, Fault(in_probe(Delete), refuse, times=None))
    reports: list[ProbeReport] = []
    lake = hg.Lake.init(store, on_probe=reports.append)
    assert lake.strategy == "conditional"
    assert set(reports[0].left) == set(inside.list_page(PROBE).keys) != set()
    assert lake.doctor().report.left


def test_a_place_that_cannot_even_be_listed_afterwards_is_reported() -> None:
    inside = MemoryStore()

    def at_the_end(request: Request) -> bool:
        return isinstance(request, ListPage) and request.prefix.count("/") == 3

    store, _ = faulty(inside, Fault(at_the_end, refuse, times=None))
    (left,) = probe(store, HASTY).left
    assert left.startswith(PROBE)
    assert all(key.startswith(left) for key in inside.list_page("").keys)


class BecomesFull(MemoryStore):
    """A disk whose last block goes to somebody else in the middle of the probe."""

    full = False

    def put(self, key: str, data: bytes) -> None:
        if self.full:
            raise StorageRefusedError("no space left")
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.full = True
        raise StorageRefusedError("no space left")


def test_a_disk_that_becomes_full_breaks_no_promise() -> None:
    report = probe(BecomesFull(), SYSTEM)
    found = {finding.promise: finding.seen for finding in report.findings}
    assert found[Promise.CREATE_REFUSED] is found[Promise.RENAME_REFUSED] is Seen.UNANSWERED
    with pytest.raises(hg.StorageError):
        hg.Lake.init(BecomesFull())
