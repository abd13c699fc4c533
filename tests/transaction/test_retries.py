"""How long a commit waits for other writers, and what it says when the time is over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest

import headgate as hg
from headgate.core.conflict.retry import RetryPolicy
from headgate.errors import NoAnswerError, StorageRefusedError
from headgate.log.driver import Driver, Waiting
from headgate.log.layout import TRACKER, Accept, Ballot
from headgate.log.machine import ContestedError
from headgate.log.strategy import strategy_named
from headgate.model.identifiers import TxId, Version
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import (
    Answer,
    Create,
    Failed,
    Get,
    ListPage,
    Missing,
    Put,
    Refused,
    Rename,
    Request,
)
from headgate.system.host import SystemHost
from headgate.testing.faulty import Delayed, Fault, faulty, lose_request
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, intercepted

STRATEGIES = ("conditional", "rename", "filetracker")


class PatientHost(SystemHost):
    """A clock that moves when somebody sleeps, and a little whenever it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self._time = 0.0
        self.slept: list[float] = []

    def elapsed(self) -> float:
        self._time += 0.000_001
        return self._time

    def sleep(self, seconds: float) -> None:
        self._time += seconds
        self.slept.append(seconds)


def patience(seconds: float, attempts: int = 8) -> RetryPolicy:
    return RetryPolicy(attempts=attempts, total=timedelta(seconds=seconds))


def decides(request: Request) -> bool:
    prepares = isinstance(request, Put) and "/PRE_COMMIT-" in request.key
    return prepares or isinstance(request, Create | Rename)


def always_late(store: Store, overtake: Callable[[], object]) -> Store:
    """`store`, for a client that `overtake` comes before whenever it tries to decide a version."""

    def late(request: Request, proceed: Proceed) -> Answer:
        if decides(request):
            overtake()
        return proceed(request)

    return intercepted(store, late)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_first_try_is_made_without_any_patience(strategy: str) -> None:
    store = MemoryStore()
    hg.Lake.init(store, strategy=strategy)
    lake = hg.Lake.open(store, retry=patience(0), host=PatientHost())
    assert lake.set_properties({"a": "1"}).attempts == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seconds", [0, 10])
def test_losing_again_and_again_ends_when_the_time_is_over(strategy: str, seconds: float) -> None:
    store = MemoryStore()
    other = hg.Lake.init(store, strategy=strategy)
    numbers = count()
    busy = always_late(store, lambda: other.set_properties({f"other-{next(numbers)}": "1"}))
    host = PatientHost()
    tx = hg.Lake.open(busy, retry=patience(seconds), host=host).transaction()
    tx.set_properties({"a": "1"})
    with pytest.raises(hg.ConflictError) as raised:
        tx.commit()
    tried = tx.effort.attempts
    assert f"gave up after {tried} attempt" in raised.value.problem
    assert (tried == 1) == (seconds == 0)
    assert sum(host.slept) <= seconds
    assert "a" not in other.properties


