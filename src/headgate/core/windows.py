"""Windows and boundaries: arithmetic on versions and the divisor, as in the compaction design.

A version is a boundary of level L if divisor^L divides it. Reaching it completes the window of level L that
ends there, and all smaller windows that end there.
"""

from __future__ import annotations

from headgate.model.identifiers import Version
from headgate.model.window import Window


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
    """The largest window that holds `version` and had ended when version `newest` was reached."""
    assert 1 <= version <= newest, (version, newest)
    level = 0
    while window_of(version, level + 1, divisor).last <= newest:
        level += 1
    return window_of(version, level, divisor)


def complete_windows(newest: int, divisor: int) -> tuple[Window, ...]:
    """All versions up to `newest` as the largest windows that are complete, the oldest first.

    As many of each level as the digit of `newest` says, written with the divisor as its base.
    """
    windows: list[Window] = []
    first = 1
    while first <= newest:
        windows.append(largest_complete_window(first, newest, divisor))
        first = windows[-1].last + 1
    return tuple(windows)


def boundary_level(version: int, divisor: int) -> int:
    """The highest level that a version is a boundary of; 0 if of none."""
    assert version >= 1, version
    level = 0
    while version % divisor ** (level + 1) == 0:
        level += 1
    return level
