"""Plans of compaction: what a record keeps is enough for whoever takes it over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.compaction.eligible import (
    MAX_PLANNED_FILES,
    CompactionPolicy,
    Group,
    Segment,
    plan_compaction,
)
from headgate.core.compaction.plans import GROUPS, Unworkable, details, groups_of, in_plans, without_pending
from headgate.core.compaction.touched import with_ancestors
from headgate.core.compaction.windows import complete_windows
from headgate.model.footprint import file_mark
from headgate.model.identifiers import TxId, Window
from headgate.model.json_object import JsonObject, encode
from headgate.model.plan import PendingPlan

POLICY = CompactionPolicy(2, 0.3, 1000)


def segments(count: int, path: str = "/a/b", size: int = 1) -> list[Segment]:
    return [
        Segment(f"{path}/f{version}", path, Window(version, version), size, 10, place=(0, path))
        for version in range(1, count + 1)
    ]


def pending(**changes: object) -> PendingPlan:
    """A plan of what is due in twenty segments."""
    found = plan_compaction(segments(20), 20, 10, POLICY)
    fields = {
        "inputs": frozenset(file_mark(file) for group in found for file in group.files),
        "unknown": details(found),
        **changes,
    }
    return PendingPlan(TxId("0" * 32), "compaction", "u", paths=frozenset({"/a/b"}), **fields)  # type: ignore[arg-type]


def test_a_plan_read_from_its_record_is_the_one_that_was_made() -> None:
    due = plan_compaction(segments(20), 20, 10, POLICY)
    plan = pending()
    stored = JsonObject.parse(encode(plan.to_json()), "the record")
    assert groups_of(PendingPlan.from_json(stored, plan.txid, plan.version), segments(20), POLICY) == due
    # Under another name of the table, and with files that came later.
    renamed = [Segment(s.file, "/x/y", s.covers, s.size_bytes, s.rows, place=s.place) for s in segments(25)]
    again = groups_of(plan, renamed, POLICY)
    assert not isinstance(again, Unworkable)
    assert [group.files for group in again] == [group.files for group in due]


@pytest.mark.parametrize(
    "told",
    [
        {},
        {GROUPS: "x"},
        {GROUPS: [1]},
        {GROUPS: [{"level": 1}]},
        {GROUPS: [{"level": 1, "first": 5, "last": 1}]},
        {GROUPS: [{"level": "1", "first": 1, "last": 10}]},
        {GROUPS: [{"level": 1, "first": 1, "last": 10}]},
    ],
)
def test_a_plan_that_does_not_say_what_it_is_about_is_unworkable(told: dict[str, object]) -> None:
    assert isinstance(groups_of(pending(unknown=told), segments(20), POLICY), Unworkable)


def test_a_plan_whose_files_are_gone_is_unworkable() -> None:
    found = groups_of(pending(), segments(20)[1:], POLICY)
    assert isinstance(found, Unworkable) and "1 of its files are gone" in found.reason
    assert isinstance(groups_of(pending(inputs=None), segments(20), POLICY), Unworkable)


def test_files_of_pending_plans_are_left_out() -> None:
    assert without_pending(segments(25), [pending()]) == tuple(segments(25)[20:])
    assert without_pending(segments(25), [pending(inputs=None)]) == ()
    assert len(without_pending(segments(25, "/a/c"), [pending(inputs=None)])) == 25


def test_plans_are_bounded_by_files_and_by_bytes() -> None:
    many = [
        Segment(f"{path}/{number}", f"/t/{path}", Window(1, 1), 1, 1)
        for path in range(3)
        for number in range(1000)
    ]
    plans = list(in_plans(plan_compaction(many, 10, 10, POLICY), POLICY))
    assert [sum(len(g.segments) for g in plan) for plan in plans] == [512, 488, 512, 488, 512, 488]
    assert max(len(group.segments) for plan in plans for group in plan) == MAX_PLANNED_FILES
    large = [s for n in range(100) for s in segments(2, f"/t/{n}", 700)]
    plans = list(in_plans(plan_compaction(large, 10, 10, POLICY), POLICY))
    assert len(plans) == 3
    assert all(sum(group.size_bytes for group in plan) <= POLICY.plan_bytes for plan in plans)


# --- windows and intents ----------------------------------------------------------------------------------


@given(newest=st.integers(0, 10**6), divisor=st.integers(2, 10))
def test_complete_windows_are_the_digits_of_the_newest_version(newest: int, divisor: int) -> None:
    windows = complete_windows(newest, divisor)
    versions = 0
    for window in windows:
        assert window.first == versions + 1 and window.last - window.first + 1 == divisor**window.level
        versions = window.last
    assert versions == newest
    for level in {window.level for window in windows}:
        assert sum(w.level == level for w in windows) == newest // divisor**level % divisor


def test_ancestors() -> None:
    assert with_ancestors(["/a/b/p=1", "/a/c"]) == {"/", "/a", "/a/b", "/a/b/p=1", "/a/c"}
    assert with_ancestors([]) == {"/"}


def test_a_path_that_is_far_behind_keeps_its_smaller_windows() -> None:
    """One plan can be about windows of one path that lie in a window of another."""
    rules = CompactionPolicy(10, 0.3, 10**9)

    def group(path: str, window: Window) -> Group:
        covers = [Window(window.first + n, window.first + n) for n in range(2)]
        return Group(path, window, tuple(Segment(f"{path}{c.first}", path, c, 1, 1) for c in covers))

    first, second, whole = Window(1, 10, 1), Window(11, 20, 1), Window(1, 100, 2)
    groups = [group("/t/a", first), group("/t/a", second), group("/t/b", whole)]
    segments = [segment for one in groups for segment in one.segments]
    plan = pending(inputs=frozenset(file_mark(segment.file) for segment in segments), unknown=details(groups))
    assert groups_of(plan, segments, rules) == tuple(sorted(groups, key=lambda one: (one.window, one.path)))
    # Under another name of the table it cannot be told; each is then put together in the larger window.
    renamed = [replace(segment, path=f"/u{segment.path[2:]}") for segment in segments]
    found = groups_of(plan, renamed, rules)
    assert not isinstance(found, Unworkable)
    assert {one.window for one in found} == {whole}
