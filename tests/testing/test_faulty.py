"""Faults on demand: each does what it says, to the requests it was meant for, as often as it was meant."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from headgate.errors import NoAnswerError, StorageRefusedError
from headgate.storage.capabilities import PutIfAbsent
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Done, ListPage, Put, Refused, Request
from headgate.testing.contracts import all_keys, race
from headgate.testing.faulty import (
    Action,
    Delayed,
    DuplicatedLate,
    Fault,
    SplitListing,
    faulty,
    lose_answer,
    lose_request,
    refuse,
)


def is_put(request: Request) -> bool:
    return isinstance(request, Put)


@pytest.mark.parametrize(
    ("action", "error", "left"),
    [
        (lose_answer, NoAnswerError, b"1"),
        (lose_request, NoAnswerError, None),
        (refuse, StorageRefusedError, None),
    ],
)
def test_a_fault_fails_one_request(action: Action, error: type[Exception], left: bytes | None) -> None:
    inside = MemoryStore()
    store, _ = faulty(inside, Fault(is_put, action))
    with pytest.raises(error, match="injected"):
        store.put("a", b"1")
    assert inside.get("a") == left
    store.put("a", b"2")
    assert store.get("a") == b"2"


def test_a_fault_can_wait_and_last() -> None:
    store, _ = faulty(MemoryStore(), Fault(is_put, refuse, skip=2, times=3))
    worked = []
    for number in range(7):
        try:
            store.put(f"{number}", b"")
        except StorageRefusedError:
            worked.append(False)
        else:
            worked.append(True)
    assert worked == [True, True, False, False, False, True, True]


def test_faults_are_offered_requests_in_order() -> None:
    store, schedule = faulty(MemoryStore(), Fault(is_put, refuse))
    schedule.add(Fault(is_put, lose_request))
    with pytest.raises(StorageRefusedError):
        store.put("a", b"")
    with pytest.raises(NoAnswerError):
        store.put("a", b"")
    schedule.add(Fault(is_put, refuse, times=None))
    schedule.clear()
    store.put("a", b"")


def test_a_delay_comes_before_the_request() -> None:
    inside = MemoryStore()
    seen: list[bytes | None] = []
    store, _ = faulty(inside, Fault(is_put, Delayed(lambda: seen.append(inside.get("a")))))
    store.put("a", b"1")
    assert seen == [None]
    assert inside.get("a") == b"1"


def test_a_late_repeat_is_played_by_the_test() -> None:
    later: list[Callable[[], Answer]] = []
    inside = MemoryStore()
    store, _ = faulty(inside, Fault(lambda _: True, DuplicatedLate(later), times=None))
    assert isinstance(store, PutIfAbsent)
    store.put("a", b"1")
    assert store.put_if_absent("b", b"1")
    inside.put("a", b"2")
    assert [play() for play in later] == [Done(), Refused()]
    assert inside.get("a") == b"1"


def test_pages_are_observed_each_at_its_own_time() -> None:
    inside = MemoryStore()
    for number in range(5):
        inside.put(f"a/{number}", b"")
    is_list = lambda request: isinstance(request, ListPage)  # noqa: E731
    store, _ = faulty(inside, Fault(is_list, SplitListing(2), times=None))
    page = store.list_page("a/")
    assert (page.keys, page.complete) == (("a/0", "a/1"), False)
    inside.delete("a/2")
    inside.put("a/9", b"")
    assert all_keys(store, "a/") == ["a/0", "a/1", "a/3", "a/4", "a/9"]


def test_a_fault_meant_for_one_request_hits_one_of_many_at_once() -> None:
    store, _ = faulty(MemoryStore(), Fault(is_put, refuse, times=3))

    def works(number: int) -> bool:
        try:
            store.put(f"{number}", b"")
        except StorageRefusedError:
            return False
        return True

    assert race([partial(works, number) for number in range(16)]).count(False) == 3
