"""Histories of several handles: what happens to a lake, what the model says of it, and how they are drawn.

Handles have transactions that stay open while others commit, and operations of their own on what they saw
last, however long ago. Compactions move rows in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.storage.memory import MemoryStore
from tests.compactions import compact_files
from tests.isolation.hands import Hand, HandHere, Outcome
from tests.isolation.lake_model import (
    MOUNT,
    TABLES,
    Content,
    Done,
    Mounts,
    Numbered,
    On,
    OwnStep,
    Remount,
    Respecify,
    Several,
    State,
    Step,
    comparable,
    gives,
    one_after_another,
    orders,
    own_steps,
    read_state,
    steps,
    trios,
)
from tests.isolation.row_model import DDL, Condition, Delete, Row, arrow

HANDLES = 3
MODES = ("merge-on-read", "copy-on-write")
FIRST = tuple(Row(number, number, "xy"[number % 2]) for number in (0, 1, 2))
ONE = Condition("id = 1", lambda row: row.id == 1)
ON_X = Condition("p = 'x'", lambda row: row.p == "x")
NOTHING = Condition("id = 50", lambda row: row.id == 50)
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
Properties: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Works:
    """A handle does something in its transaction, which it begins if it has none: as a batch, or not."""

    who: int
    step: Step
    batch: int | None = None


@dataclass(frozen=True)
class Commits:
    who: int


@dataclass(frozen=True)
class Alone:
    """A handle does something that is a transaction of its own."""

    who: int
    step: OwnStep


@dataclass(frozen=True)
class Compacts:
    table: str


Event: TypeAlias = Works | Commits | Alone | Compacts


def make_lake(
    store: MemoryStore,
    layouts: Sequence[tuple[str, ...]],
    properties: Properties,
    mounts: Mounts,
) -> None:
    lake = hg.Lake.init(store, strategy="conditional", divisor=3)
    for name, layout in zip(TABLES, layouts, strict=True):
        table = lake.create_table(name, DDL, partition_by=layout, properties=dict(properties))
        table.append(arrow(FIRST))
    if mounts.directories:
        mounts.define(lake, 1)


@dataclass
class History:
    """What happened to a lake, and in which order it was committed.

    `lake` shares nothing with the hands.
    """

    lake: hg.Lake
    first: State
    hands: Sequence[Hand]
    running: dict[int, list[Step]] = field(default_factory=dict)
    log: list[Done] = field(default_factory=list)
    batches: int = 0

    @classmethod
    def of(cls, layouts: Sequence[tuple[str, ...]], properties: Properties, mounts: Mounts) -> History:
        """Of handles in this process that share nothing, as those of several processes."""
        store = MemoryStore("isolation")
        make_lake(store, layouts, properties, mounts)
        lake, *handles = (hg.Lake.open(store, allow_mounts=mounts.directories) for _ in range(1 + HANDLES))
        return cls(lake, first_state(layouts, mounts), [*map(HandHere, handles)])

    def happens(self, event: Event) -> None:
        match event:
            case Works(who, step, batch):
                self._work(who, step, batch)
            case Commits(who):
                if who in self.running:
                    self._commit(who, self.running.pop(who))
            case Alone(who, step):
                if self._is_done(step, self.hands[who].works_alone(step)):
                    self._note([step])
            case Compacts(table) if table not in self.lake.tables():
                pass
            case Compacts(table):
                with self.lake.transaction() as tx:
                    compact_files(tx, table, [file.path for file in self.lake.table(table).files()])
                    tx.set_properties({"compacted": tx.txid})  # also if there is no file

    def _work(self, who: int, step: Step, batch: int | None) -> None:
        begins = who not in self.running
        done = self.running.setdefault(who, [] if batch is None else [Numbered(batch)])
        if self._is_done(step, self.hands[who].works(step, batch)):
            done.append(step)
        elif begins and isinstance(step, Several):
            self.hands[who].gives_up()  # some of its steps may have been done
            self.running.pop(who)

    def _is_done(self, step: Step, outcome: Outcome) -> bool:
        if outcome is Outcome.ABSENT:
            assert set(TABLES) - set(self.lake.tables()), "only a table that is not there is not found"
        if outcome is Outcome.WRONG:
            assert isinstance(step, Respecify), "only a spec that is there already is refused"
        return outcome is Outcome.DONE

    def _commit(self, who: int, done: list[Step]) -> None:
        outcome = self.hands[who].commits()
        number = next((step.number for step in done if isinstance(step, Numbered)), None)
        if outcome is Outcome.EARLIER or (outcome is Outcome.DONE and number is not None):
            assert number is not None
            assert (outcome is Outcome.EARLIER) == (number <= self.batches)
            self.batches = max(self.batches, number)
        if outcome is Outcome.DONE:
            self._note(done)

    def _note(self, done: Sequence[Step]) -> None:
        if done:
            self.log.append(Done(self.lake.version, tuple(done)))

    def require(self, isolation: str) -> None:
        """The tables are those after one of the orders that the isolation allows."""
        there = read_state(self.lake)
        if isolation == "serializable":
            assert comparable(there) == comparable(one_after_another(self.first, self.log))
        else:
            allowed = orders(self.log)
            assert any(gives(self.first, order, there) for order in allowed), (comparable(there), self.log)


def first_state(layouts: Sequence[tuple[str, ...]], mounts: Mounts) -> State:
    first = {name: Content(layout, FIRST) for name, layout in zip(TABLES, layouts, strict=True)}
    return {**first, MOUNT: mounts.content(1)} if mounts.directories else first


# --- what is drawn ------------------------------------------------------------------------------------------


def some_properties(isolation: str) -> st.SearchStrategy[Properties]:
    verbs = ("delete", "update", "merge")
    return st.tuples(*[st.sampled_from(MODES)] * len(verbs)).map(
        lambda modes: (
            ("isolation", isolation),
            *((f"write.{verb}.mode", mode) for verb, mode in zip(verbs, modes, strict=True)),
        )
    )


def events(properties: Properties, mounts: Mounts) -> st.SearchStrategy[list[Event]]:
    who = st.integers(0, HANDLES - 1)
    works = st.builds(Works, who, steps(properties, mounts), st.none() | st.integers(1, 4))
    found = st.sampled_from([ONE, ON_X, NOTHING])
    deletes = st.builds(On, st.sampled_from(TABLES), st.builds(Delete, found))
    event = st.one_of(
        works,
        works,
        works,
        st.builds(Commits, who),
        st.builds(Commits, who),
        st.builds(Alone, who, own_steps()),
        st.builds(Alone, who, own_steps() | st.builds(Remount, st.just(mounts), st.integers(1, 2))),
        st.builds(Works, who, deletes, st.integers(1, 3)),
        st.builds(Compacts, st.sampled_from(TABLES)),
    )
    return st.lists(event, min_size=3, max_size=10)


def at_once(properties: Properties, mounts: Mounts) -> st.SearchStrategy[list[Event]]:
    """Transactions over several tables, each of which is begun and done at once, and committed later.

    Often one of them is open while the others are committed, one after another. There may be a compaction in
    between, or an operation outside of a transaction.
    """
    whos = st.just((0, 1, 1, 2, 2, 0)) | st.permutations([*range(HANDLES)] * 2)
    alone = st.builds(Alone, st.just(0), own_steps()) | st.builds(Compacts, st.sampled_from(TABLES))
    between = st.lists(st.tuples(st.integers(0, 2 * HANDLES), alone), max_size=1)
    return st.builds(_schedule, whos, trios(properties, mounts), between, st.sampled_from(NUMBERS))


NUMBERS: tuple[tuple[int | None, ...], ...] = (
    *[(None,) * HANDLES] * 3,
    (None, 1, 2),
    (3, 1, 2),
    (3, 1, None),
)
"""Which batch of an application each of three transactions is, if it is one."""


def _schedule(
    whos: Sequence[int],
    works: Sequence[Several],
    between: Sequence[tuple[int, Event]],
    numbers: Sequence[int | None],
) -> list[Event]:
    """A handle works when its number comes first, and commits when it comes again."""
    scheduled: list[Event] = [
        Commits(who) if who in whos[:number] else Works(who, works[who], numbers[who])
        for number, who in enumerate(whos)
    ]
    for number, event in between:
        scheduled.insert(number, event)
    return scheduled
