"""A store that fails the way real ones do, on demand, to test everything above it.

Faults are rules. Each request is offered to the rules in order; the first one that matches decides what
happens. Nothing is random here: a simulation draws its own faults and uses the same actions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from headgate.errors import NoAnswerError, StorageRefusedError
from headgate.storage.capabilities import Page, Store
from headgate.storage.requests import Answer, Failed, ListPage, Request
from headgate.testing.intercept import Proceed, intercepted

Action: TypeAlias = Callable[[Request, Proceed], Answer]


def lose_answer(request: Request, proceed: Proceed) -> Answer:
    """The request is carried out, and its answer never arrives."""
    proceed(request)
    return Failed(NoAnswerError(f"injected: the answer to {request} was lost"))


def lose_request(request: Request, proceed: Proceed) -> Answer:  # noqa: ARG001
    """The request never arrives."""
    return Failed(NoAnswerError(f"injected: no answer to {request}"))


def refuse(request: Request, proceed: Proceed) -> Answer:  # noqa: ARG001
    """The storage rejects the request: certainly nothing changed."""
    return Failed(StorageRefusedError(f"injected: {request} was rejected"))


@dataclass(frozen=True, slots=True)
class Delayed:
    """The request waits before it is carried out."""

    sleep: Callable[[], None]

    def __call__(self, request: Request, proceed: Proceed) -> Answer:
        self.sleep()
        return proceed(request)


@dataclass(frozen=True, slots=True)
class DuplicatedLate:
    """The request is carried out now, and once more when `later` is replayed."""

    later: list[Callable[[], Answer]]

    def __call__(self, request: Request, proceed: Proceed) -> Answer:
        answer = proceed(request)
        self.later.append(lambda: proceed(request))
        return answer


@dataclass(frozen=True, slots=True)
class SplitListing:
    """A listing comes in pages of `size` keys, each observed at its own time."""

    size: int

    def __call__(self, request: Request, proceed: Proceed) -> Answer:
        answer = proceed(request)
        if not isinstance(request, ListPage) or not isinstance(answer, Page):
            return answer
        if len(answer.keys) <= self.size:
            return answer
        return Page(answer.keys[: self.size], complete=False)


@dataclass(frozen=True, slots=True)
class Fault:
    """`action` applies to requests that `wanted` matches: those from number `skip` on, `times` of them."""

    wanted: Callable[[Request], bool]
    action: Action
    skip: int = 0
    times: int | None = 1


class FaultySchedule:
    """Offers each request to the remaining faults, in order. Safe to share between threads."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        self._lock = threading.Lock()
        self._faults = list(faults)

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Removes all faults: the storage works again."""
        with self._lock:
            self._faults.clear()

    def intercept(self, request: Request, proceed: Proceed) -> Answer:
        action = self._take(request)
        return proceed(request) if action is None else action(request, proceed)

    def _take(self, request: Request) -> Action | None:
        with self._lock:
            for index, fault in enumerate(self._faults):
                if not fault.wanted(request) or fault.times == 0:
                    continue
                if fault.skip > 0:
                    self._faults[index] = replace(fault, skip=fault.skip - 1)
                    continue
                if fault.times is not None:
                    self._faults[index] = replace(fault, times=fault.times - 1)
                return fault.action
        return None


def faulty(store: Store, *faults: Fault) -> tuple[Store, FaultySchedule]:
    """`store` with `faults`; you can add more to the schedule later."""
    schedule = FaultySchedule(faults)
    return intercepted(store, schedule.intercept), schedule
