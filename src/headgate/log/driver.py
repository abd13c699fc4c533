"""Running a machine on a store: requests at once where the protocol allows, pauses where it gives way.

1. Ask the machine for its next requests.
2. If it gives way, pause first.
3. Send the requests, at once, and wait for all answers. A storage error is an answer, too.
4. Give the answers to the machine, and go to 1 until it has a result.

A process may die before, between or after any of these requests; each protocol says what that leaves.

All requests of a handle go through its driver, which counts them. It sends each request once. Repeating one
that got no answer is the business of the store, whose client knows which requests may be repeated and what
the service asks for; so nothing multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TypeVar

from headgate.core.conflict.retry import RetryPolicy, delay_seconds
from headgate.errors import CorruptLakeError, InternalError
from headgate.log.machine import Ask, ContestedError, Finish, Machine
from headgate.storage.capabilities import (
    IsNear,
    ListSizes,
    ListTimes,
    Page,
    PutIfAbsent,
    PutInParts,
    ReadRanges,
    ReadTail,
    SizedPage,
    Store,
    Stored,
    Tail,
    TimedPage,
)
from headgate.storage.requests import (
    KINDS,
    Answer,
    Create,
    Failed,
    Found,
    Get,
    Meter,
    Put,
    Request,
    all_keys,
    all_sizes,
    all_times,
    perform,
)
from headgate.system.host import Host, processors

R = TypeVar("R")

MAX_STEPS = 100_000
PAUSE_FLOOR_SECONDS = 0.001
PAUSE_CAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """How to pause, and until when: `until` is a time on the host's clock."""

    policy: RetryPolicy
    until: float = inf


PEEK_BYTES = 64 * 1024
"""How much of an object is read to see whether it is there. Usually all of it."""
UNHURRIED = Waiting(RetryPolicy())
"""For what happens outside a commit, such as deciding the identity of a lake."""


