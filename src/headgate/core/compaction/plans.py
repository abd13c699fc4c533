"""Plans of compaction: the groups that are ready, divided into plans, and what a record stores of a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from headgate.core.compaction.eligible import MAX_PLANNED_FILES, CompactionPolicy, Group, Segment, parts
from headgate.model.footprint import file_mark
from headgate.model.identifiers import Window
from headgate.model.json_object import Json
from headgate.model.plan import PendingPlan

GROUPS = "groups"
"""The key of the windows and paths in the details of a plan."""


def in_plans(groups: Iterable[Group], policy: CompactionPolicy) -> Iterator[tuple[Group, ...]]:
    """The groups in order, in the largest batches that one plan may have."""
    plan: list[Group] = []
    files = held = 0
    for group in groups:
        grown = files + len(group.segments) > MAX_PLANNED_FILES or held + group.size_bytes > policy.plan_bytes
        if plan and grown:
            yield tuple(plan)
            plan, files, held = [], 0, 0
        plan.append(group)
        files += len(group.segments)
        held += group.size_bytes
    if plan:
        yield tuple(plan)


def details(groups: Iterable[Group]) -> dict[str, Json]:
    """What a plan stores in addition to its inputs, so that any process can carry it out."""
    windows = dict.fromkeys((group.window, group.path) for group in groups)
    return {
        GROUPS: [
            {"level": window.level, "first": window.first, "last": window.last, "path": path}
            for window, path in windows
        ]
    }


def without_pending(segments: Iterable[Segment], plans: Iterable[PendingPlan]) -> tuple[Segment, ...]:
    """The segments that no pending plan of their table is going to rewrite."""
    taken: set[str] = set()
    paths: set[str] = set()
    for plan in plans:
        if plan.inputs is None:
            paths |= plan.paths
        else:
            taken |= plan.inputs
    return tuple(
        segment for segment in segments if segment.path not in paths and file_mark(segment.file) not in taken
    )


@dataclass(frozen=True, slots=True)
class Unworkable:
    """Why a plan can no longer be carried out."""

    reason: str


def groups_of(
    plan: PendingPlan, segments: Iterable[Segment], policy: CompactionPolicy
) -> tuple[Group, ...] | Unworkable:
    """The groups that a plan merges, from the live files as they are now.

    The result is the same for the author of the plan and for a process that takes it over. The groups are cut
    again, because only the size of the output counts.
    """
    windows = _windows(plan.unknown.get(GROUPS))
    if windows is None or plan.inputs is None:
        return Unworkable("the plan does not say what it merges")
    inputs = [segment for segment in segments if file_mark(segment.file) in plan.inputs]
    if len(inputs) < len(plan.inputs):
        return Unworkable(f"{len(plan.inputs) - len(inputs)} of its files are gone")
    gathered: dict[tuple[Window, str], list[Segment]] = {}
    for segment in inputs:
        window = _window_for(segment, windows)
        if window is None:
            return Unworkable(f"it names no window that holds versions {segment.covers} of {segment.path}")
        gathered.setdefault((window, f"{segment.path} {segment.place!r}"), []).append(segment)
    return tuple(
        Group(part[0].path, window, tuple(part), part[0].place)
        for (window, _), here in sorted(gathered.items())
        for part in parts(sorted(here, key=lambda s: (s.covers, s.file)), window, policy.group_bytes)
    )


def _window_for(segment: Segment, windows: Collection[tuple[Window, Json]]) -> Window | None:
    """The window into which a segment is merged.

    A window of its path; of another path only if its own is not named, because the table was renamed
    meanwhile.
    """
    holding = [(window, path) for window, path in windows if window.holds(segment.covers)]
    own = [window for window, path in holding if path == segment.path]
    return max(own or [window for window, _ in holding], key=lambda window: window.level, default=None)


def _windows(given: Json) -> Collection[tuple[Window, Json]] | None:
    """The windows that the details of a plan name, each with its path; None if they are invalid."""
    if not isinstance(given, list):
        return None
    named = [(_window(one), one.get("path")) for one in given if isinstance(one, Mapping)]
    found = [(window, path) for window, path in named if window is not None]
    return found if len(found) == len(given) else None


def _window(given: Mapping[str, Json]) -> Window | None:
    numbers = [given.get(name) for name in ("first", "last", "level")]
    first, last, level = numbers
    if not (isinstance(first, int) and isinstance(last, int) and isinstance(level, int)):
        return None
    return Window(first, last, level) if 0 < first <= last and level > 0 else None
