"""Requests to a store, and its answers, as values.

The commit protocols are written in these terms, so that the same protocol code can be run on a store,
counted, disturbed, simulated, and explored in every order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from headgate.errors import StorageError
from headgate.storage.capabilities import (
    ListSizes,
    ListTimes,
    Page,
    PutIfAbsent,
    RenameNoReplace,
    SizedPage,
    Store,
    TimedPage,
)


@dataclass(frozen=True, slots=True)
class Get:
    key: str


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Create:
    """Put, if nothing is there."""

    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Rename:
    """Move, if nothing is there."""

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
"""What requests are called where they are counted."""


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
    """The storage failed. `error` tells whether the request can have been carried out."""

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
