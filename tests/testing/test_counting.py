"""Counting requests."""

from __future__ import annotations

from functools import partial

import pytest

from headgate.errors import StorageRefusedError
from headgate.storage.capabilities import PutIfAbsent, RenameNoReplace
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Get, Put
from headgate.testing.contracts import race
from headgate.testing.faulty import Fault, faulty, refuse
from headgate.testing.intercept import counted


def test_requests_and_bytes_are_counted_by_kind() -> None:
    store, tally = counted(MemoryStore())
    assert isinstance(store, PutIfAbsent)
    assert isinstance(store, RenameNoReplace)
    store.put("a", b"12345")
    store.put_if_absent("a", b"123")
    store.get("a")
    store.get("missing")
    store.rename_no_replace("a", "b")
    store.list_page("")
    store.delete("b")
    assert tally.counts() == {"put": 1, "create": 1, "get": 2, "rename": 1, "list": 1, "delete": 1}
    assert (tally.bytes_written, tally.bytes_read) == (8, 5)


def test_the_history_is_in_order_and_can_be_forgotten() -> None:
    store, tally = counted(MemoryStore())
    store.put("a", b"")
    store.get("a")
    assert tally.history == [Put("a", b""), Get("a")]
    tally.reset()
    assert (tally.counts(), tally.history, tally.bytes_written) == ({}, [], 0)


def test_a_request_that_failed_was_a_request() -> None:
    broken, _ = faulty(MemoryStore(), Fault(lambda _: True, refuse))
    store, tally = counted(broken)
    with pytest.raises(StorageRefusedError):
        store.put("a", b"")
    assert tally.counts() == {"put": 1}


def test_threads_do_not_lose_counts() -> None:
    store, tally = counted(MemoryStore())

    def put_many(client: int) -> None:
        for number in range(200):
            store.put(f"{client}/{number}", b"1")

    race([partial(put_many, client) for client in range(8)])
    assert tally.counts() == {"put": 1600}
    assert tally.bytes_written == 1600
