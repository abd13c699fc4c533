"""Which files of a table are ready to compact: a pure function of the live files and the newest version.

All versions up to the newest are divided into the largest complete windows, as a number is divided into its
digits. A segment belongs to one of these windows, and only ever moves to a larger one. So every process
computes the same result at any time, and a boundary that one process missed is found by the next one that
checks.

Clustering groups all segments of a path that belong to the same complete window. So the result of a
clustering covers a window, like the result of a compaction, and boundaries stay exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headgate.core.compaction.windows import largest_complete_window, window_of
from headgate.core.input.settings import DELETE_SHARE, MIN_INPUTS, TARGET_SIZE
from headgate.model.footprint import MAX_FILES
from headgate.model.identifiers import Window
from headgate.model.plan import MAX_INPUTS


@dataclass(frozen=True, slots=True)
class Segment:
    """A live data file: where it lies, which versions its rows are of, how much there is of it.

    `path` is the virtual one. `place` tells partitions apart that have the same path, as those of two specs.
    `dead` has, for each version that deleted rows of the file by position, how many these were.
    """

    file: str
    path: str
    covers: Window
    size_bytes: int
    rows: int
    dead: tuple[tuple[int, int], ...] = ()
    place: Hashable = ()

    def dead_at(self, version: int) -> int:
        """How many rows had been deleted by position when a version was reached."""
        return sum(count for at, count in self.dead if at <= version)

    def bytes_alive_at(self, version: int) -> float:
        """About how many bytes the other rows take."""
        return self.size_bytes * (1 - self.dead_at(version) / self.rows) if self.rows else 0.0


@dataclass(frozen=True, slots=True)
class Group:
    """Segments of one path that become new files, which cover `window`."""

    path: str
    window: Window
    segments: tuple[Segment, ...]
    place: Hashable = ()

    @property
    def files(self) -> frozenset[str]:
        return frozenset(segment.file for segment in self.segments)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def rows(self) -> int:
        """How many rows are read, deleted ones among them."""
        return sum(segment.rows for segment in self.segments)

    @property
    def dead(self) -> int:
        """How many of them are deleted, and are not written again."""
        return sum(segment.dead_at(self.window.last) for segment in self.segments)

    def __str__(self) -> str:
        return (
            f"{self.path} level {self.window.level}, versions {self.window}: {len(self.segments)} files, "
            f"{self.size_bytes} bytes, {self.rows} rows, {self.dead} deleted"
        )


ENOUGH_SHARE = 0.75
"""A file of this share of the target size counts as one of that size: no encoder meets a size exactly."""
TARGETS_IN_GROUP = 4
"""How many files of the target size a group may hold: an engine reads a group as a whole."""
TARGETS_IN_PLAN = 64
"""How many a plan may hold: what one of several compactors takes at a time, and loses if it fails."""
MAX_PLANNED_FILES = min(MAX_INPUTS, MAX_FILES)
"""How many files a plan has at most: its completion names each in its footprint, so that deletes meet it."""


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The rules of one table.

    A window is compacted if it has `min_inputs` segments that are too small or have deleted rows, or if more
    than `delete_share` of their rows are deleted. New files are about `target_bytes` long.
    """

    min_inputs: int
    delete_share: float
    target_bytes: int

    def __post_init__(self) -> None:
        assert self.min_inputs >= 2, self
        assert 0 < self.delete_share <= 1, self
        assert self.target_bytes > 0, self

    @property
    def enough_bytes(self) -> float:
        """From which size on a file is left as it is."""
        return self.target_bytes * ENOUGH_SHARE

    @property
    def group_bytes(self) -> int:
        return self.target_bytes * TARGETS_IN_GROUP

    @property
    def plan_bytes(self) -> int:
        return self.target_bytes * TARGETS_IN_PLAN


def policy_of(table: Mapping[str, str], lake: Mapping[str, str], divisor: int) -> CompactionPolicy:
    """What the properties of a table, and of its lake, ask for."""
    return CompactionPolicy(
        min_inputs=int(MIN_INPUTS.of(table, lake, usual=divisor)),
        delete_share=DELETE_SHARE.of(table, lake),
        target_bytes=int(TARGET_SIZE.of(table)),
    )


