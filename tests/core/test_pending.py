"""What is pending: the table of who looks at whom, and what follows from meeting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headgate.core.conflict.pending import (
    CHOOSE_FROM_PENDING,
    PendingVerdict,
    Role,
    Touched,
    cancellation_conflicts,
    completion_conflicts,
    early_conflicts,
    is_candidate,
    judge_ingestion,
    judge_service,
    plan_conflicts,
)
from headgate.model.announcement import Announcement, Intent
from headgate.model.identifiers import TxId, Version
from headgate.model.plan import PendingPlan, Service

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
PLAN = TxId("b" * 32)
OTHER = TxId("c" * 32)
HERE = ("/a/b/p=1",)
SERVICES: tuple[Service, ...] = ("compaction", "clustering")


def plan(service: Service, *files: str, table: str = "u") -> PendingPlan:
    return PendingPlan(PLAN, service, table, frozenset(files), frozenset(HERE), Version(3))


def plan_at(service: Service, *paths: str) -> PendingPlan:
    """A plan with too many files to name."""
    return PendingPlan(PLAN, service, "u", None, frozenset(paths), Version(3))


def touched(*files: str, updates_allowed: bool = False, strict: bool = False) -> Touched:
    return Touched("a.b", "u", frozenset(HERE), frozenset(files), updates_allowed, strict)


def announced(*intents: Intent) -> Announcement:
    return Announcement(OTHER, Version(2), NOON, NOON, timedelta(seconds=1), "ann", "host-1", intents)


def overwrite(*files: str) -> Intent:
    return Intent("overwrite", "a.b", "u", frozenset(HERE), frozenset(files))


UNKNOWN = Intent("overwrite", "a.b", "u")

# The rows are the committing one, the columns the pending one: without and with updates allowed.
EXPECTED = {
    Role.INGESTION: {Role.INGESTION: "nn", Role.CLUSTERING: "yn", Role.COMPACTION: "yy"},
    Role.CLUSTERING: {Role.INGESTION: "ny", Role.CLUSTERING: "nn", Role.COMPACTION: "nn"},
    Role.COMPACTION: {Role.INGESTION: "nn", Role.CLUSTERING: "nn", Role.COMPACTION: "nn"},
}


@pytest.mark.parametrize("me", Role)
@pytest.mark.parametrize("pending", Role)
def test_the_pending_table_as_a_whole(me: Role, pending: Role) -> None:
    found = [is_candidate(me, pending, updates_allowed=allowed) for allowed in (False, True)]
    assert "".join("ny"[chosen] for chosen in found) == EXPECTED[me][pending]
    assert len(CHOOSE_FROM_PENDING) == len(Role) ** 2


def test_whatever_is_no_table_service_is_ingestion() -> None:
    assert Role.of("clustering") is Role.CLUSTERING
    assert Role.of("compaction") is Role.COMPACTION
    for kind in ("overwrite", "delete", "update", "merge", "upsert", "ingestion", "what comes later"):
        assert Role.of(kind) is Role.INGESTION


# --- rows 32 and 33 -----------------------------------------------------------------------------------------


def test_ingestion_on_the_inputs_of_a_clustering_plan_is_refused() -> None:
    verdict = judge_ingestion([touched("1", "2")], [plan("clustering", "2", "3")])
    (conflict,) = verdict.conflicts
    assert (conflict.rule, conflict.txid, conflict.rerun_helps) == (32, PLAN, False)
    assert "overlap in 1 file" in conflict.reason and PLAN.text in conflict.next_step
    assert verdict.cancels == ()


def test_where_updates_are_allowed_ingestion_cancels_the_clustering_plan() -> None:
    verdict = judge_ingestion([touched("1", updates_allowed=True)], [plan("clustering", "1")])
    assert verdict == PendingVerdict(cancels=(PLAN,))


def test_ingestion_goes_beside_a_compaction_plan_unless_the_lake_is_strict() -> None:
    assert judge_ingestion([touched("1")], [plan("compaction", "1")]) == PendingVerdict()
    strict = touched("1", strict=True, updates_allowed=True)
    (conflict,) = judge_ingestion([strict], [plan("compaction", "1")]).conflicts
    assert conflict.rule == 33


@pytest.mark.parametrize(
    "beside",
    [
        plan("clustering", "9"),
        plan("clustering", "1", table="another"),
        plan_at("clustering", "/a/b/p=2"),
        plan_at("clustering", "/a/b/p=10"),
    ],
)
def test_what_has_nothing_in_common_does_not_matter(beside: PendingPlan) -> None:
    assert judge_ingestion([touched("1", strict=True)], [beside]) == PendingVerdict()


@pytest.mark.parametrize("paths", [("/a/b/p=1",), ("/a/b",), ("/a/b/p=1/q=2",), (), ("/a/renamed/p=1",)])
def test_paths_decide_where_files_are_not_named(paths: tuple[str, ...]) -> None:
    verdict = judge_ingestion([touched("1")], [plan_at("clustering", *paths)])
    assert [conflict.rule for conflict in verdict.conflicts] == [32]


# --- row 34 -------------------------------------------------------------------------------------------------


def test_clustering_makes_way_for_announced_ingestion_where_updates_are_allowed() -> None:
    own = plan("clustering", "1")
    (conflict,) = judge_service([(own, True)], [announced(overwrite("1"))]).conflicts
    assert (conflict.rule, conflict.txid) == (34, OTHER)
    assert judge_service([(own, False)], [announced(overwrite("1"))]) == PendingVerdict()
    assert judge_service([(own, True)], [announced(overwrite("2"))]) == PendingVerdict()
    # Who does not say where may be anywhere.
    assert judge_service([(own, True)], [announced(UNKNOWN)]).conflicts


def test_compaction_looks_at_nobody_and_nobody_at_other_services() -> None:
    assert judge_service([(plan("compaction", "1"), True)], [announced(overwrite("1"))]) == PendingVerdict()
    service = Intent("compaction", "a.b", "u", frozenset({"/a/b"}), frozenset({"1"}))
    assert judge_service([(plan("clustering", "1"), True)], [announced(service)]) == PendingVerdict()


# --- plans --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", SERVICES)
@pytest.mark.parametrize("second", SERVICES)
def test_a_file_is_in_one_pending_plan_at_a_time(first: Service, second: Service) -> None:
    (conflict,) = plan_conflicts(plan(first, "1", "2"), [plan(second, "2")])
    assert conflict.rerun_helps  # the second planner plans what is left
    assert plan_conflicts(plan(first, "1"), [plan(second, "2")]) == ()


def test_only_what_is_pending_can_be_completed() -> None:
    pending = {PLAN: plan("compaction", "1")}
    assert completion_conflicts([PLAN], pending, {}) == ()
    (gone,) = completion_conflicts([OTHER], pending, {})
    (cancelled,) = completion_conflicts([OTHER], pending, {OTHER: Version(4)})
    assert gone.rule == cancelled.rule == 36
    assert "is not pending" in gone.reason and "was cancelled" in cancelled.reason


def test_a_plan_that_ended_meanwhile_cannot_be_cancelled() -> None:
    pending = {PLAN: plan("compaction", "1")}
    assert cancellation_conflicts([PLAN, OTHER], pending, pending) == ()
    (conflict,) = cancellation_conflicts([PLAN, OTHER], pending, {})
    assert (conflict.rule, conflict.txid) == (36, PLAN)


# --- early --------------------------------------------------------------------------------------------------


def test_an_announced_change_of_the_same_files_is_told_early() -> None:
    (conflict,) = early_conflicts(overwrite("1"), [announced(overwrite("1", "2"))])
    assert conflict.rerun_helps and "ann on host-1" in conflict.reason
    assert early_conflicts(overwrite("1"), [announced(overwrite("2"))]) == ()


def test_what_is_not_known_is_left_to_the_commit() -> None:
    assert early_conflicts(UNKNOWN, [announced(overwrite("1"))]) == ()
    assert early_conflicts(overwrite("1"), [announced(UNKNOWN)]) == ()


def test_changes_by_position_are_compared_by_the_commit_not_early() -> None:
    by_position = Intent("delete", "a.b", "u", frozenset({"/a/b"}), frozenset({"1"}), by_position=True)
    assert early_conflicts(by_position, [announced(by_position)]) == ()
    assert early_conflicts(by_position, [announced(overwrite("1"))])
