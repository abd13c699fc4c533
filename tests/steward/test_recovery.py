"""What recovery finds, what it does about it, and what that costs."""

from __future__ import annotations

from datetime import timedelta

import pytest

import headgate as hg
from headgate.core.conflict.retry import RetryPolicy
from headgate.core.input.arguments import found_table
from headgate.core.plans.recovery import RecoveryPlan, Seen, plan_recovery
from headgate.log.layout import RECOVERED
from headgate.model.announcement import Intent
from headgate.model.commit_event import CommitEvent
from headgate.model.control_entry import HookState
from headgate.model.identifiers import Version
from headgate.steward.hooks.hook import Hook
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Request
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, Tally, counted, intercepted
from headgate.transaction.changes import TableChange
from tests.compactions import compact_files
from tests.steward.shop import Refusing
from tests.steward.test_crash_sweep import Told, require_whole, rows, unfinished

ONCE = RetryPolicy(attempts=1)


def entry_key(version: int) -> str:
    return f"control/txn/{version:020d}.json"


def test_only_versions_above_the_mark_are_looked_at() -> None:
    seen = Seen(
        head=Version(12),
        divisor=4,
        recovered=Version(6),
        written=frozenset({Version(7), Version(9)}),
        checkpoints=frozenset({Version(12)}),
        outbox=(Version(3), Version(20)),
    )
    assert plan_recovery(seen) == RecoveryPlan(
        entries=tuple(map(Version, (8, 10, 11, 12))),
        checkpoints=(Version(8),),
        hooks=(Version(3),),  # what is not decided yet is somebody else's
    )


def test_nothing_to_do_says_so() -> None:
    lake = hg.Lake.init(MemoryStore())
    lake.set_properties({"a": "1"})
    report = lake.recover()
    assert not report.changed
    assert (report.looked_from, report.until) == (0, 1)
    assert lake.recover().looked_from == 1


def test_the_report_says_what_was_done() -> None:
    store = unfinished(10, 5)
    told = Told()
    lake = hg.Lake.open(store, hooks=[Hook("told", told)])
    report = lake.recover()
    assert report.entries == (6, 7, 8, 9, 10)
    assert report.checkpoints == (8,)
    assert report.published == ("a.b",)
    assert report.hooks_done == tuple(f"{version}: told" for version in report.entries)
    assert told.events == [f"{lake.id}-{version}" for version in report.entries]
    entry = lake.control(7)
    assert entry is not None and entry.recovered
    require_whole(lake)


def test_hooks_that_are_not_registered_stay_open_until_somebody_has_them() -> None:
    store = unfinished(10, 2)
    report = hg.Lake.open(store).recover()
    assert report.hooks_open == ("9: told (not registered here)", "10: told (not registered here)")
    told = Told()
    lake = hg.Lake.open(store, hooks=[Hook("told", told)])
    assert [(hook.version, hook.registered) for hook in lake.open_hooks()] == [(9, True), (10, True)]
    assert lake.run_hooks().done == ("9: told", "10: told")
    assert lake.open_hooks() == ()
    assert len(told.events) == 2


@pytest.mark.slow
def test_a_gap_near_the_end_of_ten_thousand_versions_costs_what_the_gap_costs() -> None:
    costs = {}
    for versions in (100, 10_000):
        store, tally = counted(MemoryStore())
        lake = hg.Lake.init(store)
        for number in range(versions):
            lake.set_properties({"n": str(number)})
        for missing in (versions - 1, versions - 4, versions - 7):
            store.delete(entry_key(missing))
        Inspector(lake).entries.set_recovered(Version(versions - 10))  # as the boundary before left it
        costs[versions] = recovery_cost(store, tally)
        assert costs[versions].pop("entries") == 3
    assert costs[100] == costs[10_000]
    assert costs[10_000]["get"] <= 30


def recovery_cost(store: Store, tally: Tally) -> dict[str, int]:
    """The requests of a recovery by a process that has just begun, and how many entries it made."""
    lake = hg.Lake.open(store)
    tally.reset()
    entries = len(lake.recover().entries)
    return {**tally.counts(), "entries": entries}


