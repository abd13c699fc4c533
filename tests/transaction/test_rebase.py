"""Row deletes and compactions that meet: both are committed, no row is lost and none comes back."""

from __future__ import annotations

import pyarrow as pa
import pytest

import headgate as hg
from headgate.iceberg.format.data_file import Status
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from tests.compactions import compact_files

ROWS = pa.table({"id": range(12), "part": ["a", "b"] * 6, "n": [0] * 12})


def made(store: MemoryStore, *, sorted_by: list[str], partition_by: list[str]) -> hg.Lake:
    lake = hg.Lake.init(store)
    table = lake.create_table(
        "t.t", "id BIGINT, part STRING, n BIGINT", partition_by=partition_by, sort_by=sorted_by
    )
    for start in range(0, 12, 4):
        table.append(ROWS.slice(start, 4))
    return lake


@pytest.fixture(params=[[], ["id DESC"]], ids=["as they come", "sorted"])
def sorted_by(request: pytest.FixtureRequest) -> list[str]:
    return list(request.param)


@pytest.fixture(params=[[], ["part"]], ids=["whole", "partitioned"])
def lake(request: pytest.FixtureRequest, sorted_by: list[str]) -> hg.Lake:
    return made(MemoryStore(), sorted_by=sorted_by, partition_by=list(request.param))


def other(lake: hg.Lake) -> hg.Lake:
    return hg.Lake.open(Inspector(lake).store)


def compaction(lake: hg.Lake) -> hg.Transaction:
    """A compaction of all files, ready to be committed."""
    tx = other(lake).transaction()
    compact_files(tx, "t.t", [file.path for file in lake.table("t.t").files()])
    return tx


def rows(lake: hg.Lake, version: int | None = None) -> list[tuple[int, int]]:
    found = other(lake).table("t.t").read_arrow(version=version).to_pylist()
    return sorted((row["id"], row["n"]) for row in found)


def without(*ids: int) -> list[tuple[int, int]]:
    return [(number, 0) for number in range(12) if number not in ids]


def test_a_compaction_changes_no_row(lake: hg.Lake) -> None:
    lake.table("t.t").delete("id = 3")
    before = len(lake.table("t.t").files())
    compaction(lake).commit()
    assert rows(lake) == without(3)
    assert len(other(lake).table("t.t").files()) < before
    # The youngest of the files that it put together was of version 4.
    assert {file.version for file in other(lake).table("t.t").files()} == {4}
    assert other(lake).table("t.t").changes_arrow(5).num_rows == 0


def test_a_delete_is_carried_over_a_compaction(lake: hg.Lake) -> None:
    tx = other(lake).transaction()
    tx.table("t.t").delete("id IN (1, 6, 11)")
    tx.table("t.t").update({"n": "n + 5"}, where="id = 2")
    moved = compaction(lake).commit().version
    version = tx.commit().version
    assert rows(lake) == sorted([*without(1, 2, 6, 11), (2, 5)])
    assert rows(lake, moved) == without()
    told = other(lake).table("t.t").changes_arrow(moved).to_pylist()
    assert {row["_version"] for row in told} == {version}
    assert sorted((row["_change_type"], row["id"], row["n"]) for row in told) == [
        ("delete", 1, 0),
        ("delete", 6, 0),
        ("delete", 11, 0),
        ("update_after", 2, 5),
        ("update_before", 2, 0),
    ]


def test_a_compaction_carries_what_others_deleted_meanwhile(lake: hg.Lake) -> None:
    tx = compaction(lake)
    other(lake).table("t.t").delete("id IN (0, 7)")
    other(lake).table("t.t").update({"n": "1"}, where="id = 4")
    other(lake).table("t.t").delete("id = 9")
    tx.commit()
    assert rows(lake) == sorted([*without(0, 4, 7, 9), (4, 1)])
    # What is deleted stays deleted for whoever comes later, and can be changed again.
    other(lake).table("t.t").update({"n": "n + 1"}, where="id = 4")
    assert (4, 2) in rows(lake)


def test_a_carried_delete_keeps_the_version_that_deleted(lake: hg.Lake) -> None:
    tx = compaction(lake)
    deleted = other(lake).table("t.t").delete("id = 7").version
    tx.commit()
    view = other(lake).table("t.t")._view()
    told = [
        (entry.status, entry.sequence_number)
        for manifest in view.loader.manifests(view.metadata)
        for entry in view.loader.entries([manifest])[0]
        if entry.file.content and entry.snapshot_id == view.metadata.fields["current-snapshot-id"]
    ]
    # The one that it came from tells of no file any more, and goes.
    assert sorted(told) == [(Status.ADDED, deleted), (Status.DELETED, deleted)]


