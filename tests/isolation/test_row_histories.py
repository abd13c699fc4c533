"""Random histories of operations on rows against plain Python: one after another, and several at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.lake.table import Table
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.transaction import Transaction
from tests.compactions import compact_files
from tests.examples import examples
from tests.isolation.row_model import (
    DDL,
    Append,
    Operation,
    Overwrite,
    Row,
    contending,
    operations,
    ordered,
    rows_of,
)

MODES = ("merge-on-read", "copy-on-write")
LAYOUTS: tuple[tuple[str, ...], ...] = ((), ("p",), ("bucket(2, id)",))
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@dataclass(frozen=True)
class Setup:
    """A table: how it is laid out, and how each operation changes its rows."""

    partition_by: tuple[str, ...]
    modes: tuple[str, str, str]
    isolation: str = "write-serializable"

    def table(self) -> Table:
        lake = hg.Lake.init(MemoryStore("histories"), strategy="conditional", divisor=3)
        modes = zip(("delete", "update", "merge"), self.modes, strict=True)
        properties = {f"write.{verb}.mode": mode for verb, mode in modes}
        return lake.create_table(
            "a.b",
            DDL,
            partition_by=self.partition_by,
            properties={**properties, "isolation": self.isolation},
        )


def setups(isolation: str = "write-serializable") -> st.SearchStrategy[Setup]:
    mode = st.sampled_from((MODES[0], *MODES))  # rows are compared only on read
    return st.builds(Setup, st.sampled_from(LAYOUTS), st.tuples(mode, mode, mode), st.just(isolation))


# --- one after another --------------------------------------------------------------------------------------


@RELAXED
@given(
    setups(), st.lists(st.lists(operations(), min_size=1, max_size=4), max_size=6), st.sampled_from(LAYOUTS)
)
def test_one_after_another(setup: Setup, history: list[list[Operation]], layout: tuple[str, ...]) -> None:
    table = setup.table()
    lake = table._lake
    rows: list[Row] = []
    versions = {lake.version: rows}
    for number, steps in enumerate(history):
        if number == 3 and layout != setup.partition_by:
            table.replace_partition_by(layout)
        before = lake.version
        with lake.transaction() as tx:
            for step in steps:
                step.on_table(tx.table("a.b"))
                rows = step.on_rows(rows)
                assert rows_of(tx.table("a.b").read_arrow()) == ordered(rows)
        assert tx.result.version == lake.version == before + tx.result.changed
        versions[lake.version] = rows
        require_feed(table, before, lake.version)
    for version, there in versions.items():
        assert rows_of(table.read_arrow(version=version)) == ordered(there)


def require_feed(table: Table, before: int, after: int) -> None:
    """The rows before, without what is told to be gone, and with what has come, are the rows after."""
    told = Counter(rows_of(table.read_arrow(version=before)))
    changes = table.changes_arrow(before, after).to_pylist()
    for change in changes:
        row = Row(change["id"], change["n"], change["p"])
        came = change["_change_type"] in ("insert", "update_after")
        told[row] += 1 if came else -1
    assert ordered(told.elements()) == rows_of(table.read_arrow(version=after)), changes
    assert all(count >= 0 for count in told.values()), changes


# --- several at once ----------------------------------------------------------------------------------------


@dataclass
class Open:
    """A transaction that is open: what it has done, and the rows as it sees them."""

    tx: Transaction
    base: list[Row]
    rows: list[Row]
    steps: list[Operation] = field(default_factory=list)
    overwritten: set[int] = field(default_factory=set)

    def do(self, step: Operation) -> None:
        # What it sees by now is not looked at: that would be a read, which the commit depends on.
        step.on_table(self.tx.table("a.b"))
        before, self.rows = self.rows, step.on_rows(self.rows)
        self.steps.append(step)
        if isinstance(step, Overwrite):
            self.overwritten |= {row.identity for row in before} - {row.identity for row in self.rows}

    @property
    def gone(self) -> set[int]:
        """The rows of its base that it deletes, however."""
        return {row.identity for row in self.base} - {row.identity for row in self.rows}

    def serially(self, rows: list[Row]) -> list[Row]:
        """What it makes of the rows if it is run on them."""
        for step in self.steps:
            rows = step.on_rows(rows)
        return rows

    def as_it_was_seen(self, rows: list[Row]) -> list[Row]:
        """What it makes of the rows if the rows that it changed are changed as it saw them.

        Whatever it updated must still be as it was; whatever it deleted may be gone, but not be updated.
        """
        base = {row.identity: row for row in self.base}
        seen = {row.identity: row for row in self.rows}
        there = {row.identity: row for row in rows}
        for identity, before in base.items():
            after = seen.get(identity)
            if after is None:
                assert there.pop(identity, before) == before, "an updated row was deleted"
            elif after != before:
                assert there.get(identity) == before, "an update was lost, or a row came back"
                there[identity] = after
        there.update({identity: row for identity, row in seen.items() if identity not in base})
        return list(there.values())


@dataclass(frozen=True)
class Round:
    """What each writer does next, in a transaction that it begins if it has none; then some commit.

    Before each of these commits all files may be compacted.
    """

    work: tuple[tuple[Operation, ...], ...]
    commits: tuple[int, ...]
    compacts: tuple[bool, ...]


def rounds(writers: int) -> st.SearchStrategy[list[Round]]:
    work = st.tuples(*[st.lists(contending(), min_size=1, max_size=2).map(tuple)] * writers)
    order = st.tuples(st.permutations(range(writers)), st.integers(2, writers))
    commits = order.map(lambda chosen: tuple(chosen[0][: chosen[1]]))
    compacts = st.tuples(*[st.booleans()] * writers)
    return st.lists(st.builds(Round, work, commits, compacts), min_size=2, max_size=3)


LEVELS = ("snapshot", "write-serializable", "serializable")


@RELAXED
@given(st.data(), st.sampled_from(LEVELS))
def test_several_at_once(data: st.DataObject, isolation: str) -> None:
    at_once(data, isolation)


@pytest.mark.nightly
@settings(RELAXED, max_examples=examples(400))
@given(st.data(), st.sampled_from(LEVELS))
def test_several_at_once_for_long(data: st.DataObject, isolation: str) -> None:
    at_once(data, isolation)


def at_once(data: st.DataObject, isolation: str) -> None:
    table = data.draw(setups(isolation)).table()
    first = Append(tuple(Row(number, number, "xy"[number % 2]) for number in (0, 1, 1, 2, 3)))
    with table._lake.transaction() as tx:
        first.on_table(tx.table("a.b"))
    rows = first.on_rows([])
    writers = [hg.Lake.open(Inspector(table._lake).store) for _ in range(3)]
    running: dict[int, Open] = {}
    overwritten: set[int] = set()
    for each in data.draw(rounds(len(writers))):
        for number, steps in enumerate(each.work):
            if steps and number not in running:
                running[number] = Open(writers[number].transaction(), rows, rows)
            for step in steps:
                running[number].do(step)
        for number, compacts in zip(each.commits, each.compacts, strict=False):
            if compacts:
                compacted(table)
            if number in running:
                before, done = table._lake.version, running.pop(number)
                rows = committed(done, rows, isolation)
                if table._lake.version > before:
                    # At every isolation: what came in the place of a row may be the same row again.
                    assert not done.gone & overwritten, "a row was overwritten, and so survived its delete"
                    overwritten |= done.overwritten
                assert rows_of(table.read_arrow()) == ordered(rows)
                require_feed(table, before, table._lake.version)


def compacted(table: Table) -> None:
    with table._lake.transaction() as tx:
        compact_files(tx, table.name, [file.path for file in table.files()])
        tx.set_properties({"compacted": tx.txid})  # also if there is no file


def committed(done: Open, rows: list[Row], isolation: str) -> list[Row]:
    """The rows after a transaction was committed, or refused."""
    try:
        result = done.tx.commit()
    except TransactionConflictError:
        return rows
    if not result.changed:
        # It stands where it looked, and made no version.
        assert ordered(done.rows) == ordered(done.base)
        return rows
    after = done.as_it_was_seen(rows)
    if isolation == "serializable":
        assert ordered(after) == ordered(done.serially(rows))
    return after
