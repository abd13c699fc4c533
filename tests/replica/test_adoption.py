"""A replica that is taken back: handles from the time when it was promoted commit nothing more to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

import headgate as hg
from headgate.errors import AlreadyExistsError, ConflictError, UnsupportedError
from headgate.log.layout import REPLICA
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Get, Request
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, intercepted, without_atomic_operations

STRATEGIES = ("conditional", "filetracker")


@dataclass
class Scene:
    """A source, the place of its replica, and a handle that was opened while the replica was promoted."""

    source: hg.Lake
    place: MemoryStore
    old: hg.Lake

    def adopt(self, through: Store | None = None) -> None:
        self.source.replicate(through or self.place, adopt=True)

    def require_same(self) -> None:
        replica = hg.Lake.open(self.place)
        assert [entry.txid for entry in replica.log()] == [entry.txid for entry in self.source.log()]
        assert self.place.get(REPLICA) is not None


def scene(strategy: str = "conditional", *, behind: int = 0) -> Scene:
    """`behind`: so many versions are at the source alone."""
    source, place = hg.Lake.init(MemoryStore("source"), strategy=strategy, divisor=4), MemoryStore("replica")
    source.set_properties({"n": "0"})
    source.replicate(place)
    old = hg.Lake.open(place)
    old.promote()
    for number in range(behind):
        source.set_properties({"n": str(number)})
    return Scene(source, place, old)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("behind", [0, 1, 9])
def test_a_handle_that_was_opened_while_it_was_promoted_is_refused(strategy: str, behind: int) -> None:
    here = scene(strategy, behind=behind)
    other = hg.Lake.open(here.place)
    begun = other.transaction()
    begun.set_properties({"late": "1"})
    here.adopt()
    with pytest.raises(UnsupportedError, match="is a replica of"):
        begun.commit()
    for handle in (here.old, other, hg.Lake.open(here.place)):
        for _ in range(2):
            with pytest.raises(UnsupportedError, match="is a replica of"):
                handle.set_properties({"late": "1"})
    here.source.set_properties({"more": "1"})
    here.source.replicate(here.place)
    here.require_same()


def test_the_advice_where_to_start_may_be_lost() -> None:
    here = scene()
    here.adopt()
    for key in here.place.list_page("control/checkpoint/").keys:
        here.place.delete(key)
    with pytest.raises(UnsupportedError, match="is a replica of"):
        hg.Lake.open(here.place).set_properties({"late": "1"})


def test_it_can_be_promoted_and_adopted_as_often_as_one_likes() -> None:
    here = scene()
    for number in range(3):
        here.adopt()
        with pytest.raises(UnsupportedError):
            here.old.set_properties({"n": "1"})
        here.old.promote()
        begun = here.old.transaction()
        begun.set_properties({f"n{number}": "1"})
    begun.commit()
    with pytest.raises(AlreadyExistsError, match="of its own"):
        here.adopt()
    assert here.place.get(REPLICA) is None


def test_a_replica_cannot_adopt_for_its_source() -> None:
    """The fence is a version of the source, and a replica makes none."""
    here = scene()
    middle = MemoryStore("middle")
    here.source.replicate(middle)
    with pytest.raises(UnsupportedError, match="memory://middle is a replica"):
        hg.Lake.open(middle).replicate(here.place, adopt=True)
    assert here.place.get(REPLICA) is None
    here.old.set_properties({"still": "open"})


def test_the_source_looks_for_a_mark_once_for_each_handle() -> None:
    here = scene()
    asked: list[str] = []

    def watching(request: Request, proceed: Proceed) -> Answer:
        asked.extend([request.key] if isinstance(request, Get) else [])
        return proceed(request)

    handle = hg.Lake.open(intercepted(Inspector(here.source).store, watching))
    handle.set_properties({"before": "1"})
    assert REPLICA not in asked
    here.adopt()
    for number in range(5):
        handle.set_properties({"after": str(number)})
    assert asked.count(REPLICA) == 1


# --- a commit beside the adoption, at every request of either -----------------------------------------------


def commits(lake: Callable[[], hg.Lake]) -> bool:
    try:
        lake().set_properties({"late": "1"})
    except (UnsupportedError, ConflictError):
        return False
    return True


def commits_begun(tx: hg.Transaction) -> bool:
    try:
        tx.commit()
    except (UnsupportedError, ConflictError):
        return False
    return True


def adopts(here: Scene, through: Store | None = None) -> bool:
    try:
        here.adopt(through)
    except AlreadyExistsError:
        return False
    return True


def at_request(number: int, act: Callable[[], None]) -> Callable[[Request, Proceed], Answer]:
    left = [number]

    def interceptor(request: Request, proceed: Proceed) -> Answer:
        left[0] -= 1
        if left[0] == -1:
            act()
        return proceed(request)

    return interceptor


def _note(told: list[bool], act: Callable[[], bool]) -> None:
    told.append(act())


def plain(strategy: str, store: Store) -> Store:
    return without_atomic_operations(store) if strategy == "filetracker" else store


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("behind", [0, 2])
def test_one_of_both_happens_if_a_commit_comes_at_any_request_of_the_adoption(
    strategy: str, behind: int
) -> None:
    told = set()
    for number in range(80):
        here = scene(strategy, behind=behind)
        tx = here.old.transaction()
        tx.set_properties({"late": "1"})
        done: list[bool] = []
        busy = intercepted(here.place, at_request(number, partial(_note, done, partial(commits_begun, tx))))
        adopted = adopts(here, plain(strategy, busy))
        told.add((adopted, *done))
        _require_one(here, adopted, done == [True])
    assert told >= {(True, False), (False, True), (True,)}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("behind", [0, 2])
def test_one_of_both_happens_if_the_adoption_comes_at_any_request_of_a_commit(
    strategy: str, behind: int
) -> None:
    told = set()
    for number in range(30):
        here = scene(strategy, behind=behind)
        done: list[bool] = []
        busy = intercepted(here.place, at_request(number, partial(_note, done, partial(adopts, here))))
        committed = commits(partial(hg.Lake.open, plain(strategy, busy)))
        told.add((committed, *done))
        _require_one(here, done == [True], committed)
    assert told >= {(True, False), (False, True)}


def _require_one(here: Scene, adopted: bool, committed: bool) -> None:
    """Either the replica follows its source again, or it is a lake of its own with the commit."""
    assert not (adopted and committed)
    replica = hg.Lake.open(here.place)
    assert ("late" in replica.properties) == committed
    if adopted:
        here.source.replicate(here.place)
        here.require_same()
    elif committed:
        assert here.place.get(REPLICA) is None
        replica.set_properties({"goes": "on"})
