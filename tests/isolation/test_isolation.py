"""What each isolation promises, on random histories of several handles against all orders that it allows.

Handles share nothing, as those of several processes. They have transactions that stay open while others
commit, and operations of their own on what they saw last, however long ago. Compactions move rows in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.transaction import Transaction
from tests.compactions import compact_files
from tests.examples import examples
from tests.isolation.lake_model import (
    LAYOUTS,
    MOUNT,
    NOTHING_MOUNTED,
    TABLES,
    Content,
    Done,
    Drop,
    Mounts,
    On,
    OverwritePartitions,
    Remount,
    Rename,
    Respecify,
    Several,
    State,
    Step,
    Tell,
    TellMounted,
    UseAgain,
    comparable,
    gives,
    one_after_another,
    orders,
    own_steps,
    read_state,
    steps,
    trios,
)
from tests.isolation.row_model import DDL, Append, Condition, Delete, Overwrite, Row, Update, arrow

HANDLES = 3
MODES = ("merge-on-read", "copy-on-write")
FIRST = tuple(Row(number, number, "xy"[number % 2]) for number in (0, 1, 2))
ONE = Condition("id = 1", lambda row: row.id == 1)
ON_X = Condition("p = 'x'", lambda row: row.p == "x")
NOTHING = Condition("id = 50", lambda row: row.id == 50)
EVERY = Condition("true", lambda row: True)
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
Properties: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Works:
    """A handle does something in its transaction, which it begins if it has none."""

    who: int
    step: Step


@dataclass(frozen=True)
class Commits:
    who: int


@dataclass(frozen=True)
class Alone:
    """A handle does something that is a transaction of its own."""

    who: int
    step: On | OverwritePartitions | Respecify | Remount


@dataclass(frozen=True)
class Batch:
    """A handle deletes rows in a batch of an application, perhaps one that was run before."""

    who: int
    number: int
    step: On


@dataclass(frozen=True)
class Compacts:
    table: str


Event: TypeAlias = Works | Commits | Alone | Batch | Compacts


@pytest.fixture(scope="session")
def mounts(tmp_path_factory: pytest.TempPathFactory) -> Mounts:
    directories = [tmp_path_factory.mktemp(f"mounted{rows}") for rows in (1, 2)]
    for rows, directory in enumerate(directories, 1):
        (directory / "rows.csv").write_text("n\n" + "7\n" * rows)
    return Mounts(tuple(map(str, directories)))


def lake_with(layouts: Sequence[tuple[str, ...]], properties: Properties, mounts: Mounts) -> hg.Lake:
    lake = hg.Lake.init(MemoryStore("isolation"), strategy="conditional", divisor=3)
    for name, layout in zip(TABLES, layouts, strict=True):
        table = lake.create_table(name, DDL, partition_by=layout, properties=dict(properties))
        table.append(arrow(FIRST))
    if mounts.directories:
        mounts.define(lake, 1)
    return lake


@dataclass
class History:
    """What happened to a lake, and in which order it was committed."""

    lake: hg.Lake
    first: State
    handles: list[hg.Lake] = field(default_factory=list)
    running: dict[int, tuple[Transaction, list[Step]]] = field(default_factory=dict)
    log: list[Done] = field(default_factory=list)
    batches: int = -1

    @classmethod
    def of(cls, layouts: Sequence[tuple[str, ...]], properties: Properties, mounts: Mounts) -> History:
        store = Inspector(lake_with(layouts, properties, mounts)).store
        first = {name: Content(layout, FIRST) for name, layout in zip(TABLES, layouts, strict=True)}
        if mounts.directories:
            first[MOUNT] = mounts.content(1)
        lake, *handles = (hg.Lake.open(store, allow_mounts=mounts.directories) for _ in range(1 + HANDLES))
        return cls(lake, first, handles)

    def happens(self, event: Event) -> None:
        match event:
            case Works(who, Several() as step):
                self._works_at_once(who, step)
            case Works(who, step):
                tx, done = self.running.setdefault(who, (self.handles[who].transaction(), []))
                self._try(step, done, lambda: step.on_lake(tx))
            case Commits(who):
                if who in self.running:
                    tx, done = self.running.pop(who)
                    self._commit(tx, done)
            case Alone(who, step):
                done = []
                self._try(step, done, lambda: step.on_handle(self.handles[who]))
                self._note(done)
            case Batch(who, number, step):
                self._run_batch(self.handles[who], number, step)
            case Compacts(table) if table not in self.lake.tables():
                pass
            case Compacts(table):
                with self.lake.transaction() as tx:
                    compact_files(tx, table, [file.path for file in self.lake.table(table).files()])
                    tx.set_properties({"compacted": tx.txid})  # also if there is no file

    def _works_at_once(self, who: int, step: Several) -> None:
        tx = self.handles[who].transaction()
        try:
            step.on_lake(tx)
        except hg.NotFoundError:
            tx.abort()  # another transaction has dropped or renamed the table
        else:
            self.running[who] = (tx, [step])

    def _try(self, step: Step, done: list[Step], call: object) -> None:
        assert callable(call)
        try:
            call()
        except hg.NotFoundError:
            assert set(TABLES) - set(self.lake.tables()), "only a table that is not there is not found"
        except hg.InvalidInputError:
            assert isinstance(step, Respecify), "only a spec that is there already is refused"
        else:
            done.append(step)

    def _commit(self, tx: Transaction, done: list[Step]) -> None:
        if not tx._work.noted:
            tx.abort()
            return
        try:
            tx.commit()
        except TransactionConflictError:
            return
        self._note(done)

    def _note(self, done: Sequence[Step]) -> None:
        if done:
            self.log.append(Done(self.lake.version, tuple(done)))

    def _run_batch(self, handle: hg.Lake, number: int, step: On) -> None:
        with handle.transaction(app=("job", number)) as tx:
            step.on_lake(tx)
        assert tx.result.already_committed == (number <= self.batches)
        if not tx.result.already_committed:
            self.batches = number
            self._note([step])

    def require(self, isolation: str) -> None:
        """The tables are those after one of the orders that the isolation allows."""
        there = read_state(self.lake)
        if isolation == "serializable":
            assert comparable(there) == comparable(one_after_another(self.first, self.log))
        else:
            allowed = orders(self.log)
            assert any(gives(self.first, order, there) for order in allowed), (comparable(there), self.log)


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
    works = st.builds(Works, who, steps(properties, mounts))
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
        st.builds(Batch, who, st.integers(0, 2), deletes),
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
    return st.builds(_schedule, whos, trios(properties, mounts), between)


def _schedule(
    whos: Sequence[int], works: Sequence[Several], between: Sequence[tuple[int, Event]]
) -> list[Event]:
    """A handle works when its number comes first, and commits when it comes again."""
    scheduled: list[Event] = [
        Commits(who) if who in whos[:number] else Works(who, works[who]) for number, who in enumerate(whos)
    ]
    for number, event in between:
        scheduled.insert(number, event)
    return scheduled


def run(data: st.DataObject, isolation: str, mounts: Mounts) -> None:
    history, properties = begun(data, isolation, mounts)
    for event in (*data.draw(events(properties, mounts)), *map(Commits, range(HANDLES))):
        history.happens(event)
    history.require(isolation)


def run_over_several_tables(data: st.DataObject, isolation: str, mounts: Mounts) -> None:
    history, properties = begun(data, isolation, mounts)
    for event in data.draw(at_once(properties, mounts)):
        history.happens(event)
    history.require(isolation)


def begun(data: st.DataObject, isolation: str, mounts: Mounts) -> tuple[History, Properties]:
    properties = data.draw(some_properties(isolation))
    layouts = data.draw(st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS)))
    return History.of(layouts, properties, mounts), properties


LEVELS = ("write-serializable", "serializable")


@RELAXED
@given(st.data(), st.sampled_from(LEVELS))
def test_there_is_an_order_that_gives_the_same_rows(
    mounts: Mounts, data: st.DataObject, isolation: str
) -> None:
    run(data, isolation, mounts)


@RELAXED
@given(st.data(), st.sampled_from((LEVELS[0], *LEVELS)))
def test_there_is_an_order_of_transactions_over_several_tables(
    mounts: Mounts, data: st.DataObject, isolation: str
) -> None:
    run_over_several_tables(data, isolation, mounts)


@pytest.mark.nightly
@settings(RELAXED, max_examples=examples(1000))
@given(st.data(), st.sampled_from(LEVELS))
def test_there_is_an_order_that_gives_the_same_rows_for_long(
    mounts: Mounts, data: st.DataObject, isolation: str
) -> None:
    run(data, isolation, mounts)


@pytest.mark.nightly
@settings(RELAXED, max_examples=examples(1000))
@given(st.data(), st.sampled_from((LEVELS[0], *LEVELS)))
def test_there_is_an_order_of_transactions_over_several_tables_for_long(
    mounts: Mounts, data: st.DataObject, isolation: str
) -> None:
    run_over_several_tables(data, isolation, mounts)


# --- histories that went wrong ------------------------------------------------------------------------------

B, C = TABLES
TO_Y = 2
"""The assignment of `p`."""


def happened(
    isolation: str, *events: Event, mounts: Mounts = NOTHING_MOUNTED, layout: tuple[str, ...] = ()
) -> History:
    history = History.of([layout, layout], (("isolation", isolation),), mounts)
    for event in events:
        history.happens(event)
    history.require(isolation)
    return history


def append(table: str, p: str = "x") -> On:
    return On(table, Append((Row(1, 1, p),)))


@pytest.mark.parametrize("isolation", LEVELS)
def test_an_append_that_follows_from_rows_is_not_blind(isolation: str) -> None:
    done = happened(
        isolation,
        Works(0, On(B, Update(0, EVERY))),
        Works(1, Tell(B, EVERY, B)),
        Commits(1),
        Commits(0),
    )
    assert [len(each.steps) for each in done.log] == [1], "the update was refused"


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("compacted", [False, True])
def test_an_append_that_another_one_has_seen_is_not_moved_behind_us(isolation: str, compacted: bool) -> None:
    """Whoever counted the rows saw the append and not our update; we saw the count, but not the append."""
    happened(
        isolation,
        Works(0, On(B, Update(TO_Y, ON_X))),
        Alone(1, append(B)),
        *([Compacts(B)] if compacted else []),
        Works(2, Tell(B, ON_X, C)),
        Commits(2),
        Commits(0),
    )


def test_an_append_that_another_one_has_not_seen_is() -> None:
    done = happened(
        "write-serializable",
        Works(0, On(B, Update(TO_Y, ON_X))),
        Works(2, Tell(B, ON_X, C)),
        Alone(1, append(B)),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 3


def test_what_others_have_seen_is_told_by_files() -> None:
    """Somebody has read the table since, but not the files of the append."""
    done = happened(
        "write-serializable",
        Works(0, On(B, Delete(ONE))),
        Alone(1, append(B)),
        Works(2, Tell(B, NOTHING, C)),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 3


@pytest.mark.parametrize("isolation", LEVELS)
def test_what_was_looked_for_counts_if_the_table_is_dropped_then(isolation: str) -> None:
    for meanwhile in (On(B, Delete(ONE)), On(B, Overwrite((), "y"))):
        again = UseAgain(B, ONE, C, (("isolation", isolation),))
        happened(isolation, Works(0, again), Alone(1, meanwhile), Commits(0))


@pytest.mark.parametrize("isolation", LEVELS)
def test_rows_that_came_after_a_look_count_if_the_table_is_dropped_then(isolation: str) -> None:
    """Nobody can have appended them later, for the table is gone by then."""
    again = UseAgain(B, ONE, C, (("isolation", isolation),))
    done = happened(isolation, Works(0, again), Alone(1, append(B)), Commits(0))
    assert len(done.log) == 1, "the drop was refused"


def test_rows_that_nobody_looked_for_go_with_the_table() -> None:
    again = UseAgain(B, NOTHING, C, (("isolation", "serializable"),))
    done = happened("serializable", Works(0, again), Alone(1, append(B)), Commits(0))
    assert len(done.log) == 2


@pytest.mark.parametrize("isolation", LEVELS)
def test_an_overwrite_of_partitions_depends_on_the_spec(isolation: str) -> None:
    one = OverwritePartitions(B, (Row(1, 7, "x"),))
    happened(isolation, Works(0, one), Alone(1, Respecify(B, ("p",))), Commits(0))


# --- several tables -----------------------------------------------------------------------------------------

WRITES = "write-serializable"
"""The isolation at which blind appends may move."""


def whole(who: int, *steps: Step) -> Works:
    return Works(who, Several(steps))


@pytest.mark.parametrize("needs", [On(C, Delete(EVERY)), On(C, Overwrite((), None)), Drop(C), Rename(C)])
def test_an_append_is_one_whatever_table_the_others_miss_or_need_it_in(needs: Step) -> None:
    """We missed its rows of one table; another one saw those of the other table, or took the table away."""
    done = happened(
        WRITES,
        whole(0, On(B, Update(TO_Y, EVERY))),
        whole(1, append(B), append(C)),
        Commits(1),
        whole(2, needs),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 2, "the update was refused"


def test_an_append_that_another_table_lost_before_is_one_too() -> None:
    """What drops the table has not seen the append. But the rows are gone with it, so it came after them."""
    done = happened(
        WRITES,
        whole(0, On(B, Update(TO_Y, EVERY))),
        whole(2, Drop(C)),
        whole(1, append(B), append(C)),
        Commits(1),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 2, "the update was refused"


def test_an_append_to_two_tables_is_followed_through_a_compaction_of_the_other_one() -> None:
    done = happened(
        WRITES,
        whole(0, On(B, Update(TO_Y, EVERY))),
        whole(1, append(B), append(C)),
        Commits(1),
        Compacts(C),
        whole(2, On(C, Delete(EVERY))),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 2, "the update was refused"


def test_files_of_one_append_move_together() -> None:
    """We missed one of its files, and another transaction saw only the other file."""
    both = On(B, Append((Row(7, 7, "x"), Row(8, 8, "y"))))
    done = happened(
        WRITES,
        whole(0, On(B, Update(0, ON_X))),
        Alone(1, both),
        whole(2, On(B, Delete(Condition("p = 'y' AND id = 8", lambda row: row.p == "y" and row.id == 8)))),
        Commits(2),
        Commits(0),
        layout=("p",),
    )
    assert len(done.log) == 2, "the update was refused"


@pytest.mark.parametrize("first", [On(C, Update(TO_Y, EVERY)), On(C, Overwrite((), None)), Tell(C, EVERY, C)])
@pytest.mark.parametrize("end", [Drop(B), Rename(B), UseAgain(B, NOTHING, C, (("isolation", WRITES),))])
def test_an_append_does_not_follow_who_misses_it_and_drops_another_table(first: Step, end: Step) -> None:
    done = happened(WRITES, whole(0, first, end), whole(1, append(B), append(C)), Commits(1), Commits(0))
    assert len(done.log) == 1, "the drop was refused"


def test_blind_appends_move_next_to_changes_of_several_tables() -> None:
    """Nobody needs the append, so it can come last."""
    done = happened(
        WRITES,
        whole(0, On(B, Update(TO_Y, EVERY)), On(C, Delete(ONE))),
        whole(2, On(C, Update(0, NOTHING)), append(C)),
        whole(1, append(B), append(C)),
        Commits(1),
        Alone(1, append(B)),
        Commits(0),
    )
    assert len(done.log) == 3


@pytest.mark.parametrize("isolation", LEVELS)
def test_an_append_that_follows_from_a_mount_is_not_blind(isolation: str, mounts: Mounts) -> None:
    done = happened(
        isolation,
        Works(0, On(B, Update(0, EVERY))),
        Works(1, TellMounted(B)),
        Commits(1),
        Alone(2, Remount(mounts, 2)),
        Commits(0),
        mounts=mounts,
    )
    assert len(done.log) == 2, "the update was refused"
