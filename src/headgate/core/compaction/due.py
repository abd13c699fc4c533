"""Which segments are due to become one: a pure function of the live files and the newest version.

All versions up to the newest are cut into the largest windows that are complete, as a number is into its
digits. A segment lies in one of them, and never leaves it but for a larger one. So every process computes the
same answer at any time, and an alignment point that nobody looked at is picked up by the next look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence

from headgate.core.compaction.policy import MAX_PLANNED_FILES, CompactionPolicy
from headgate.core.compaction.segments import Group, Segment
from headgate.core.windows import largest_complete_window, window_of
from headgate.model.window import Window


def plan_compaction(
    segments: Iterable[Segment], newest: int, divisor: int, policy: CompactionPolicy
) -> tuple[Group, ...]:
    """What is due when version `newest` is reached, the oldest window of each path first.

    No segment is in two groups. After it was done, and done again as long as something is due, nothing is due
    until a larger window is complete, and each level of a path has fewer than `min_inputs` small segments, or
    at most one for each window. No row is written more than once for each level.
    """
    places: dict[tuple[str, Hashable], list[Segment]] = defaultdict(list)
    for segment in segments:
        places[segment.path, segment.place].append(segment)
    return tuple(
        group
        for (path, _), here in sorted(places.items(), key=lambda place: (place[0][0], repr(place[0][1])))
        for window, chosen in _due_windows(here, newest, divisor, policy)
        for group in _groups(path, window, chosen, divisor, policy)
    )


def candidates(segments: Iterable[Segment], window: Window, policy: CompactionPolicy) -> tuple[Segment, ...]:
    """The segments of a window that are of a lower level, and too small or with deleted rows."""
    return tuple(
        segment
        for segment in segments
        if segment.covers.level < window.level and (is_small(segment, policy) or segment.dead_at(window.last))
    )


def is_small(segment: Segment, policy: CompactionPolicy) -> bool:
    """Whether a file is worth to be put together with others."""
    return segment.size_bytes < policy.enough_bytes


def by_window(segments: Iterable[Segment], newest: int, divisor: int) -> dict[Window, list[Segment]]:
    """The segments of a path by the largest complete window that they lie in, the oldest first."""
    windows: dict[Window, list[Segment]] = defaultdict(list)
    for segment in segments:
        window = largest_complete_window(segment.covers.first, newest, divisor)
        # What covers versions of two windows was not made by this rule; it is left alone until one holds it.
        if window.holds(segment.covers):
            windows[window].append(segment)
    return dict(sorted(windows.items()))


def _due_windows(
    segments: Sequence[Segment], newest: int, divisor: int, policy: CompactionPolicy
) -> Iterator[tuple[Window, tuple[Segment, ...]]]:
    windows = by_window(segments, newest, divisor)
    small_at: dict[int, int] = defaultdict(int)
    for window, here in windows.items():
        # All windows of one level are parts of the same larger one, which is not complete.
        small_at[window.level] += sum(is_small(segment, policy) for segment in here)
    for window, here in windows.items():
        chosen = candidates(here, window, policy)
        if _is_due(chosen, window, small_at[window.level], policy):
            yield window, chosen


def _is_due(chosen: Sequence[Segment], window: Window, small_at_level: int, policy: CompactionPolicy) -> bool:
    if not chosen or (len(chosen) == 1 and not chosen[0].dead_at(window.last)):
        return False
    if len(chosen) >= policy.min_inputs:
        return True
    # Its siblings have as many as it may have alone: so a level never keeps more than one window could.
    if small_at_level >= policy.min_inputs and sum(is_small(segment, policy) for segment in chosen) >= 2:
        return True
    dead = sum(segment.dead_at(window.last) for segment in chosen)
    return dead > policy.delete_share * sum(segment.rows for segment in chosen)


def _groups(
    path: str, window: Window, chosen: Sequence[Segment], divisor: int, policy: CompactionPolicy
) -> Iterator[Group]:
    """The segments, cut so that an engine can hold each part; a part that gains nothing is left out."""
    if len(chosen) > MAX_PLANNED_FILES and window.level > 1:
        # Too many for one plan, and of several each would leave a small file. So the windows inside come
        # first, and when they are done, few are left.
        inside = list(_groups_inside(path, window, chosen, divisor, policy))
        if inside:
            yield from inside
            return
    ordered = sorted(chosen, key=lambda segment: (segment.covers, segment.file))
    for part in parts(ordered, window, policy.group_bytes):
        if len(part) > 1 or part[0].dead_at(window.last):
            yield Group(path, window, tuple(part), part[0].place)


def _groups_inside(
    path: str, window: Window, chosen: Sequence[Segment], divisor: int, policy: CompactionPolicy
) -> Iterator[Group]:
    """What the windows of the next lower level have to put together."""
    inside: dict[Window, list[Segment]] = defaultdict(list)
    for segment in chosen:
        inside[window_of(segment.covers.first, window.level - 1, divisor)].append(segment)
    for smaller, here in sorted(inside.items()):
        held = [segment for segment in here if smaller.holds(segment.covers)]
        yield from _groups(path, smaller, candidates(held, smaller, policy), divisor, policy)


def parts(segments: Sequence[Segment], window: Window, most_bytes: int) -> Iterator[list[Segment]]:
    """The segments in their order, as many together as a group may have; never one alone for its size.

    What counts is what comes out of them: rows that are deleted in the window do not.
    """
    part: list[Segment] = []
    held = 0.0
    for segment in segments:
        alive = segment.bytes_alive_at(window.last)
        full = len(part) == MAX_PLANNED_FILES or (len(part) > 1 and held + alive > most_bytes)
        if full:
            yield part
            part, held = [], 0.0
        part.append(segment)
        held += alive
    if part:
        yield part
