"""The one module that asks the operating system for time, randomness, identity and parallelism.

Everything above receives a `Host`, so a simulation can put a fake clock and a seeded dice in its place.
"""

from __future__ import annotations

import getpass
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from headgate.model.identifiers import TxId

T = TypeVar("T")

REQUESTS_AT_ONCE = 16


class Host(Protocol):
    """What the surroundings of a process provide."""

    def now(self) -> datetime:
        """The time of day, for display. No decision uses it."""
        ...

    def elapsed(self) -> float:
        """Seconds on a clock that only moves forward, for waiting and giving up."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def chance(self) -> float:
        """A number drawn uniformly from [0, 1)."""
        ...

    def new_txid(self) -> TxId:
        """An id that nobody has had before; safe after a fork."""
        ...

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Runs all tasks, at once where possible, and returns their results in order.

        All are finished when it returns. If some raised, the error of the first of those is raised.
        """
        ...

    def user(self) -> str: ...

    def name(self) -> str: ...

    def process(self) -> int: ...


class SystemHost:
    """The real surroundings."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def chance(self) -> float:
        return random.random()

    def new_txid(self) -> TxId:
        return TxId(uuid.uuid4().hex)

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        if len(tasks) <= 1:
            return [task() for task in tasks]
        futures = [self._threads().submit(task) for task in tasks]
        finished = [(future.exception(), future) for future in futures]
        return [future.result() for _, future in finished]

    def user(self) -> str:
        try:
            return getpass.getuser()
        except (KeyError, OSError):  # no such entry in the user database, as in some containers
            return str(os.getuid())

    def name(self) -> str:
        return socket.gethostname()

    def process(self) -> int:
        return os.getpid()

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            # Threads do not survive a fork, so a child makes its own.
            if self._pool is None or self._pool_process != os.getpid():
                self._pool = ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="headgate")
                self._pool_process = os.getpid()
            return self._pool


SYSTEM = SystemHost()
