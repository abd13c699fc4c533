"""Standing between a caller and a store: one mechanism for counting, disturbing and simulating.

An interceptor sees each request as a value and decides what becomes of it. The wrapped store offers
exactly the promises of the store inside, so whoever asks it what it can do gets the true answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headgate.storage.capabilities import Page, PutIfAbsent, RenameNoReplace, Store
from headgate.storage.requests import (
    Answer,
    Create,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    ListPage,
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
    """`store`, with `interceptor` called for each request in place of the request itself."""
    match isinstance(store, PutIfAbsent), isinstance(store, RenameNoReplace):
        case True, True:
            return _CreatingAndRenaming(store, interceptor)
        case True, False:
            return _Creating(store, interceptor)
        case False, True:
            return _Renaming(store, interceptor)
        case _:
            return _Intercepted(store, interceptor)


def without_atomic_operations(store: Store) -> Store:
    """`store`, reduced to what any storage has: put, get, list."""
    return _Intercepted(store, lambda request, proceed: proceed(request))


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


class _CreatingAndRenaming(_Creating, _Renaming):
    pass
