"""What a compaction is at, and what it did, as values for callers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompactionProgress:
    """How far the plan is that is being carried out: files and bytes that were read, of how many."""

    table: str
    path: str
    files_done: int
    files: int
    bytes_done: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a compaction did, up to the version that the lake had when it ended.

    Plans are named by their transactions: `planned` by this call, `taken_over` from those who died, and
    `completed` and `cancelled` of both; `reasons` says why each of the cancelled ones was given up. `groups`
    of files were put together: so many `files_in` with `bytes_in` became `files_out`, with `rows` in them;
    `rows_dropped` had been deleted before. `versions` are those that it made itself.
    """

    until: int = 0
    tables: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    taken_over: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    groups: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows: int = 0
    rows_dropped: int = 0
    versions: tuple[int, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether it did anything."""
        return bool(self.versions)