@dataclass(frozen=True, slots=True)
class Driver:
    """Carries out the requests of machines on one store."""

    store: Store
    host: Host
    waiting: Waiting = UNHURRIED
    meter: Meter = field(default_factory=Meter)

    def run(self, machine: Machine[R]) -> R:
        """Runs `machine` to its end.

        If a machine wants to pause after the retry budget is spent, it gets failures as the answers to its
        requests. So it ends as it would on a storage that fails: it knows what that leaves in doubt.
        """
        step = machine.begin()
        slowest = PAUSE_FLOOR_SECONDS
        for _ in range(MAX_STEPS):
            if isinstance(step, Finish):
                return step.result
            if step.pauses and not self._pause(step.pauses, slowest):
                # Only between steps: a request that is under way is always waited for, since what it did
                # decides what the machine may report.
                over = Failed(ContestedError("the retry budget is spent"))
                step = machine.resume(step.state, (over,) * len(step.requests))
                continue
            started = self.host.elapsed()
            answers = self._ask(step)
            slowest = max(slowest, self.host.elapsed() - started)
            step = machine.resume(step.state, answers)
        raise InternalError(f"{type(machine).__name__} did not end within {MAX_STEPS} steps")

    def _pause(self, pauses: int, slowest_step: float) -> bool:
        """Waits for others, at most until the retry budget is spent; False if it is spent already."""
        # For progress alone. No pause, or a clock that jumps, costs rounds; it cannot decide a version twice.
        left = self.waiting.until - self.host.elapsed()
        if left <= 0:
            return False
        chance = self.host.chance()
        policy = delay_seconds(self.waiting.policy, pauses + 1, chance)
        self.host.sleep(min(left, max(policy, pause_seconds(slowest_step, pauses, chance))))
        return True

    def _ask(self, step: Ask) -> tuple[Answer, ...]:
        tasks = [partial(self._perform, request) for request in step.requests]
        only_reads = all(isinstance(request, Get) for request in step.requests)
        # All of them end before the machine goes on: FileTracker reports a decision only when both the record
        # and the marker are written, and starts a scan only when its own write is visible.
        return tuple(self.fetch_at_once(tasks) if only_reads else self.host.together(tasks))

    def _perform(self, request: Request) -> Answer:
        # Errors of the storage are answers, so the other requests of the step still get theirs.
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

    def get_short(self, key: str, at_most_bytes: int) -> bytes | None:
        """The object, or None. `CorruptLakeError` if it is longer, without reading more of it."""
        tail = self.tail(key, at_most_bytes)
        if tail is not None and tail.object_bytes > at_most_bytes:
            raise CorruptLakeError(
                f"{key} has {tail.object_bytes:,} bytes; the limit for such an object is {at_most_bytes:,}"
            )
        return None if tail is None else tail.data

    def tail(self, key: str, length_bytes: int) -> Tail | None:
        """The end of the object, at least so many bytes of it, or None.

        All of it if there is no shorter request.
        """
        if not isinstance(self.store, ReadTail):
            data = self.get(key)
            return None if data is None else Tail(data, len(data))
        tail = self.store.tail(key, length_bytes)
        self.meter.note("get", read=0 if tail is None else len(tail.data))
        return tail

    def ranges(self, key: str, ranges: Sequence[range]) -> list[bytes] | None:
        """Parts of an object that nobody replaces, or None if there is none."""
        if not isinstance(self.store, ReadRanges):
            data = self.get(key)
            return None if data is None else [data[part.start : part.stop] for part in ranges]
        parts = self.store.ranges(key, ranges)
        for part in parts or [b""]:
            self.meter.note("get", read=len(part))
        return parts

    def fetch_at_once(self, tasks: Sequence[Callable[[], R]]) -> list[R]:
        """Runs tasks that read what Python decodes: records and manifests. Returns their results in order.

        On nearby storage there is nothing to wait for, and decoding holds Python's lock: threads would only
        hand it to each other.
        """
        return [task() for task in tasks] if self._is_near() else self.host.together(tasks)

    def read_at_once(self, tasks: Sequence[Callable[[], R]]) -> list[R]:
        """Runs tasks that read what Arrow decodes: data files. Returns their results in order."""
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

    def peek(self, keys: Sequence[str]) -> dict[str, Tail | None] | None:
        """The ends of the objects of `keys`, read in their order; None if the storage is not on this machine.

        Counts as no request: it takes no longer than a few system calls.
        """
        store = self.store
        if not (isinstance(store, ReadTail) and self._is_near()):
            return None
        return {key: store.tail(key, PEEK_BYTES) for key in keys}

    def put(self, key: str, data: bytes) -> None:
        """Writes the object."""
        self.store.put(key, data)
        self.meter.note("put", written=len(data))

    def put_in_parts(self, key: str, parts: Iterable[bytes]) -> int:
        """Writes a long object, and returns its length. Only a few parts are in memory if the storage can."""
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for part in parts:
                size += len(part)
                yield part

        if isinstance(self.store, PutInParts):
            self.store.put_in_parts(key, counted())
        else:
            self.store.put(key, b"".join(counted()))
        self.meter.note("put", written=size)
        return size

    def create(self, key: str, data: bytes) -> bool:
        """Writes the object unless it exists, and returns whether it wrote.

        A storage that cannot do this in one step writes it in any case.
        """
        if not isinstance(self.store, PutIfAbsent):
            self.put(key, data)
            return True
        created = self.store.put_if_absent(key, data)
        self.meter.note("create", written=len(data))
        return created

    def delete(self, key: str) -> None:
        """Removes the object, if it exists."""
        self.store.delete(key)
        self.meter.note("delete")

    def keys(self, prefix: str, after: str | None = None) -> list[str]:
        """Every key below `prefix`, or those above `after`. Each page is observed at a different time."""
        return all_keys(self, prefix, after)

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        """A part of a listing."""
        page = self.store.list_page(prefix, after)
        self.meter.note("list")
        return page

    def sizes(self, prefix: str) -> dict[str, int | None]:
        """Every key below `prefix` with the size of its object, or None if the storage lists no sizes."""
        if isinstance(self.store, ListSizes):
            return dict(all_sizes(self, prefix))
        return dict.fromkeys(self.keys(prefix))

    def times(self, prefix: str) -> list[Stored] | None:
        """Every object below `prefix` with the time it was written; None if the storage lists no times."""
        return all_times(self, prefix) if isinstance(self.store, ListTimes) else None

    def list_times(self, prefix: str, after: str | None = None) -> TimedPage:
        """A part of a listing with times, for a storage that lists them."""
        assert isinstance(self.store, ListTimes), self.store
        page = self.store.list_times(prefix, after)
        self.meter.note("list")
        return page

    def list_sizes(self, prefix: str, after: str | None = None) -> SizedPage:
        """A part of a listing with sizes, for a storage that lists them."""
        assert isinstance(self.store, ListSizes), self.store
        page = self.store.list_sizes(prefix, after)
        self.meter.note("list")
        return page


def pause_seconds(slowest_step: float, pauses: int, chance: float) -> float:
    """How long to wait for others: at least the three steps that the client ahead of us needs to finish.

    Measured in our own steps, because nothing else shows how fast the storage is. Grows each time we give
    way, and is random, so that two clients do not keep interrupting each other.
    """
    return min(PAUSE_CAP_SECONDS, slowest_step * (3.0 + chance * 2.0 ** min(pauses, 10)))
