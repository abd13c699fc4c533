"""Standing between a caller and a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import InvalidInputError, NoAnswerError, StorageRefusedError
from headgate.storage.capabilities import HoldObject, Page, PutIfAbsent, RenameNoReplace, Store
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
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
from headgate.testing.intercept import Proceed, counted, intercepted, without_atomic_operations


class CreatesOnly(MemoryStore):
    rename_no_replace = None  # type: ignore[assignment]


class RenamesOnly(MemoryStore):
    put_if_absent = None  # type: ignore[assignment]


def pass_on(request: Request, proceed: Proceed) -> Answer:
    return proceed(request)


def promises(store: Store) -> tuple[bool, bool]:
    return isinstance(store, PutIfAbsent), isinstance(store, RenameNoReplace)


@pytest.mark.parametrize("make", [MemoryStore, CreatesOnly, RenamesOnly])
def test_the_promises_are_those_of_the_store_inside(make: type[MemoryStore]) -> None:
    assert promises(intercepted(make(), pass_on)) == promises(make())
    reduced = without_atomic_operations(make())
    assert promises(reduced) == (False, False)
    assert promises(intercepted(reduced, pass_on)) == (False, False)


def test_holding_is_passed_on_and_is_no_request(tmp_path: Path) -> None:
    inside = LocalStore(tmp_path / "lake")
    inside.put("held", b"")
    watched, tally = counted(inside)
    for store in (watched, without_atomic_operations(watched)):
        assert isinstance(store, HoldObject)
        assert store.hold("held")
    assert tally.counts() == {}
    (tmp_path / "lake" / "held").unlink()
    with pytest.raises(StorageRefusedError):
        watched.put("a", b"")
    assert not isinstance(intercepted(MemoryStore(), pass_on), HoldObject)


def test_every_call_is_one_request_with_its_answer() -> None:
    seen: list[tuple[Request, Answer]] = []

    def record(request: Request, proceed: Proceed) -> Answer:
        answer = proceed(request)
        seen.append((request, answer))
        return answer

    store = intercepted(MemoryStore("inside"), record)
    assert isinstance(store, PutIfAbsent)
    assert isinstance(store, RenameNoReplace)
    store.put("a", b"1")
    store.get("a")
    store.get("b")
    store.put_if_absent("a", b"2")
    store.rename_no_replace("a", "c")
    store.list_page("", "b")
    store.delete("c")
    assert store.describe() == "memory://inside"
    assert seen == [
        (Put("a", b"1"), Done()),
        (Get("a"), Found(b"1")),
        (Get("b"), Missing()),
        (Create("a", b"2"), Refused()),
        (Rename("a", "c"), Done()),
        (ListPage("", "b"), Page(("c",), complete=True)),
        (Delete("c"), Done()),
    ]


def test_an_interceptor_can_answer_by_itself() -> None:
    store = intercepted(MemoryStore(), lambda request, _: Found(b"made up"))
    assert store.get("anything") == b"made up"


def test_a_failure_is_raised() -> None:
    store = intercepted(MemoryStore(), lambda request, _: Failed(NoAnswerError("silence")))
    with pytest.raises(NoAnswerError, match="silence"):
        store.put("a", b"")


def test_only_errors_of_storage_become_answers() -> None:
    with pytest.raises(InvalidInputError):
        perform(MemoryStore(), Get("../outside"))
