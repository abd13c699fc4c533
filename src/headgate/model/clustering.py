"""What a clustering did, as a value for callers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusteringReport:
    """What a clustering of one table did.

    `groups` of files, each of one path and one window of versions, were sorted: so many `files_in` with
    `bytes_in` became `files_out`, with `rows` in them; `rows_dropped` had been deleted before. `plans` are
    the transactions that scheduled it, `versions` all that it made. It left alone `files_recent`, whose
    window is complete when the lake reaches version `complete_at`; `files_pending`, which another table
    service is about to rewrite; and `files_clustered`, which are so clustered already.
    """

    table: str
    by: tuple[str, ...]
    zorder: bool
    groups: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows: int = 0
    rows_dropped: int = 0
    plans: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()
    files_recent: int = 0
    complete_at: int = 0
    files_pending: int = 0
    files_clustered: int = 0

    @property
    def changed(self) -> bool:
        """Whether it did anything."""
        return bool(self.versions)
