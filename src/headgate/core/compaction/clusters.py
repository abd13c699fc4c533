"""Which segments are clustered together: all of a path that the same complete window holds.

So what a clustering makes covers a window, as what a compaction makes does, and boundaries stay exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

from headgate.core.compaction.due import by_window
from headgate.core.compaction.segments import Group, Segment


def plan_clustering(segments: Iterable[Segment], newest: int, divisor: int) -> tuple[Group, ...]:
    """The segments in groups, by path and then by window. Those of incomplete windows are in none."""
    places: dict[tuple[str, Hashable], list[Segment]] = defaultdict(list)
    for segment in segments:
        places[segment.path, segment.place].append(segment)
    return tuple(
        Group(path, window, tuple(sorted(here, key=lambda segment: (segment.covers, segment.file))), place)
        for (path, place), found in sorted(places.items(), key=lambda one: (one[0][0], repr(one[0][1])))
        for window, here in by_window(found, newest, divisor).items()
        if window.level
    )
