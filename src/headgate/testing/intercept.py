"""Intercepts the requests between a caller and a store: one mechanism for counting, disturbing and
simulating.

An interceptor gets each request as a value and decides what happens to it. The wrapped store makes exactly
the promises of the store inside, so `isinstance` gives the true answer.

Also counts requests and bytes, for tests of the budgets of a commit, and for benchmarks.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

from headgate.storage.capabilities import (
    HoldObject,
    ListSizes,
    ListTimes,
    Page,
    PutIfAbsent,
    ReachElsewhere,
    RenameNoReplace,
    ShowLeftovers,
    SizedPage,
    StaysInside,
    Store,
    Stored,
    TimedPage,
)
from headgate.storage.requests import (
    KINDS,
    Answer,
    Create,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    ListPage,
    ListSizesPage,
    ListTimesPage,
    Missing,
    Put,
    Refused,
    Rename,
    Request,
    perform,
)

Proceed: TypeAlias = Callable[[Request], Answer]
Interceptor: TypeAlias = Callable[[Request, Proceed], Answer]


def intercepted(store: Store, interceptor: Interceptor) -> Store:
    """`store`, with `interceptor` called for each request instead of the request itself."""
    return _offering(*(promise for promise in _EXTRA if isinstance(store, promise)))(store, interceptor)


def without_atomic_operations(store: Store) -> Store:
    """`store`, reduced to what any storage has: put, get, list."""
    kept = (promise for promise in (HoldObject, ReachElsewhere, StaysInside) if isinstance(store, promise))
    return _offering(*kept)(store, lambda request, proceed: proceed(request))


class _Intercepted:
    def __init__(self, store: Store, interceptor: Interceptor) -> None:
        self._store = store
        self._interceptor = interceptor

    def _ask(self, request: Request) -> Answer:
        answer = self._interceptor(request, lambda passed: perform(self._store, passed))
        if isinstance(answer, Failed):
            raise answer.error
        return answer

    def describe(self) -> str:
        return self._store.describe()

    def uri(self) -> str:
        return self._store.uri()

    def get(self, key: str) -> bytes | None:
        match self._ask(Get(key)):
            case Found(data):
                return data
            case Missing():
                return None
            case other:
                raise AssertionError(other)

    def put(self, key: str, data: bytes) -> None:
        answer = self._ask(Put(key, data))
        assert isinstance(answer, Done), answer

    def delete(self, key: str) -> None:
        answer = self._ask(Delete(key))
        assert isinstance(answer, Done), answer

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        answer = self._ask(ListPage(prefix, after))
        assert isinstance(answer, Page), answer
        return answer

    def _ask_atomic(self, request: Request) -> bool:
        answer = self._ask(request)
        assert isinstance(answer, Done | Refused), answer
        return isinstance(answer, Done)


class _Creating(_Intercepted):
    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._ask_atomic(Create(key, data))


class _Renaming(_Intercepted):
    def rename_no_replace(self, source: str, target: str) -> bool:
        return self._ask_atomic(Rename(source, target))


class _Sizing(_Intercepted):
    def list_sizes(self, prefix: str, after: str | None = None) -> SizedPage:
        answer = self._ask(ListSizesPage(prefix, after))
        assert isinstance(answer, SizedPage), answer
        return answer


class _Timing(_Intercepted):
    def list_times(self, prefix: str, after: str | None = None) -> TimedPage:
        answer = self._ask(ListTimesPage(prefix, after))
        assert isinstance(answer, TimedPage), answer
        return answer


class _Showing(_Intercepted):
    # These are about the store itself, not about objects: no protocol sees them.
    def leftovers(self, prefix: str) -> tuple[Stored, ...]:
        assert isinstance(self._store, ShowLeftovers)
        return self._store.leftovers(prefix)

    def remove_leftover(self, key: str) -> None:
        assert isinstance(self._store, ShowLeftovers)
        self._store.remove_leftover(key)


class _Holding(_Intercepted):
    def hold(self, key: str) -> bool:
        # Not a request, so nothing to intercept.
        assert isinstance(self._store, HoldObject)
        return self._store.hold(key)


class _StayingInside(_Intercepted):
    def require_inside(self, keys: Sequence[str]) -> None:
        assert isinstance(self._store, StaysInside)
        self._store.require_inside(keys)


class _Reaching(_Intercepted):
    def elsewhere(self) -> Store:
        # An interceptor belongs to this process: other processes use the store itself.
        assert isinstance(self._store, ReachElsewhere)
        return self._store.elsewhere()


_EXTRA: Mapping[type, type[_Intercepted]] = MappingProxyType(
    {
        PutIfAbsent: _Creating,
        RenameNoReplace: _Renaming,
        HoldObject: _Holding,
        ListSizes: _Sizing,
        ReachElsewhere: _Reaching,
        ListTimes: _Timing,
        ShowLeftovers: _Showing,
        StaysInside: _StayingInside,
    }
)


@cache
def _offering(*promises: type) -> type[_Intercepted]:
    """The class of wrapped stores that make `promises` in addition to what every store provides."""
    bases = tuple(_EXTRA[promise] for promise in promises) or (_Intercepted,)
    return type("Intercepted", bases, {})


class Tally:
    """Requests by kind, bytes in and out, and the requested keys, in order. Safe to share between threads."""

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
