"""A Ctrl-C inside a commit says which transaction it hit, so that it can be settled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headgate as hg
from headgate.errors import UnknownOutcomeNote
from headgate.log.layout import PLAIN
from headgate.model.identifiers import Version
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Get, Put, Request
from headgate.testing.intercept import intercepted

DECIDING = PLAIN.record_key(Version(1))


def interrupted_lake(store: MemoryStore, at: type[Request], key: str, *, done: bool) -> hg.Lake:
    """A handle whose process gets a Ctrl-C at one request, before or after it is carried out."""
    hg.Lake.init(store, strategy="conditional", divisor=2)

    def interrupt(request: Request, proceed: Callable[[Request], Answer]) -> Answer:
        hit = isinstance(request, at) and getattr(request, "key", "") == key
        answer = proceed(request) if done or not hit else None
        if answer is None or hit:
            raise KeyboardInterrupt
        return answer

    return hg.Lake.open(intercepted(store, interrupt))


@pytest.mark.parametrize("done", [True, False])
def test_the_note_names_the_transaction_and_how_to_settle_it(done: bool) -> None:
    store = MemoryStore()
    lake = interrupted_lake(store, Create, DECIDING, done=done)
    with pytest.raises(KeyboardInterrupt) as caught:
        lake.set_properties({"a": "1"})
    (note,) = caught.value.__notes__
    assert isinstance(note, UnknownOutcomeNote)
    command, _, txid = note.rpartition(" ")
    assert command.endswith(f"headgate doctor {lake.place} --resolve")
    assert hg.Lake.open(store).resolve(txid).committed is done


def test_after_the_decision_too() -> None:
    store = MemoryStore()
    lake = interrupted_lake(store, Put, "control/checkpoint/last.json", done=False)
    lake.set_properties({"a": "1"})
    with pytest.raises(KeyboardInterrupt) as caught:
        lake.set_properties({"a": "2"})
    (note,) = caught.value.__notes__
    assert "was committed as version 2" in note and note.endswith(f"headgate recover {lake.place}")
    assert not isinstance(note, UnknownOutcomeNote)
    assert hg.Lake.open(store).resolve(note.split()[1]).version == 2


def test_what_was_not_offered_needs_no_settling() -> None:
    store = MemoryStore()
    hg.Lake.init(store, strategy="conditional")
    armed = False

    def interrupt(request: Request, proceed: Callable[[Request], Answer]) -> Answer:
        if armed and isinstance(request, Get):
            raise KeyboardInterrupt
        return proceed(request)

    lake = hg.Lake.open(intercepted(store, interrupt))
    armed = True
    with pytest.raises(KeyboardInterrupt) as caught:
        lake.create_table("sales.orders", "id BIGINT")
    assert not hasattr(caught.value, "__notes__")
