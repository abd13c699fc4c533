"""Transactions over two tables and a mount twice: on a lake, and on plain Python rows in any order.

Besides the operations of `row_model`, on either table: reads of a table that rows of another one follow from,
partition specs that change and overwrites that depend on them, tables that are dropped after changes, their
names being used again or not, and tables that are renamed. A mount is read, and replaced by one of another
directory.

A transaction may be a batch of an application, which is done once, and never after a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol, TypeAlias

from hypothesis import strategies as st
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

import headgate as hg
from headgate.lake.table import Table
from headgate.transaction.transaction import Transaction
from tests.isolation.row_model import (
    ASSIGNMENTS,
    DDL,
    Append,
    Condition,
    Delete,
    InsertCount,
    Operation,
    Overwrite,
    Row,
    Update,
    Upsert,
    arrow,
    ordered,
    rows_of,
)

TABLES = ("a.b", "a.c")
MOUNT = "a.m"
JOB = "the newest batch"
LAYOUTS: tuple[tuple[str, ...], ...] = ((), ("p",), ("bucket(2, id)",))
_bucket = BucketTransform(2).transform(LongType())


@dataclass(frozen=True)
class Content:
    """A table: how new files are partitioned, and its rows."""

    layout: tuple[str, ...]
    rows: tuple[Row, ...]

    def partition(self, row: Row) -> object:
        return {(): None, ("p",): row.p, ("bucket(2, id)",): _bucket(row.id)}[self.layout]


State: TypeAlias = Mapping[str, Content]


class ImpossibleError(Exception):
    """A step needs a table that is not there, or is a batch that comes too late: no order has it here."""


class Step(Protocol):
    """Something that a transaction does."""

    def on_lake(self, tx: Transaction) -> object: ...

    def on_state(self, state: State) -> State: ...


class OwnStep(Step, Protocol):
    """Something that can be done without a transaction around it, too, on a handle."""

    def on_handle(self, lake: hg.Lake) -> object: ...


def _there(state: State, table: str) -> Content:
    if table not in state:
        raise ImpossibleError(table)
    return state[table]


def _with_rows(state: State, table: str, rows: Sequence[Row]) -> State:
    return {**state, table: replace(_there(state, table), rows=tuple(rows))}


def _without(state: State, table: str) -> State:
    _there(state, table)
    return {name: content for name, content in state.items() if name != table}


def _count(number: int) -> Row:
    return Row(100, number, "x")


@dataclass(frozen=True)
class On:
    """An operation on the rows of one table."""

    table: str
    operation: Operation

    def on_lake(self, tx: Transaction) -> object:
        return self.operation.on_table(tx.table(self.table))

    def on_handle(self, lake: hg.Lake) -> object:
        """As an operation of its own, through a handle that may not have looked for long."""
        return self.operation.on_table(Table(lake, self.table))  # type: ignore[arg-type] # has the same methods

    def on_state(self, state: State) -> State:
        return _with_rows(state, self.table, self.operation.on_rows([*_there(state, self.table).rows]))


@dataclass(frozen=True)
class OverwritePartitions:
    """Which rows go is up to the partition spec."""

    table: str
    rows: tuple[Row, ...]

    def on_lake(self, tx: Transaction) -> None:
        tx.table(self.table).overwrite_partitions(arrow(self.rows))

    def on_handle(self, lake: hg.Lake) -> object:
        return Table(lake, self.table).overwrite_partitions(arrow(self.rows))

    def on_state(self, state: State) -> State:
        there = _there(state, self.table)
        touched = {there.partition(row) for row in self.rows}
        kept = [row for row in there.rows if there.partition(row) not in touched]
        return _with_rows(state, self.table, [*kept, *self.rows])


@dataclass(frozen=True)
class Tell:
    """Adds a row to a table that says how many rows were found in another one."""

    source: str
    condition: Condition
    target: str

    def on_lake(self, tx: Transaction) -> None:
        found = tx.table(self.source).read_arrow(where=self.condition.where, columns=["id"])
        tx.table(self.target).append(arrow([_count(found.num_rows)]))

    def on_state(self, state: State) -> State:
        found = sum(map(self.condition.holds, _there(state, self.source).rows))
        return _with_rows(state, self.target, [*_there(state, self.target).rows, _count(found)])


@dataclass(frozen=True)
class Respecify:
    table: str
    layout: tuple[str, ...]

    def on_lake(self, tx: Transaction) -> None:
        tx.table(self.table).replace_partition_by(self.layout)

    def on_handle(self, lake: hg.Lake) -> object:
        return Table(lake, self.table).replace_partition_by(self.layout)

    def on_state(self, state: State) -> State:
        return {**state, self.table: replace(_there(state, self.table), layout=self.layout)}


@dataclass(frozen=True)
class ForgetNumbers:
    """Drops a column, and adds another one of its name, without values."""

    table: str

    def on_lake(self, tx: Transaction) -> None:
        table = tx.table(self.table)
        table.drop_column("n")
        table.add_column("n", "BIGINT")

    def on_handle(self, lake: hg.Lake) -> None:
        with lake.transaction() as tx:
            self.on_lake(tx)

    def on_state(self, state: State) -> State:
        return _with_rows(state, self.table, [replace(row, n=None) for row in _there(state, self.table).rows])


@dataclass(frozen=True)
class Numbered:
    """The transaction is a batch of the application."""

    number: int

    def on_lake(self, tx: Transaction) -> None:
        raise AssertionError("a transaction is a batch from its beginning")

    def on_state(self, state: State) -> State:
        if JOB in state and state[JOB].rows[0].id >= self.number:
            raise ImpossibleError(f"batch {self.number}, after {state[JOB].rows[0].id}")
        return {**state, JOB: Content((), (Row(self.number, None, None),))}


@dataclass(frozen=True)
class UseAgain:
    """Deletes rows, tells how many, drops the table after it, and makes another one of its name."""

    table: str
    condition: Condition
    target: str
    properties: tuple[tuple[str, str], ...]

    def on_lake(self, tx: Transaction) -> None:
        deleted = tx.table(self.table).delete(self.condition.where).deleted
        tx.drop_table(self.table)
        tx.create_table(self.table, DDL, properties=dict(self.properties))
        tx.table(self.target).append(arrow([_count(deleted)]))

    def on_state(self, state: State) -> State:
        deleted = sum(map(self.condition.holds, _there(state, self.table).rows))
        emptied = {**state, self.table: Content((), ())}
        return _with_rows(emptied, self.target, [*_there(emptied, self.target).rows, _count(deleted)])


@dataclass(frozen=True)
class Drop:
    table: str

    def on_lake(self, tx: Transaction) -> None:
        tx.drop_table(self.table)

    def on_state(self, state: State) -> State:
        return _without(state, self.table)


@dataclass(frozen=True)
class Rename:
    table: str

    def on_lake(self, tx: Transaction) -> None:
        tx.table(self.table)  # must be there
        tx.rename_table(self.table, self.table + "_renamed")

    def on_state(self, state: State) -> State:
        return {**_without(state, self.table), self.table + "_renamed": state[self.table]}


ENDS = (UseAgain, Drop, Rename, ForgetNumbers)
"""Steps after which rows that were written before cannot be appended: no such table, or no such column."""


@dataclass(frozen=True)
class Mounts:
    """Directories of CSV files, by the number of rows in them: 1, 2, …"""

    directories: tuple[str, ...]

    def content(self, rows: int) -> Content:
        return Content((), tuple(_count(number) for number in range(rows)))

    def define(self, catalog: Any, rows: int) -> None:
        catalog.mount_csv(MOUNT, self.directories[rows - 1], schema="n BIGINT", replace=True)


NOTHING_MOUNTED = Mounts(())


@dataclass(frozen=True)
class Remount:
    mounts: Mounts
    rows: int

    def on_lake(self, tx: Transaction) -> None:
        self.mounts.define(tx, self.rows)

    def on_handle(self, lake: hg.Lake) -> None:
        self.mounts.define(lake, self.rows)

    def on_state(self, state: State) -> State:
        return {**state, MOUNT: self.mounts.content(self.rows)}


@dataclass(frozen=True)
class TellMounted:
    """Adds a row to a table that says how many rows the mount has."""

    target: str

    def on_lake(self, tx: Transaction) -> None:
        target = tx.table(self.target)
        target.append(arrow([_count(tx.table(MOUNT).read_arrow().num_rows)]))

    def on_state(self, state: State) -> State:
        rows = [*_there(state, self.target).rows, _count(len(state[MOUNT].rows))]
        return _with_rows(state, self.target, rows)


@dataclass(frozen=True)
class Several:
    """Steps of one transaction."""

    steps: tuple[Step, ...]

    def on_lake(self, tx: Transaction) -> None:
        for step in self.steps:
            step.on_lake(tx)

    def on_state(self, state: State) -> State:
        for step in self.steps:
            state = step.on_state(state)
        return state


def _single(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield from _single(step.steps) if isinstance(step, Several) else (step,)


@dataclass(frozen=True)
class Done:
    """A transaction that was committed."""

    version: int
    steps: tuple[Step, ...]

    @property
    def is_blind(self) -> bool:
        steps = [step for step in _single(self.steps) if not isinstance(step, Numbered)]
        return all(isinstance(step, On) and isinstance(step.operation, Append) for step in steps)

    def on_state(self, state: State) -> State:
        for step in self.steps:
            state = step.on_state(state)
        return state


def one_after_another(first: State, history: Sequence[Done]) -> State:
    """The tables after all transactions, in this order."""
    for done in history:
        first = done.on_state(first)
    return first


def orders(history: Sequence[Done]) -> list[list[Done]]:
    """All orders that write-serializable allows: that of the log, with blind appends moved to later."""
    others = [done for done in history if not done.is_blind]
    blind = [done for done in history if done.is_blind]
    places = [_later_places(append, others) for append in blind]
    return [_placed(others, blind, chosen) for chosen in product(*places)]


def _later_places(append: Done, others: Sequence[Done]) -> range:
    """Where an append can be among the others: not behind one after which it is no longer possible."""
    first = sum(other.version < append.version for other in others)
    appended = {step.table for step in _single(append.steps) if isinstance(step, On)}
    replaced = (
        number
        for number, other in enumerate(others[first:], first)
        if any(isinstance(step, ENDS) and step.table in appended for step in _single(other.steps))
    )
    return range(first, next(replaced, len(others)) + 1)


def _placed(others: list[Done], blind: list[Done], places: Sequence[int]) -> list[Done]:
    placed = []
    for number in range(len(others) + 1):
        placed += [append for append, place in zip(blind, places, strict=True) if place == number]
        placed += others[number : number + 1]
    return placed


def gives(first: State, order: Sequence[Done], state: State) -> bool:
    """Whether the transactions, in this order, can all be done and lead to this state."""
    try:
        return comparable(one_after_another(first, order)) == comparable(state)
    except ImpossibleError:
        return False


def comparable(state: State) -> dict[str, Any]:
    tables = {name: content for name, content in state.items() if name != JOB}
    return {name: (content.layout, ordered(content.rows)) for name, content in tables.items()}


def read_state(lake: hg.Lake) -> State:
    """The tables and the mount as anybody reads them."""
    tables = {name: lake.table(name) for name in lake.tables()}
    state = {
        name: Content(tuple(table.partition_by), tuple(rows_of(table.read_arrow())))
        for name, table in tables.items()
    }
    if MOUNT in lake.objects():
        mounted = lake.table(MOUNT).read_arrow()
        state[MOUNT] = Content((), tuple(_count(number) for number in range(mounted.num_rows)))
    return state


# --- what is drawn ------------------------------------------------------------------------------------------


def _conditions() -> st.SearchStrategy[Condition]:
    number = st.integers(0, 2)
    return st.one_of(
        number.map(lambda k: Condition(f"id = {k}", lambda row: row.id == k)),
        number.map(lambda k: Condition(f"id <= {k}", lambda row: row.id <= k)),
        number.map(lambda k: Condition(f"n >= {k}", lambda row: row.n is not None and row.n >= k)),
        st.sampled_from("xy").map(lambda k: Condition(f"p = '{k}'", lambda row: row.p == k)),
        st.just(Condition("true", lambda row: True)),
    )


def _one_row() -> st.SearchStrategy[tuple[Row, ...]]:
    number = st.integers(0, 2)
    return st.builds(Row, number, number, st.sampled_from("xy")).map(lambda row: (row,))


def _some_rows() -> st.SearchStrategy[tuple[Row, ...]]:
    """A row, or two of which each is in a file of its own if the table is partitioned by `p`."""
    return _one_row() | _one_row().map(lambda rows: (replace(rows[0], p="x"), replace(rows[0], p="y")))


def own_steps() -> st.SearchStrategy[OwnStep]:
    """What can be done without a transaction around it, too."""
    conditions, row, table = _conditions(), _one_row(), st.sampled_from(TABLES)
    updates = st.builds(Update, st.integers(0, len(ASSIGNMENTS) - 1), conditions)
    operation = st.one_of(
        st.builds(Append, row),
        st.builds(Delete, conditions),
        updates,
        st.builds(Upsert, row),
        st.builds(Overwrite, st.just(()) | row, st.sampled_from(["x", "y", None])),
    )
    return st.one_of(
        st.builds(On, table, operation),
        st.builds(On, table, st.builds(Append, _some_rows())),
        st.builds(OverwritePartitions, table, row),
        st.builds(Respecify, table, st.sampled_from(LAYOUTS)),
        st.builds(ForgetNumbers, table),
    )


def _used_again(properties: tuple[tuple[str, str], ...]) -> st.SearchStrategy[UseAgain]:
    return st.builds(
        lambda tables, condition: UseAgain(tables[0], condition, tables[1], properties),
        st.permutations(TABLES),
        _conditions(),
    )


def steps(properties: tuple[tuple[str, str], ...], mounts: Mounts) -> st.SearchStrategy[Step]:
    conditions, table = _conditions(), st.sampled_from(TABLES)
    return st.one_of(
        own_steps(),
        own_steps(),
        st.builds(Tell, table, conditions, table),
        st.builds(On, table, st.builds(InsertCount, conditions)),
        _used_again(properties),
        st.builds(TellMounted, table),
        st.builds(Remount, st.just(mounts), st.integers(1, 2)),
    )


Trio: TypeAlias = tuple[Several, Several, Several]
"""Three transactions: one that is open while the other two are done, one after the other."""


def trios(properties: tuple[tuple[str, str], ...], mounts: Mounts) -> st.SearchStrategy[Trio]:
    """Transactions over both tables and the mount that have to do with each other, through different tables.

    The open one misses rows of one table, which the next one adds, and either itself or the last one often
    needs it for its rows of the other table. A table is dropped or renamed at the end of a transaction,
    because the model knows only one name of a table at a time.
    """

    def over(tables: Sequence[str]) -> st.SearchStrategy[Trio]:
        one, other = tables
        open_ = st.tuples(_looks_at(one), _looks_at(other) | _appends(other) | _ends(other, properties))
        remounts = st.builds(Remount, st.just(mounts), st.integers(1, 2))
        last = _looks_at(other) | _looks_at(other) | _ends(other, properties)
        mounted = st.builds(TellMounted, st.sampled_from(tables))
        forgets = st.just((ForgetNumbers(one),))
        to_both = _some_rows().map(lambda rows: tuple(On(name, Append(rows)) for name in TABLES))
        trio = st.one_of(
            st.tuples(st.tuples(_looks_at(one)), to_both, st.tuples(last)),
            st.tuples(open_, to_both, st.tuples(last)),
            st.tuples(
                st.tuples(_looks_at(one), _ends(other, properties)), to_both, st.tuples(_appends(other))
            ),
            st.tuples(open_ | st.tuples(_looks_at(one)), st.tuples(mounted), st.tuples(remounts)),
            st.tuples(st.tuples(_looks_at(one)), forgets, st.tuples(last)),
        )
        return trio.map(lambda three: (Several(three[0]), Several(three[1]), Several(three[2])))

    return st.permutations(TABLES).flatmap(over)


def _looks_at(table: str) -> st.SearchStrategy[Step]:
    conditions = [
        Condition("true", lambda row: True),
        Condition("p = 'x'", lambda row: row.p == "x"),
        Condition("p = 'y'", lambda row: row.p == "y"),
        Condition("n >= 1", lambda row: row.n is not None and row.n >= 1),
    ]
    found = st.sampled_from(conditions)
    changes = st.builds(Update, st.integers(0, 2), found) | st.builds(Delete, found)
    overwrites = st.builds(Overwrite, _one_row(), st.sampled_from(["x", None]))
    return st.builds(On, st.just(table), changes | changes | overwrites | st.builds(InsertCount, found))


def _appends(table: str) -> st.SearchStrategy[Step]:
    return st.builds(On, st.just(table), st.builds(Append, _some_rows()))


def _ends(table: str, properties: tuple[tuple[str, str], ...]) -> st.SearchStrategy[Step]:
    forgets = st.just(ForgetNumbers(table))
    return st.just(Drop(table)) | st.just(Rename(table)) | forgets | _used_again(properties)
