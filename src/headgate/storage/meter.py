"""Counting the requests of a process as it goes: few numbers, whatever their number."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.forks import renew_after_fork


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests by kind (`get`, `put`, `create`, `rename`, `delete`, `list`), and the bytes they moved."""

    by_kind: Mapping[str, int] = field(default_factory=dict)
    bytes_read: int = 0
    bytes_written: int = 0


class Meter:
    """What was asked of one store through one handle. Safe to share between threads."""

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        # What the parent asked is the parent's.
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._read = 0
        self._written = 0

    def note(self, kind: str, *, read: int = 0, written: int = 0) -> None:
        """Counts a request that was sent, whatever came of it."""
        with self._lock:
            self._requests[kind] += 1
            self._read += read
            self._written += written

    def counts(self) -> RequestCounts:
        with self._lock:
            return RequestCounts(dict(self._requests), self._read, self._written)
