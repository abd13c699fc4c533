"""Operations on rows twice: on a table in a transaction, and on plain Python rows.

A row of the model has an identity that a table has not, by which it is told what became of it: an updated row
is the same row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headgate.transaction.table_writer import TableWriter

DDL = "id BIGINT NOT NULL, n BIGINT, p STRING"
_identities = itertools.count()


@dataclass(frozen=True)
class Row:
    id: int
    n: int | None
    p: str | None
    identity: int = field(default_factory=lambda: next(_identities), compare=False)


def key(row: Row) -> tuple[Any, ...]:
    return (row.id, row.n is not None, row.n or 0, row.p or "", row.p is None)


def ordered(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=key)


def arrow(rows: Sequence[Row]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([row.id for row in rows], pa.int64()),
            "n": pa.array([row.n for row in rows], pa.int64()),
            "p": pa.array([row.p for row in rows], pa.string()),
        }
    )


def rows_of(table: pa.Table) -> list[Row]:
    return ordered(Row(row["id"], row["n"], row["p"]) for row in table.to_pylist())


@dataclass(frozen=True)
class Condition:
    """A predicate, and whether it is true for a row: null is not."""

    where: str
    holds: Callable[[Row], bool] = field(repr=False)


def conditions() -> st.SearchStrategy[Condition]:
    small = st.integers(0, 4)
    return st.one_of(
        small.map(lambda k: Condition(f"id = {k}", lambda row: row.id == k)),
        small.map(lambda k: Condition(f"id < {k}", lambda row: row.id < k)),
        small.map(lambda k: Condition(f"id >= {k}", lambda row: row.id >= k)),
        small.map(lambda k: Condition(f"n <> {k}", lambda row: row.n is not None and row.n != k)),
        small.map(
            lambda k: Condition(
                f"NOT (n < {k} OR id = 3)", lambda r: r.n is not None and r.n >= k and r.id != 3
            )
        ),
        st.sampled_from("xy").map(lambda k: Condition(f"p = '{k}'", lambda row: row.p == k)),
        st.just(Condition("n IS NULL", lambda row: row.n is None)),
        st.just(Condition("true", lambda row: True)),
        st.just(Condition("id = 3 AND p <> 'x'", lambda r: r.id == 3 and r.p is not None and r.p != "x")),
    )


Images = Callable[[Row], Row]
ASSIGNMENTS: tuple[tuple[dict[str, str], Images], ...] = (
    ({"n": "n + 1"}, lambda row: replace(row, n=None if row.n is None else row.n + 1)),
    ({"n": "NULL"}, lambda row: replace(row, n=None)),
    ({"p": "'y'"}, lambda row: replace(row, p="y")),
    ({"n": "id * 2", "id": "id + 1"}, lambda row: replace(row, n=row.id * 2, id=row.id + 1)),
    ({"p": "NULL", "n": "0"}, lambda row: replace(row, p=None, n=0)),
)


@dataclass(frozen=True)
class Append:
    rows: tuple[Row, ...]

    def on_table(self, table: TableWriter) -> None:
        table.append(arrow(self.rows))

    def on_rows(self, rows: list[Row]) -> list[Row]:
        return [*rows, *map(_fresh, self.rows)]


@dataclass(frozen=True)
class Delete:
    condition: Condition

    def on_table(self, table: TableWriter) -> object:
        return table.delete(self.condition.where)

    def on_rows(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if not self.condition.holds(row)]


@dataclass(frozen=True)
class Update:
    number: int
    condition: Condition

    def on_table(self, table: TableWriter) -> object:
        return table.update(ASSIGNMENTS[self.number][0], self.condition.where)

    def on_rows(self, rows: list[Row]) -> list[Row]:
        image = ASSIGNMENTS[self.number][1]
        return [image(row) if self.condition.holds(row) else row for row in rows]


@dataclass(frozen=True)
class Upsert:
    rows: tuple[Row, ...]

    def on_table(self, table: TableWriter) -> object:
        return table.upsert(arrow(self.rows), ["id"])

    def on_rows(self, rows: list[Row]) -> list[Row]:
        given = {row.id: row for row in self.rows}
        there = {row.id for row in rows}
        images = [replace(given[row.id], identity=row.identity) if row.id in given else row for row in rows]
        return [*images, *(_fresh(row) for row in self.rows if row.id not in there)]


@dataclass(frozen=True)
class Overwrite:
    """Of the rows of one `p`; of all rows if it is None."""

    rows: tuple[Row, ...]
    p: str | None

    def on_table(self, table: TableWriter) -> None:
        table.overwrite(arrow(self._given()), None if self.p is None else f"p = '{self.p}'")

    def on_rows(self, rows: list[Row]) -> list[Row]:
        kept = [row for row in rows if self.p is not None and row.p != self.p]
        return [*kept, *map(_fresh, self._given())]

    def _given(self) -> list[Row]:
        return [row if self.p is None else replace(row, p=self.p) for row in self.rows]


@dataclass(frozen=True)
class InsertCount:
    """Adds a row that tells how many rows were found."""

    condition: Condition

    def on_table(self, table: TableWriter) -> None:
        count = table.read_arrow(where=self.condition.where, columns=["id"]).num_rows
        table.append(arrow([Row(100, count, "x")]))

    def on_rows(self, rows: list[Row]) -> list[Row]:
        return [*rows, Row(100, sum(map(self.condition.holds, rows)), "x")]


def _fresh(row: Row) -> Row:
    return replace(row, identity=next(_identities))


Operation = Append | Delete | Update | Upsert | Overwrite | InsertCount


def some_rows(most: int = 4) -> st.SearchStrategy[tuple[Row, ...]]:
    row = st.builds(
        Row,
        st.integers(0, 4),
        st.none() | st.integers(0, 4),
        st.sampled_from(["x", "y", None]),
    )
    return st.lists(row, max_size=most).map(tuple)


def operations() -> st.SearchStrategy[Operation]:
    once = some_rows().map(lambda rows: tuple({row.id: row for row in rows}.values()))
    return st.one_of(
        st.builds(Append, some_rows()),
        st.builds(Delete, conditions()),
        st.builds(Update, st.integers(0, len(ASSIGNMENTS) - 1), conditions()),
        st.builds(Upsert, once),
        st.builds(Overwrite, some_rows(2), st.sampled_from(["x", "y", "y", "x", None])),
        st.builds(InsertCount, conditions()),
    )


def contending() -> st.SearchStrategy[Operation]:
    """Operations that are about a row or two, so that several at once often are about the same ones."""
    number = st.integers(0, 2)
    one = st.one_of(
        number.map(lambda k: Condition(f"id = {k}", lambda row: row.id == k)),
        number.map(lambda k: Condition(f"id <= {k}", lambda row: row.id <= k)),
        st.sampled_from("xy").map(lambda k: Condition(f"p = '{k}'", lambda row: row.p == k)),
        number.map(lambda k: Condition(f"n = {k}", lambda row: row.n == k)),
    )
    row = st.builds(Row, number, number, st.sampled_from("xy")).map(lambda row: (row,))
    # Two rows are in two files if the table is partitioned by `p`: one of them may be missed, or be seen.
    both = row.map(lambda rows: (replace(rows[0], p="x"), replace(rows[0], p="y")))
    update = st.builds(Update, st.integers(0, len(ASSIGNMENTS) - 1), one)
    delete = st.builds(Delete, one)
    upsert, append = st.builds(Upsert, row), st.builds(Append, row | both)
    overwrite = st.builds(Overwrite, st.just(()) | row, st.sampled_from("xy"))
    return st.one_of(update, delete, upsert, append, update, delete, overwrite, st.builds(InsertCount, one))