def test_writers_make_up_for_others_when_they_pass_a_boundary() -> None:
    store = MemoryStore()
    lake = hg.Lake.init(store, divisor=4, hooks=[Hook("told", Told())])
    table = lake.create_table("a.b", "id BIGINT, name STRING")
    table.append(rows(1))
    table.append(rows(2))  # version 3
    store.delete(entry_key(3))
    other = hg.Lake.open(store)
    for number in range(4, 8):
        other.set_properties({"n": str(number)})
        # Not before the end of the next window: its writer may be alive.
        assert store.get(entry_key(3)) is None
    other.set_properties({"n": "8"})
    entry = other.control(3)
    assert entry is not None and entry.recovered
    assert [hook.state for hook in entry.hooks] == [HookState.PENDING]
    assert [hook.version for hook in other.open_hooks()] == [3]
    assert other.recover().looked_from == 8


def test_a_plan_that_nobody_carries_out_is_given_up() -> None:
    lake = hg.Lake.init(MemoryStore())
    table = lake.create_table("a.b", "id BIGINT, name STRING")
    table.append(rows(1))
    with lake.transaction() as tx:
        plan = tx.plan("compaction", "a.b", [file.path for file in table.files()], ["/a/b"])
    assert lake.recover().cancelled_plans == ()  # it may be about to begin
    report = lake.recover(patience=timedelta(0))
    assert report.cancelled_plans == (plan.text,)
    assert report.cancelled_by == lake.version == 4
    assert lake.timeline(pending=True) == ()
    assert lake.recover(patience=timedelta(0)).cancelled_plans == ()


def test_a_plan_in_work_is_left_alone() -> None:
    lake = hg.Lake.init(MemoryStore())
    table = lake.create_table("a.b", "id BIGINT, name STRING")
    table.append(rows(1))
    files = [file.path for file in table.files()]
    with lake.transaction() as tx:
        plan = tx.plan("compaction", "a.b", files, ["/a/b"])
    working = lake.transaction()
    working.complete(plan)
    ref = found_table(Inspector(lake).refresh(), "a.b")
    working.announce(Intent("compaction", "a.b", ref.uuid), TableChange("a.b", base=ref))
    compact_files(working, "a.b", files)
    assert lake.recover(patience=timedelta(0)).cancelled_plans == ()
    assert working.commit().version == 4


def test_a_backlog_of_entries_shrinks_with_every_window() -> None:
    """Also one that is longer than what a writer looks back at: the mark does not stay where it is."""
    store = MemoryStore()
    lake = hg.Lake.init(store, divisor=4)
    for number in range(1, 40):
        lake.set_properties({"n": str(number)})
    for number in range(1, 40):
        store.delete(entry_key(number))
    store.put("control/txn/recovered.json", b'{"version":0}')
    assert Inspector(lake).entries.read_recovered() == Version(0)
    marks = []
    for number in range(40, 61):
        lake.set_properties({"n": str(number)})
        marks.append(Inspector(lake).entries.read_recovered().number)
    assert sorted(set(marks)) == [16, 32, 48, 52, 56, 60]
    assert all(lake.control(number) is not None for number in range(1, 61))


def test_the_checkpoint_of_a_boundary_is_made_up_for_too() -> None:
    """All writers of a window died after their commits, and the first of them at a boundary."""
    store = MemoryStore()
    lake = hg.Lake.init(store, divisor=4)
    for number in range(1, 8):
        lake.set_properties({"n": str(number)})
    kept = store.get(f"control/checkpoint/{4:020d}.json")
    for number in range(4, 8):
        store.delete(entry_key(number))
    for key in (f"control/checkpoint/{4:020d}.json", "control/checkpoint/last.json", RECOVERED):
        store.delete(key)
    other = hg.Lake.open(store)
    for number in range(8, 13):
        other.set_properties({"n": str(number)})
    assert store.get(f"control/checkpoint/{4:020d}.json") == kept is not None
    assert not other.recover().checkpoints
    assert other.fsck().findings == ()


def test_a_broken_table_does_not_keep_the_rest_from_being_recovered() -> None:
    store = unfinished(10, 5)
    told = Told()
    lake = hg.Lake.open(store, hooks=[Hook("told", told)])
    lake.table("a.c").append(rows(5))
    store.delete(entry_key(11))
    store.delete(found_table(Inspector(lake).refresh(), "a.b").metadata)
    lake = hg.Lake.open(store, hooks=[Hook("told", told)])
    report = lake.recover()
    assert report.published == ("a.c",)
    assert len(report.not_published) == 1 and report.not_published[0].startswith("a.b: ")
    assert report.entries == (6, 7, 8, 9, 10, 11)
    assert len(report.hooks_done) == 6
    assert not lake.recover().changed
    assert not lake.fsck().ok


