"""What planning knows of the live data files of a table, and what it makes of them. No bytes, no storage."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from headgate.model.window import Window


@dataclass(frozen=True, slots=True)
class Segment:
    """A live data file: where it lies, which versions its rows are of, how much there is of it.

    `path` is the virtual one. `place` tells partitions apart that have the same path, as those of two specs.
    `dead` has, for each version that deleted rows of the file by position, how many these were.
    """

    file: str
    path: str
    covers: Window
    size_bytes: int
    rows: int
    dead: tuple[tuple[int, int], ...] = ()
    place: Hashable = ()

    def dead_at(self, version: int) -> int:
        """How many rows had been deleted by position when a version was reached."""
        return sum(count for at, count in self.dead if at <= version)

    def bytes_alive_at(self, version: int) -> float:
        """About how many bytes the other rows take."""
        return self.size_bytes * (1 - self.dead_at(version) / self.rows) if self.rows else 0.0


@dataclass(frozen=True, slots=True)
class Group:
    """Segments of one path that become new files, which cover `window`."""

    path: str
    window: Window
    segments: tuple[Segment, ...]
    place: Hashable = ()

    @property
    def files(self) -> frozenset[str]:
        return frozenset(segment.file for segment in self.segments)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def rows(self) -> int:
        """How many rows are read, deleted ones among them."""
        return sum(segment.rows for segment in self.segments)

    @property
    def dead(self) -> int:
        """How many of them are deleted, and are not written again."""
        return sum(segment.dead_at(self.window.last) for segment in self.segments)

    def __str__(self) -> str:
        return (
            f"{self.path} level {self.window.level}, versions {self.window}: {len(self.segments)} files, "
            f"{self.size_bytes} bytes, {self.rows} rows, {self.dead} deleted"
        )
