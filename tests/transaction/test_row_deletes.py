"""Rows deleted by position: gone for every read, exact in numbers, and never brought back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.arrow.data_files import read_located
from headgate.iceberg.format.directories import Role, role_of
from headgate.iceberg.predicate.binding import bind_text
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import counted
from tests.lake.test_budgets import counted_lake, read, written
from tests.row_deletes import begun_delete, delete_rows, note_delete

NAME = "a.b"


def rows(*ids: int, part: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "part": [part] * len(ids)})


def ids(table: hg.Table, **asked: object) -> list[int]:
    found: list[int] = table.read_arrow(**asked)["id"].to_pylist()  # type: ignore[arg-type]
    return sorted(found)


def rows_removed(lake: hg.Lake, version: int) -> dict[str, int]:
    """By virtual path, as the record tells."""
    (entry,) = (entry for entry in lake.log() if entry.version == version)
    paths: Any = entry.record["paths"]
    return {path: change["rows_removed"] for path, change in paths.items()}


@pytest.fixture
def lake() -> hg.Lake:
    return hg.Lake.init(MemoryStore(), divisor=4)


@pytest.fixture
def table(lake: hg.Lake) -> hg.Table:
    table = lake.create_table(NAME, "id BIGINT NOT NULL, part STRING", partition_by=["part"])
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20), part="y"))
    return table


def test_reads_leave_deleted_rows_out(lake: hg.Lake, table: hg.Table) -> None:
    first = delete_rows(lake, NAME, "id IN (0, 5, 15)")
    second = delete_rows(lake, NAME, "id IN (1, 6)")
    assert ids(table) == [2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19]
    assert ids(table, where="id < 8") == [2, 3, 4, 7]
    assert ids(table, where="part = 'y' AND id >= 15") == [16, 17, 18, 19]
    assert len(ids(table, limit=7)) == 7
    assert ids(table, where="id < 8", limit=10) == [2, 3, 4, 7]
    assert table.read_arrow(columns=["part"]).num_rows == 15
    # Each version stays what it was.
    assert ids(table, version=first - 1) == list(range(20))
    assert ids(table, version=first) == [n for n in range(20) if n not in (0, 5, 15)]
    assert ids(table, version=second) == ids(table)
    assert [file.delete_files for file in table.files()] == [2, 1]


def test_deletes_do_not_reach_rows_that_come_later(lake: hg.Lake, table: hg.Table) -> None:
    delete_rows(lake, NAME, "id < 5")
    table.append(rows(*range(5)))
    assert ids(table) == list(range(20))
    assert [len(planned.deletes) for planned in table.plan().files] == [1, 0, 0]


def test_many_deletes_over_many_windows(lake: hg.Lake, table: hg.Table) -> None:
    for number in range(18):
        delete_rows(lake, NAME, f"id = {number}")
        assert ids(hg.Lake.open(Inspector(lake).store).table(NAME)) == list(range(number + 1, 20))
    assert table.snapshot is not None
    assert (table.snapshot.rows, table.snapshot.delete_files) == (2, 18)
    manifests = table._view().loader.manifests(table._view().metadata)
    assert len(manifests) < 10


def test_a_delete_is_planned_with_the_partitions_that_are_read(lake: hg.Lake) -> None:
    store, tally = counted(Inspector(lake).store)
    table = lake.create_table(NAME, "id BIGINT NOT NULL, part STRING", partition_by=["part"])
    for number in range(6):
        table.append(rows(number, number + 10, part=str(number)))
        delete_rows(lake, NAME, f"id = {number}")
    cold = hg.Lake.open(store).table(NAME)
    tally.reset()
    assert ids(cold, where="part = '5'") == [15]
    found = read(tally)
    assert found["manifest"] <= 2
    assert found["data"] == 2  # the data file and its delete file


def test_a_table_without_deletes_pays_nothing_for_them() -> None:
    lake, tally = counted_lake("conditional")
    table = lake.create_table(NAME, "id BIGINT NOT NULL, part STRING")
    table.append(rows(1))
    tally.reset()
    table.overwrite(rows(2))
    # All is known; what is asked is whether anybody has gone on, before and after.
    assert read(tally) == {"record": 2}
    assert written(tally)["manifest"] == 1


def test_what_a_delete_writes(lake: hg.Lake) -> None:
    lake, tally = counted_lake("conditional")
    table = lake.create_table(NAME, "id BIGINT NOT NULL, part STRING")
    table.append(rows(1, 2))
    ids(table)
    for number in (1, 2):
        tally.reset()
        delete_rows(lake, NAME, f"id = {number}")
        put = written(tally)
        assert (put["data"], put["manifest"], put["manifest list"]) == (1, 1, 1)
        assert read(tally).keys() <= {"record", "data"}  # the rows that it looks for; no manifest


def test_an_overwrite_never_brings_deleted_rows_back(lake: hg.Lake, table: hg.Table) -> None:
    delete_rows(lake, NAME, "id IN (0, 1, 11)")
    table.overwrite(rows(5, 6), where="id IN (5, 6)")
    expected = [2, 3, 4, 5, 6, 7, 8, 9, 10, *range(12, 20)]
    assert ids(table) == expected
    assert table.snapshot is not None and table.snapshot.rows == len(expected)
    # A file without a row that matches stays, with its deletes.
    before = {file.path for file in table.files()}
    table.overwrite(rows(), where="id = 11")
    assert {file.path for file in table.files()} == before
    table.overwrite_partitions(rows(30, part="y"))
    assert ids(table) == [2, 3, 4, 5, 6, 7, 8, 9, 30]
    table.overwrite(rows(1))
    assert ids(table) == [1]
    assert table.snapshot.rows == 1


def test_rows_that_are_written_again_are_marked_as_carried(lake: hg.Lake, table: hg.Table) -> None:
    table.overwrite(rows(5), where="id = 5")
    roles = {role_of(planned.file.path) for planned in table.plan().files if planned.sequence_number == 4}
    assert roles == {Role.NEW, Role.CARRIED}


def test_changes_in_one_transaction_see_each_other(lake: hg.Lake, table: hg.Table) -> None:
    with lake.transaction() as tx:
        note_delete(tx, NAME, "id < 3")
        note_delete(tx, NAME, "id IN (3, 12)")
        tx.table(NAME).overwrite(rows(9), where="id = 9")
    assert ids(table) == [4, 5, 6, 7, 8, 9, 10, 11, *range(13, 20)]
    assert table.snapshot is not None and table.snapshot.rows == 15
    assert table.snapshot.operation == "overwrite"


def test_a_transaction_that_replaces_all_rows_forgets_its_deletes(lake: hg.Lake, table: hg.Table) -> None:
    with lake.transaction() as tx:
        note_delete(tx, NAME, "id < 3")
        tx.table(NAME).overwrite(rows(1))
    assert ids(table) == [1]
    assert table.snapshot is not None and table.snapshot.delete_files == 0


def test_evolution_of_specs_keeps_deletes_with_their_files(lake: hg.Lake, table: hg.Table) -> None:
    delete_rows(lake, NAME, "id = 0")
    table.replace_partition_by(["bucket(2, id)"])
    table.append(rows(*range(100, 110)))
    delete_rows(lake, NAME, "id IN (1, 11, 100, 105)")
    table.replace_partition_by([])
    table.append(rows(200, 201))
    delete_rows(lake, NAME, "id IN (2, 101, 200)")
    left = {*range(20), *range(100, 110), 200, 201} - {0, 1, 2, 11, 100, 101, 105, 200}
    assert ids(table) == sorted(left)
    assert ids(table, where="id >= 100") == sorted(number for number in left if number >= 100)
    manifests = table._view().loader.manifests(table._view().metadata)
    assert {manifest.spec_id for manifest in manifests if manifest.content} == {0, 1, 2}


def test_evolution_of_columns(lake: hg.Lake, table: hg.Table) -> None:
    delete_rows(lake, NAME, "id = 0")
    table.rename_column("id", "number")
    table.add_column("more", "INT")
    delete_rows(lake, NAME, "number = 1 AND more IS NULL")
    assert sorted(table.read_arrow()["number"].to_pylist()) == list(range(2, 20))
    assert table.read_arrow(columns=["more"]).num_rows == 18


def test_the_record_tells_how_many_rows_went_where(lake: hg.Lake, table: hg.Table) -> None:
    version = delete_rows(lake, NAME, "id IN (0, 1, 11)")
    assert rows_removed(lake, version) == {"/a/b/part=x": 2, "/a/b/part=y": 1}
    assert [(each.version, each.operation, each.rows) for each in table.history()] == [
        (version, "delete", 17),
        (3, "append", 20),
        (2, "append", 10),
    ]
    # Of the file that goes now, two rows were gone before.
    gone = table.overwrite_partitions(rows(30, part="x")).version
    assert rows_removed(lake, gone) == {"/a/b/part=x": 8}
    assert table.history()[0].rows == 10


def test_rows_that_two_writers_delete_count_once(lake: hg.Lake, table: hg.Table) -> None:
    commit = begun_delete(lake, NAME, "id IN (1, 2)")
    delete_rows(lake, NAME, "id IN (2, 3)")
    version = commit()
    assert ids(table) == [0, *range(4, 20)]
    assert table.snapshot is not None and table.snapshot.rows == 17
    assert rows_removed(lake, version) == {"/a/b/part=x": 1}


def test_rows_of_files_that_are_gone_do_not_count(lake: hg.Lake, table: hg.Table) -> None:
    """Whether such a delete may commit is for the rules; here it does, and the numbers hold."""
    with lake.transaction() as tx:
        opened, change = tx._work, tx.table(NAME)._change()
        note_delete(tx, NAME, "id IN (1, 11)")
        noted = opened.changes().tables[NAME]
        table.delete("part = 'x'")
        opened.note(replace(noted, replaced=None))
    assert change.base is not None
    assert ids(table) == [10, *range(12, 20)]
    assert table.snapshot is not None and table.snapshot.rows == 9


def test_a_compaction_keeps_rows_deletes_and_numbers(lake: hg.Lake, table: hg.Table) -> None:
    """Files and deletes can be put in with sequence numbers from before."""
    deleted = delete_rows(lake, NAME, "id = 11")
    with lake.transaction() as tx:
        opened, change = tx._work, tx.table(NAME)._change()
        planned = table.plan("part = 'y'").files
        (file,), (delete,) = ([p.file for p in planned], planned[0].deletes)
        copy, carried = (replace(each, path=f"{each.path}-{tx.txid}") for each in (file, delete))
        store = Inspector(lake).store
        for old, new in ((file, copy), (delete, carried)):
            data = store.get(opened.loader().key(old.path))
            assert data is not None
            store.put(opened.loader().key(new.path), data)
        opened.note(
            replace(
                change,
                added=(copy,),
                replaced={file.path: file},
                deletes=(carried,),
                numbers={copy.path: 3, carried.path: deleted},
                compaction=True,
            )
        )
    # The carried delete names the old file; what matters here is where it stands.
    assert table.snapshot is not None and table.snapshot.operation == "replace"
    planned = table.plan("part = 'y'").files
    assert [(p.file.path, p.sequence_number) for p in planned] == [(copy.path, 3)]
    view = table._view()
    manifests = view.loader.manifests(view.metadata)
    groups = view.loader.entries([manifest for manifest in manifests if manifest.content])
    numbers = {entry.file.path: entry.sequence_number for group in groups for entry in group}
    assert numbers == {delete.path: deleted, carried.path: deleted}


def test_located_rows_name_their_file_and_position(lake: hg.Lake, table: hg.Table) -> None:
    delete_rows(lake, NAME, "id IN (0, 4)")
    view = table._view()
    only = bind_text("id IN (0, 3, 5, 12)", table.schema)
    found = read_located(Inspector(lake).driver, view.loader, view.files(only), table.schema, only)
    assert found.column_names == ["id", "part", "_file", "_pos"]
    paths = {file.partition["part"]: file.path for file in table.files()}
    places = {row["id"]: (row["_file"], row["_pos"]) for row in found.to_pylist()}
    assert places == {3: (paths["x"], 3), 5: (paths["x"], 5), 12: (paths["y"], 2)}
    none = read_located(Inspector(lake).driver, view.loader, (), table.schema)
    assert none.schema == found.schema
