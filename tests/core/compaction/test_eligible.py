"""What is due: disjoint and bounded; few small segments stay, and rows are seldom moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from headgate.core.compaction.eligible import (
    MAX_PLANNED_FILES,
    CompactionPolicy,
    Group,
    Segment,
    is_small,
    plan_compaction,
)
from headgate.core.compaction.plans import in_plans
from headgate.core.compaction.windows import complete_windows
from headgate.model.identifiers import Window
from tests.core.compaction.seed_rule import touched_by_seed_rule, touched_in
from tests.examples import examples

PATHS = ("/t/a", "/t/b", "/t/c")


@dataclass
class Rows:
    """A table without bytes: segments, and how often the rows of each version were written."""

    divisor: int
    policy: CompactionPolicy
    segments: list[Segment] = field(default_factory=list)
    written: dict[str, Counter[int]] = field(default_factory=dict)
    newest: int = 0

    def commit(self, paths: frozenset[str], size: int = 1) -> None:
        self.newest += 1
        for path in paths:
            file = f"{path}@{self.newest}"
            self.segments.append(Segment(file, path, Window(self.newest, self.newest), size, size))
            self.written[file] = Counter([self.newest])

    def due(self) -> tuple[Group, ...]:
        return plan_compaction(self.segments, self.newest, self.divisor, self.policy)

    def carry_out(self, group: Group) -> None:
        """As an engine would: one file of the size of all of them."""
        file = f"{group.path}@{group.window.first}-{group.window.last}+{min(group.files)}"
        rows = group.rows - group.dead
        self.segments = [segment for segment in self.segments if segment.file not in group.files]
        if rows:
            one = Segment(file, group.path, group.window, rows, rows)
            self.segments.append(one)
            counted: Counter[int] = Counter()
            for segment in group.segments:
                counted |= self.written[segment.file]
            self.written[file] = Counter({version: times + 1 for version, times in counted.items()})

    def compact(self) -> tuple[Group, ...]:
        due = self.due()
        for group in due:
            self.carry_out(group)
        return due

    @property
    def levels(self) -> int:
        levels = 1
        while self.divisor**levels <= self.newest:
            levels += 1
        return levels


def policy(divisor: int, **changes: float) -> CompactionPolicy:
    return CompactionPolicy(**{"min_inputs": divisor, "delete_share": 0.3, "target_bytes": 10**9, **changes})  # type: ignore[arg-type]


histories = st.lists(st.frozensets(st.sampled_from(PATHS)), min_size=1, max_size=110)
divisors = st.integers(2, 10)


@given(divisor=divisors, history=histories, look=st.lists(st.booleans(), min_size=110, max_size=110))
@settings(suppress_health_check=[HealthCheck.large_base_example], deadline=None)
def test_few_small_segments_stay_and_rows_are_seldom_moved(
    divisor: int, history: list[frozenset[str]], look: list[bool]
) -> None:
    """However many alignment points nobody looked at: the next look finds what they left."""
    table = Rows(divisor, policy(divisor))
    for touched, looks in zip(history, look, strict=False):
        table.commit(touched)
        if looks:
            table.compact()
            require_few(table)
    table.compact()
    require_few(table)
    require_all(table, history)


def require_few(table: Rows) -> None:
    assert table.due() == ()
    for path in PATHS:
        here = [s for s in table.segments if s.path == path]
        assert len(here) <= (table.divisor - 1) * table.levels
        for level in range(table.levels):
            # A level keeps what lies in its windows, whatever level that was written at.
            windows = [w for w in complete_windows(table.newest, table.divisor) if w.level == level]
            inside = [s for s in here if any(w.holds(s.covers) for w in windows)]
            assert len(inside) <= table.divisor - 1
    for counted in table.written.values():
        # Once by its writer, and at most once for each level above.
        assert max(counted.values()) <= table.levels


def require_all(table: Rows, history: Sequence[frozenset[str]]) -> None:
    """No row is lost and none is there twice."""
    for path in PATHS:
        held = [v for s in table.segments if s.path == path for v in table.written[s.file]]
        assert sorted(held) == [v for v, touched in enumerate(history, 1) if path in touched]


@given(
    divisor=divisors,
    history=histories,
    sizes=st.lists(st.integers(1, 120), min_size=110, max_size=110),
    dead=st.lists(st.integers(0, 100), min_size=110, max_size=110),
    min_inputs=st.integers(2, 20),
    target=st.integers(1, 200),
)
@settings(suppress_health_check=[HealthCheck.large_base_example], deadline=None)
def test_plans_are_disjoint_and_stay_inside_their_windows(
    divisor: int,
    history: list[frozenset[str]],
    sizes: list[int],
    dead: list[int],
    min_inputs: int,
    target: int,
) -> None:
    table = Rows(divisor, policy(divisor, min_inputs=min_inputs, target_bytes=target))
    for number, touched in enumerate(history):
        table.commit(touched, sizes[number])
        gone = table.segments[-1:] if dead[number] % 3 == 0 else []
        for segment in gone:
            rows = min(segment.rows, dead[number])
            table.segments[-1] = replace(segment, dead=((table.newest, rows),))
    due = table.due()
    files = [file for group in due for file in group.files]
    assert len(files) == len(set(files))
    for group in due:
        require_sound(group, table)
    plans = list(in_plans(due, table.policy))
    assert [group for plan in plans for group in plan] == list(due)
    for plan in plans:
        assert sum(len(group.segments) for group in plan) <= MAX_PLANNED_FILES
        assert len(plan) == 1 or sum(g.size_bytes for g in plan) <= table.policy.plan_bytes
    table.compact()
    # Whatever is left is not due again before a larger window is complete.
    assert table.due() == ()


def boundary_level(version: int, divisor: int) -> int:
    """The highest level that a version is a boundary of; 0 if of none."""
    assert version >= 1, version
    level = 0
    while version % divisor ** (level + 1) == 0:
        level += 1
    return level


def require_sound(group: Group, table: Rows) -> None:
    window = group.window
    assert window in complete_windows(table.newest, table.divisor)
    assert boundary_level(window.last, table.divisor) >= window.level >= 1
    assert len({segment.path for segment in group.segments}) == 1
    for segment in group.segments:
        assert window.holds(segment.covers)
        assert segment.covers.level < window.level
        assert is_small(segment, table.policy) or segment.dead_at(window.last)
        for level in range(window.level + 1, window.level + 4):
            boundary = table.divisor**level
            assert not segment.covers.straddles(window.last - window.last % boundary or -1)
    assert len(group.segments) > 1 or group.dead
    # Large groups are cut; two files are the least that can be put together.
    assert len(group.segments) <= 2 or group.size_bytes <= table.policy.group_bytes


# --- intents ------------------------------------------------------------------------------------------------


def lost_paths(
    history: Sequence[frozenset[str]],
    divisor: int,
    touched: Callable[[Sequence[frozenset[str]], Window], frozenset[str]],
) -> list[tuple[str, Window]]:
    """The paths with something due, at a look after each commit, that the intents did not tell of."""
    table = Rows(divisor, policy(divisor))
    before: set[Window] = set()
    lost = []
    for number, paths in enumerate(history, 1):
        table.commit(paths)
        windows = complete_windows(number, divisor)
        new = [window for window in windows if window.level and window not in before]
        before = set(windows)
        told = frozenset[str]().union(*(touched(history[:number], window) for window in new))
        lost += [(group.path, group.window) for group in table.due() if group.path not in told]
        table.compact()
    return lost


@given(divisor=st.integers(2, 5), history=histories)
@settings(deadline=None)
def test_intents_of_whole_windows_tell_of_all_that_is_due(
    divisor: int, history: list[frozenset[str]]
) -> None:
    assert lost_paths(history, divisor, touched_in) == []


def test_the_rule_of_the_last_commits_loses_paths() -> None:
    """If this did not find any, the test above would prove nothing."""

    def seed(history: Sequence[frozenset[str]], window: Window) -> frozenset[str]:
        return touched_by_seed_rule(history, window, 3)

    found = find(
        histories,
        lambda history: bool(lost_paths(history, 3, seed)),
        settings=settings(max_examples=examples(1000), deadline=None, phases=[Phase.generate]),
    )
    levels = {window.level for _, window in lost_paths(found, 3, seed)}
    assert levels and min(levels) >= 2
    assert lost_paths(found, 3, touched_in) == []


# --- examples -----------------------------------------------------------------------------------------------


def fresh(version: int, size: int = 1, rows: int = 10, dead: int = 0, at: int | None = None) -> Segment:
    told = ((at or version, dead),) if dead else ()
    return Segment(f"f{version}", "/t/a", Window(version, version), size, rows, told)


def due(segments: list[Segment], newest: int, **changes: float) -> list[tuple[Window, int]]:
    found = plan_compaction(segments, newest, 10, policy(10, **changes))
    return [(group.window, len(group.segments)) for group in found]


def test_a_window_is_due_when_it_is_complete_and_has_enough() -> None:
    ten = [fresh(version) for version in range(1, 11)]
    assert due(ten[:9], 9) == []
    assert due(ten, 10) == [(Window(1, 10, 1), 10)]
    assert due(ten[:9], 10) == []
    assert due(ten[:9], 10, min_inputs=9) == [(Window(1, 10, 1), 9)]


def test_a_single_segment_is_rewritten_for_its_deletes_only() -> None:
    assert due([fresh(1)], 10) == []
    assert due([fresh(1, dead=3)], 10) == []  # exactly the share is not above it
    assert due([fresh(1, dead=4)], 10) == [(Window(1, 10, 1), 1)]
    # Deleted after the window: applied when a larger one is complete.
    assert due([fresh(1, dead=9, at=11)], 20) == []
    assert due([fresh(1, dead=9, at=11)], 100) == [(Window(1, 100, 2), 1)]


def test_large_files_are_left_alone_unless_they_have_deletes() -> None:
    large = 10**9
    assert due([fresh(v, size=large) for v in range(1, 11)], 10) == []
    # An engine takes four of the target size at a time.
    assert due([fresh(v, size=large, rows=100, dead=1) for v in range(1, 11)], 10) == [
        (Window(1, 10, 1), 4),
        (Window(1, 10, 1), 4),
        (Window(1, 10, 1), 2),
    ]


@pytest.mark.parametrize("each", [2, 5])
def test_siblings_with_many_segments_together_are_due(each: int) -> None:
    """Five windows with two segments each: none has ten, but the level has."""
    segments = [fresh(10 * window + number) for window in range(10 // each) for number in range(1, each + 1)]
    assert due(segments[:-1], 99) == []
    assert due(segments, 99) == [(Window(10 * n + 1, 10 * n + 10, 1), each) for n in range(10 // each)]


@pytest.mark.parametrize("divisor", [2, 4, 10])
def test_a_long_backlog_leaves_as_few_small_segments_as_none(divisor: int) -> None:
    """Nobody has compacted for long: a window has more files than a plan may name."""
    rows = Rows(divisor, policy(divisor))
    for _ in range(3 * MAX_PLANNED_FILES):
        rows.commit(frozenset(PATHS[:1]))
    assert all(len(group.segments) <= MAX_PLANNED_FILES for group in rows.due())
    while rows.compact():
        pass
    at = Counter(segment.covers.level for segment in rows.segments if is_small(segment, rows.policy))
    assert max(at.values()) <= divisor - 1
    assert all(max(times.values()) <= rows.levels for times in rows.written.values())


def test_groups_are_cut_by_what_comes_out_of_them() -> None:
    """Ten files of the target size with nine of ten rows deleted become one file, not three small ones."""
    assert due([fresh(v, size=10**9, rows=100, dead=90) for v in range(1, 11)], 10) == [
        (Window(1, 10, 1), 10)
    ]
