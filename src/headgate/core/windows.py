"""Boundaries: arithmetic on versions and the divisor, as in the compaction design."""

from __future__ import annotations

from headgate.model.identifiers import Version


def boundary_at_or_before(version: Version, divisor: int) -> Version:
    """The last boundary of level 1 that is not above `version`; version 0 counts as one."""
    return Version(version.number - version.number % divisor)
