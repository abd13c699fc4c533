"""A contract that nothing can break proves nothing: each of these must be caught by the test beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from headgate.errors import HeadgateError
from headgate.log.driver import Driver
from headgate.log.machine import Committed, Lost, Outcome
from headgate.log.strategy import CommitStrategy, strategy_named
from headgate.model.identifiers import GENESIS, TxId, Version
from headgate.storage.capabilities import Page, PutIfAbsent, Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Delete, Done, Found, Get, ListPage, Put, Request
from headgate.system.host import SystemHost
from headgate.testing.contracts import (
    PutIfAbsentContract,
    RenameNoReplaceContract,
    StoreContract,
    StrategyContract,
)
from headgate.testing.intercept import Proceed, intercepted

STORE = StoreContract()
CREATE = PutIfAbsentContract()
RENAME = RenameNoReplaceContract()


class UncheckedStore(MemoryStore):
    """Takes any key."""

    def get(self, key: str) -> bytes | None:
        return self._objects.get(key)


class RacyStore(MemoryStore):
    """Looks first and writes then, and all racers look at once."""

    def __init__(self) -> None:
        super().__init__()
        self._everybody_looked = threading.Barrier(PutIfAbsentContract.racers)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        absent = self.get(key) is None
        self._everybody_looked.wait()
        if absent:
            self.put(key, data)
        return absent


class ReplacingRename(MemoryStore):
    def rename_no_replace(self, source: str, target: str) -> bool:
        data = self.get(source)
        if data is None:
            return False
        self.put(target, data)
        self.delete(source)
        return True


def missing_is_empty(request: Request, proceed: Proceed) -> Answer:
    answer = proceed(request)
    return Found(b"") if isinstance(request, Get) and not isinstance(answer, Found) else answer


def writes_half(request: Request, proceed: Proceed) -> Answer:
    if isinstance(request, Put):
        return proceed(Put(request.key, request.data[:1_000_000]))
    return proceed(request)


def keeps_the_first(request: Request, proceed: Proceed) -> Answer:
    if isinstance(request, Put) and isinstance(proceed(Get(request.key)), Found):
        return Done()
    return proceed(request)


def deletes_below(request: Request, proceed: Proceed) -> Answer:
    if isinstance(request, Delete):
        listed = proceed(ListPage(f"{request.key}/"))
        assert isinstance(listed, Page)
        for key in listed.keys:
            proceed(Delete(key))
    return proceed(request)


def on_listing(change: Callable[[ListPage, Page], Page]) -> Callable[[Request, Proceed], Answer]:
    def interceptor(request: Request, proceed: Proceed) -> Answer:
        answer = proceed(request)
        if isinstance(request, ListPage) and isinstance(answer, Page):
            return change(request, answer)
        return answer

    return interceptor


def by_segments(_: ListPage, page: Page) -> Page:
    return Page(tuple(sorted(page.keys, key=lambda key: key.split("/"))), page.complete)


def without_the_last(_: ListPage, page: Page) -> Page:
    return Page(page.keys[:10], page.complete)


def never_complete(_: ListPage, page: Page) -> Page:
    return Page(page.keys, complete=False)


def any_prefix(request: Request, proceed: Proceed) -> Answer:
    if isinstance(request, ListPage) and request.prefix:
        answer = proceed(ListPage("", request.after))
        assert isinstance(answer, Page)
        start = request.prefix.rstrip("/")
        return Page(tuple(key for key in answer.keys if key.startswith(start)), complete=True)
    return proceed(request)


def after_is_included(request: Request, proceed: Proceed) -> Answer:
    answer = proceed(request)
    if isinstance(request, ListPage) and request.after and isinstance(answer, Page):
        whole = proceed(ListPage(request.prefix))
        assert isinstance(whole, Page)
        return Page(tuple(key for key in whole.keys if key >= (request.after or "")), complete=True)
    return answer


def ignores_the_condition(request: Request, proceed: Proceed) -> Answer:
    if isinstance(request, Create):
        return proceed(Put(request.key, request.data))
    return proceed(request)


INTERCEPTORS: list[tuple[Callable[[Request, Proceed], Answer], Callable[[Any], None]]] = [
    (missing_is_empty, STORE.test_what_is_not_there_is_none),
    (writes_half, STORE.test_a_large_object_is_whole),
    (keeps_the_first, STORE.test_put_replaces),
    (deletes_below, STORE.test_what_lies_below_a_key_is_not_the_key),
    (on_listing(by_segments), STORE.test_listings_are_in_key_order_at_every_depth),
    (on_listing(without_the_last), STORE.test_after_starts_above_a_key),
    (on_listing(never_complete), STORE.test_an_empty_listing_is_complete),
    (any_prefix, STORE.test_a_prefix_ends_at_a_segment),
    (after_is_included, STORE.test_after_starts_above_a_key),
    (ignores_the_condition, CREATE.test_the_first_creates_and_the_second_is_refused),
    (ignores_the_condition, CREATE.test_of_racing_creators_one_wins),
]


@pytest.mark.parametrize(
    ("interceptor", "test"), INTERCEPTORS, ids=lambda part: getattr(part, "__name__", str(part))
)
def test_a_broken_answer_is_caught(
    interceptor: Callable[[Request, Proceed], Answer], test: Callable[[Any], None]
) -> None:
    with pytest.raises(AssertionError):
        test(intercepted(MemoryStore(), interceptor))


@pytest.mark.parametrize(
    ("store", "test"),
    [
        (UncheckedStore(), STORE.test_keys_that_name_other_places_are_refused),
        (RacyStore(), CREATE.test_of_racing_creators_one_wins),
        (ReplacingRename(), RENAME.test_rename_never_replaces),
        (ReplacingRename(), RENAME.test_of_racing_movers_to_one_target_one_wins),
    ],
    ids=["unchecked keys", "check then put", "rename replaces", "racing renames replace"],
)
def test_a_broken_store_is_caught(store: Store, test: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        test(store)


class LastWriterWins:
    """Puts its record and says that it won."""

    def __init__(self, store: Store) -> None:
        self._honest = strategy_named("conditional", Driver(store, SystemHost()), ordered_listing=True)
        self._store = store
        self.layout = self._honest.layout

    def publish(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        self._store.put(self.layout.record_key(version), record)
        return Committed()

    def resolve(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        return self._honest.resolve(version, record, claimant)

    def read(self, version: Version) -> bytes | None:
        return self._honest.read(version)

    def head(self, at_least: Version) -> Version:
        return self._honest.head(at_least)


class ForgetsTheWinner(LastWriterWins):
    """Knows that it lost, but not to whom."""

    def publish(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        outcome = self._honest.publish(version, record, claimant)
        return Lost(b"") if isinstance(outcome, Lost) else outcome


class HeadStandsStill(ForgetsTheWinner):
    def head(self, at_least: Version) -> Version:
        return max(at_least, min(self._honest.head(GENESIS), Version(1)))


class SilenceIsRefusal(LastWriterWins):
    """Takes a lost answer for a lost race: the caller would do its work twice."""

    def publish(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        store = self._store
        assert isinstance(store, PutIfAbsent)
        try:
            won = store.put_if_absent(self.layout.record_key(version), record)
        except HeadgateError:
            return Lost(b"somebody")
        return Committed() if won else Lost(self.read(version) or b"")


CONTRACT = StrategyContract()


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (LastWriterWins, CONTRACT.test_a_loser_gets_the_record_that_won),
        (LastWriterWins, CONTRACT.test_racing_clients_agree_on_every_version),
        (ForgetsTheWinner, CONTRACT.test_a_loser_gets_the_record_that_won),
        (HeadStandsStill, CONTRACT.test_the_head_is_found_from_every_older_version),
        (SilenceIsRefusal, CONTRACT.test_a_lost_answer_can_be_settled_later),
    ],
)
def test_a_broken_strategy_is_caught(
    broken: Callable[[Store], CommitStrategy],
    test: Callable[[Store, Callable[[Store], CommitStrategy]], None],
) -> None:
    with pytest.raises(AssertionError):
        test(MemoryStore(), broken)
