"""A window: a range of versions that compaction puts together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class Window:
    """The versions from `first` to `last`. A window of level L is as long as the divisor to the power of L.

    Level 0 is a single commit. What a file covers is a window, too.
    """

    first: int
    last: int
    level: int = 0

    def __post_init__(self) -> None:
        assert 0 <= self.first <= self.last, self
        assert self.level >= 0, self

    def holds(self, other: Window) -> bool:
        """Whether the other one lies in this one."""
        return self.first <= other.first and other.last <= self.last

    def straddles(self, version: int) -> bool:
        """Whether it holds versions up to `version` and later ones: it cannot be read as it was then."""
        return self.first <= version < self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.first < self.last else str(self.first)
