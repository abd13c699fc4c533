"""The lake through its public API: commits, rebase, batches, history, settling, switching."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headgate as hg
from headgate.errors import NoAnswerError, StorageRefusedError
from headgate.log.layout import IDENTITY, PLAIN, TRACKER, Accept
from headgate.model.identifiers import Version
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import (
    Create,
    Delete,
    Get,
    ListPage,
    ListSizesPage,
    ListTimesPage,
    Put,
    Rename,
    Request,
)
from headgate.testing.faulty import Fault, faulty, lose_answer, lose_request, refuse
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import without_atomic_operations
from headgate.transaction.conflicts import TransactionConflictError

STRATEGIES = ("conditional", "rename", "filetracker")


@pytest.fixture(params=STRATEGIES)
def lake(request: pytest.FixtureRequest) -> hg.Lake:
    return hg.Lake.init(MemoryStore(), strategy=request.param)


def other_handle(lake: hg.Lake) -> hg.Lake:
    return hg.Lake.open(Inspector(lake).store)


def test_a_new_lake_is_empty(lake: hg.Lake) -> None:
    assert lake.version == 0
    assert lake.log() == ()
    assert dict(lake.properties) == {}
    assert other_handle(lake).id == lake.id


def test_commits_are_numbered_and_seen_by_other_handles(lake: hg.Lake) -> None:
    other = other_handle(lake)
    assert [lake.set_properties({"n": str(number)}).version for number in range(1, 26)] == list(range(1, 26))
    assert other.version == 25
    assert other.properties["n"] == "25"
    assert [entry.version for entry in other.log(limit=3)] == [25, 24, 23]
    assert [entry.version for entry in other.log(before=4)] == [3, 2, 1]


def test_every_old_version_can_be_read(lake: hg.Lake) -> None:
    for number in range(1, 34):
        lake.set_properties({"n": str(number)})
    fresh = other_handle(lake)
    for number in range(1, 34):
        assert fresh.at(number).properties["n"] == str(number)
    assert dict(fresh.at(0).properties) == {}


def test_a_version_that_does_not_exist_names_the_newest(lake: hg.Lake) -> None:
    lake.set_properties({"a": "1"})
    with pytest.raises(hg.NotFoundError, match="the newest is 1"):
        lake.at(2)
    with pytest.raises(hg.InvalidInputError):
        lake.at(-1)


def test_a_transaction_is_one_version(lake: hg.Lake) -> None:
    with lake.transaction(["nightly"], properties={"ticket": "42"}) as tx:
        tx.set_properties({"a": "1", "b": "2"})
        tx.remove_properties("a")
    (entry,) = lake.log()
    assert tx.result.version == entry.version == 1
    assert entry.args == ("nightly",)
    assert dict(entry.properties) == {"ticket": "42"}
    assert dict(lake.properties) == {"b": "2"}


def test_an_exception_in_the_block_leaves_nothing(lake: hg.Lake) -> None:
    tx = lake.transaction()

    def fail() -> None:
        with tx:
            tx.set_properties({"a": "1"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert lake.version == 0
    with pytest.raises(hg.InvalidInputError, match="aborted"):
        tx.commit()


def test_an_empty_transaction_is_refused(lake: hg.Lake) -> None:
    with pytest.raises(hg.InvalidInputError, match="nothing to commit"), lake.transaction():
        pass
    assert lake.version == 0


def test_other_writers_are_rebased_over(lake: hg.Lake) -> None:
    tx = lake.transaction()
    tx.set_properties({"mine": "1"})
    for number in range(15):
        other_handle(lake).set_properties({f"theirs-{number}": "1"})
    result = tx.commit()
    assert result.version == 16
    assert result.attempts > 1
    assert lake.properties["mine"] == "1"


def test_a_conflict_names_the_other_commit_and_changes_nothing(lake: hg.Lake) -> None:
    tx = lake.transaction()
    tx.set_properties({"shared": "mine"})
    other_handle(lake).set_properties({"shared": "theirs"})
    with pytest.raises(TransactionConflictError) as caught:
        tx.commit()
    assert "version 1" in caught.value.problem
    assert "shared" in caught.value.problem
    assert lake.properties["shared"] == "theirs"
    assert lake.version == 1


def test_a_single_operation_is_run_again_after_a_conflict(lake: hg.Lake) -> None:
    stale = other_handle(lake)
    lake.set_properties({"shared": "first"})
    assert stale.set_properties({"shared": "second"}).version == 2
    assert lake.properties["shared"] == "second"


def test_a_batch_is_committed_once(lake: hg.Lake) -> None:
    def load(handle: hg.Lake, batch: int) -> hg.CommitResult:
        with handle.transaction(app=("loader", batch)) as tx:
            tx.set_properties({"batch": str(batch)})
        return tx.result

    stale = other_handle(lake)
    assert load(lake, 1).version == 1
    assert load(lake, 2).version == 2
    for handle in (lake, stale):
        again = load(handle, 2)
        assert again.already_committed
        assert again.version == 2
        assert load(handle, 1).already_committed
    assert lake.version == 2
    assert not load(stale, 3).already_committed


def test_a_batch_that_lost_its_version_to_itself_is_not_doubled(lake: hg.Lake) -> None:
    one, two = (lake.transaction(app=("loader", 1)) for _ in range(2))
    for tx in (one, two):
        tx.set_properties({"a": tx.txid})
    assert one.commit().version == 1
    assert two.commit().already_committed
    assert lake.version == 1


def test_a_lake_can_change_its_strategy_while_handles_are_open() -> None:
    lake = hg.Lake.init(MemoryStore())
    others = [other_handle(lake) for _ in STRATEGIES]
    for round_ in range(3):
        for strategy, other in zip(("rename", "filetracker", "conditional"), others, strict=True):
            lake.change_strategy(strategy)
            assert lake.strategy == strategy
            other.set_properties({f"{strategy}-{round_}": "1"})
            lake.set_properties({f"mine-{strategy}-{round_}": "1"})
    assert lake.version == 27
    fresh = other_handle(lake)
    assert len(fresh.log()) == 27
    assert fresh.at(13).version == 13
    assert fresh.properties == lake.properties


def test_switching_to_an_unsafe_strategy_is_refused() -> None:
    lake = hg.Lake.init(without_atomic_operations(MemoryStore()))
    assert lake.strategy == "filetracker"
    with pytest.raises(hg.UnsupportedError, match="conditional is unsafe"):
        lake.change_strategy("conditional")
    with pytest.raises(hg.InvalidInputError, match="already"):
        lake.change_strategy("filetracker")
    assert lake.version == 0


def test_sixteen_threads_never_see_a_conflict(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path, strategy="conditional")

    def work(writer: int) -> list[int]:
        handle = lake if writer % 2 else hg.Lake.open(tmp_path)
        return [handle.set_properties({f"{writer}.{number}": "x"}).version for number in range(25)]

    with ThreadPoolExecutor(16) as pool:
        versions = sorted(version for told in pool.map(work, range(16)) for version in told)
    assert versions == list(range(1, 401))
    assert len(lake.properties) == 400


# --- what goes wrong ---------------------------------------------------------------------------------------


def committing(strategy: str) -> tuple[Store, hg.Lake]:
    store = MemoryStore()
    return store, hg.Lake.init(store, strategy=strategy)


def is_log_request(request: Request) -> bool:
    match request:
        case ListPage(prefix) | ListSizesPage(prefix) | ListTimesPage(prefix):
            return prefix.startswith("control/log/")
        case Rename(target=key) | Get(key) | Put(key) | Create(key) | Delete(key):
            return key.startswith("control/log/")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("action", [lose_answer, lose_request, refuse])
@pytest.mark.parametrize("position", range(8))
@pytest.mark.parametrize("times", [1, 5, None])
def test_a_fault_at_any_request_leaves_the_commit_done_once_or_not_at_all(
    strategy: str, action: object, position: int, times: int | None
) -> None:
    store, _ = committing(strategy)
    bad, schedule = faulty(store)
    tx = hg.Lake.open(bad).transaction(["x"])
    tx.set_properties({"a": tx.txid})
    schedule.add(Fault(is_log_request, action, skip=position, times=times))  # type: ignore[arg-type]
    try:
        told: int | None = tx.commit().version
    except hg.StorageError:
        told = None
    except hg.CommitUnknownError:
        # The storage is well again: the same transaction finds out, and never commits twice.
        schedule.clear()
        told = tx.commit().version
    lake = hg.Lake.open(store)
    versions = [entry.version for entry in lake.log() if entry.txid == tx.txid]
    # Whoever comes next must not complete what was told to have failed.
    lake.set_properties({"later": "1"})
    after = [entry.version for entry in lake.log() if entry.txid == tx.txid]
    assert versions == after == ([] if told is None else [told])


class GoneAfterTheDecision:
    """A storage that is gone from the decisive request for version 1 on; that one arrives or not."""

    def __init__(self) -> None:
        self._gone = False

    def decisive(self, request: Request) -> bool:
        proposes = isinstance(request, Put) and isinstance(TRACKER.entry(Version(1), request.key), Accept)
        self._gone = self._gone or proposes or isinstance(request, Create | Rename)
        return self._gone

    def gone(self, request: Request) -> bool:
        return self._gone


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_can_be_settled_from_elsewhere(strategy: str, landed: bool) -> None:
    store, healthy = committing(strategy)
    bad, schedule = faulty(store)
    tx = hg.Lake.open(bad).transaction()
    tx.set_properties({"a": "1"})
    trouble = GoneAfterTheDecision()
    schedule.add(Fault(trouble.decisive, lose_answer if landed else lose_request))
    schedule.add(Fault(trouble.gone, lose_request, times=None))
    with pytest.raises(hg.CommitUnknownError) as caught:
        tx.commit()
    resolution = healthy.resolve(caught.value.txid)
    assert resolution.committed == landed
    assert [entry.version for entry in healthy.log() if entry.txid == tx.txid] == [1] * landed
    schedule.clear()
    if landed:
        assert tx.commit().version == resolution.version == 1
    else:
        with pytest.raises(hg.ConflictError, match="cancels this transaction"):
            tx.commit()
    assert healthy.resolve(tx.txid).version == resolution.version


def test_resolving_a_sleeping_writer_stops_it(lake: hg.Lake) -> None:
    tx = other_handle(lake).transaction()
    tx.set_properties({"a": "1"})
    assert not lake.resolve(tx.txid).committed
    with pytest.raises(hg.ConflictError, match="cancels"):
        tx.commit()
    assert "a" not in lake.properties


def test_resolve_wants_a_transaction_id(lake: hg.Lake) -> None:
    with pytest.raises(hg.InvalidInputError, match="not a transaction id"):
        lake.resolve("tx-1")


def test_racing_inits_make_one_lake(tmp_path: Path) -> None:
    def make(strategy: str) -> str | None:
        try:
            return hg.Lake.init(tmp_path, strategy=strategy).id
        except hg.AlreadyExistsError:
            return None

    with ThreadPoolExecutor(6) as pool:
        made = [lake_id for lake_id in pool.map(make, STRATEGIES * 2) if lake_id is not None]
    assert made == [hg.Lake.open(tmp_path).id]


def test_init_on_a_lake_changes_nothing(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path)
    lake.set_properties({"a": "1"})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(hg.AlreadyExistsError, match=lake.id):
        hg.Lake.init(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_an_init_that_died_after_the_decision_left_a_lake() -> None:
    store = MemoryStore()
    bad, _ = faulty(
        store,
        Fault(lambda request: isinstance(request, Put | Create) and request.key == IDENTITY, refuse, times=2),
    )
    with pytest.raises(StorageRefusedError):
        hg.Lake.init(bad)
    lake = hg.Lake.open(store)
    assert lake.set_properties({"a": "1"}).version == 1
    with pytest.raises(hg.AlreadyExistsError):
        hg.Lake.init(store)


def test_there_is_no_lake() -> None:
    with pytest.raises(hg.NotFoundError, match="there is no lake"):
        hg.Lake.open(MemoryStore())


@pytest.mark.parametrize("divisor", [1, 0, -3, 1001, "10", True])
def test_a_divisor_that_cannot_work_is_refused(divisor: int) -> None:
    store = MemoryStore()
    with pytest.raises(hg.InvalidInputError, match="divisor"):
        hg.Lake.init(store, divisor=divisor)
    assert store.list_page("").keys == ()


@pytest.mark.parametrize(
    "bad",
    [{"a": 1}, {"": "x"}, {1: "x"}, {"a": "\ud800"}, {"\udfff": "a"}, ["a"], None],
)
def test_properties_must_be_texts(lake: hg.Lake, bad: object) -> None:
    with pytest.raises(hg.InvalidInputError):
        lake.set_properties(bad)  # type: ignore[arg-type]
    assert lake.version == 0


@pytest.mark.parametrize("app", [("x", -1), ("", 1), ("x",), "x", ("x", 1.5), ("x", True)])
def test_a_batch_needs_a_name_and_a_number(lake: hg.Lake, app: object) -> None:
    with pytest.raises(hg.InvalidInputError, match="app must be"):
        lake.transaction(app=app)  # type: ignore[arg-type]


def test_secrets_do_not_reach_the_log(lake: hg.Lake) -> None:
    with lake.transaction(["load", "--password", "hunter2"], properties={"url": "s3://k:hunter2@b/x"}) as tx:
        tx.set_properties({"a": "1"})
    assert "hunter2" not in json.dumps(lake.log()[0].record)


# --- damage ------------------------------------------------------------------------------------------------


def plain_lake(commits: int) -> tuple[MemoryStore, hg.Lake]:
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy="conditional")
    for number in range(commits):
        lake.set_properties({"n": str(number)})
    return store, lake


def test_a_record_that_is_not_json_is_named() -> None:
    store, _ = plain_lake(3)
    store.put(PLAIN.record_key(Version(2)), b"oops")
    with pytest.raises(hg.CorruptLakeError, match=r"version 2 \(control/log/.*2.json\) is not JSON"):
        hg.Lake.open(store)


def test_an_edited_record_is_noticed_by_the_next_one() -> None:
    store, _ = plain_lake(3)
    key = PLAIN.record_key(Version(2))
    fields = json.loads(store.get(key) or b"")
    fields["command"]["user"] = "somebody else"
    store.put(key, json.dumps(fields).encode())
    with pytest.raises(hg.CorruptLakeError, match="version 3"):
        hg.Lake.open(store)


def test_an_edited_old_record_is_noticed_by_the_log() -> None:
    store, lake = plain_lake(14)
    key = PLAIN.record_key(Version(4))
    store.put(key, (store.get(key) or b"").replace(b'"n":"3"', b'"n":"9"'))
    fresh = hg.Lake.open(store)  # reads from the checkpoint on
    with pytest.raises(hg.CorruptLakeError, match=r"version 4 .*version 5"):
        fresh.log()
    del lake


def test_a_lost_record_below_the_head_is_named() -> None:
    store, _ = plain_lake(14)
    store.delete(PLAIN.record_key(Version(3)))
    with pytest.raises(hg.CorruptLakeError, match=r"version 3 .* is gone"):
        hg.Lake.open(store).log()


def test_a_hole_in_the_log_is_not_taken_for_its_end() -> None:
    store, _ = plain_lake(18)
    store.delete(PLAIN.record_key(Version(15)))
    with pytest.raises(hg.CorruptLakeError, match=r"version 15 .* is gone, although later versions exist"):
        hg.Lake.open(store)


def test_resolve_finds_the_oldest_commit_and_changes_nothing() -> None:
    _, lake = plain_lake(3)
    assert lake.resolve(lake.log()[-1].txid).version == 1
    assert lake.version == 3


def test_damaged_checkpoints_cost_reading_and_nothing_else() -> None:
    store, _ = plain_lake(25)
    newest = "control/checkpoint/" + Version(20).padded() + ".json"
    for damage in (b"", b"{}", b"oops", (store.get(newest) or b"").replace(b'"n":"19"', b'"n":"18"')):
        store.put(newest, damage)
        assert hg.Lake.open(store).properties["n"] == "24"
    store.put("control/checkpoint/last.json", b"oops")
    assert hg.Lake.open(store).version == 25
    for key in store.list_page("control/checkpoint/").keys:
        store.delete(key)
    lake = hg.Lake.open(store)
    assert lake.version == 25
    assert lake.at(17).properties["n"] == "16"
    # The next writer makes up for it.
    lake.set_properties({"n": "25"})
    assert newest in store.list_page("control/checkpoint/").keys


def test_a_checkpoint_that_cannot_be_written_is_postponed_and_made_up_for() -> None:
    store, _ = plain_lake(9)
    bad, schedule = faulty(store)
    lake = hg.Lake.open(bad)
    schedule.add(Fault(lambda request: "checkpoint" in getattr(request, "key", ""), refuse, times=None))
    result = lake.set_properties({"n": "10"})
    assert result.version == 10
    assert result.postponed[0].startswith("checkpoint and clean-up:")
    assert store.list_page("control/checkpoint/").keys == ()
    other = hg.Lake.open(store)
    assert other.set_properties({"later": "1"}).postponed == ()
    assert len(store.list_page("control/checkpoint/").keys) == 2


def test_an_unknown_strategy_in_the_log_is_refused_for_writing_and_for_the_head() -> None:
    store, lake = plain_lake(1)
    key = PLAIN.record_key(Version(1))
    store.put(
        key, (store.get(key) or b"").replace(b'"next_strategy":"conditional"', b'"next_strategy":"psychic"')
    )
    with pytest.raises(hg.UnsupportedError, match="psychic"):
        hg.Lake.open(store)
    del lake


def test_storage_that_never_answers_ends_in_an_error() -> None:
    store, _ = plain_lake(1)
    bad, _ = faulty(store, Fault(lambda request: isinstance(request, Get), lose_request, times=None))
    with pytest.raises(NoAnswerError):
        hg.Lake.open(bad)
    silent, _ = faulty(store, Fault(lambda request: isinstance(request, Create), refuse, times=None))
    lake = hg.Lake.open(silent)
    with pytest.raises(StorageRefusedError):
        lake.set_properties({"a": "1"})
    assert lake.version == 1
