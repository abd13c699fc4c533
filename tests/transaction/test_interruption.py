"""Ctrl-C at every line of a commit: the next call finds out what happened, and nothing is done twice."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias

import pytest

import headgate as hg
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector

# The store stands for a service elsewhere, which no Ctrl-C of ours interrupts.
INTERRUPTIBLE = (
    "/headgate/transaction/",
    "/headgate/lake/lake.py",
    "/headgate/log/",
    "/headgate/core/",
)
MAX_LINES = 5000
ELSEWHERE = ThreadPoolExecutor(1)


class Interrupter:
    """Raises KeyboardInterrupt when the `position`-th line of our code is reached.

    A Ctrl-C is seen by Python between calls, never between the last call of a block and giving a lock back.
    A trace function can raise there; so the lines that give one back are left out.
    """

    def __init__(self, position: int) -> None:
        self._left = position
        self._entered: set[tuple[FrameType, int]] = set()
        self.fired_at: str | None = None

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if not any(part in frame.f_code.co_filename for part in INTERRUPTIBLE):
            return None
        if event == "line" and self.fired_at is None and not self._gives_back(frame):
            self._left -= 1
            if self._left < 0:
                self.fired_at = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self.trace

    def _gives_back(self, frame: FrameType) -> bool:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if line.startswith("with "):
            visit = (frame, frame.f_lineno)
            left = visit in self._entered
            self._entered.add(visit)
            return left
        return line.startswith(("finally:", "try:  # noqa: SIM105", "turn.release()"))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        sys.settrace(self.trace)
        try:
            yield
        finally:
            sys.settrace(None)


Objects: TypeAlias = Mapping[str, bytes]


def objects_in(store: MemoryStore) -> Objects:
    return {key: store.get(key) or b"" for key in store.list_page("").keys}


def add(objects: Objects, store: MemoryStore) -> None:
    for key, data in objects.items():
        store.put(key, data)


class Scene:
    """A lake, made once, and what another writer commits while a transaction is open."""

    def __init__(self, strategy: str, contended: bool) -> None:
        store = MemoryStore()
        lake = hg.Lake.init(store, strategy=strategy, divisor=2)
        lake.set_properties({"first": "1"})
        self._before = objects_in(store)
        if contended:
            lake.set_properties({"b": "1"})
        self._meanwhile = objects_in(store)

    def play(self) -> tuple[MemoryStore, hg.Lake, hg.Transaction]:
        store = MemoryStore()
        add(self._before, store)
        lake = hg.Lake.open(store)
        tx = lake.transaction()
        tx.set_properties({"a": tx.txid})
        add(self._meanwhile, store)
        return store, lake, tx


@pytest.mark.parametrize("strategy", ["conditional", "rename", "filetracker"])
@pytest.mark.parametrize("contended", [False, True])
@pytest.mark.parametrize("settled_by", ["commit", "resolve"])
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.nightly)])
def test_an_interrupted_commit_can_be_settled_wherever_it_was(
    strategy: str, contended: bool, settled_by: str, step: int
) -> None:
    scene = Scene(strategy, contended)
    told: set[bool] = set()
    for position in range(0, MAX_LINES, step):
        store, lake, tx = scene.play()
        interrupter = Interrupter(position)
        try:
            with interrupter.at_work():
                tx.commit()
        except KeyboardInterrupt:
            pass
        where = f"line {position}, {interrupter.fired_at}"
        committed = settle(tx) if settled_by == "commit" else lake.resolve(tx.txid).committed
        told.add(committed)
        found = [entry.txid for entry in hg.Lake.open(store).log()].count(tx.txid)
        assert found == committed, f"{where}: told {committed}, found {found}"
        # The handle still works: no lock was left behind.
        assert not is_taken(lake), where
        assert lake.set_properties({"later": "1"}).version == len(lake.log()), where
        assert hg.Lake.open(store).resolve(tx.txid).committed == committed, where
        if interrupter.fired_at is None:
            assert position > 250, "most of the commit was left out"
            assert told == {False, True}
            return
    pytest.fail("the commit has more lines than this test interrupts")


def is_taken(lake: hg.Lake) -> bool:
    """Whether a lock of the handle is taken although nobody is at work."""

    def free() -> bool:
        taken = Inspector(lake).handle.log.turn.acquire(blocking=False)
        if taken:
            Inspector(lake).handle.log.turn.release()
        return taken

    return Inspector(lake).handle.log._memory.lock.locked() or not ELSEWHERE.submit(free).result()


def settle(tx: hg.Transaction) -> bool:
    """Whether the transaction is committed, asked as a user would: by committing again."""
    try:
        tx.commit()
    except hg.InvalidInputError:
        return False
    return True
