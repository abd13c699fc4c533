"""Running a machine on a store: requests at once where the protocol allows, pauses where it gives way.

All requests of a handle go through its driver, which counts them. It sends each request once. Repeating one
that got no answer is the business of the store, whose client knows which requests may be repeated and what
the service asks for; so nothing multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TypeVar

from headgate.commit.machine import Ask, Finish, Machine
from headgate.commit.outcome import ContestedError
from headgate.core.retry import RetryPolicy, delay_seconds
from headgate.errors import InternalError
from headgate.host import Host, processors
from headgate.storage.capabilities import (
    IsNear,
    ListSizes,
    ListTimes,
    Page,
    ReadRanges,
    ReadTail,
    SizedPage,
    Store,
    Stored,
    Tail,
    TimedPage,
)
from headgate.storage.listing import all_keys, all_sizes, all_times
from headgate.storage.meter import Meter
from headgate.storage.requests import KINDS, Answer, Create, Failed, Found, Put, Request, perform

R = TypeVar("R")

MAX_STEPS = 100_000
PAUSE_FLOOR_SECONDS = 0.001
PAUSE_CAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """How to pause, and until when: `until` is a time on the host's clock."""

    policy: RetryPolicy
    until: float = inf


UNHURRIED = Waiting(RetryPolicy())
"""For what happens outside a commit, such as deciding the identity of a lake."""


