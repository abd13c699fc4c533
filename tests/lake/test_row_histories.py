"""Random histories of operations on rows against plain Python: one after another, and several at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.storage.memory import MemoryStore
from headgate.table import Table
from headgate.transaction import Transaction, TransactionConflictError
from tests.lake.row_model import DDL, Operation, Row, operations, ordered, rows_of

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
    mode = st.sampled_from(MODES)
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
    for version, there in versions.items():
        assert rows_of(table.read_arrow(version=version)) == ordered(there)


# --- several at once ----------------------------------------------------------------------------------------


@dataclass
class Open:
    """A transaction that is open: what it has done, and the rows as it sees them."""

    tx: Transaction
    base: list[Row]
    rows: list[Row]
    steps: list[Operation] = field(default_factory=list)

    def do(self, step: Operation) -> None:
        step.on_table(self.tx.table("a.b"))
        self.rows = step.on_rows(self.rows)
        self.steps.append(step)
        assert rows_of(self.tx.table("a.b").read_arrow()) == ordered(self.rows)

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
class Step:
    """The transaction of a writer begins, does something, or commits: whichever comes next."""

    writer: int
    operation: Operation | None


def steps(writers: int = 3) -> st.SearchStrategy[list[Step]]:
    step = st.builds(Step, st.integers(0, writers - 1), st.none() | operations() | operations())
    return st.lists(step, min_size=4, max_size=24)


@RELAXED
@given(st.data(), st.sampled_from(["snapshot", "write-serializable", "serializable"]))
def test_several_at_once(data: st.DataObject, isolation: str) -> None:
    setup = data.draw(setups(isolation))
    table = setup.table()
    first = data.draw(operations())
    with table._lake.transaction() as tx:
        first.on_table(tx.table("a.b"))
        tx.set_properties({"first": "1"})
    rows = first.on_rows([])
    handles = [hg.Lake.open(table._lake._driver.store) for _ in range(3)]
    running: dict[int, Open] = {}
    for step in data.draw(steps()):
        if step.operation is not None:
            if step.writer not in running:
                running[step.writer] = Open(handles[step.writer].transaction(), rows, rows)
            running[step.writer].do(step.operation)
        elif step.writer in running:
            rows = committed(running.pop(step.writer), rows, isolation)
            assert rows_of(table.read_arrow()) == ordered(rows)
    for writer in sorted(running):
        rows = committed(running[writer], rows, isolation)
    assert rows_of(table.read_arrow()) == ordered(rows)


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


@pytest.mark.slow
@settings(RELAXED, max_examples=1000)
@given(st.data(), st.sampled_from(["snapshot", "write-serializable", "serializable"]))
def test_several_at_once_for_long(data: st.DataObject, isolation: str) -> None:
    test_several_at_once.hypothesis.inner_test(data, isolation)  # type: ignore[attr-defined]