def test_a_delete_is_carried_over_two_compactions(lake: hg.Lake) -> None:
    tx = other(lake).transaction()
    tx.table("t.t").delete("id = 5")
    compaction(lake).commit()
    compaction(other(lake)).commit()
    tx.commit()
    assert rows(lake) == without(5)


def test_rows_that_meet_behind_a_compaction_are_compared(lake: hg.Lake) -> None:
    tx = other(lake).transaction()
    tx.table("t.t").delete("id = 5")
    compaction(lake).commit()
    other(lake).table("t.t").update({"n": "9"}, where="id = 5")
    with pytest.raises(hg.ConflictError, match="rule 18"):
        tx.commit()
    assert (5, 9) in rows(lake)


def test_two_that_deleted_the_same_row_and_a_compaction(lake: hg.Lake) -> None:
    tx = other(lake).transaction()
    tx.table("t.t").delete("id IN (5, 8)")
    other(lake).table("t.t").delete("id = 5")
    compaction(other(lake)).commit()
    tx.commit()
    assert rows(lake) == without(5, 8)


def test_copy_on_write_is_not_carried_but_run_again(lake: hg.Lake) -> None:
    lake.table("t.t").set_properties({"write.delete.mode": "copy-on-write"})
    tx = other(lake).transaction()
    tx.table("t.t").delete("id = 5")
    compaction(lake).commit()
    with pytest.raises(hg.ConflictError, match="rule 13"):
        tx.commit()
    other(lake).table("t.t").delete("id = 5")
    assert rows(lake) == without(5)


def test_a_compaction_of_files_that_others_replaced_is_refused(lake: hg.Lake) -> None:
    tx = compaction(lake)
    other(lake).table("t.t").overwrite(ROWS.slice(0, 1), where="id = 0")
    with pytest.raises(hg.ConflictError, match="rule 23"):
        tx.commit()
    first, second = compaction(lake), compaction(lake)
    first.commit()
    with pytest.raises(hg.ConflictError, match="rule 23"):
        second.commit()
    assert rows(lake) == without()


def test_rows_that_an_overwrite_took_out_of_a_file_are_told(lake: hg.Lake) -> None:
    before = compaction(lake).commit().version
    lake.table("t.t").overwrite(pa.table({"id": [2], "part": ["a"], "n": [7]}), where="id = 2")
    told = other(lake).table("t.t").changes_arrow(before).to_pylist()
    assert [(row["_change_type"], row["id"], row["n"]) for row in told] == [
        ("delete", 2, 0),
        ("insert", 2, 7),
    ]


def test_what_is_told_of_a_delete_that_was_carried_over_a_compaction_of_some_files() -> None:
    """One position file told of files that were compacted, and of others: each row is told once."""
    lake = made(MemoryStore(), sorted_by=[], partition_by=[])
    tx = other(lake).transaction()
    tx.table("t.t").delete("id IN (1, 3, 5, 9)")
    with other(lake).transaction() as compacting:
        some = [file.path for file in lake.table("t.t").files() if file.version < 4]
        compact_files(compacting, "t.t", some)
    before = tx.commit().version - 1
    told = other(lake).table("t.t").changes_arrow(before).to_pylist()
    assert sorted((row["_change_type"], row["id"]) for row in told) == [
        ("delete", 1),
        ("delete", 3),
        ("delete", 5),
        ("delete", 9),
    ]


def test_what_is_told_of_rows_whose_file_was_gone_by_then() -> None:
    """Row 20: the row went with its file, and is not told again by who deleted it by position."""
    lake = made(MemoryStore(), sorted_by=[], partition_by=[])
    tx = other(lake).transaction()
    tx.table("t.t").delete("id = 1")
    first = other(lake).table("t.t").delete("id < 4").version
    last = tx.commit().version
    assert last is not None and first is not None
    told = other(lake).table("t.t").changes_arrow(first - 1, last).to_pylist()
    assert sorted((row["_change_type"], row["id"], row["_version"]) for row in told) == [
        ("delete", number, first) for number in range(4)
    ]


@pytest.mark.parametrize("isolation", ["snapshot", "write-serializable", "serializable"])
def test_a_delete_is_carried_to_a_file_that_is_gone_by_then(isolation: str) -> None:
    """Row 19, then row 20. Of a file that was made and removed meanwhile, no row is counted as deleted."""
    lake = made(MemoryStore(), sorted_by=[], partition_by=[])
    table = lake.table("t.t")
    table.set_properties({"isolation": isolation})
    tx = lake.transaction()
    tx.table("t.t").delete("id = 3")
    with other(lake).transaction() as compacting:
        compact_files(compacting, "t.t", [table.files()[0].path])
    other(lake).table("t.t").delete("id < 4")
    tx.commit()
    assert rows(lake) == without(0, 1, 2, 3)
    snapshot = lake.table("t.t").snapshot
    assert snapshot is not None
    assert snapshot.rows == 8
    assert other(lake).fsck(deep=True).ok