@dataclass(frozen=True, slots=True)
class Driver:
    """Performs the requests of machines on one store."""

    store: Store
    host: Host
    waiting: Waiting = UNHURRIED
    meter: Meter = field(default_factory=Meter)

    def run(self, machine: Machine[R]) -> R:
        """Runs `machine` to its end.

        A machine that wants to pause when the time for waiting is over is told that its requests failed, so
        it ends as it would on a storage that fails: it knows what that leaves in doubt.
        """
        step = machine.begin()
        slowest = PAUSE_FLOOR_SECONDS
        for _ in range(MAX_STEPS):
            if isinstance(step, Finish):
                return step.result
            if step.pauses and not self._pause(step.pauses, slowest):
                over = Failed(ContestedError("the time for waiting is over"))
                step = machine.resume(step.state, (over,) * len(step.requests))
                continue
            started = self.host.elapsed()
            answers = self._ask(step)
            slowest = max(slowest, self.host.elapsed() - started)
            step = machine.resume(step.state, answers)
        raise InternalError(f"{type(machine).__name__} did not end within {MAX_STEPS} steps")

    def _pause(self, pauses: int, slowest_step: float) -> bool:
        """Gives way to others, at most until the time for waiting is over; False if it is over already."""
        left = self.waiting.until - self.host.elapsed()
        if left <= 0:
            return False
        chance = self.host.chance()
        policy = delay_seconds(self.waiting.policy, pauses + 1, chance)
        self.host.sleep(min(left, max(policy, pause_seconds(slowest_step, pauses, chance))))
        return True

    def _ask(self, step: Ask) -> tuple[Answer, ...]:
        return tuple(self.host.together([partial(self._perform, request) for request in step.requests]))

    def _perform(self, request: Request) -> Answer:
        answer = perform(self.store, request)
        self.meter.note(
            KINDS[type(request)],
            read=len(answer.data) if isinstance(answer, Found) else 0,
            written=len(request.data) if isinstance(request, Put | Create) else 0,
        )
        return answer

    # Outside of machines. Each raises a `StorageError` if the storage fails.

    def get(self, key: str) -> bytes | None:
        """The object, or None."""
        data = self.store.get(key)
        self.meter.note("get", read=0 if data is None else len(data))
        return data

    def tail(self, key: str, length_bytes: int) -> Tail | None:
        """The end of the object, at least so many bytes of it, or None. All of it where nothing less goes."""
        if not isinstance(self.store, ReadTail):
            data = self.get(key)
            return None if data is None else Tail(data, len(data))
        tail = self.store.tail(key, length_bytes)
        self.meter.note("get", read=0 if tail is None else len(tail.data))
        return tail

    def ranges(self, key: str, ranges: Sequence[range]) -> list[bytes] | None:
        """Parts of an object that nobody replaces, or None if it is not there."""
        if not isinstance(self.store, ReadRanges):
            data = self.get(key)
            return None if data is None else [data[part.start : part.stop] for part in ranges]
        parts = self.store.ranges(key, ranges)
        for part in parts or [b""]:
            self.meter.note("get", read=len(part))
        return parts

    def fetch_at_once(self, tasks: Sequence[Callable[[], R]]) -> list[R]:
        """Runs tasks that read what Python decodes: records and manifests. Their results in order.

        Of storage that is near there is nothing to wait for, and decoding holds Python's lock: threads would
        only hand it to each other.
        """
        return [task() for task in tasks] if self._is_near() else self.host.together(tasks)

    def read_at_once(self, tasks: Sequence[Callable[[], R]]) -> list[R]:
        """Runs tasks that read what Arrow decodes: data files. Their results in order."""
        at_most = processors() if self._is_near() else len(tasks)
        if len(tasks) <= at_most:
            return self.host.together(tasks)
        results: dict[int, R] = {}
        left = iter(enumerate(tasks))

        def work() -> None:
            for number, task in left:  # each of them is given to one thread
                results[number] = task()

        try:
            self.host.together([work] * at_most)
        except BaseException:
            for _ in left:
                pass  # by an error, or a Ctrl-C: nobody waits for the rest
            raise
        return [results[number] for number in range(len(tasks))]

    def _is_near(self) -> bool:
        return isinstance(self.store, IsNear) and self.store.is_near()

    def put(self, key: str, data: bytes) -> None:
        """Writes the object."""
        self.store.put(key, data)
        self.meter.note("put", written=len(data))

    def delete(self, key: str) -> None:
        """Removes the object, if it is there."""
        self.store.delete(key)
        self.meter.note("delete")

    def keys(self, prefix: str, after: str | None = None) -> list[str]:
        """Every key below `prefix`, or those above `after`. Each page is observed at its own moment."""
        return all_keys(self, prefix, after)

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        """A part of a listing."""
        page = self.store.list_page(prefix, after)
        self.meter.note("list")
        return page

    def sizes(self, prefix: str) -> dict[str, int | None]:
        """Every key below `prefix` with the size of its object, or with None if the storage lists none."""
        if isinstance(self.store, ListSizes):
            return dict(all_sizes(self, prefix))
        return dict.fromkeys(self.keys(prefix))

    def times(self, prefix: str) -> list[Stored] | None:
        """Every object below `prefix` with the time of its writing; None if the storage lists no times."""
        return all_times(self, prefix) if isinstance(self.store, ListTimes) else None

    def list_times(self, prefix: str, after: str | None = None) -> TimedPage:
        """A part of a listing with times, of a storage that has them."""
        assert isinstance(self.store, ListTimes), self.store
        page = self.store.list_times(prefix, after)
        self.meter.note("list")
        return page

    def list_sizes(self, prefix: str, after: str | None = None) -> SizedPage:
        """A part of a listing with sizes, of a storage that has them."""
        assert isinstance(self.store, ListSizes), self.store
        page = self.store.list_sizes(prefix, after)
        self.meter.note("list")
        return page


def pause_seconds(slowest_step: float, pauses: int, chance: float) -> float:
    """How long to give way: at least the three steps that the client ahead of us needs to finish.

    Measured in our own steps, because nothing else tells how fast the storage is. Grows with each time we
    gave way, and is drawn at random so that two clients do not keep stepping on each other's toes.
    """
    return min(PAUSE_CAP_SECONDS, slowest_step * (3.0 + chance * 2.0 ** min(pauses, 10)))
