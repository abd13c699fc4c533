"""The one module that asks the operating system for time, randomness, identity and parallelism.

Everything above receives a `Host`, so a simulation can provide a fake clock and seeded randomness instead.

Also locks and forks: what a forked child must replace before it can work. A fork copies locks in their
current state, but only the thread that forked; so a lock that another thread held stays taken in the child
forever. Owners of locks register here and get new ones.
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

from headgate.model.identifiers import TxId


class AfterFork(Protocol):
    """Something that must be renewed in a forked child."""

    def after_fork(self) -> None:
        """Replaces the locks, and repairs what another thread may have left half done.

        Called in the child, before anything else runs there. Must not take a lock.
        """
        ...


_registered: WeakSet[AfterFork] = WeakSet()


def renew_after_fork(owner: AfterFork) -> None:
    """Registers `owner`: its `after_fork` is called in every child that is forked while it is in use."""
    _registered.add(owner)


def _renew_all() -> None:
    for owner in tuple(_registered):
        owner.after_fork()


os.register_at_fork(after_in_child=_renew_all)


T = TypeVar("T")

REQUESTS_AT_ONCE = 16


class Host(Protocol):
    """What the environment of a process provides."""

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
        """An id that was never used before; safe after a fork."""
        ...

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Runs all tasks, in parallel where possible, and returns their results in order.

        All have finished when it returns. If some raised, the error of the first of those is raised. A task
        may have tasks of its own.
        """
        ...

    def background(self, work: Callable[[], None], name: str, *, awaited: bool = False) -> bool:
        """Runs `work` in the background; False if it cannot be started. It is gone in a forked child.

        The end of the process stops it anywhere, or waits for it if it is `awaited`.
        """
        ...

    def wait_until(self, changed: threading.Condition, is_so: Callable[[], bool]) -> None:
        """Waits until `is_so`, which is asked again whenever `changed` is notified. Called with its lock."""
        ...

    def user(self) -> str:
        """The user who runs the process, as valid Unicode."""
        ...

    def name(self) -> str:
        """The name of the machine, as valid Unicode."""
        ...

    def process(self) -> int: ...

    def common(self) -> MutableMapping[Hashable, Any]:
        """The shared objects of this process, by name. Each exists as long as somebody refers to it.

        If two are stored under one name at the same time, either may stay.
        """
        ...


LAST_TASKS_SECONDS = 2.0
"""How long the end of the process waits for running tasks."""


class _Workers:
    """Threads that carry out tasks.

    Built on queues without locks in Python: a Ctrl-C inside the pools of the standard library can leave one
    of their locks taken forever, and the next request, or the end of the process, would wait for it.

    If no thread can be started (at the end of the process, or at a limit of the system), the caller does the
    work itself. So does a task that has tasks of its own: if all threads were waiting for such tasks, none
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
        """Starts threads until there are as many as wanted; False if the system does not allow it."""
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
        # No reference to a task is held while waiting for the next one.
        while _did(tasks.get()):
            pass

    def _empty_the_queue(self) -> None:
        while True:
            try:
                _did(self._tasks.get_nowait())
            except Empty:
                return

    def stop(self, seconds: float) -> float:
        """Lets no new task begin, and waits for running ones; returns what is left of `seconds`."""
        # Work that comes after this gets threads of its own, or runs without threads.
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
"""A task that waits to be carried out; None for a thread that is to end."""
_Tasks: TypeAlias = "SimpleQueue[_Waiting]"


def _did(waiting: _Waiting) -> bool:
    if waiting is None:
        return False
    number, task, batch = waiting
    batch.carry_out(number, task)
    return True


_all_workers: WeakSet[_Workers] = WeakSet()


def _stop_all_workers() -> None:
    """Waits for tasks that a Ctrl-C left behind: stopping one inside Arrow would abort the process."""
    left = LAST_TASKS_SECONDS
    for workers in list(_all_workers):
        left = workers.stop(left)


atexit.register(_stop_all_workers)


class _Batch:
    """Tasks that were submitted together, and the results for the caller that waits for them."""

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
    """The real environment."""

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

    def background(self, work: Callable[[], None], name: str, *, awaited: bool = False) -> bool:
        try:
            threading.Thread(target=work, name=f"headgate-{name}", daemon=not awaited).start()
        except RuntimeError:  # at the end of the process, or at a limit of the system
            return False
        return True

    def wait_until(self, changed: threading.Condition, is_so: Callable[[], bool]) -> None:
        changed.wait_for(is_so)

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
    except AttributeError:  # not available on every system
        return os.cpu_count() or 1


def _unicode(name: str) -> str:
    # Names are bytes to the operating system; those that are not UTF-8 arrive as halves of surrogate pairs.
    return name.encode(errors="backslashreplace").decode()


SYSTEM = SystemHost()
