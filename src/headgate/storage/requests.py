"""Requests to a store, and its answers, as values.

The commit protocols are written in these terms, so that the same protocol code can run on a store, and be
counted, disturbed, simulated, and explored in every order.

Also which keys are allowed (none that names a location outside the lake, and none that a store cannot hold),
the counters of a process (a fixed number of them), and whole listings, page after page.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from headgate.errors import InvalidInputError, StorageError
from headgate.model.identifiers import is_key
from headgate.storage.capabilities import (
    ListInPages,
    ListSizes,
    ListTimes,
    Page,
    PutIfAbsent,
    RenameNoReplace,
    SizedPage,
    Store,
    Stored,
    TimedPage,
)
from headgate.system.host import renew_after_fork


@dataclass(frozen=True, slots=True)
class Get:
    key: str


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Create:
    """Writes an object if there is none."""

    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Rename:
    """Moves an object if there is none with the new key."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


@dataclass(frozen=True, slots=True)
class ListPage:
    prefix: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ListSizesPage:
    prefix: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ListTimesPage:
    prefix: str
    after: str | None = None


Request: TypeAlias = Get | Put | Create | Rename | Delete | ListPage | ListSizesPage | ListTimesPage

KINDS: Mapping[type, str] = MappingProxyType(
    {
        Get: "get",
        Put: "put",
        Create: "create",
        Rename: "rename",
        Delete: "delete",
        ListPage: "list",
        ListSizesPage: "list",
        ListTimesPage: "list",
    }
)
"""The names of requests in counters."""


@dataclass(frozen=True, slots=True)
class Done:
    """The request was carried out."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The precondition of a `Create` or `Rename` did not hold; nothing changed."""


@dataclass(frozen=True, slots=True)
class Found:
    data: bytes


@dataclass(frozen=True, slots=True)
class Missing:
    pass


@dataclass(frozen=True, slots=True)
class Failed:
    """The storage failed. `error` says whether the request can have been carried out."""

    error: StorageError


Answer: TypeAlias = Done | Refused | Found | Missing | Page | SizedPage | TimedPage | Failed


def perform(store: Store, request: Request) -> Answer:
    """Carries out `request` once. Errors of the storage become `Failed`; others are raised."""
    try:
        return _perform(store, request)
    except StorageError as error:
        return Failed(error)


def _perform(store: Store, request: Request) -> Answer:
    match request:
        case Get(key):
            data = store.get(key)
            return Missing() if data is None else Found(data)
        case Put(key, data):
            store.put(key, data)
            return Done()
        case Delete(key):
            store.delete(key)
            return Done()
        case ListPage(prefix, after):
            return store.list_page(prefix, after)
        case ListSizesPage(prefix, after):
            assert isinstance(store, ListSizes), store
            return store.list_sizes(prefix, after)
        case ListTimesPage(prefix, after):
            assert isinstance(store, ListTimes), store
            return store.list_times(prefix, after)
        case Create(key, data):
            assert isinstance(store, PutIfAbsent), store
            return Done() if store.put_if_absent(key, data) else Refused()
        case Rename(source, target):
            assert isinstance(store, RenameNoReplace), store
            return Done() if store.rename_no_replace(source, target) else Refused()


def checked_key(key: str) -> str:
    """`key`, if every store can hold it: relative, without empty, `.` or `..` segments, of plain text."""
    if not is_key(key):
        raise InvalidInputError(f"{key!r} is not a key inside a lake")
    return key


def checked_prefix(prefix: str) -> str:
    """`prefix`, if it is empty or a key followed by `/`."""
    if prefix and not prefix.endswith("/"):
        raise InvalidInputError(f"the listing prefix {prefix!r} must end in '/'")
    if prefix:
        checked_key(prefix[:-1])
    return prefix


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests by kind (`get`, `put`, `create`, `rename`, `delete`, `list`), and the bytes they moved."""

    by_kind: Mapping[str, int] = field(default_factory=dict)
    bytes_read: int = 0
    bytes_written: int = 0


class Meter:
    """The requests to one store through one handle. Safe to share between threads."""

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        # The requests of the parent are counted by the parent.
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._read = 0
        self._written = 0

    def note(self, kind: str, *, read: int = 0, written: int = 0) -> None:
        """Counts a request that was sent, regardless of its outcome."""
        with self._lock:
            self._requests[kind] += 1
            self._read += read
            self._written += written

    def counts(self) -> RequestCounts:
        with self._lock:
            return RequestCounts(dict(self._requests), self._read, self._written)


MAX_PAGES = 100_000


def all_keys(store: ListInPages, prefix: str, after: str | None = None) -> list[str]:
    """Every key below `prefix`, or those above `after`. Each page is observed at a different time."""
    keys: list[str] = []
    for _ in range(MAX_PAGES):
        page = store.list_page(prefix, keys[-1] if keys else after)
        keys.extend(page.keys)
        if page.complete:
            return keys
    raise StorageError(f"the listing of {prefix!r} did not end within {MAX_PAGES} pages")


def all_sizes(store: ListSizes, prefix: str) -> dict[str, int]:
    """The size of every object below `prefix`, by key. Each page is observed at a different time."""
    sizes: dict[str, int] = {}
    after: str | None = None
    for _ in range(MAX_PAGES):
        page = store.list_sizes(prefix, after)
        sizes.update(page.sizes)
        if page.complete:
            return sizes
        after = page.sizes[-1][0]
    raise StorageError(f"the listing of {prefix!r} did not end within {MAX_PAGES} pages")


def all_times(store: ListTimes, prefix: str) -> list[Stored]:
    """Every object below `prefix` with the time it was written. Each page is observed at a different time."""
    found: list[Stored] = []
    for _ in range(MAX_PAGES):
        page = store.list_times(prefix, found[-1].key if found else None)
        found.extend(page.objects)
        if page.complete:
            return found
    raise StorageError(f"the listing of {prefix!r} did not end within {MAX_PAGES} pages")