def test_a_hook_that_somebody_else_has_done_meanwhile_stays_done() -> None:
    """Two who recover at once, each with a hook that the other one has not."""
    store = MemoryStore()
    first, second = Told(), Told()
    lake = hg.Lake.init(store, hooks=[Hook("first", first), Hook("second", second)])
    lake.set_properties({"n": "1"})
    store.delete(entry_key(1))
    hg.Lake.open(store).recover()

    class Meanwhile:
        def run(self, event: CommitEvent) -> None:
            assert hg.Lake.open(store, hooks=[Hook("second", second)]).run_hooks().done == ("1: second",)

        def describe(self) -> str:
            return "lets the other one run"

    ran = hg.Lake.open(store, hooks=[Hook("first", Meanwhile())]).run_hooks()
    assert (ran.done, ran.open) == (("1: first",), ())
    assert lake.open_hooks() == ()
    assert store.list_page("control/outbox/").keys == ()


def test_a_hook_that_nobody_has_any_more_is_given_up() -> None:
    store = MemoryStore()
    gone, after = Hook("gone", Refusing(), retry=ONCE), Hook("after", Told(), after=["gone"])
    lake = hg.Lake.init(store, hooks=[gone, after])
    for number in range(3):
        lake.set_properties({"n": str(number)})
    assert len(store.list_page("control/outbox/").keys) == 3
    assert lake.skip_hooks("gone") == (1, 2, 3)
    assert lake.skip_hooks("gone") == ()
    assert lake.run_hooks().done == ("1: after", "2: after", "3: after")
    assert store.list_page("control/outbox/").keys == ()
    states = [[hook.state for hook in lake.control(number).hooks] for number in (1, 2, 3)]  # type: ignore[union-attr]
    assert states == [[HookState.SKIPPED, HookState.DONE]] * 3
    assert lake.fsck().findings == ()
    with pytest.raises(hg.InvalidInputError):
        lake.skip_hooks("")


def test_hooks_that_nobody_here_can_run_cost_one_request_each() -> None:
    store, tally = counted(MemoryStore())
    lake = hg.Lake.init(store, hooks=[Hook("elsewhere", Refusing(), retry=ONCE)])
    for number in range(20):
        lake.set_properties({"n": str(number)})
    lake.recover()
    other = hg.Lake.open(store)
    tally.reset()
    assert len(other.run_hooks(retry=True).open) == 20
    assert tally.counts()["get"] <= 22
    assert "put" not in tally.counts()


def test_two_who_give_up_the_same_plan() -> None:
    """The second one finds that it was done, and goes on with the rest."""
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy="conditional")
    table = lake.create_table("a.b", "id BIGINT, name STRING")
    table.append(rows(1))
    with lake.transaction() as tx:
        tx.plan("compaction", "a.b", [file.path for file in table.files()], ["/a/b"])
    store.delete(entry_key(2))
    cancelled_by: list[int | None] = []

    def overtake(request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Create) and not cancelled_by:
            cancelled_by.append(None)
            cancelled_by.append(hg.Lake.open(store).recover(patience=timedelta(0)).cancelled_by)
            store.delete(entry_key(2))
        return proceed(request)

    report = hg.Lake.open(intercepted(store, overtake)).recover(patience=timedelta(0))
    assert cancelled_by == [None, 4]
    assert (report.cancelled_plans, report.until) == ((), 4)
    assert lake.version == 4


def test_giving_up_a_hook_does_not_hide_what_else_is_due() -> None:
    """The writer died before anything was published: an entry would say that it was."""
    store = unfinished(10, 5)
    lake = hg.Lake.open(store)
    assert lake.skip_hooks("told") == ()
    report = lake.recover()
    assert report.published == ("a.b",) and report.entries == (6, 7, 8, 9, 10)
    assert lake.skip_hooks("told") == (6, 7, 8, 9, 10)
    require_whole(lake)
