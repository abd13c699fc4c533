"""A table as compaction sees it: its segments by level, and what is ready to compact. For people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headgate.core.compaction.eligible import CompactionPolicy, Group, Segment, is_small, plan_compaction


@dataclass(frozen=True, slots=True)
class LevelOutlook:
    """The segments of one level of a path; `small` of them are small enough to be merged with others."""

    level: int
    segments: int
    small: int
    size_bytes: int
    rows: int
    rows_deleted: int


@dataclass(frozen=True, slots=True)
class PathOutlook:
    """A virtual path of a table: its levels, the lowest first, and what is ready to compact there."""

    path: str
    levels: tuple[LevelOutlook, ...]
    due: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class TableOutlook:
    """A table at a version. `pending` of its files are inputs of plans, and are left out."""

    table: str
    version: int
    manifests: int
    pending: int
    paths: tuple[PathOutlook, ...]

    @property
    def due(self) -> tuple[Group, ...]:
        return tuple(group for path in self.paths for group in path.due)


def paths_of(
    segments: Sequence[Segment],
    free: Iterable[Segment],
    newest: int,
    divisor: int,
    policy: CompactionPolicy,
) -> tuple[PathOutlook, ...]:
    """The paths of all segments of a table. Only segments among `free` are ready to compact."""
    here: dict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        here[segment.path].append(segment)
    due: dict[str, list[Group]] = defaultdict(list)
    for group in plan_compaction(free, newest, divisor, policy):
        due[group.path].append(group)
    return tuple(
        PathOutlook(path, _levels(found, policy), tuple(due[path])) for path, found in sorted(here.items())
    )


def _levels(segments: Sequence[Segment], policy: CompactionPolicy) -> tuple[LevelOutlook, ...]:
    found = []
    for level in sorted({segment.covers.level for segment in segments}):
        here = [segment for segment in segments if segment.covers.level == level]
        found.append(
            LevelOutlook(
                level,
                len(here),
                sum(is_small(segment, policy) for segment in here),
                sum(segment.size_bytes for segment in here),
                sum(segment.rows for segment in here),
                sum(count for segment in here for _, count in segment.dead),
            )
        )
    return tuple(found)
