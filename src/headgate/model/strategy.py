"""The names of the commit strategies, as they stand in records."""

from __future__ import annotations

from enum import Enum


class StrategyName(Enum):
    """How a version is claimed. The value is what stands on storage."""

    CONDITIONAL = "conditional"
    RENAME = "rename"
    FILETRACKER = "filetracker"

    @classmethod
    def find(cls, name: str) -> StrategyName | None:
        """The strategy of this name; None if this release does not know it."""
        return next((strategy for strategy in cls if strategy.value == name), None)

    def __str__(self) -> str:
        return self.value
