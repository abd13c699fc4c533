"""A process that dies at a given request: before it is sent, or after it was carried out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headgate.storage.capabilities import Store
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import (
    Answer,
    Get,
    ListPage,
    ListSizesPage,
    ListTimesPage,
    Request,
    all_keys,
)
from headgate.system.host import SystemHost
from headgate.testing.intercept import Proceed, intercepted

T = TypeVar("T")
S = TypeVar("S", bound=Store)

MAX_REQUESTS = 2000
READS = (Get, ListPage, ListSizesPage, ListTimesPage)


class Crash(BaseException):
    """The end of the process: nothing catches it but the sweep."""


class OneByOne(SystemHost):
    """Sends requests one after the other, so that the k-th is the same one in every run."""

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        return [task() for task in tasks]

    def background(self, work: Callable[[], None], name: str, *, awaited: bool = False) -> bool:
        return False

    def sleep(self, seconds: float) -> None:
        pass


@dataclass
class Death:
    """Comes at request number `at`, after it was carried out if `late`; from then on nothing goes through."""

    at: int
    late: bool
    asked: int = 0
    came: bool = False
    request: Request | None = None
    requests: list[Request] = field(default_factory=list)

    def intercept(self, request: Request, proceed: Proceed) -> Answer:
        if self.came:
            raise Crash
        self.asked += 1
        self.requests.append(request)
        if self.asked != self.at:
            return proceed(request)
        self.came, self.request = True, request
        if self.late:
            proceed(request)
        raise Crash


def copied(store: MemoryStore) -> MemoryStore:
    """Another store with the same content."""
    copy = MemoryStore(store.describe().removeprefix("memory://"))
    for key in all_keys(store, ""):
        copy.put(key, store.get(key) or b"")
    return copy


def restored(place: Path, backup: Path) -> LocalStore:
    """The lake of `backup` at its own place, which its metadata names."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(backup, place)
    return LocalStore(place, fsync=False)


def deaths(begin: Callable[[], S], act: Callable[[Store], object]) -> Iterator[tuple[S, Death]]:
    """What `act` leaves behind on storage if it dies anywhere, and at last if it does not.

    `act` is run on what `begin` gives, which is the same each time, so its requests are those of a run that
    gets through. Only a request that writes leaves something else behind than the one before it: `act` dies
    before its first request, and right after each that writes.
    """
    watched = Death(at=0, late=False)
    act(intercepted(begin(), watched.intercept))
    assert watched.asked < MAX_REQUESTS
    writes = [(at, True) for at, request in enumerate(watched.requests, 1) if not isinstance(request, READS)]
    for at, late in ((1, False), *writes):
        store, death = begin(), Death(at, late)
        try:
            act(intercepted(store, death.intercept))
        except Crash:
            assert death.came
        assert death.came, death
        assert type(death.request) is type(watched.requests[at - 1]), "another run sends other requests"
        yield store, death
    store, survivor = begin(), Death(at=0, late=False)
    act(intercepted(store, survivor.intercept))
    yield store, survivor