class ListeningHost(PatientHost):
    """Draws long waits, and tells when somebody sleeps."""

    def __init__(self, on_sleep: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._on_sleep = on_sleep

    def chance(self) -> float:
        return 0.99

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._on_sleep()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("going_on", [False, True], ids=["others are gone", "others go on"])
def test_a_wait_ends_when_the_others_have_gone(strategy: str, going_on: bool) -> None:
    store = MemoryStore()
    other = hg.Lake.init(store, strategy=strategy)
    numbers = count()
    losses = 12
    waits: list[int] = []  # how often somebody had slept when we were overtaken

    def commit() -> None:
        other.set_properties({f"other-{next(numbers)}": "1"})

    def overtake() -> None:
        if len(waits) < losses:
            waits.append(len(host.slept))
            commit()

    host = ListeningHost(commit if going_on else lambda: None)
    lake = hg.Lake.open(always_late(store, overtake), retry=patience(60), host=host)
    assert lake.set_properties({"a": "1"}).attempts == losses + 1
    last = sum(host.slept[waits[-1] :])
    longest = RetryPolicy().cap.total_seconds()
    # The wait that was drawn is nearly the longest one; without anybody to wait for, it ends at once.
    assert (0.9 * longest < last <= longest) if going_on else (0 < last < 0.05 * longest)


def test_a_look_that_fails_while_it_waits_ends_no_commit() -> None:
    store = MemoryStore()
    other = hg.Lake.init(store)
    waits: list[int] = []  # how often somebody had slept when we were overtaken
    failed: list[Request] = []

    def overtake() -> None:
        if len(waits) < 12:
            waits.append(len(host.slept))
            other.set_properties({f"other-{len(waits)}": "1"})

    def failing(request: Request, proceed: Proceed) -> Answer:
        in_last_wait = len(waits) == 12 and len(host.slept) > waits[-1]
        if isinstance(request, Get) and in_last_wait and not failed:
            failed.append(request)
            return Failed(NoAnswerError("no answer"))
        return proceed(request)

    host = ListeningHost()
    busy = intercepted(always_late(store, overtake), failing)
    lake = hg.Lake.open(busy, retry=patience(60), host=host)
    assert lake.set_properties({"a": "1"}).attempts == 13
    assert failed


class Rival:
    """Somebody with a higher ballot, announced before each scan, or each one after our proposal."""

    def __init__(self, store: Store, after_our_proposal: bool) -> None:
        self._store = store
        self._rounds = count(1)
        self._waits_for_proposal = after_our_proposal

    def intercept(self, request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Put) and isinstance(TRACKER.entry(Version(1), request.key), Accept):
            self._waits_for_proposal = False
        if isinstance(request, ListPage) and not self._waits_for_proposal:
            ballot = Ballot(next(self._rounds) * 10, TxId("f" * 32))
            self._store.put(TRACKER.prepare_key(Version(1), ballot), b"")
        return proceed(request)


def contested_transaction(after_our_proposal: bool) -> tuple[Store, PatientHost, hg.Transaction]:
    store, host = MemoryStore(), PatientHost()
    hg.Lake.init(store, strategy="filetracker")
    rival = Rival(store, after_our_proposal)
    lake = hg.Lake.open(intercepted(store, rival.intercept), retry=patience(3), host=host)
    tx = lake.transaction()
    tx.set_properties({"a": "1"})
    return store, host, tx


def test_rounds_of_filetracker_end_when_the_time_is_over() -> None:
    store, host, tx = contested_transaction(after_our_proposal=False)
    with pytest.raises(hg.ConflictError, match=r"gave up after 1 attempt: .* nothing has changed") as raised:
        tx.commit()
    assert isinstance(raised.value.__cause__, ContestedError)
    assert len(host.slept) > 1
    assert sum(host.slept) <= 3
    # Whoever comes next completes nothing of ours.
    lake = hg.Lake.open(store)
    lake.set_properties({"later": "1"})
    assert tx.txid not in {entry.txid for entry in lake.log()}


def test_a_record_that_was_proposed_when_the_time_ended_is_not_settled() -> None:
    store, host, tx = contested_transaction(after_our_proposal=True)
    with pytest.raises(hg.CommitUnknownError, match="after 1 attempt: the retry budget is spent") as raised:
        tx.commit()
    assert isinstance(raised.value.__cause__, ContestedError)
    assert sum(host.slept) <= 3
    resolution = hg.Lake.open(store).resolve(tx.txid)
    assert [entry.version for entry in hg.Lake.open(store).log() if entry.txid == tx.txid] == [
        version for version in (resolution.version,) if version is not None
    ]


def test_a_batch_that_was_lost_to_itself_when_the_time_ended_is_found() -> None:
    store = MemoryStore()
    other = hg.Lake.init(store, strategy="conditional")

    def load(lake: hg.Lake) -> hg.Transaction:
        with lake.transaction(app=("loader", 1), retry=patience(0)) as tx:
            tx.set_properties({"a": "1"})
        return tx

    assert load(hg.Lake.open(always_late(store, lambda: load(other)))).result.already_committed


def test_all_runs_of_an_operation_share_one_patience() -> None:
    store, host = MemoryStore(), PatientHost()
    other = hg.Lake.init(store, strategy="conditional")
    numbers = count()
    busy = always_late(store, lambda: other.set_properties({"shared": str(next(numbers))}))
    lake = hg.Lake.open(busy, retry=patience(5, attempts=1000), host=host)
    with pytest.raises(hg.ConflictError, match=r"gave up after \d+ runs with \d+ attempts") as raised:
        lake.set_properties({"shared": "ours"})
    assert "shared" in raised.value.problem
    assert len(host.slept) > 2
    assert sum(host.slept) <= 5


def test_the_runs_of_an_operation_are_bounded_too() -> None:
    store = MemoryStore()
    other = hg.Lake.init(store, strategy="conditional")
    numbers = count()
    busy = always_late(store, lambda: other.set_properties({"shared": str(next(numbers))}))
    lake = hg.Lake.open(busy, retry=patience(1000, attempts=3), host=PatientHost())
    with pytest.raises(hg.ConflictError, match="gave up after 3 runs with 3 attempts"):
        lake.set_properties({"shared": "ours"})


def test_a_turn_that_does_not_come_in_time_is_done_without() -> None:
    """Another thread of the handle is held inside its commit for longer than we may wait."""
    inner = MemoryStore()
    hg.Lake.init(inner, strategy="conditional")
    store, schedule = faulty(inner)
    lake = hg.Lake.open(store)
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        done.wait()

    schedule.add(Fault(decides, Delayed(hold)))
    thread = threading.Thread(target=lake.set_properties, args=({"slow": "1"},))
    thread.start()
    inside.wait()
    with lake.transaction(retry=patience(0)) as tx:
        tx.set_properties({"fast": "1"})
    done.set()
    thread.join()
    assert tx.result.version == 1
    assert dict(lake.properties) == {"fast": "1", "slow": "1"}


# --- what storage did ------------------------------------------------------------------------------------


def told_missing(request: Request, proceed: Proceed) -> Answer:
    """As S3 does while two conditional writes of an object are under way: 409, and nothing to read yet."""
    del proceed
    return Missing() if isinstance(request, Get) else Refused()


@pytest.mark.parametrize("strategy", ["conditional", "rename"])
@pytest.mark.parametrize("action", [told_missing, lose_request])
def test_a_record_is_offered_again_after_pauses_that_grow(
    strategy: str, action: Callable[..., Answer]
) -> None:
    store, host = MemoryStore(), PatientHost()
    host.chance = lambda: 0.5  # type: ignore[method-assign]
    policy = RetryPolicy(base=timedelta(seconds=1), cap=timedelta(seconds=60))

    def trouble(request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Create | Rename):
            return action(request, proceed)
        return proceed(request)

    driver = Driver(intercepted(store, trouble), host, Waiting(policy))
    claim = strategy_named(strategy, driver, ordered_listing=True)
    outcome = claim.publish(Version(1), b"ours", TxId("a" * 32))
    assert isinstance(outcome.error, NoAnswerError)  # type: ignore[union-attr]
    assert host.slept == [0.5, 1.0, 2.0]


def no_space(request: Request, proceed: Proceed) -> Answer:
    del request, proceed
    return Failed(StorageRefusedError("No space left on device"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_unknown_outcome_names_its_cause(strategy: str) -> None:
    store = MemoryStore()
    hg.Lake.init(store, strategy=strategy)
    bad, schedule = faulty(store)
    tx = hg.Lake.open(bad, host=PatientHost()).transaction()
    tx.set_properties({"a": "1"})
    # The record may have been decided, or proposed; then the disk is full, or the service is gone.
    if strategy == "filetracker":
        schedule.add(
            Fault(lambda request: "COMMIT-HINT" in getattr(request, "key", ""), no_space, times=None)
        )
    else:
        schedule.add(Fault(lambda request: isinstance(request, Create | Rename), lose_request))
        schedule.add(Fault(lambda request: isinstance(request, Get), no_space, times=None))
    cause = "No space left on device" if strategy == "filetracker" else "injected: no answer"
    with pytest.raises(hg.CommitUnknownError, match=cause) as raised:
        tx.commit()
    assert raised.value.__cause__ is not None
    assert cause in str(raised.value.__cause__)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_disk_that_is_full_in_the_middle_leaves_no_doubt(strategy: str) -> None:
    """Every write of a commit up to the one that decides, refused in turn."""
    writes = {"conditional": 1, "rename": 2, "filetracker": 2}[strategy]
    for skip in range(writes):
        store = MemoryStore()
        hg.Lake.init(store, strategy=strategy)
        bad, schedule = faulty(store)
        lake = hg.Lake.open(bad, host=PatientHost())
        schedule.add(Fault(lambda request: isinstance(request, Put | Create | Rename), no_space, skip=skip))
        with pytest.raises(StorageRefusedError, match="No space left on device"):
            lake.set_properties({"a": "1"})
        assert hg.Lake.open(store).version == 0
        assert lake.set_properties({"a": "2"}).version == 1
        assert [entry.lake_properties for entry in lake.log()] == [{"a": "2"}]


def test_a_request_without_an_answer_is_not_repeated_above_the_store() -> None:
    """The store's own client repeats; repeating its repeats would multiply the time that a dead one takes."""
    store = MemoryStore()
    hg.Lake.init(store)
    asked: list[Request] = []

    def silent(request: Request, proceed: Proceed) -> Answer:
        asked.append(request)
        return lose_request(request, proceed)

    with pytest.raises(NoAnswerError):
        hg.Lake.open(intercepted(store, silent))
    assert len(asked) == 1


def test_a_service_that_hangs_is_tried_out_once() -> None:
    host = PatientHost()

    def hang(request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Put):
            host.sleep(30)
            return lose_request(request, proceed)
        return proceed(request)

    with pytest.raises(NoAnswerError):
        hg.Lake.init(intercepted(MemoryStore(), hang), host=host)
    assert host.slept == [30]


# --- batches -----------------------------------------------------------------------------------------------


def test_a_repeated_batch_is_told_what_the_lake_remembers() -> None:
    lake = hg.Lake.init(MemoryStore())

    def load(batch: int) -> hg.CommitResult:
        with lake.transaction(app=("loader", batch)) as tx:
            tx.set_properties({"loaded": str(batch)})
        return tx.result

    first, second = load(1), load(2)
    lake.set_properties({"else": "1"})
    assert (first.already_committed, first.newest_batch) == (False, None)
    newest, older = load(2), load(1)
    for again in (newest, older):
        assert again.already_committed
        assert (again.version, again.newest_batch) == (second.version, 2)
        assert again.txid not in {entry.txid for entry in lake.log()}
    assert lake.version == 3


# --- what a handle has seen --------------------------------------------------------------------------------


def test_an_attempt_is_never_made_below_what_the_handle_has_seen() -> None:
    """Also when the records in between are no longer kept: an attempt there is lost before it begins."""
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy="conditional")
    tx = lake.transaction()
    tx.set_properties({"a": "1"})
    other = hg.Lake.open(store)
    for number in range(12):
        other.set_properties({f"other-{number}": "1"})
    assert lake.version == 12
    Inspector(lake).handle.log._memory.recent.clear()
    assert tx.commit().attempts == 1
