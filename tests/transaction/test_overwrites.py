"""Overwrites by predicate and by partitions: what is read and rewritten, what conflicts, what others see."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform

import headgate as hg
from headgate.core.conflict.detection import Retryable, find_conflicts
from headgate.core.conflict.footprint import Footprint, TableFootprint
from headgate.core.input.arguments import found_table
from headgate.errors import ConflictError
from headgate.lake.table import Table
from headgate.log.layout import TIMELINE
from headgate.model.footprint import MAX_FILES, MAX_PARTITIONS, FileFootprint, file_mark
from headgate.model.json_object import JsonObject, encode
from headgate.model.record import PropertyChange
from headgate.model.table import TableAction, TableCommit, TableRef
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Get, Put
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Tally, counted
from headgate.transaction.changes import Reach, TableChange
from headgate.transaction.conflicts import TransactionConflictError
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg
from tests.model.test_record import a_record

DDL = "id BIGINT, day DATE, name STRING"
ONE, TWO, THREE = (dt.date(2026, 11, day) for day in (1, 2, 3))


def rows(*given: tuple[int, dt.date | None]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([number for number, _ in given], pa.int64()),
            "day": pa.array([day for _, day in given], pa.date32()),
            "name": [f"n{number}" for number, _ in given],
        }
    )


def ids(table: Table, **options: Any) -> list[int]:
    return sorted(table.read_arrow(**options).column("id").to_pylist())


def days_table(**properties: str) -> tuple[hg.Lake, Table, Tally]:
    store, tally = counted(MemoryStore("overwrites"))
    lake = hg.Lake.init(store, strategy="conditional", divisor=100)
    table = lake.create_table("sales.orders", DDL, partition_by=["day"], properties=properties)
    table.append(rows((1, ONE), (2, ONE), (3, TWO)))
    table.append(rows((4, ONE), (5, TWO), (6, THREE), (7, None)))
    return lake, table, tally


def got(tally: Tally) -> list[str]:
    return [request.key for request in tally.history if isinstance(request, Get)]


def test_whole_files_go_without_being_read_and_others_are_written_anew() -> None:
    lake, table, tally = days_table()
    tally.reset()
    table.overwrite(rows((10, ONE)), where="day = '2026-11-01'")
    assert not [key for key in got(tally) if key.endswith(".parquet")]
    assert ids(table) == [3, 5, 6, 7, 10]
    tally.reset()
    table.overwrite(rows(), where="id = 5 or id = 6")
    # One row of its own in each of the files that can hold it: gone as a whole.
    assert not [key for key in got(tally) if key.endswith(".parquet")]
    table.append(rows((20, TWO), (21, TWO), (22, TWO)))
    written_before = table.files()
    tally.reset()
    table.overwrite(rows(), where="id = 21")
    # Read to find the row, and again to write the others anew.
    assert len({key for key in got(tally) if key.endswith(".parquet")}) == 1
    assert ids(table) == [3, 7, 10, 20, 22]
    (before,) = (file for file in written_before if file.path not in {file.path for file in table.files()})
    assert lake.log(limit=1)[0].record["paths"] == {
        "/sales/orders/day=2026-11-02": {
            "files_added": 1,
            "rows_added": 2,
            "bytes_added": table.files()[-1].size_bytes,
            "files_removed": 1,
            "rows_removed": 3,
            "bytes_removed": before.size_bytes,
        }
    }


def test_a_file_in_which_nothing_matches_after_all_stays() -> None:
    _, table, _ = days_table()
    table.append(rows((30, TWO), (40, TWO)))
    before = {file.path for file in table.files()}
    table.overwrite(rows((35, TWO)), where="id = 35")
    assert before < {file.path for file in table.files()}


def test_removed_files_and_rows_are_told_by_path() -> None:
    lake, table, _ = days_table()
    sizes = {path: size_of_day(table, path) for path in ("day=2026-11-01", "day=2026-11-03")}
    table.overwrite(rows())
    paths = lake.log(limit=1)[0].record["paths"]
    assert isinstance(paths, dict)
    for path, files, removed in (("day=2026-11-01", 2, 3), ("day=2026-11-03", 1, 1)):
        told = {"files_removed": files, "rows_removed": removed, "bytes_removed": sizes[path]}
        assert paths[f"/sales/orders/{path}"] == told


def size_of_day(table: hg.Table, path: str) -> int:
    return sum(file.size_bytes for file in table.files() if f"/{path}/" in file.path)


def test_rows_that_do_not_match_are_shown_and_nothing_is_changed() -> None:
    lake, table, tally = days_table()
    tally.reset()
    with pytest.raises(
        hg.InvalidInputError, match=r"4 of the new rows do not match \"day = '2026-11-01'\""
    ) as caught:
        table.overwrite(rows(*((n, TWO) for n in range(10, 14)), (9, ONE)), where="day = '2026-11-01'")
    assert caught.value.problem.count("\n  - id: 1") == 3
    put = [request.key for request in tally.history if isinstance(request, Put)]
    assert not [key for key in put if not key.startswith(TIMELINE)]
    assert not Inspector(lake).handle.announcements.txids()
    assert lake.version == 3


def test_null_neither_matches_nor_is_removed() -> None:
    _, table, _ = days_table()
    table.overwrite(rows(), where="day <> '2026-11-01'")
    assert ids(table) == [1, 2, 4, 7]
    table.overwrite(rows(), where="NOT (day <> '2026-11-01')")
    assert ids(table) == [7]
    table.overwrite(rows(), where="day IS NULL")
    assert ids(table) == []


def test_overwriting_partitions_replaces_those_that_the_rows_belong_to() -> None:
    _, table, tally = days_table()
    tally.reset()
    table.overwrite_partitions(rows((10, ONE), (11, None)))
    assert not [key for key in got(tally) if key.endswith(".parquet")]
    assert ids(table) == [3, 5, 6, 10, 11]
    table.overwrite_partitions(rows())
    assert ids(table) == [3, 5, 6, 10, 11]


def test_files_of_an_older_spec_are_planned_and_rewritten_exactly() -> None:
    _, table, _ = days_table()
    table.replace_partition_by(["bucket(2, id)"])
    table.append(rows((100, ONE), (101, TWO), (102, ONE)))
    assert {len(file.partition) for file in table.files()} == {1}
    assert {next(iter(file.partition)) for file in table.files()} == {"day", "id_bucket"}
    assert ids(table, where="day = '2026-11-01'") == [1, 2, 4, 100, 102]
    assert ids(table, where="id in (2, 101)") == [2, 101]
    bucket = {
        number: BucketTransform(2).transform(table.schema.find_type("id"))(number) for number in ids(table)
    }
    zeros = [number for number in bucket if bucket[number] == 0]
    assert ids(table, where="bucket(2, id) = 0") == sorted(zeros)
    table.overwrite_partitions(rows((zeros[0], ONE)))
    assert ids(table) == sorted([zeros[0], *(number for number in bucket if bucket[number] == 1)])
    table.overwrite(rows(), where="day = '2026-11-02'")
    assert ids(table, where="day = '2026-11-02'") == []


def test_bounds_of_older_types_names_and_columns_still_tell() -> None:
    lake = hg.Lake.init(MemoryStore("evolved"), strategy="conditional", divisor=100)
    table = lake.create_table("sales.orders", "id INT, day DATE, name STRING, x FLOAT")
    numbers, floats = pa.array([1, 2], pa.int32()), pa.array([1.0, 2.0], pa.float32())
    table.append(pa.table({"id": numbers, "day": [ONE, TWO], "name": ["a", "b"], "x": floats}))
    table.rename_column("id", "number")
    table.widen_column("number", "BIGINT")
    table.widen_column("x", "DOUBLE")
    table.add_column("later", "STRING")
    assert table.read_arrow(where="number = 2 and x > 1.5").column("name").to_pylist() == ["b"]
    assert table.read_arrow(where="later is null", columns=["later"]).num_rows == 2
    assert table.read_arrow(where="later = 'x'").num_rows == 0
    assert table.plan("number > 2").files == ()
    assert table.plan("x > 2.5").files == ()
    assert table.plan("number <= 2").files[0].all_match
    big = pa.table({"number": [2**40], "day": [ONE], "name": ["c"], "x": [0.1], "later": ["x"]})
    table.overwrite(big, where="number >= 2")
    assert sorted(table.read_arrow().column("number").to_pylist()) == [1, 2**40]


# --- conflicts ------------------------------------------------------------------------------------------


class Nowhere:
    """A selection of no row."""

    def partition(self, spec_id: int, values: tuple[Any, ...]) -> bool:
        return False

    def file(self, file: object) -> bool:
        return False


NOWHERE = Nowhere()
UUID = "11111111-1111-1111-1111-111111111111"
Work = Callable[[Any], None]


def race(first: Work, second: Work, isolation: str = "write-serializable") -> Table:
    """Both begin on the same version; `second` commits after `first`."""
    lake, table, _ = days_table(isolation=isolation)
    one, two = lake.transaction(), lake.transaction()
    second(two.table("sales.orders"))
    first(one.table("sales.orders"))
    one.commit()
    two.commit()
    return table


def overwrite(day: dt.date, number: int) -> Work:
    return lambda table: table.overwrite(rows((number, day)), where=f"day = '{day}'")


def append(day: dt.date, number: int) -> Work:
    return lambda table: table.append(rows((number, day)))


EVERY = ("snapshot", "write-serializable", "serializable")


@pytest.mark.parametrize("isolation", EVERY)
def test_rule_27_overwrites_that_meet_conflict_and_others_do_not(isolation: str) -> None:
    with pytest.raises(TransactionConflictError, match="rule 27"):
        race(overwrite(ONE, 10), overwrite(ONE, 11), isolation)
    assert ids(race(overwrite(ONE, 10), overwrite(TWO, 11), isolation)) == [6, 7, 10, 11]
    with pytest.raises(TransactionConflictError, match="both changed rows of the same files: …/"):
        race(
            lambda t: t.overwrite(rows(), where="id = 1"),
            lambda t: t.overwrite(rows(), where="id = 2"),
            isolation,
        )
    # Where there was nothing yet: no file in common, but rows that the later one should have replaced.
    fourth = dt.date(2026, 11, 4)
    with pytest.raises(TransactionConflictError, match="it added rows where you overwrite: …/"):
        race(overwrite(fourth, 10), overwrite(fourth, 11), isolation)
    with pytest.raises(TransactionConflictError, match="rule 27"):
        race(overwrite(ONE, 10), lambda t: t.overwrite_partitions(rows((11, ONE))), isolation)
    with pytest.raises(TransactionConflictError, match="rule 27"):
        race(overwrite(ONE, 10), lambda t: t.overwrite(rows()), isolation)


@pytest.mark.parametrize("isolation", EVERY)
def test_rule_14_an_overwrite_of_all_rows_came_first(isolation: str) -> None:
    with pytest.raises(TransactionConflictError, match="rule 14"):
        race(lambda t: t.overwrite(rows()), overwrite(ONE, 10), isolation)


@pytest.mark.parametrize("isolation", EVERY)
def test_rules_25_and_28_appends_matter_to_serializable_tables_only(isolation: str) -> None:
    assert ids(race(append(TWO, 10), overwrite(ONE, 11), isolation)) == [3, 5, 6, 7, 10, 11]
    assert ids(race(overwrite(ONE, 11), append(ONE, 10), isolation)) == [3, 5, 6, 7, 10, 11]
    if isolation == "serializable":
        with pytest.raises(TransactionConflictError, match="rule 25"):
            race(append(ONE, 10), overwrite(ONE, 11), isolation)
        with pytest.raises(TransactionConflictError, match="rule 28"):
            race(append(ONE, 10), lambda t: t.overwrite(rows()), isolation)
    else:
        assert ids(race(append(ONE, 10), overwrite(ONE, 11), isolation)) == [3, 5, 6, 7, 10, 11]
        assert ids(race(append(ONE, 10), lambda t: t.overwrite(rows()), isolation)) == [10]


def test_an_isolation_that_is_none_is_named() -> None:
    _, table, _ = days_table(isolation="strict")
    with pytest.raises(hg.InvalidInputError, match="isolation cannot be 'strict'"):
        table.overwrite(rows())


def test_an_overwrite_by_itself_is_run_again() -> None:
    lake, table, _ = days_table()
    stale = lake.transaction()
    stale.table("sales.orders").overwrite(rows((10, ONE)), where="day = '2026-11-01'")
    table.overwrite(rows((11, ONE)), where="day = '2026-11-01'")
    with pytest.raises(TransactionConflictError) as caught:
        stale.commit()
    assert isinstance(caught.value.outcome, Retryable)


def test_a_file_that_is_gone_is_never_removed_again() -> None:
    """The last look, should a rule ever miss it."""
    lake, table, _ = days_table()
    stale = table.plan().files[0].file
    table.overwrite(rows())
    base = found_table(Inspector(lake).refresh(), "sales.orders")
    change = TableChange(
        "sales.orders", base=base, replaced={stale.path: stale}, reach=Reach(overwrites=(NOWHERE,))
    )
    tx = lake.transaction()
    tx._work.note(change)
    with pytest.raises(ConflictError, match="1 files that this commit removes are already gone"):
        tx.commit()


def test_footprints_are_bounded_and_what_is_left_out_counts_as_everything() -> None:
    small = FileFootprint.of([(0, (1, None)), (1, (b"\xff", 1.5))], ["file://x"])
    again = FileFootprint.from_json(JsonObject.parse(encode(small.to_json()), "here"))
    assert again == small
    large = FileFootprint.of([(0, (n,)) for n in range(MAX_PARTITIONS + 1)], map(str, range(MAX_FILES + 1)))
    again = FileFootprint.from_json(JsonObject.parse(encode(large.to_json()), "here"))
    assert again == large == FileFootprint(None, None, frozenset())
    ref = TableRef(UUID, "t", "m")
    mine = TableFootprint("a.b", UUID, overwrites=(NOWHERE,), removed=frozenset({file_mark("x")}))
    ours = Footprint(a_record().txid, PropertyChange(), tables=(mine,))
    theirs = TableCommit(
        "a.b", TableAction.CHANGE, ref, snapshot_id=1, operation="overwrite", footprint=large
    )
    assert {c.rule for c in find_conflicts(ours, [a_record(tables=(theirs,))])} == {27}


# --- cost and other engines --------------------------------------------------------------------------------


def test_a_pruned_read_gets_the_metadata_and_the_files_that_match() -> None:
    lake, _, tally = days_table()
    cold = hg.Lake.open(Inspector(lake).store).table("sales.orders")
    tally.reset()
    assert ids(cold, where="day = '2026-11-03'") == [6]
    # Is there a newer version; metadata, manifest list, the one manifest of two with that day, one data file.
    assert len(got(tally)) == 5
    tally.reset()
    assert ids(cold, where="id > 100") == []
    assert not [key for key in got(tally) if key.endswith(".parquet")]


def test_a_limit_reads_no_more_files_than_it_needs() -> None:
    _, table, tally = days_table()
    tally.reset()
    assert table.read_arrow(limit=1, columns=["id"]).num_rows == 1
    assert len([key for key in got(tally) if key.endswith(".parquet")]) == 1
    assert table.read_arrow(limit=0).num_rows == 0
    assert table.read_arrow(limit=100).num_rows == 7
    assert table.read_arrow(where="id > 2", limit=2, columns=["name"]).column_names == ["name"]
    with pytest.raises(hg.InvalidInputError):
        table.read_arrow(limit=-1)


@pytest.mark.slow
def test_other_engines_read_what_overwrites_left(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path)
    table = lake.create_table("sales.orders", DDL, partition_by=["day"])
    for number in range(12):
        table.append(rows(*((number * 10 + n, (ONE, TWO, THREE)[n % 3]) for n in range(9))))
    table.overwrite(rows((500, TWO)), where="day = '2026-11-02' AND id >= 30")
    table.overwrite(rows(), where="name LIKE 'n1%'")
    table.overwrite_partitions(rows((700, THREE)))
    table.append(rows((800, None)))
    root = tmp_path / "data/sales/orders"
    expected = [(len(ids(table)), sum(ids(table)))]
    assert ask_duckdb(root, "count(*), sum(id)") == expected
    assert [tuple(map(int, row)) for row in ask_clickhouse(root, "count(), sum(id)")] == expected
    assert sorted(row["id"] for row in ask_pyiceberg(table.metadata_location)) == ids(table)
    some = ask_pyiceberg(table.metadata_location, "day = '2026-11-01' and id > 50")
    assert sorted(row["id"] for row in some) == ids(table, where="day = '2026-11-01' and id > 50")
