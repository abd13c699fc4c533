"""Windows and boundaries: arithmetic on versions and the divisor, as described in the compaction design.

A version is a boundary of level L if divisor^L divides it. Reaching it completes the window of level L that
ends there, and all smaller windows that end there.

Also whether the files of a later snapshot still show what a table was at a version. Compaction never merges
files across a boundary, and every row delete records its version. So a version can be read from files of
later ones: those that end at or before it, without the later deletes. That is exact unless a file contains
rows from before and after the version, or rows left the files in another way.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.model.identifiers import Version, Window


def boundary_at_or_before(version: Version, divisor: int) -> Version:
    """The last boundary of level 1 that is not above `version`; version 0 counts as one."""
    return Version(version.number - version.number % divisor)


def window_of(version: int, level: int, divisor: int) -> Window:
    """The window of a level that a version belongs to, whether it is complete or not."""
    assert divisor >= 2
    assert version >= 1, version
    size = divisor**level
    start = (version - 1) // size * size
    return Window(start + 1, start + size, level)


def largest_complete_window(version: int, newest: int, divisor: int) -> Window:
    """The largest window that contains `version` and had ended when version `newest` was reached."""
    assert 1 <= version <= newest, (version, newest)
    level = 0
    while window_of(version, level + 1, divisor).last <= newest:
        level += 1
    return window_of(version, level, divisor)


def complete_windows(newest: int, divisor: int) -> tuple[Window, ...]:
    """All versions up to `newest` as the largest complete windows, the oldest first.

    Each level has as many windows as the digit of `newest` says, written in the base of the divisor.
    """
    windows: list[Window] = []
    first = 1
    while first <= newest:
        windows.append(largest_complete_window(first, newest, divisor))
        first = windows[-1].last + 1
    return tuple(windows)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the live files of a snapshot show of earlier versions of their table.

    `since` is the oldest version from which on rows left the files only by position deletes and compaction;
    `windows` are the ranges of versions that the data files cover.
    """

    since: int
    windows: frozenset[Window]

    def tells(self, version: int) -> bool:
        """Whether its files show the table at `version`, which is not above the snapshot, exactly."""
        return self.since <= version and not any(window.straddles(version) for window in self.windows)
