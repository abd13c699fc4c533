"""Counting requests and bytes: how the budgets of a commit are held, and what benchmarks print."""

from __future__ import annotations

import threading
from collections import Counter

from headgate.storage.capabilities import Store
from headgate.storage.intercept import Proceed, intercepted
from headgate.storage.requests import KINDS, Answer, Create, Found, Put, Request


class Tally:
    """Requests by kind, bytes in and out, and the keys asked for, in order. Safe to share by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self.requests: Counter[str] = Counter()
            self.bytes_written = 0
            self.bytes_read = 0
            self.history: list[Request] = []

    def counts(self) -> dict[str, int]:
        """Requests by kind since the last reset."""
        with self._lock:
            return dict(self.requests)

    def intercept(self, request: Request, proceed: Proceed) -> Answer:
        answer = proceed(request)
        with self._lock:
            self.requests[KINDS[type(request)]] += 1
            self.history.append(request)
            if isinstance(request, Put | Create):
                self.bytes_written += len(request.data)
            if isinstance(answer, Found):
                self.bytes_read += len(answer.data)
        return answer


def counted(store: Store) -> tuple[Store, Tally]:
    """`store` with a tally of all requests made through the result."""
    tally = Tally()
    return intercepted(store, tally.intercept), tally