def plan_compaction(
    segments: Iterable[Segment], newest: int, divisor: int, policy: CompactionPolicy
) -> tuple[Group, ...]:
    """The groups to compact when version `newest` is reached, the oldest window of each path first.

    No segment is in two groups. After all groups were compacted, repeatedly while there are any, nothing is
    ready until a larger window is complete, and each level of a path has fewer than `min_inputs` small
    segments, or at most one for each window. No row is written more than once for each level.
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
    """The segments of a window that have a lower level, and are too small or have deleted rows."""
    return tuple(
        segment
        for segment in segments
        if segment.covers.level < window.level and (is_small(segment, policy) or segment.dead_at(window.last))
    )


def is_small(segment: Segment, policy: CompactionPolicy) -> bool:
    """Whether a file is small enough to be merged with others."""
    return segment.size_bytes < policy.enough_bytes


def by_window(segments: Iterable[Segment], newest: int, divisor: int) -> dict[Window, list[Segment]]:
    """The segments of a path by the largest complete window that contains them, the oldest first."""
    windows: dict[Window, list[Segment]] = defaultdict(list)
    for segment in segments:
        window = largest_complete_window(segment.covers.first, newest, divisor)
        # A segment with versions of two windows has another origin; it is left alone until one window holds
        # it.
        if window.holds(segment.covers):
            windows[window].append(segment)
    return dict(sorted(windows.items()))


def _due_windows(
    segments: Sequence[Segment], newest: int, divisor: int, policy: CompactionPolicy
) -> Iterator[tuple[Window, tuple[Segment, ...]]]:
    windows = by_window(segments, newest, divisor)
    small_at: dict[int, int] = defaultdict(int)
    for window, here in windows.items():
        # All windows of one level are parts of the same larger window, which is not complete.
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
    # The level has as many small segments as one window may have: it never keeps more than that.
    if small_at_level >= policy.min_inputs and sum(is_small(segment, policy) for segment in chosen) >= 2:
        return True
    dead = sum(segment.dead_at(window.last) for segment in chosen)
    return dead > policy.delete_share * sum(segment.rows for segment in chosen)


def _groups(
    path: str, window: Window, chosen: Sequence[Segment], divisor: int, policy: CompactionPolicy
) -> Iterator[Group]:
    """The segments, cut into parts that an engine can hold. A part that gains nothing is left out."""
    if len(chosen) > MAX_PLANNED_FILES and window.level > 1:
        # Too many for one plan, and each of several plans would leave a small file. So the smaller windows
        # inside come first; when they are compacted, few files are left.
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
    """The groups of the windows of the next lower level."""
    inside: dict[Window, list[Segment]] = defaultdict(list)
    for segment in chosen:
        inside[window_of(segment.covers.first, window.level - 1, divisor)].append(segment)
    for smaller, here in sorted(inside.items()):
        held = [segment for segment in here if smaller.holds(segment.covers)]
        yield from _groups(path, smaller, candidates(held, smaller, policy), divisor, policy)


def parts(segments: Sequence[Segment], window: Window, most_bytes: int) -> Iterator[list[Segment]]:
    """The segments in order, in parts as large as a group may be; no part is closed after a single segment.

    The size of the output counts: rows that are deleted within the window do not.
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


def plan_clustering(segments: Iterable[Segment], newest: int, divisor: int) -> tuple[Group, ...]:
    """The segments in groups, by path and then by window. Segments of incomplete windows are left out."""
    places: dict[tuple[str, Hashable], list[Segment]] = defaultdict(list)
    for segment in segments:
        places[segment.path, segment.place].append(segment)
    return tuple(
        Group(path, window, tuple(sorted(here, key=lambda segment: (segment.covers, segment.file))), place)
        for (path, place), found in sorted(places.items(), key=lambda one: (one[0][0], repr(one[0][1])))
        for window, here in by_window(found, newest, divisor).items()
        if window.level
    )
