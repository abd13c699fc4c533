"""The timeline: who announces what, who is heard of, who is ignored, and what is told early."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.core.conflict.detection import Incompatible, Retryable
from headgate.errors import StorageRefusedError
from headgate.log.layout import TIMELINE, announced_txid
from headgate.model.announcement import MISSED_HEARTBEATS, Announcement, Intent
from headgate.model.identifiers import TxId
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Delete, Failed, Put, Request, all_keys
from headgate.system.host import SystemHost
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, intercepted
from headgate.testing.stage import CALM, Actor, Stage, StageHost
from headgate.transaction.changes import TableChange
from headgate.transaction.conflicts import PendingConflictError
from tests.examples import examples

BEAT = timedelta(seconds=1)


def rows(*parts: int) -> pa.Table:
    return pa.table({"part": pa.array(parts, pa.int32()), "id": pa.array(parts, pa.int64())})


def new_lake(store: Store | None = None, **properties: str) -> tuple[hg.Lake, hg.Table]:
    lake = hg.Lake.init(store or MemoryStore())
    table = lake.create_table("a.b", "part INT, id BIGINT", partition_by=["part"])
    table.append(rows(1, 2))
    if properties:
        lake.set_properties(properties)
    return lake, table


def announced(store: Store) -> list[Announcement]:
    found = []
    for key in all_keys(store, TIMELINE):
        txid, data = announced_txid(key), store.get(key)
        assert txid is not None and data is not None
        found.append(Announcement.decode(data, txid, key))
    return found


def files(table: hg.Table, part: int) -> list[str]:
    return [file.path for file in table.files() if file.partition == {"part": part}]


# --- announcing ---------------------------------------------------------------------------------------------


def test_an_overwrite_says_what_it_is_about_until_it_is_committed() -> None:
    store = MemoryStore()
    lake, table = new_lake(store)
    with lake.transaction() as tx:
        tx.table("a.b").overwrite(rows(1), where="part = 1")
        (one,) = announced(store)
        assert (one.txid.text, one.base.number) == (tx.txid, 2)
        (intent,) = one.intents
        assert (intent.kind, intent.name, intent.paths) == ("overwrite", "a.b", frozenset({"/a/b/part=1"}))
        assert intent.files is not None and len(intent.files) == len(files(table, 1))
        (running, *_) = lake.timeline()
        assert (running.state, running.txid, running.tables) == ("inflight", tx.txid, ("a.b",))
        assert running.heartbeat_age_seconds is not None
    assert announced(store) == []
    assert tx.result.postponed == ()


def test_appends_structure_and_properties_say_nothing() -> None:
    store = MemoryStore()
    lake, _ = new_lake(store)
    with lake.transaction() as tx:
        tx.table("a.b").append(rows(3))
        tx.table("a.b").add_column("x", "INT")
        tx.set_properties({"a": "1"})
        tx.create_table("a.c", "id BIGINT").overwrite(pa.table({"id": [1]}))
        assert announced(store) == []


@pytest.mark.parametrize("how", ["abort", "error", "conflict"])
def test_an_announcement_goes_with_its_transaction(how: str) -> None:
    store = MemoryStore()
    lake, table = new_lake(store)
    tx = lake.transaction()
    tx.table("a.b").overwrite(rows(1), where="part = 1")
    if how == "abort":
        tx.abort()
    elif how == "error":
        with pytest.raises(RuntimeError), tx:
            raise RuntimeError
    else:
        table.overwrite(rows(1), where="part = 1")
        with pytest.raises(hg.ConflictError):
            tx.commit()
    assert announced(store) == []


def refusing(store: Store, kind: type[Put | Delete]) -> Store:
    def refuse(request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, kind) and request.key.startswith(TIMELINE):
            return Failed(StorageRefusedError("refused (test)"))
        return proceed(request)

    return intercepted(store, refuse)


@pytest.mark.parametrize(("kind", "what"), [(Put, "announcing"), (Delete, "removing the announcement")])
def test_a_storage_that_refuses_announcements_does_not_stop_the_commit(
    kind: type[Put | Delete], what: str
) -> None:
    store = MemoryStore()
    new_lake(store)
    table = hg.Lake.open(refusing(store, kind)).table("a.b")
    result = table.overwrite(rows(1), where="part = 1")
    (postponed,) = result.postponed
    assert postponed.startswith(what)
    assert hg.Lake.open(store).version == result.version


def test_a_forgotten_transaction_falls_silent() -> None:
    lake, _ = new_lake()
    tx = lake.transaction()
    tx.table("a.b").overwrite(rows(1))
    assert Inspector(lake).handle.announcements._due()
    del tx
    gc.collect()
    assert not Inspector(lake).handle.announcements._due()


def test_an_overwrite_without_a_heart_is_committed_all_the_same() -> None:
    class Exhausted(SystemHost):
        def background(self, work: Callable[[], None], name: str, *, awaited: bool = False) -> bool:
            return False

    store = MemoryStore()
    new_lake(store)
    table = hg.Lake.open(store, host=Exhausted()).table("a.b")
    assert table.overwrite(rows(1)).postponed == ()


# --- heartbeats ---------------------------------------------------------------------------------------------


def play(*parts: tuple[str, Callable[[Actor], None]], store: Store) -> Stage:
    stage = Stage(0, store)
    for name, part in parts:
        stage.add(name, part)
    stage.run(100_000, lambda _: CALM)
    return stage


def pending(lake: hg.Lake) -> list[str]:
    return [instant.txid for instant in lake.timeline(pending=True)]


def test_heartbeats_keep_a_long_transaction_in_sight_and_end_with_it() -> None:
    store = MemoryStore()
    new_lake(store)
    seen: list[list[str]] = []

    def writer(actor: Actor) -> None:
        host = StageHost(actor)
        lake = hg.Lake.open(actor.stage.store_for(actor), heartbeat=BEAT, host=host)
        with lake.transaction() as tx:
            tx.table("a.b").overwrite(rows(1), where="part = 1")
            for _ in range(5):
                host.sleep(2 * MISSED_HEARTBEATS * BEAT.total_seconds())
                seen.append(pending(lake))
        assert seen == [[tx.txid]] * 5
        assert pending(lake) == []

    stage = play(("writer", writer), store=store)
    assert announced(store) == []
    # The heart stopped by itself: otherwise the stage would have waited for it.
    assert not [actor for actor in stage.actors if not actor.finished]


def test_a_crash_leaves_an_announcement_that_is_ignored_and_swept_once_heartbeats_are_missed() -> None:
    store = MemoryStore()
    new_lake(store)
    said: list[str] = []

    def writer(actor: Actor) -> None:
        host = StageHost(actor)
        lake = hg.Lake.open(actor.stage.store_for(actor), heartbeat=BEAT, host=host)
        tx = lake.transaction()
        tx.table("a.b").overwrite(rows(1), where="part = 1")
        said.append(tx.txid)
        host.sleep(3600)

    def watcher(actor: Actor) -> None:
        host = StageHost(actor)
        lake = hg.Lake.open(actor.stage.store_for(actor), host=host)
        host.sleep(60)
        assert pending(lake) == said  # renewed for a minute
        actor.stage.actors[0].crashed = True
        host.sleep(MISSED_HEARTBEATS * BEAT.total_seconds() - 1.5)
        assert pending(lake) == said  # it may be only late
        host.sleep(3)
        assert pending(lake) == []
        assert announced(store) == []

    play(("writer", writer), ("watcher", watcher), store=store)


def test_a_transaction_that_was_taken_for_dead_commits_and_is_announced_again() -> None:
    """Ignoring a live one costs nothing but the advice."""
    store = MemoryStore()
    lake, _ = new_lake(store)
    tx = lake.transaction()
    tx.table("a.b").overwrite(rows(1), where="part = 1")
    for key in all_keys(store, TIMELINE):
        store.delete(key)
    assert pending(lake) == []
    (beating,) = Inspector(lake).handle.announcements._due()
    Inspector(lake).handle.announcements._renew(beating.announcement.at(Inspector(lake).driver.host.now()))
    assert pending(lake) == [tx.txid]
    assert tx.commit().version == 3
    # A heartbeat that comes too late does not bring it back.
    Inspector(lake).handle.announcements._renew(beating.announcement.at(Inspector(lake).driver.host.now()))
    assert announced(store) == []


def test_an_announcement_that_nobody_can_read_is_passed_over() -> None:
    store = MemoryStore()
    lake, _ = new_lake(store)
    store.put(f"{TIMELINE}{'0' * 32}.json", b"{}")
    store.put(f"{TIMELINE}notes.txt", b"mine")
    assert pending(lake) == []
    assert len(all_keys(store, TIMELINE)) == 2  # left to those who can


# --- early detection ----------------------------------------------------------------------------------------


def test_a_doomed_overwrite_ends_before_it_writes_anything() -> None:
    store = MemoryStore()
    lake, table = new_lake(store, **{"conflict.early": "true"})
    tx = lake.transaction()
    table.overwrite(rows(1), where="part = 1")
    before = len(all_keys(store, "data/"))
    with pytest.raises(hg.ConflictError, match="rule 27"), tx:
        tx.table("a.b").overwrite(rows(1), where="part = 1")
    assert len(all_keys(store, "data/")) == before
    assert announced(store) == []
    with lake.transaction() as again:
        again.table("a.b").overwrite(rows(1), where="part = 1")


def test_it_ends_also_where_a_running_one_announced_the_same_files() -> None:
    store = MemoryStore()
    lake, _ = new_lake(store, **{"conflict.early": "true"})
    running = lake.transaction()
    running.table("a.b").overwrite(rows(1), where="part = 1")
    with pytest.raises(PendingConflictError, match=r"overwrite by .* is running since") as caught:
        lake.transaction().table("a.b").overwrite(rows(1))
    # Whoever keeps the refused one holds nobody up by it.
    assert [one.txid.text for one in announced(store)] == [running.txid]
    assert isinstance(caught.value.outcome, Retryable)
    assert [one.txid.text for one in caught.value.pending] == [running.txid]
    with lake.transaction() as beside:
        beside.table("a.b").overwrite(rows(2), where="part = 2")
    running.commit()


def test_without_early_detection_the_commit_decides() -> None:
    lake, _ = new_lake()
    running, other = lake.transaction(), lake.transaction()
    for tx in (running, other):
        tx.table("a.b").overwrite(rows(1), where="part = 1")
    running.commit()
    with pytest.raises(hg.ConflictError, match="rule 27"):
        other.commit()


def test_a_single_operation_that_is_told_early_is_run_again() -> None:
    store = MemoryStore()
    lake, table = new_lake(store, **{"conflict.early": "true"})
    running = lake.transaction()
    running.table("a.b").overwrite(rows(1), where="part = 1")
    ends_after: list[int] = []

    def obstructing(request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Put) and request.key.startswith(TIMELINE):
            ends_after.append(1)
            if len(ends_after) == 3:
                running.commit()
        return proceed(request)

    other = hg.Lake.open(intercepted(store, obstructing)).table("a.b")
    result = other.overwrite(rows(1, 1), where="part = 1")
    assert len(ends_after) >= 3
    assert sorted(table.read_arrow(where="part = 1")["id"].to_pylist()) == [1, 1]
    assert result.version == lake.version


def keyed(store: Store, **properties: str) -> hg.Lake:
    lake = hg.Lake.init(store)
    lake.create_table("a.keys", "id BIGINT, n BIGINT", partition_by=["bucket(4, id)"])
    if properties:
        lake.set_properties(properties)
    return lake


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array(ids, pa.int64())})


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_two_pending_upserts_of_the_same_bucket_meet_early(filled: bool, mode: str) -> None:
    """Also if no file holds one of their keys: both would add it."""
    store = MemoryStore()
    lake = keyed(store, **{"conflict.early": "true"})
    lake.table("a.keys").set_properties({"write.merge.mode": mode})
    if filled:
        lake.table("a.keys").append(keys(1, 2, 3))
    running = lake.transaction()
    running.table("a.keys").upsert(keys(1), ["id"])
    before = len(all_keys(store, "data/"))
    with pytest.raises(
        PendingConflictError, match=r"upsert by .* is running since .* the same keys"
    ) as caught:
        lake.transaction().table("a.keys").upsert(keys(1), ["id"])
    assert isinstance(caught.value.outcome, Retryable)
    assert len(all_keys(store, "data/")) == before
    with lake.transaction() as beside:
        beside.table("a.keys").upsert(keys(3), ["id"])  # another bucket
    running.commit()
    with lake.transaction() as again:
        again.table("a.keys").upsert(keys(1), ["id"])
    assert sorted(lake.table("a.keys").read_arrow()["id"].to_pylist()) == ([1, 2, 3] if filled else [1, 3])
    assert announced(store) == []


def test_an_upsert_stays_announced_when_its_transaction_goes_on() -> None:
    store = MemoryStore()
    lake = keyed(store, **{"conflict.early": "true"})
    lake.table("a.keys").append(keys(3))
    running = lake.transaction()
    running.table("a.keys").upsert(keys(1), ["id"])
    running.table("a.keys").delete("id = 3")
    with pytest.raises(PendingConflictError, match="the same keys"):
        lake.transaction().table("a.keys").upsert(keys(1), ["id"])


def test_without_early_detection_an_upsert_of_new_keys_announces_nothing() -> None:
    store = MemoryStore()
    lake = keyed(store)
    one, other = lake.transaction(), lake.transaction()
    for tx in (one, other):
        tx.table("a.keys").upsert(keys(1), ["id"])
    assert announced(store) == []
    one.commit()
    with pytest.raises(hg.ConflictError, match="rule 37"):
        other.commit()


# --- rows 32 to 34, with tables -----------------------------------------------------------------------------


def clustered(**properties: str) -> tuple[hg.Lake, hg.Table, TxId]:
    """A lake whose partition 1 is about to be clustered."""
    lake, table = new_lake(None, **properties)
    with lake.transaction() as tx:
        plan = tx.plan("clustering", "a.b", files(table, 1), ["/a/b/part=1"])
    return lake, table, plan


def test_row_32_ingestion_on_the_inputs_of_a_clustering_plan_fails() -> None:
    lake, table, plan = clustered()
    with pytest.raises(PendingConflictError, match="rule 32") as caught:
        table.overwrite(rows(1), where="part = 1")
    assert plan.text in caught.value.next_step
    assert isinstance(caught.value.outcome, Incompatible)
    table.overwrite(rows(2), where="part = 2")
    table.append(rows(1))
    assert plan in Inspector(lake).newest.plans
    lake.cancel(plan.text)
    table.overwrite(rows(1), where="part = 1")


@pytest.mark.parametrize("owner", ["lake", "table"])
def test_row_32_where_updates_are_allowed_the_record_of_the_ingestion_cancels_the_plan(owner: str) -> None:
    lake, table, plan = clustered()
    (lake if owner == "lake" else table).set_properties({"clustering.allow_updates": "true"})
    completion = lake.transaction()
    completion.complete(plan)
    version = table.overwrite(rows(1), where="part = 1").version
    entry = lake.log(limit=1)[0]
    assert (entry.version, entry.kind, entry.cancels) == (version, "commit", (plan.text,))
    assert not Inspector(lake).newest.plans
    with pytest.raises(hg.ConflictError, match="was cancelled"):
        completion.commit()


def test_row_32_a_table_overrules_its_lake() -> None:
    _, table, _ = clustered(**{"clustering.allow_updates": "true"})
    table.set_properties({"clustering.allow_updates": "false"})
    with pytest.raises(hg.ConflictError, match="rule 32"):
        table.overwrite(rows(1), where="part = 1")


def test_row_33_a_compaction_plan_is_in_the_way_only_if_the_lake_is_strict() -> None:
    lake, table = new_lake()
    with lake.transaction() as tx:
        tx.plan("compaction", "a.b", files(table, 1), ["/a/b/part=1"])
    table.overwrite(rows(1), where="part = 1")
    with lake.transaction() as tx:
        tx.plan("compaction", "a.b", files(table, 1), ["/a/b/part=1"])
    lake.set_properties({"conflict.compaction": "strict"})
    with pytest.raises(hg.ConflictError, match="rule 33"):
        table.overwrite(rows(1), where="part = 1")


@pytest.mark.parametrize("allowed", [True, False])
def test_row_34_clustering_makes_way_for_announced_ingestion(allowed: bool) -> None:
    lake, _, plan = clustered(**{"clustering.allow_updates": str(allowed).lower()})
    running = lake.transaction()
    running.table("a.b").overwrite(rows(1), where="part = 1")
    completion = lake.transaction()
    completion.complete(plan)
    if not allowed:
        completion.commit()
        return
    with pytest.raises(hg.ConflictError, match="rule 34"):
        completion.commit()
    running.abort()
    with lake.transaction() as again:
        again.complete(plan)


def test_a_plan_that_somebody_carries_out_is_in_flight() -> None:
    lake, _, plan = clustered()
    (requested,) = lake.timeline(pending=True)
    assert (requested.txid, requested.state, requested.kind) == (plan.text, "requested", "clustering plan")
    assert (requested.tables, requested.paths, requested.version) == (("a.b",), ("/a/b/part=1",), 3)
    tx = lake.transaction()
    tx.complete(plan)
    ref = tx.reached.tables["a.b"]
    tx.announce(Intent("clustering", "a.b", ref.uuid), TableChange("a.b", base=ref))
    executor, carried_out = lake.timeline(pending=True)
    assert (executor.txid, executor.state) == (tx.txid, "inflight")
    assert (carried_out.txid, carried_out.state) == (plan.text, "inflight")
    tx.commit()
    completion, planned, *_ = lake.timeline()
    assert (completion.kind, planned.state, planned.ended_at) == (
        "completion",
        "completed",
        completion.ended_at,
    )


# --- settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["conflict.candidates", "conflict.early", "conflict.compaction", "clustering.allow_updates"]
)
def test_a_value_that_a_setting_cannot_have_is_refused(name: str) -> None:
    lake, table = new_lake()
    with pytest.raises(hg.InvalidInputError, match=f"{name} cannot be 'perhaps'"):
        lake.set_properties({name: "perhaps"})
    if name in ("conflict.compaction", "clustering.allow_updates"):
        with pytest.raises(hg.InvalidInputError, match=f"{name} cannot be 'perhaps'"):
            table.set_properties({name: "perhaps"})
        with pytest.raises(hg.InvalidInputError, match=f"{name} cannot be 'perhaps'"):
            lake.create_table("a.d", "id INT", properties={name: "perhaps"})


@pytest.mark.parametrize("heartbeat", [timedelta(0), timedelta(days=2), 10, None])
def test_a_heartbeat_that_cannot_be_is_refused(heartbeat: object) -> None:
    with pytest.raises(hg.InvalidInputError, match="heartbeat"):
        hg.Lake.init(MemoryStore(), heartbeat=heartbeat)  # type: ignore[arg-type]


def test_a_conflict_with_what_is_pending_survives_pickling() -> None:
    _, table, _ = clustered()
    with pytest.raises(PendingConflictError) as caught:
        table.overwrite(rows(1), where="part = 1")
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.problem, copied.pending) == (caught.value.problem, caught.value.pending)


# --- what has ended -----------------------------------------------------------------------------------------


def test_the_timeline_shows_what_became_of_everything() -> None:
    lake, table, plan = clustered()
    gone = lake.transaction()
    lake.cancel(gone.txid)
    lake.cancel(plan.text)
    table.append(rows(3))
    shown = [(one.state, one.kind, one.version) for one in lake.timeline()]
    assert shown == [
        ("completed", "append", 6),
        ("completed", "cancel", 5),
        ("completed", "cancel", 4),
        ("cancelled", "unknown", None),
        ("cancelled", "clustering plan", 3),
        ("completed", "append", 2),
        ("completed", "create", 1),
    ]
    assert [one.version for one in lake.timeline(limit=1)] == [6]
    assert lake.timeline(pending=True) == ()
    with pytest.raises(hg.InvalidInputError):
        lake.timeline(limit=-1)


# --- candidates by start and by end -------------------------------------------------------------------------

steps = st.tuples(st.integers(0, 3), st.sampled_from("abcd"), st.booleans())


def verdicts(choice: str, happened: list[tuple[int, str, bool]]) -> list[tuple[int, str]]:
    """What becomes of four writers that begin, announce themselves or not, commit, plan and cancel."""
    lake = hg.Lake.init(MemoryStore(), divisor=4)
    lake.create_table("a.b", "id INT")
    lake.set_properties({"conflict.candidates": choice})
    begun: dict[int, hg.Transaction] = {}
    told = []
    for who, what, announces in happened:
        if who not in begun:
            begun[who] = tx = lake.transaction()
            if announces:
                tx._others.presence.announce(
                    tx, Intent("overwrite", "a.b", "u"), None, Inspector(lake).driver.host.now()
                )
            continue
        tx = begun.pop(who)
        try:
            if what == "d":
                lake.cancel(tx.txid)
            if what == "c":
                tx.plan("compaction", "a.b", ["f"], ["/a/b"])
            tx.set_properties({what: "x"})
            told.append((who, str(tx.commit().version)))
        except hg.ConflictError as error:
            told.append((who, error.problem.rpartition("[")[2].partition("]")[0]))
    return told


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(steps, max_size=24))
def test_candidates_by_start_and_by_end_give_the_same_verdicts(happened: list[tuple[int, str, bool]]) -> None:
    assert verdicts("start", happened) == verdicts("end", happened)


def test_a_conflict_with_one_that_was_running_says_so() -> None:
    lake, _ = new_lake(None, **{"conflict.candidates": "start"})
    running = lake.transaction()
    running.table("a.b").overwrite(rows(1), where="part = 1")
    later = lake.transaction()
    later.table("a.b").overwrite(rows(1), where="part = 1")
    running.commit()
    with pytest.raises(hg.ConflictError, match="it was running when yours began"):
        later.commit()
