"""Who competed for a version: what `Lake.attempts` shows while attempts are there, and after clean-up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headgate as hg
from headgate.core.conflict.retry import MAX_LOST
from headgate.errors import NoAnswerError
from headgate.log.layout import TRACKER, Prepare
from headgate.log.strategy import clean_up
from headgate.model.attempts import Fate, VersionAttempts
from headgate.model.identifiers import Version
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Delete, Failed, Get, Put, Rename, Request
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, intercepted

STRATEGIES = ("conditional", "rename", "filetracker")
V1 = Version(1)


def once(store: Store, chosen: Callable[[Request], bool], first: Callable[[], object]) -> Store:
    """`store`, for a client that `first` comes before the first time that it makes such a request."""
    left = [first]

    def ask(request: Request, proceed: Proceed) -> Answer:
        if left and chosen(request):
            left.pop()()
        return proceed(request)

    return intercepted(store, ask)


def decides(request: Request) -> bool:
    prepares = isinstance(request, Put) and "/PRE_COMMIT-" in request.key
    return prepares or isinstance(request, Create | Rename)


def dying(store: Store, chosen: Callable[[Request], bool]) -> Store:
    """`store`, for a client that gets no answer from the first such request on, which still arrives."""
    dead: list[Request] = []

    def ask(request: Request, proceed: Proceed) -> Answer:
        if dead:
            return Failed(NoAnswerError("gone"))
        if chosen(request):
            dead.append(request)
            proceed(request)
            return Failed(NoAnswerError("gone"))
        return proceed(request)

    return intercepted(store, ask)


def proposes(request: Request) -> bool:
    return isinstance(request, Put) and TRACKER.holds_record(V1, request.key)


def announces(request: Request) -> bool:
    return isinstance(request, Put) and isinstance(TRACKER.entry(V1, request.key), Prepare)


def fates(found: VersionAttempts) -> list[tuple[str | None, Fate]]:
    return [(claim.transaction, claim.fate) for claim in found.claims]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_version_that_one_writer_wanted(strategy: str) -> None:
    lake = hg.Lake.init(MemoryStore(), strategy=strategy)
    txids = [lake.set_properties({"a": str(number)}).txid for number in range(15)]
    for version, txid in enumerate(txids, start=1):  # the attempts at the older ones are cleaned up
        found = lake.attempts(version)
        assert fates(found) == [(txid, Fate.WON)]
        assert (found.version, found.winner, found.strategy) == (version, txid, strategy)
        assert not found.contested


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_lost_a_version_and_committed_later(strategy: str) -> None:
    store = MemoryStore()
    other = hg.Lake.init(store, strategy=strategy)
    late = hg.Lake.open(once(store, decides, lambda: other.set_properties({"a": "1"})))
    late_txid = late.set_properties({"b": "1"}).txid
    found = other.attempts(1)
    (loser,) = [claim for claim in found.claims if claim.transaction == late_txid]
    assert (loser.fate, loser.committed_as) == (Fate.GAVE_WAY, 2)
    assert found.contested
    assert found.winner == other.log()[-1].txid
    assert other.log(limit=1)[0].record["lost"] == [1]
    assert "lost" not in other.log()[-1].record


def test_a_record_names_the_last_versions_that_it_lost() -> None:
    store = MemoryStore()
    other = hg.Lake.init(store)
    left = list(range(MAX_LOST + 3))

    def overtaken(request: Request, proceed: Proceed) -> Answer:
        if decides(request) and left:
            other.set_properties({"n": str(left.pop())})
        return proceed(request)

    late = hg.Lake.open(intercepted(store, overtaken), retry=hg.RetryPolicy(attempts=100))
    version = late.set_properties({"b": "1"}).version
    assert late.log(limit=1)[0].record["lost"] == list(range(version - MAX_LOST, version))


def completed_by_another() -> tuple[MemoryStore, str, str]:
    """A writer that dies after its proposal, and another that completes it and commits version 2."""
    store = MemoryStore()
    hg.Lake.init(store, strategy="filetracker")
    with pytest.raises(hg.CommitUnknownError) as raised:
        hg.Lake.open(dying(store, proposes)).set_properties({"dead": "1"})
    second = hg.Lake.open(store).set_properties({"b": "1"})
    assert second.version == 2
    return store, raised.value.txid, second.txid


def test_who_completed_the_record_of_a_dead_writer() -> None:
    store, dead, living = completed_by_another()
    found = hg.Lake.open(store).attempts(1)
    assert found.winner == dead
    assert {claim.transaction: claim.fate for claim in found.claims} == {
        dead: Fate.WON,
        living: Fate.COMPLETED,
    }
    # It may have given way in the sub-version before.
    (completed,) = [claim for claim in found.claims if claim.fate is Fate.COMPLETED]
    assert (completed.proposed, completed.committed_as) == (dead, 2)
    assert all(claim.client and claim.sub_version for claim in found.claims)


def test_what_attempts_say_outlives_them() -> None:
    store, *_ = completed_by_another()
    lake = hg.Lake.open(store)
    before = lake.attempts(1)
    for number in range(12):
        lake.set_properties({"n": str(number)})
    assert store.list_page(TRACKER.attempts(V1)).keys == (TRACKER.record_key(V1),)
    assert hg.Lake.open(store).attempts(1) == before


@pytest.mark.parametrize("deletes", range(3))
def test_a_clean_up_that_dies_half_way_loses_nothing(deletes: int) -> None:
    store, *_ = completed_by_another()
    lake = hg.Lake.open(store)
    lake.set_properties({"c": "1"})
    before = lake.attempts(1)
    left = list(range(deletes))

    def stops(request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Delete) and not left:
            return Failed(NoAnswerError("gone"))
        if isinstance(request, Delete):
            left.pop()
        return proceed(request)

    clean_up(Inspector(hg.Lake.open(intercepted(store, stops))).driver)
    assert lake.attempts(1) == before
    clean_up(Inspector(lake).driver)
    assert hg.Lake.open(store).attempts(1) == before


def test_attempts_that_go_while_they_are_read_are_found_in_the_archive() -> None:
    store, *_ = completed_by_another()
    lake = hg.Lake.open(store)
    lake.set_properties({"c": "1"})
    before = lake.attempts(1)

    def reads_an_attempt(request: Request) -> bool:
        return isinstance(request, Get) and isinstance(TRACKER.entry(V1, request.key), Prepare)

    reader = hg.Lake.open(once(store, reads_an_attempt, lambda: clean_up(Inspector(lake).driver)))
    assert reader.attempts(1) == before


def test_only_sub_versions_that_failed_are_marked() -> None:
    """One dies after its announcement, with the higher id or the lower; another may win its sub-version."""
    for _ in range(20):
        store = MemoryStore()
        hg.Lake.init(store, strategy="filetracker")
        with pytest.raises(hg.StorageError):
            hg.Lake.open(dying(store, announces)).set_properties({"dead": "1"})
        lake = hg.Lake.open(store)
        lake.set_properties({"b": "1"})
        found = lake.attempts(1)
        (won,) = [claim for claim in found.claims if claim.proposed == found.winner]
        assert won.sub_version not in found.failed
        assert found.failed == tuple(range(1, won.sub_version or 0))


def test_attempts_of_an_earlier_release_do_not_name_their_transaction() -> None:
    store, *_ = completed_by_another()
    for key in store.list_page(TRACKER.attempts(V1)).keys:
        if isinstance(TRACKER.entry(V1, key), Prepare):
            store.put(key, b"1")
    found = hg.Lake.open(store).attempts(1)
    assert {claim.fate for claim in found.claims if claim.client} == {Fate.UNKNOWN}


@pytest.mark.parametrize("kept", [b"{", b'{"bids": [{"client": "../x"}]}', b"[]", b'{"bids": 3}'])
def test_a_damaged_archive_is_reported(kept: bytes) -> None:
    store, *_ = completed_by_another()
    store.put(TRACKER.archive_key(V1), kept)
    with pytest.raises(hg.CorruptLakeError) as raised:
        hg.Lake.open(store).attempts(1)
    assert "you can delete control/log/archive/" in raised.value.next_step


@pytest.mark.parametrize("version", [0, 3, -1, 10**30, "1", None, True])
def test_versions_that_are_not_there(version: object) -> None:
    store, *_ = completed_by_another()
    with pytest.raises(hg.InvalidInputError):
        hg.Lake.open(store).attempts(version)  # type: ignore[arg-type]
