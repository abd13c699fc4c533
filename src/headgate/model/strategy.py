"""The names of the commit strategies, as they stand in records."""

from __future__ import annotations

from enum import Enum


class StrategyName(Enum):
    """How a version is claimed. The value is what stands on storage."""

    CONDITIONAL = "conditional"
    RENAME = "rename"
    FILETRACKER = "filetracker"

    def __str__(self) -> str:
        return self.value
