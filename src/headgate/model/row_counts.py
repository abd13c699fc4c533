"""How many rows an operation changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows that were deleted, updated and inserted. False if there were none."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(
            self.deleted + other.deleted, self.updated + other.updated, self.inserted + other.inserted
        )

    def __bool__(self) -> bool:
        return bool(self.deleted or self.updated or self.inserted)
