"""Deletes, updates and upserts through Arrow: exactly the rows that are meant, as few files as possible."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet
import pytest

import headgate as hg
from headgate.iceberg.format.directories import Role, role_of
from headgate.lake.table import Table
from headgate.log.layout import TIMELINE
from headgate.model.footprint import file_mark
from headgate.model.reports import RowCounts
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Get, Put
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Tally, counted
from headgate.transaction.transaction import Transaction
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg

NAME = "sales.orders"
DDL = "id BIGINT NOT NULL, day DATE, n INT, note STRING"
ONE, TWO, THREE = (dt.date(2026, 11, day) for day in (1, 2, 3))
READ, WRITE = "merge-on-read", "copy-on-write"
Given = tuple[int, dt.date | None, int | None]


def rows(*given: Given) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([number for number, _, _ in given], pa.int64()),
            "day": pa.array([day for _, day, _ in given], pa.date32()),
            "n": pa.array([n for _, _, n in given], pa.int32()),
            "note": pa.array([f"note {number}" for number, _, _ in given]),
        }
    )


def modes(mode: str) -> dict[str, str]:
    return {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}


def orders(mode: str = READ, partition_by: tuple[str, ...] = ("day",), **more: Any) -> tuple[Table, Tally]:
    """Two files of the first day, one of the second, one of no day."""
    store, tally = counted(MemoryStore("row-changes"))
    lake = hg.Lake.init(store, strategy="conditional", divisor=100)
    table = lake.create_table(NAME, DDL, partition_by=partition_by, properties=modes(mode), **more)
    table.append(rows((1, ONE, 10), (2, ONE, 20), (3, ONE, None), (4, TWO, 40)))
    table.append(rows((5, ONE, 50), (6, None, 60)))
    tally.reset()
    return table, tally


def ids(table: Any, **options: Any) -> list[int]:
    return sorted(table.read_arrow(**options).column("id").to_pylist())


def values(table: Any, column: str = "n") -> dict[int, Any]:
    found = table.read_arrow(columns=["id", column]).to_pylist()
    by_id = {row["id"]: row[column] for row in found}
    assert len(by_id) == len(found)
    return by_id


def data_files_read(tally: Tally) -> list[str]:
    keys = [request.key for request in tally.history if isinstance(request, Get)]
    return [key for key in keys if key.endswith(".parquet") and "-positions-" not in key]


def record(table: Table) -> dict[str, Any]:
    newest: Any = table._lake.log(limit=1)[0].record
    (commit,) = newest["tables"]
    return dict(commit)


both_modes = pytest.mark.parametrize("mode", [READ, WRITE])
layouts = pytest.mark.parametrize("layout", [(), ("day",), ("bucket(3, id)",)], ids=["none", "day", "bucket"])


# --- what is changed ----------------------------------------------------------------------------------------


@both_modes
@layouts
def test_a_delete_removes_exactly_what_matches(mode: str, layout: tuple[str, ...]) -> None:
    table, _ = orders(mode, layout)
    result = table.delete("n >= 20 AND id <> 5")
    assert result.rows == RowCounts(deleted=3)
    assert result.changed
    assert ids(table) == [1, 3, 5]
    # For 3 the predicate is neither true nor false.
    assert table.delete("NOT (n < 60)").rows == RowCounts()
    assert table.delete("n IS NULL").rows == RowCounts(deleted=1)
    assert ids(table) == [1, 5]
    assert ids(table, version=result.version - 1) == [1, 2, 3, 4, 5, 6]
    assert ids(table, version=result.version) == [1, 3, 5]


@both_modes
@layouts
def test_an_update_computes_from_the_rows_as_they_were(mode: str, layout: tuple[str, ...]) -> None:
    table, _ = orders(mode, layout)
    result = table.update({"n": "n + 1", "note": "note || '!'"}, where="id <= 3")
    assert result.rows == RowCounts(updated=3)
    assert values(table) == {1: 11, 2: 21, 3: None, 4: 40, 5: 50, 6: 60}
    assert values(table, "note")[1] == "note 1!"
    # All at once: neither sees what the other assigned.
    assert table.update({"id": "n", "n": "7"}, where="id = 1").rows == RowCounts(updated=1)
    assert values(table)[11] == 7
    assert table.update({"n": "0"}).rows == RowCounts(updated=6)
    assert set(values(table).values()) == {0}
    assert values(table.__class__(table._lake, NAME, result.version)) == {
        1: 11,
        2: 21,
        3: None,
        4: 40,
        5: 50,
        6: 60,
    }


@both_modes
@layouts
def test_an_upsert_updates_what_is_there_and_adds_the_rest(mode: str, layout: tuple[str, ...]) -> None:
    table, _ = orders(mode, layout)
    result = table.upsert(rows((2, TWO, 22), (7, ONE, 70), (6, ONE, None)), keys=["id"])
    assert result.rows == RowCounts(updated=2, inserted=1)
    assert values(table) == {1: 10, 2: 22, 3: None, 4: 40, 5: 50, 6: None, 7: 70}
    assert values(table, "day") == {1: ONE, 2: TWO, 3: ONE, 4: TWO, 5: ONE, 6: ONE, 7: ONE}
    assert table.upsert(rows((8, ONE, 80)), keys=["id"]).rows == RowCounts(inserted=1)
    assert table.upsert(rows((8, ONE, 81)), keys=["id", "day"]).rows == RowCounts(updated=1)
    assert table.upsert(rows((8, TWO, 82)), keys=["id", "day"]).rows == RowCounts(inserted=1)
    assert ids(table, where="id = 8") == [8, 8]
    assert table.upsert(rows((8, THREE, 83)), keys=["id"]).rows == RowCounts(updated=2)
    assert table.upsert(rows(), keys=["id"]).changed is False


@both_modes
def test_an_updated_partition_column_moves_the_row(mode: str) -> None:
    table, _ = orders(mode)
    table.update({"day": "DATE '2026-11-03'"}, where="id = 2 OR id = 6")
    assert values(table, "day") == {1: ONE, 2: THREE, 3: ONE, 4: TWO, 5: ONE, 6: THREE}
    (file,) = [file for file in table.files() if file.partition["day"] == (THREE - dt.date(1970, 1, 1)).days]
    assert file.rows == 2
    assert role_of(file.path) is Role.UPDATED


@both_modes
def test_rows_of_several_specs_and_schemas(mode: str) -> None:
    table, _ = orders(mode)
    table.add_column("more", "BIGINT")
    table.replace_partition_by(["bucket(2, id)"])
    table.append(pa.table({"id": [10, 11, 12], "more": [1, 2, 3]}))
    table.rename_column("n", "amount")
    table.widen_column("amount", "BIGINT")
    table.drop_column("note")
    assert table.delete("id = 1 OR id = 10").rows == RowCounts(deleted=2)
    assert table.update({"more": "amount"}, where="more IS NULL").rows == RowCounts(updated=5)
    assert values(table, "more") == {2: 20, 3: None, 4: 40, 5: 50, 6: 60, 11: 2, 12: 3}
    new = pa.table({"id": [2, 11], "day": [ONE, ONE], "amount": [2**40, 0], "more": [0, 0]})
    assert table.upsert(new, keys=["id"]).rows == RowCounts(updated=2)
    assert values(table, "amount") == {2: 2**40, 3: None, 4: 40, 5: 50, 6: 60, 11: 0, 12: None}


@both_modes
def test_rows_stay_sorted_in_their_files(mode: str) -> None:
    table, _ = orders(mode, (), sort_by=["id desc"])
    table.update({"n": "1"}, where="id <> 2")
    table.delete("id = 3")
    assert values(table) == {1: 1, 2: 20, 4: 1, 5: 1, 6: 1}
    table.upsert(rows((9, ONE, 1), (12, ONE, 2), (10, ONE, 3)), keys=["id"])
    newest = table.files()[-1]
    loader = Inspector(table._lake).loader()
    data = Inspector(table._lake).driver.get(loader.key(newest.path))
    assert data is not None
    assert pa.parquet.read_table(pa.BufferReader(data))["id"].to_pylist() == [12, 10, 9]


NAN = float("nan")


@both_modes
@pytest.mark.parametrize(
    ("ddl", "there", "given", "updated"),
    [
        ("BOOLEAN", [True, None], [True, False], 1),
        ("INT", [1, None], [1, 2], 1),
        ("BIGINT", [2**40, None], [2**40, 2], 1),
        ("FLOAT", [1.5, NAN, None], [NAN, 2.5], 1),
        ("DOUBLE", [0.0, NAN, None], [-0.0, NAN, 1.0], 2),
        ("DECIMAL(38, 2)", [Decimal("1.10"), None], [Decimal("1.10"), Decimal("-9.00")], 1),
        ("DATE", [ONE, None], [ONE, TWO], 1),
        ("TIME", [dt.time(1), None], [dt.time(1), dt.time(2)], 1),
        (
            "TIMESTAMP",
            [dt.datetime(1960, 1, 1, tzinfo=dt.UTC), None],
            [dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
            1,
        ),
        ("TIMESTAMP_NTZ", [dt.datetime(2026, 1, 1), None], [dt.datetime(2026, 1, 1)], 1),
        ("STRING", ["", "ü", None], ["ü", "b"], 1),
        ("BINARY", [b"", b"\xff", None], [b"\xff", b""], 2),
        ("FIXED(2)", [b"ab", None], [b"ab", b"cd"], 1),
        ("UUID", [UUID(int=1), None], [UUID(int=1), UUID(int=2)], 1),
    ],
)
def test_keys_of_every_type(mode: str, ddl: str, there: list[Any], given: list[Any], updated: int) -> None:
    lake = hg.Lake.init(MemoryStore("keys"), strategy="conditional")
    table = lake.create_table("a.b", f"k {ddl}, n INT", properties=modes(mode))
    kind = table.read_arrow().schema.field("k").type

    def column(cells: list[Any]) -> Any:
        if isinstance(kind, pa.BaseExtensionType):
            stored = pa.array([cell and cell.bytes for cell in cells], kind.storage_type)
            return pa.ExtensionArray.from_storage(kind, stored)
        return pa.array(cells, kind)

    def data(cells: list[Any], n: int) -> pa.Table:
        return pa.table({"k": column(cells), "n": pa.array([n] * len(cells), pa.int32())})

    table.append(data(there, 1))
    result = table.upsert(data(given, 2), keys=["k"])
    assert result.rows == RowCounts(updated=updated, inserted=len(given) - updated)
    assert table.read_arrow(where="n = 1").num_rows == len(there) - updated
    assert table.read_arrow(where="n = 2").num_rows == len(given)


# --- what it costs ------------------------------------------------------------------------------------------


def test_whole_files_go_without_being_read() -> None:
    table, tally = orders()
    result = table.delete("day = '2026-11-01'")
    assert result.rows == RowCounts(deleted=4)
    assert data_files_read(tally) == []
    assert ids(table) == [4, 6]
    assert record(table)["operation"] == "delete"
    assert "deleted" not in record(table)["footprint"]
    tally.reset()
    # By the bounds of a column as well, and the last row of a table.
    assert table.delete("id > 3").rows == RowCounts(deleted=2)
    assert data_files_read(tally) == []
    assert table.files() == ()


def test_a_file_with_deleted_rows_goes_without_being_read_and_is_counted_right() -> None:
    table, tally = orders()
    table.delete("id = 2")
    tally.reset()
    assert table.delete("day = '2026-11-01'").rows == RowCounts(deleted=3)
    assert data_files_read(tally) == []
    assert ids(table) == [4, 6]


@both_modes
def test_only_files_that_can_match_are_read(mode: str) -> None:
    table, tally = orders(mode)
    table.delete("id = 2")
    read = data_files_read(tally)
    assert len(read) == 1 + (mode == WRITE)
    assert len(set(read)) == 1
    tally.reset()
    result = table.delete("id = 77")
    assert data_files_read(tally) == []
    assert not result.changed


def test_a_file_goes_with_its_last_live_row() -> None:
    table, _ = orders()
    before = {file.path for file in table.files()}
    for number in (1, 2):
        table.delete(f"id = {number}")
        assert {file.path for file in table.files()} == before
    table.delete("id = 3")
    assert len(table.files()) == 3
    assert ids(table) == [4, 5, 6]
    assert record(table)["footprint"]["removed"]


def test_nothing_but_positions_is_written_for_a_delete_on_read() -> None:
    table, tally = orders()
    table.delete("id = 2 OR id = 1")
    put = [request.key for request in tally.history if isinstance(request, Put) and "/data/" in request.key]
    (positions,) = [key for key in put if key.endswith(".parquet")]
    assert "-positions-deleted/" in positions
    snapshot = table.snapshot
    assert snapshot is not None
    assert snapshot.files_removed == 0


def test_many_changes_of_one_transaction_write_a_file_anew_once() -> None:
    table, tally = orders(WRITE)
    with table._lake.transaction() as tx:
        for number in (1, 2, 3):
            tx.table(NAME).update({"n": f"{number}"}, where=f"id = {number}")
    put = [request.key for request in tally.history if isinstance(request, Put)]
    assert [key for key in put if "-carried/" in key] == []
    assert values(table) == {1: 1, 2: 2, 3: 3, 4: 40, 5: 50, 6: 60}
    tally.reset()
    with table._lake.transaction() as tx:
        tx.table(NAME).update({"n": "0"}, where="id = 1")
        tx.table(NAME).delete("id = 4 OR id = 5")
    table.update({"n": "5"}, where="id = 2")
    assert values(table) == {1: 0, 2: 5, 3: 3, 6: 60}
    assert all(not found.deletes for found in table.plan().files)


# --- in a transaction ---------------------------------------------------------------------------------------


@both_modes
@layouts
def test_a_transaction_changes_what_it_has_changed_before(mode: str, layout: tuple[str, ...]) -> None:
    table, _ = orders(mode, layout)
    before = {file.path for file in table.files()}
    with table._lake.transaction() as tx:
        open_table = tx.table(NAME)
        open_table.append(rows((10, ONE, 1), (11, TWO, 1), (12, TWO, 1)))
        assert open_table.delete("id = 11") == RowCounts(deleted=1)
        assert open_table.update({"n": "n + 1"}, where="id >= 10 OR id = 1") == RowCounts(updated=3)
        assert open_table.update({"n": "n + 1"}, where="id >= 10 OR id = 1") == RowCounts(updated=3)
        assert open_table.upsert(rows((12, ONE, 100), (2, ONE, 0)), ["id"]) == RowCounts(updated=2)
        assert open_table.delete("id = 2") == RowCounts(deleted=1)
        assert open_table.delete("id = 2") == RowCounts()
        open_table.overwrite(rows((4, TWO, 44)), where="day = '2026-11-02'")
        open_table.update({"n": "n + 1"}, where="id = 4")
        assert values(open_table) == {1: 12, 3: None, 4: 45, 5: 50, 6: 60, 10: 3, 12: 100}
        assert ids(table) == [1, 2, 3, 4, 5, 6]
    assert tx.result.rows == RowCounts(deleted=2, updated=9)
    assert values(table) == {1: 12, 3: None, 4: 45, 5: 50, 6: 60, 10: 3, 12: 100}
    if mode == WRITE:
        assert all(not found.deletes for found in table.plan().files)
    # What the transaction added is new, however often it was changed.
    added = [file for file in table.files() if file.path not in before]
    in_new = [file for file in added if role_of(file.path) is Role.NEW]
    assert sum(file.rows for file in in_new) >= 2


@both_modes
def test_rows_that_are_added_and_deleted_again_leave_nothing(mode: str) -> None:
    table, _ = orders(mode)
    with table._lake.transaction() as tx:
        tx.table(NAME).append(rows((10, ONE, 1), (11, ONE, 1)))
        tx.table(NAME).update({"n": "2"}, where="id = 10")
        tx.table(NAME).delete("id >= 10")
        tx.table(NAME).delete("id = 1")
    assert ids(table) == [2, 3, 4, 5, 6]
    assert len(table.files()) == 4
    with table._lake.transaction() as tx:
        tx.table(NAME).append(rows((10, ONE, 1), (11, ONE, 1)))
        tx.table(NAME).delete("id >= 10")
    assert ids(table) == [2, 3, 4, 5, 6]


@both_modes
def test_a_table_and_a_column_of_the_same_transaction(mode: str) -> None:
    lake = hg.Lake.init(MemoryStore("fresh"), strategy="conditional")
    with lake.transaction() as tx:
        fresh = tx.create_table("a.b", "id BIGINT", properties=modes(mode))
        fresh.append(pa.table({"id": [1, 2, 3]}))
        assert fresh.delete("id = 9") == RowCounts()
        assert fresh.delete("id = 1") == RowCounts(deleted=1)
        fresh.add_column("n", "INT")
        assert fresh.update({"n": "7"}, where="id = 2") == RowCounts(updated=1)
        fresh.upsert(pa.table({"id": [3, 4], "n": pa.array([1, 1], pa.int32())}), ["id"])
    assert values(lake.table("a.b")) == {2: 7, 3: 1, 4: 1}


def test_several_tables_in_one_version() -> None:
    table, _ = orders()
    lake = table._lake
    other = lake.create_table("sales.archive", DDL)
    with lake.transaction() as tx:
        old = tx.table(NAME).read_arrow(where="day = '2026-11-01'")
        tx.table("sales.archive").append(old)
        tx.table(NAME).delete("day = '2026-11-01'")
    assert (ids(table), ids(other)) == ([4, 6], [1, 2, 3, 5])


@both_modes
def test_overwriting_everything_after_changes(mode: str) -> None:
    table, _ = orders(mode)
    with table._lake.transaction() as tx:
        tx.table(NAME).update({"n": "0"}, where="id = 1")
        tx.table(NAME).delete("id = 2")
        tx.table(NAME).overwrite(rows((9, ONE, 9)))
        tx.table(NAME).update({"n": "n + 1"}, where="id = 9")
    assert values(table) == {9: 10}
    assert set(record(table)["footprint"]) == {"added", "removed", "overwritten", "rewritten"}


# --- nothing to do ------------------------------------------------------------------------------------------


@both_modes
@pytest.mark.parametrize(
    "work",
    [
        lambda table: table.delete("id = 77"),
        lambda table: table.delete("false"),
        lambda table: table.update({"n": "1"}, where="n > 1000"),
        lambda table: table.upsert(rows(), ["id"]),
    ],
)
def test_what_matches_nothing_makes_no_version(mode: str, work: Callable[[Any], Any]) -> None:
    table, tally = orders(mode)
    lake = table._lake
    result = work(table)
    assert (result.version, result.changed, result.rows) == (lake.version, False, RowCounts())
    with lake.transaction() as tx:
        assert not work(tx.table(NAME))
    assert (tx.result.version, tx.result.changed) == (result.version, False)
    assert lake.version == 3
    # What was announced while rows were looked for is gone again; nothing else was written.
    put = [request.key for request in tally.history if isinstance(request, Put)]
    assert not [key for key in put if not key.startswith(TIMELINE)]
    assert not lake.timeline(pending=True)


def test_a_result_without_operations_on_rows_counts_none() -> None:
    table, _ = orders()
    result = table.append(rows((9, ONE, 1)))
    assert (result.rows, result.changed) == (None, True)
    with table._lake.transaction() as tx:
        tx.table(NAME).append(rows((10, ONE, 1)))
        tx.table(NAME).delete("id = 77")
    assert (tx.result.rows, tx.result.changed) == (RowCounts(), True)


def test_a_batch_that_was_committed_before_is_told_also_if_nothing_matches() -> None:
    table, _ = orders()
    with table._lake.transaction(app=("loader", 1)) as tx:
        tx.table(NAME).delete("id = 1")
    with table._lake.transaction(app=("loader", 1)) as again:
        again.table(NAME).delete("id = 1")
    assert again.result.already_committed
    assert again.result.version == tx.result.version


# --- bad input ----------------------------------------------------------------------------------------------

nulls = pa.table(
    {**{name: rows((1, ONE, 1))[name] for name in ("day", "n", "note")}, "id": pa.array([None], pa.int64())}
)


@both_modes
@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda t: t.delete("idd = 7"), "no column 'idd'\n  next: did you mean id"),
        (
            lambda t: t.delete("id = "),
            "cannot be read: expected a literal: id = »\n  next: .*headgate.session",
        ),
        (lambda t: t.delete("upper(note) = 'X'"), "'upper' is not a transform.*next: .*headgate.session"),
        (lambda t: t.delete("id = 'x'"), "'x' does not fit id"),
        (
            lambda t: t.delete(None),
            'a predicate must be a string of SQL or a Spark column, not None\n.*"true" selects every row',
        ),
        (lambda t: t.delete(7), "not 7"),
        (lambda t: t.update({}, where="id = 1"), "expected a mapping of columns to expressions, but got {}"),
        (lambda t: t.update(None), "but got None"),
        (lambda t: t.update("n = 1"), "but got 'n = 1'"),
        (
            lambda t: t.update({"n": 5}),
            r"the value of n must be a string of SQL, not the int 5\n.*quotes of its own",
        ),
        (lambda t: t.update({1: "5"}), "a mapping of columns to expressions"),
        (lambda t: t.update({"m": "1"}), "no column m\n.*n"),
        (lambda t: t.update({"m": "1"}, where="id = 77"), "no column m"),
        (lambda t: t.update({"note": "paid"}), "no column 'paid'"),
        (lambda t: t.update({"n": "upper(note)"}), r"or the end: upper»\(note\)\n  next: .*headgate.session"),
        (lambda t: t.update({"n": "note"}, where="id = 77"), "'note' is string, but the column n is int32"),
        (lambda t: t.update({"n": "id * 1000000000000"}), "has values that do not fit the column n"),
        (lambda t: t.update({"id": "NULL"}), "column id is required, but 6 of its values are null"),
        (lambda t: t.update({"id": "n"}), "column id is required, but 1 of its values are null"),
        (lambda t: t.update({"n": "1"}, where=3), "not 3"),
        (lambda t: t.upsert(rows((1, ONE, 1)), keys=[]), r"each named once, but got \[\]"),
        (lambda t: t.upsert(rows((1, ONE, 1)), keys=["id", "id"]), "each named once"),
        (lambda t: t.upsert(rows((1, ONE, 1)), keys="id"), "keys must be a list of strings, not a string"),
        (lambda t: t.upsert(rows((1, ONE, 1)), keys=["idd"]), "no column idd\n  next: did you mean id"),
        (lambda t: t.upsert([1], keys=["id"]), "Spark DataFrame or a pyarrow Table, not a list"),
        (
            lambda t: t.upsert(rows((1, ONE, 1), (2, ONE, 1), (1, ONE, 2), (2, ONE, 2)), keys=["id"]),
            r"2 keys occur more than once in the rows:\n  - {'id': 1}\n  - {'id': 2}",
        ),
        (lambda t: t.upsert(rows((1, None, 1)), keys=["day"]), "the key day is null in 1 of the rows"),
        (lambda t: t.upsert(nulls, keys=["id"]), "column id is required|the key id is null"),
        (lambda t: t.upsert(pa.table({"id": [1]}), keys=["id"]), "the rows have no column day, n, note"),
        (
            lambda t: t.upsert(rows((1, ONE, 1)).append_column("x", [[1]]), keys=["id"]),
            "column x .* is not in",
        ),
        (lambda t: t.merge(rows((1, ONE, 1)), on="t.id = s.id").commit(), "the merge has no clause"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    mode: str, work: Callable[[Any], Any], message: str
) -> None:
    table, _ = orders(mode)
    with pytest.raises((hg.InvalidInputError, hg.UnsupportedError), match=f"(?s){message}"):
        work(table)
    errors = (hg.InvalidInputError, hg.UnsupportedError)
    with pytest.raises(errors, match=f"(?s){message}"), table._lake.transaction() as tx:
        work(tx.table(NAME))
    assert table._lake.version == 3
    assert values(table) == {1: 10, 2: 20, 3: None, 4: 40, 5: 50, 6: 60}


def test_a_mode_that_is_none_is_refused_before_anything_is_read() -> None:
    table, tally = orders("merge-sometimes")
    with pytest.raises(
        hg.InvalidInputError, match=r"write.delete.mode cannot be 'merge-sometimes'\n.*merge-on-read or"
    ):
        table.delete("id = 2")
    assert data_files_read(tally) == []


def test_a_nested_field_is_not_set_alone() -> None:
    lake = hg.Lake.init(MemoryStore("nested"), strategy="conditional")
    table = lake.create_table("a.b", "id BIGINT, place STRUCT<x: INT>")
    table.append(pa.table({"id": [1], "place": [{"x": 5}]}).cast(table.read_arrow().schema))
    with pytest.raises(hg.InvalidInputError, match=r"no column place.x\n  next: set place as a whole"):
        table.update({"place.x": "1"})
    with pytest.raises(hg.UnsupportedError, match="only Spark can compare the key place"):
        table.upsert(table.read_arrow(), keys=["place"])
    assert table.update({"id": "place.x"}).rows == RowCounts(updated=1)
    assert table.read_arrow().to_pylist() == [{"id": 5, "place": {"x": 5}}]


def test_a_merge_needs_spark() -> None:
    table, _ = orders()
    merge = table.merge(rows((1, ONE, 1)), on="t.id = s.id").when_matched_delete()
    with pytest.raises(hg.UnsupportedError, match=r"only Spark can merge on t.id = s.id\n.*or upsert by key"):
        merge.commit()


# --- what others are told -----------------------------------------------------------------------------------


def marks(table: Table, *numbers: int) -> list[str]:
    """The marks of the data files that rows were in, as the table was at version 3."""
    found = table.plan(version=3)
    lake = table._lake
    by_id = {}
    for planned in found.files:
        data = Inspector(lake).driver.get(Inspector(lake).loader().key(planned.file.path))
        assert data is not None
        for number in pa.parquet.read_table(pa.BufferReader(data))["id"].to_pylist():
            by_id[number] = file_mark(planned.file.path)
    return sorted({by_id[number] for number in numbers})


DAY_ONE, DAY_TWO = ((day - dt.date(1970, 1, 1)).days for day in (ONE, TWO))


def test_the_record_of_changes_on_read() -> None:
    table, _ = orders()
    table.delete("id = 2")
    assert record(table)["verbs"] == ["delete"]
    assert record(table)["operation"] == "delete"
    assert record(table)["footprint"] == {"deleted": marks(table, 2)}
    assert set(table._lake.log(limit=1)[0].record["paths"]) == {"/sales/orders/day=2026-11-01"}  # type: ignore[arg-type]
    table.update({"day": "DATE '2026-11-02'"}, where="id = 3")
    assert record(table)["footprint"] == {"added": [[0, DAY_TWO]], "updated": marks(table, 3)}
    assert record(table)["operation"] == "overwrite"
    paths = table._lake.log(limit=1)[0].record["paths"]
    assert isinstance(paths, dict)
    assert paths["/sales/orders/day=2026-11-01"] == {"rows_removed": 1}
    assert set(paths) == {"/sales/orders/day=2026-11-01", "/sales/orders/day=2026-11-02"}
    table.upsert(rows((4, TWO, 1), (9, TWO, 1)), keys=["id"])
    assert record(table)["footprint"] == {
        "added": [[0, DAY_TWO]],
        "updated": marks(table, 4),
        "upserted": {"partitions": None, "bounds": {"1": [4, 9]}},
    }
    table.delete("day = '2026-11-02' OR id = 1")
    footprint = record(table)["footprint"]
    # That of 1, whose other rows are gone; that of 4, without any; both images, and that of 9.
    assert len(footprint["removed"]) == 5
    assert "deleted" not in footprint


def test_the_record_of_changes_on_write() -> None:
    table, _ = orders(WRITE)
    table.update({"n": "1"}, where="id = 2")
    footprint = record(table)["footprint"]
    assert (footprint["added"], footprint["rewritten"]) == ([[0, DAY_ONE]], marks(table, 2))
    (positions,) = footprint["positions"]  # below the table
    assert role_of(f"/{positions}") is Role.POSITIONS_UPDATED
    assert set(footprint) == {"added", "rewritten", "positions"}
    roles = sorted(role_of(file.path).value for file in table.files(version=4) if file.version == 4)
    assert roles == ["carried", "updated"]
    table.delete("id = 4")
    assert record(table)["footprint"] == {
        "removed": marks(table, 4),
        "overwritten": [],
        "rewritten": [],
    }


def test_the_record_of_an_upsert_names_the_buckets_of_its_keys() -> None:
    table, _ = orders(READ, ("bucket(4, id)",))
    table.upsert(rows((1, ONE, 1), (2, ONE, 2)), keys=["id"])
    buckets = {file.partition["id_bucket"] for file in table.files() if file.version == 4}
    upserted = record(table)["footprint"]["upserted"]
    assert upserted["bounds"] == {"1": [1, 2]}
    assert {spec for spec, _ in upserted["partitions"]} == {0}
    assert {number for _, number in upserted["partitions"]} == buckets
    with table._lake.transaction() as tx:
        tx.table(NAME).upsert(rows((1, ONE, 1)), keys=["id"])
        tx.table(NAME).upsert(rows((2, ONE, 1)), keys=["id"])
    assert record(table)["footprint"]["upserted"] == {"partitions": None, "bounds": {}}


def noted(tx: Transaction) -> Any:
    return tx._work.noted.tables[NAME]


@both_modes
def test_what_a_transaction_is_about(mode: str) -> None:
    table, _ = orders(mode)
    tx = table._lake.transaction()
    tx.table(NAME).append(rows((20, THREE, 1), (21, THREE, 1)))
    tx.table(NAME).delete("id = 2 OR id = 20")
    tx.table(NAME).update({"n": "0"}, where="id = 4")
    change = noted(tx)
    footprint = change.footprint()
    # Its own files are nobody else's concern.
    assert [sorted(read.files) for read in footprint.sought] == [marks(table, 1), marks(table, 4)]
    assert footprint.verbs == {"append", "delete", "update"}
    days = {f"/sales/orders/day=2026-11-0{day}" for day in (1, 2, 3)}
    assert footprint.paths == days
    if mode == READ:
        assert {mark: list(bitmap) for mark, bitmap in footprint.deleted.items()} == {marks(table, 2)[0]: [1]}
        assert {mark: list(bitmap) for mark, bitmap in footprint.updated.items()} == {marks(table, 4)[0]: [0]}
        assert footprint.rewritten == frozenset()
    else:
        assert footprint.rewritten == set(marks(table, 2, 4))
        assert not footprint.row_files
    assert set(footprint.names) == set(marks(table, 2, 4))


# --- other engines ------------------------------------------------------------------------------------------


@both_modes
@layouts
def test_other_engines_see_the_same_rows(tmp_path: Path, mode: str, layout: tuple[str, ...]) -> None:
    lake = hg.Lake.init(tmp_path)
    table = lake.create_table(NAME, DDL, partition_by=layout, properties=modes(mode))
    table.append(rows((1, ONE, 10), (2, ONE, 20), (3, ONE, None), (4, TWO, 40)))
    table.delete("id = 2")
    table.update({"n": "n + 1"}, where="id = 1")
    table.upsert(rows((4, ONE, 41), (5, TWO, 50)), keys=["id"])
    with lake.transaction() as tx:
        tx.table(NAME).append(rows((6, TWO, 1), (7, TWO, 2)))
        tx.table(NAME).delete("id = 7")
    expected = [(1, 11), (3, None), (4, 41), (5, 50), (6, 1)]
    assert sorted(values(table).items()) == expected
    root = tmp_path / "data" / "sales" / "orders"
    assert sorted(ask_duckdb(root, "id, n")) == expected
    assert sorted((int(number), n) for number, n in ask_clickhouse(root, "id, n")) == expected
    seen = ask_pyiceberg(table.metadata_location)
    assert sorted((row["id"], row["n"]) for row in seen) == expected
