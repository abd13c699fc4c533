"""Which segments are clustered together: each once, with all others of its path and window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.compaction.eligible import Segment, plan_clustering
from headgate.core.compaction.windows import largest_complete_window, window_of
from headgate.model.identifiers import Window

DIVISOR = 3
PLACES = st.tuples(st.sampled_from(["/t/t/p=1", "/t/t/p=2"]), st.integers(0, 1))
VERSIONS = st.tuples(st.integers(1, 60), st.integers(0, 2))


@given(
    found=st.lists(st.tuples(PLACES, VERSIONS), max_size=30),
    newest=st.integers(60, 90),
)
def test_every_segment_is_with_those_of_its_path_and_window(
    found: list[tuple[tuple[str, int], tuple[int, int]]], newest: int
) -> None:
    segments = [
        Segment(f"f{number}", path, covered(version, level), 1, 1, place=place)
        for number, ((path, place), (version, level)) in enumerate(found)
    ]
    groups = plan_clustering(segments, newest, DIVISOR)
    grouped = [segment for group in groups for segment in group.segments]
    assert len({segment.file for segment in grouped}) == len(grouped)
    assert len({(group.path, group.place, group.window) for group in groups}) == len(groups)
    for group in groups:
        window = group.window
        assert window.level >= 1
        assert window.last <= newest < window_of(window.first, window.level + 1, DIVISOR).last
        for segment in group.segments:
            assert (segment.path, segment.place) == (group.path, group.place)
            assert window.holds(segment.covers)
    left = {segment.file for segment in segments} - {segment.file for segment in grouped}
    for segment in segments:
        is_recent = not largest_complete_window(segment.covers.last, newest, DIVISOR).level
        assert (segment.file in left) == is_recent


def covered(version: int, level: int) -> Window:
    """A single version, or the window of a compacted file."""
    return window_of(version, level, DIVISOR)
