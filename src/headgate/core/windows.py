"""Levels, windows and boundaries: arithmetic on versions and the divisor, as in the compaction design."""

from __future__ import annotations

from headgate.model.identifiers import Version


def level_of(version: Version, divisor: int) -> int:
    """The highest level whose boundary `version` is; 0 for a version that is no boundary."""
    assert divisor >= 2 and version.number >= 1
    level, number = 0, version.number
    while number % divisor == 0:
        level, number = level + 1, number // divisor
    return level


def boundary_at_or_before(version: Version, divisor: int) -> Version:
    """The last boundary of level 1 that is not above `version`; version 0 counts as one."""
    return Version(version.number - version.number % divisor)
