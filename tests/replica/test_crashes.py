"""A replication that dies anywhere, or is not alone: the next one goes on, and the replica stays whole."""

from __future__ import annotations

from functools import partial

import pytest

import headgate as hg
from headgate.errors import NotFoundError
from headgate.log.layout import RECOVERED
from headgate.steward.replica.copying import WORTH_A_LISTING
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Put, Request
from headgate.testing.contracts import race
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, counted, intercepted
from tests.replica.shop import ORDERS, assert_complete, assert_same, contents_at, objects, rows
from tests.replica.test_replicas import STRATEGIES


class Killed(BaseException):
    """The process ends here: nobody handles it."""


class Killer:
    """Ends the process at request number `at`, before or after it is carried out."""

    def __init__(self, at: int, *, after: bool) -> None:
        self._left = at
        self._after = after
        self.fired = False

    def intercept(self, request: Request, proceed: Proceed) -> Answer:
        if self.fired:
            raise Killed
        self._left -= 1
        if self._left >= 0:
            return proceed(request)
        self.fired = True
        if self._after:
            proceed(request)
        raise Killed


def shop(strategy: str) -> hg.Lake:
    lake = hg.Lake.init(MemoryStore("source"), strategy=strategy, divisor=2)
    table = lake.create_table(ORDERS, "id BIGINT, day INT, name STRING", partition_by=["day"])
    table.append(rows(1, 2))
    return lake


def more(lake: hg.Lake) -> None:
    table = lake.table(ORDERS)
    table.delete("id = 1")
    table.append(rows(3, 4, day=2))
    table.delete("id = 4")


def killed_at(source: hg.Lake, inner: Store, at: int, *, after: bool) -> bool:
    """Replicates until it is killed; False if it came to its end."""
    killer = Killer(at, after=after)
    try:
        source.replicate(intercepted(inner, killer.intercept))
    except Killed:
        return True
    return False


def assert_whole(source: hg.Lake, store: Store) -> None:
    """There is no replica yet, or one that is a whole lake at some version."""
    try:
        replica = hg.Lake.open(store)
    except NotFoundError:
        return
    version = replica.version
    assert contents_at(replica, version) == contents_at(source, version)


BOTH = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


@BOTH
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_killed_at_every_request_while_it_follows(strategy: str, after: bool) -> None:
    source, begun = shop(strategy), MemoryStore("replica")
    source.replicate(begun)
    more(source)
    sweep(source, snapshot(begun), after=after)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_killed_at_every_request_while_it_is_made(strategy: str, after: bool) -> None:
    source = shop(strategy)
    more(source)
    sweep(source, {}, after=after)


def sweep(source: hg.Lake, start: dict[str, bytes], *, after: bool) -> None:
    """Replicates to what `start` has, killed at each request in turn, and then again to the end."""
    expected = replica_from(start)
    source.replicate(expected)
    assert_same(source, hg.Lake.open(expected))
    wanted = without_leftovers(objects(hg.Lake.open(expected)))
    at, store = 0, replica_from(start)
    while killed_at(source, store, at, after=after):
        assert_whole(source, store)
        source.replicate(store)
        assert without_leftovers(objects(hg.Lake.open(store))) == wanted, at
        at, store = at + 1, replica_from(start)
    assert at > 30


def replica_from(start: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore("replica")
    for key, data in start.items():
        store.put(key, data)
    return store


def snapshot(store: MemoryStore) -> dict[str, bytes]:
    return {key: store.get(key) or b"" for key in store.list_page("").keys}


def without_leftovers(found: dict[str, bytes]) -> dict[str, bytes]:
    """Without what a rename that died has left of a record, and the mark of recovery.

    Whoever dies before it moves the mark leaves it behind; the next boundary moves it.
    """
    return {key: data for key, data in found.items() if not key.endswith(".tmp") and key != RECOVERED}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_replications_at_once_do_the_same_work(strategy: str) -> None:
    source = shop(strategy)
    for _ in range(3):
        more(source)
    inner = MemoryStore("replica")
    opened = [hg.Lake.open(Inspector(source).store) for _ in range(3)]
    race([partial(lake.replicate, inner) for lake in opened])
    assert_same(source, hg.Lake.open(inner))
    assert_complete(hg.Lake.open(inner))
    more(source)
    race([partial(lake.replicate, inner) for lake in opened])
    assert_same(source, hg.Lake.open(inner))
    assert_complete(hg.Lake.open(inner))


def test_writers_go_on_while_a_replica_follows() -> None:
    source, inner = shop("conditional"), MemoryStore("replica")

    def write() -> None:
        lake = hg.Lake.open(Inspector(source).store)
        for number in range(20):
            lake.table(ORDERS).append(rows(100 + number))

    def follow() -> None:
        lake = hg.Lake.open(Inspector(source).store)
        for _ in range(10):
            lake.replicate(inner)
            assert_whole(source, inner)

    race([write, follow])
    source.replicate(inner)
    assert_same(source, hg.Lake.open(inner))


def test_files_that_a_killed_replication_has_copied_are_not_copied_again() -> None:
    source, inner = shop("conditional"), MemoryStore("replica")
    source.replicate(inner)
    count = 4 * WORTH_A_LISTING
    with source.transaction() as tx:
        for day in range(count):
            tx.table(ORDERS).append(rows(day, day=day))
    files = [0]

    def stop(request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Put) and request.key.endswith(".avro"):
            raise Killed  # all data files are there by then
        files[0] += isinstance(request, Put) and request.key.endswith(".parquet")
        return proceed(request)

    with pytest.raises(Killed):
        source.replicate(intercepted(inner, stop))
    assert files[0] == count
    store, tally = counted(inner)
    assert source.replicate(store).files == 0
    assert not [r for r in tally.history if isinstance(r, Put) and r.key.endswith(".parquet")]
    assert_same(source, hg.Lake.open(inner))
