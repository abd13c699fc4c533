"""The one module that asks the operating system for time, randomness, identity and parallelism.

Everything above receives a `Host`, so a simulation can put a fake clock and a seeded dice in its place.
"""

from __future__ import annotations

import atexit
import getpass
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakSet, WeakValueDictionary

from headgate.forks import renew_after_fork
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
        A task may have tasks of its own.
        """
        ...

    def background(self, work: Callable[[], None], name: str) -> bool:
        """Runs `work` beside everything else, at most until the process ends; False if it cannot be begun.

        Nothing may depend on it: it is gone in a forked child, and stopped anywhere when the process ends.
        """
        ...

    def user(self) -> str:
        """Who runs the process, as valid Unicode."""
        ...

    def name(self) -> str:
        """The name of the machine, as valid Unicode."""
        ...

    def process(self) -> int: ...

    def common(self) -> MutableMapping[Hashable, Any]:
        """What the parts of this process have in common, by name. Each is there as long as somebody holds it.

        Of two that are put under one name at the same moment, either may stay.
        """
        ...


LAST_TASKS_SECONDS = 2.0
"""How long the end of the process waits for tasks that are under way."""


class _Workers:
    """Threads that carry out tasks.

    Built on queues without locks in Python: a Ctrl-C inside the pools of the standard library can leave one
    of their locks taken for ever, and the next request, or the end of the process, would wait for it.

    Where no thread can be started (at the end of the process, or at a limit of the system) the caller does
    the work itself. So does a task that has tasks of its own: were all threads waiting for such tasks, nobody
    would be left to carry them out.
    """

    def __init__(self) -> None:
        self._tasks: _Tasks = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._here = threading.local()
        _all_workers.add(self)

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        batch = _Batch()
        try:
            if getattr(self._here, "is_worker", False):
                for number, task in enumerate(tasks):
                    batch.carry_out(number, task)
            else:
                self._hand_out(tasks, batch)
            finished = dict(batch.answers.get() for _ in tasks)
        except BaseException:
            batch.is_abandoned = True  # by a Ctrl-C: nobody waits for what has not begun
            raise
        for number in range(len(tasks)):
            if isinstance(finished[number], _Raised):
                raise finished[number].error
        return [finished[number] for number in range(len(tasks))]

    def _hand_out(self, tasks: Sequence[Callable[[], T]], batch: _Batch) -> None:
        for number, task in enumerate(tasks):
            self._tasks.put((number, task, batch))
        if not self._staffed(min(REQUESTS_AT_ONCE, max(len(tasks), self._tasks.qsize()))):
            self._empty_the_queue()

    def _staffed(self, wanted: int) -> bool:
        """Starts threads until there are as many as wanted; False if the system does not let us."""
        while len(self._threads) < wanted:
            name = f"headgate-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, args=(self._tasks,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            # Counted after it runs: a Ctrl-C in between leaves one thread too many, never one too few.
            self._threads.append(thread)
        return True

    def _work(self, tasks: _Tasks) -> None:
        self._here.is_worker = True
        # Nothing of a task is held while the next one is waited for.
        while _did(tasks.get()):
            pass

    def _empty_the_queue(self) -> None:
        while True:
            try:
                _did(self._tasks.get_nowait())
            except Empty:
                return

    def stop(self, seconds: float) -> float:
        """Lets no task begin any more, and waits for those under way; returns what is left of `seconds`."""
        # Whoever has work after this gets threads of their own, or does it without.
        tasks, threads = self._tasks, self._threads
        self._tasks, self._threads = SimpleQueue(), []
        with suppress(Empty):
            while True:
                tasks.get_nowait()
        for _ in threads:
            tasks.put(None)
        until = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return max(0.0, until - time.monotonic())


_Waiting: TypeAlias = "tuple[int, Callable[[], Any], _Batch] | None"
"""What waits to be done; None for a thread that is to end."""
_Tasks: TypeAlias = "SimpleQueue[_Waiting]"


def _did(waiting: _Waiting) -> bool:
    if waiting is None:
        return False
    number, task, batch = waiting
    batch.carry_out(number, task)
    return True


_all_workers: WeakSet[_Workers] = WeakSet()


def _stop_all_workers() -> None:
    """Tasks that nobody waits for any more, after a Ctrl-C: one inside of Arrow would abort the process."""
    left = LAST_TASKS_SECONDS
    for workers in list(_all_workers):
        left = workers.stop(left)


atexit.register(_stop_all_workers)


class _Batch:
    """Tasks that were handed out together, and the answers to whoever waits for them."""

    def __init__(self) -> None:
        self.answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self.is_abandoned = False

    def carry_out(self, number: int, task: Callable[[], Any]) -> None:
        if self.is_abandoned:
            return
        try:
            self.answers.put((number, task()))
        except BaseException as error:  # noqa: BLE001 — raised again by whoever asked
            self.answers.put((number, _Raised(error)))


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


class SystemHost:
    """The real surroundings."""

    def __init__(self) -> None:
        self._workers = _Workers()
        self._common: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._workers = _Workers()  # threads do not survive a fork

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
        return self._workers.run(tasks)

    def background(self, work: Callable[[], None], name: str) -> bool:
        try:
            threading.Thread(target=work, name=f"headgate-{name}", daemon=True).start()
        except RuntimeError:  # at the end of the process, or at a limit of the system
            return False
        return True

    def user(self) -> str:
        try:
            return _unicode(getpass.getuser())
        except (KeyError, OSError):  # no such entry in the user database, as in some containers
            return str(os.getuid())

    def name(self) -> str:
        return _unicode(socket.gethostname())

    def process(self) -> int:
        return os.getpid()

    def common(self) -> MutableMapping[Hashable, Any]:
        return self._common


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _unicode(name: str) -> str:
    # Names are bytes to the operating system; those that are not UTF-8 arrive as halves of surrogate pairs.
    return name.encode(errors="backslashreplace").decode()


SYSTEM = SystemHost()
