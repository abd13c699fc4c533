"""A store in memory, for tests, simulations and examples. Keeps every promise; persists nothing."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Callable
from datetime import datetime
from itertools import islice, takewhile

from headgate.model.limits import require_size
from headgate.storage.capabilities import Page, SizedPage, Stored, TimedPage
from headgate.storage.requests import checked_key, checked_prefix
from headgate.system.host import SYSTEM, renew_after_fork


class MemoryStore:
    """A dictionary with a lock. Each operation is atomic; listings are in key order, one page."""

    def __init__(self, name: str = "", now: Callable[[], datetime] = SYSTEM.now) -> None:
        self._name = name
        self._now = now
        self._times: dict[str, datetime] = {}
        self._lock = threading.Lock()
        self._objects: dict[str, bytes] = {}
        self._keys: list[str] = []
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._keys = sorted(self._objects)

    def describe(self) -> str:
        return f"memory://{self._name}"

    def uri(self) -> str:
        return f"memory://{self._name}"

    def get(self, key: str) -> bytes | None:
        with self._lock:
            found = self._objects.get(checked_key(key))
        if found is not None:
            require_size(key, len(found))
        return found

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self._set(checked_key(key), data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self._lock:
            if checked_key(key) in self._objects:
                return False
            self._set(key, data)
            return True

    def rename_no_replace(self, source: str, target: str) -> bool:
        with self._lock:
            if checked_key(target) in self._objects or checked_key(source) not in self._objects:
                return False
            self._set(target, self._remove(source))
            return True

    def delete(self, key: str) -> None:
        with self._lock:
            if checked_key(key) in self._objects:
                self._remove(key)

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        checked_prefix(prefix)
        with self._lock:
            start = bisect_right(self._keys, max(after or "", prefix))
            below = takewhile(lambda key: key.startswith(prefix), islice(self._keys, start, None))
            return Page(tuple(below), complete=True)

    def list_sizes(self, prefix: str, after: str | None = None) -> SizedPage:
        page = self.list_page(prefix, after)
        with self._lock:
            found = [(key, self._objects.get(key)) for key in page.keys]
        return SizedPage(tuple((key, len(data)) for key, data in found if data is not None), page.complete)

    def list_times(self, prefix: str, after: str | None = None) -> TimedPage:
        page = self.list_page(prefix, after)
        with self._lock:
            found = [(key, self._objects.get(key), self._times.get(key)) for key in page.keys]
        there = (Stored(key, len(data), at) for key, data, at in found if data is not None and at is not None)
        return TimedPage(tuple(there), page.complete)

    def _set(self, key: str, data: bytes) -> None:
        self._times[key] = self._now()
        if key not in self._objects:
            insort(self._keys, key)
        self._objects[key] = data

    def _remove(self, key: str) -> bytes:
        self._keys.pop(bisect_right(self._keys, key) - 1)
        return self._objects.pop(key)
