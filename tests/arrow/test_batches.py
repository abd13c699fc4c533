"""Rows that come in batches: files of the target size, bounded memory, all or nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.arrow import data_files
from headgate.storage.memory import MemoryStore

COLUMNS = pa.schema([("id", pa.int64()), ("x", pa.float64())])
TARGET = {"write.target-file-size-bytes": "50000"}


def batches(count: int, rows: int = 1000) -> pa.RecordBatchReader:
    def made() -> Iterator[pa.RecordBatch]:
        for number in range(count):
            ids = [n * 7919 % 104729 for n in range(number * rows, (number + 1) * rows)]
            yield pa.record_batch(
                [ids, [float("nan") if n % 500 == 0 else n / 3 for n in ids]], schema=COLUMNS
            )

    return pa.RecordBatchReader.from_batches(COLUMNS, made())


def made_table(lake: hg.Lake, **options: object) -> hg.Table:
    return lake.create_table("a.b", COLUMNS, properties=TARGET, **options)  # type: ignore[arg-type]


def append(lake: hg.Lake, reader: pa.RecordBatchReader) -> hg.CommitResult:
    with lake.transaction(["load"]) as tx:
        tx.table("a.b").append(reader)
    return tx.result


@pytest.fixture
def lake() -> hg.Lake:
    return hg.Lake.init(MemoryStore(), strategy="conditional")


def test_batches_become_files_of_the_target_size_in_one_version(lake: hg.Lake) -> None:
    table = made_table(lake)
    assert append(lake, batches(50)).version == 2
    files = table.files()
    assert sum(file.rows for file in files) == 50_000
    assert 5 < len(files) < 30
    sizes = sorted(file.size_bytes for file in files)
    assert sizes[1] > 20_000 and sizes[-1] < 75_000  # only one of them, the last, is shorter
    given = pa.Table.from_batches(batches(50), COLUMNS).column("id").to_pylist()
    assert sorted(table.read_arrow(columns=["id"]).column("id").to_pylist()) == sorted(given)


def test_each_partition_has_its_files_and_each_file_is_sorted(lake: hg.Lake) -> None:
    table = made_table(lake, partition_by=["bucket(3, id)"], sort_by=["id"])
    append(lake, batches(20))
    assert {file.partition["id_bucket"] for file in table.files()} == {0, 1, 2}
    ids = table.read_arrow(where="bucket(3, id) = 1", columns=["id"]).column("id").to_pylist()
    descents = sum(one > other for one, other in pairwise(ids))
    assert descents < len(table.files())  # only where a file ends


def test_nan_is_counted_over_all_batches_of_a_file(lake: hg.Lake) -> None:
    table = made_table(lake)
    append(lake, batches(3))
    given = pa.Table.from_batches(batches(3), COLUMNS).column("x").to_pylist()
    counted = [planned.file.metrics.nans for planned in table.plan().files]
    assert sum(nans[2] for nans in counted) == sum(map(math.isnan, given)) > 0


def test_what_is_held_is_bounded(lake: hg.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open files of many partitions end early when all of them together are too long."""
    monkeypatch.setattr(data_files, "BUFFERED_BYTES", 60_000)
    table = lake.create_table("a.b", COLUMNS, partition_by=["bucket(4, id)"])
    append(lake, batches(20))
    sizes = [file.size_bytes for file in table.files()]
    assert len(sizes) > 4 and max(sizes) <= 60_000
    assert table.read_arrow().num_rows == 20_000


def test_a_batch_that_does_not_fit_changes_nothing(lake: hg.Lake) -> None:
    made_table(lake)

    def made() -> Iterator[pa.RecordBatch]:
        yield from batches(60)
        raise KeyError("the source broke")

    with pytest.raises(KeyError, match="the source broke"):
        append(lake, pa.RecordBatchReader.from_batches(COLUMNS, made()))
    other = pa.RecordBatchReader.from_batches(
        pa.schema([("id", pa.string())]), [pa.record_batch({"id": ["x"]})]
    )
    with pytest.raises(hg.InvalidInputError, match="column id is string"):
        append(lake, other)
    assert lake.version == 1


def test_batches_replace_all_rows_or_some(lake: hg.Lake) -> None:
    table = made_table(lake)
    append(lake, batches(2))
    with lake.transaction() as tx:
        tx.table("a.b").overwrite(batches(1))
    assert table.read_arrow().num_rows == 1000
    with lake.transaction() as tx:
        tx.table("a.b").overwrite(batches(1), where="id >= 0")
    assert table.read_arrow().num_rows == 1000
    tx = lake.transaction()
    with pytest.raises(hg.InvalidInputError, match="id < 5"):
        tx.table("a.b").overwrite(batches(1), where="id < 5")


def test_rows_that_come_once_need_a_transaction(lake: hg.Lake) -> None:
    """`Table.append` writes again after a conflict, when a reader has nothing left to give."""
    table = made_table(lake)
    for write in (table.append, table.overwrite, table.overwrite_partitions):
        with pytest.raises(hg.InvalidInputError, match="read only once"):
            write(batches(1))


def test_a_target_size_that_is_no_size_is_refused(lake: hg.Lake) -> None:
    with pytest.raises(hg.InvalidInputError, match=r"write\.target-file-size-bytes cannot be 'big'"):
        lake.create_table("a.b", COLUMNS, properties={"write.target-file-size-bytes": "big"})
    with pytest.raises(hg.InvalidInputError, match=r"write\.target-file-size-bytes is 'big'"):
        data_files.target_bytes({"write.target-file-size-bytes": "big"})  # as another engine may have set it


def test_history_and_size_are_told_by_summaries(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    table = lake.create_table("a.b", COLUMNS)
    assert (table.snapshot, table.history()) == (None, ())
    table.append(pa.table({"id": [1, 2]}))
    table.append(pa.table({"id": [3]}))
    table.overwrite(pa.table({"id": [4]}), where="id = 1 OR id = 4")
    snapshot = table.snapshot
    assert snapshot is not None
    files = table.files()
    assert (snapshot.version, snapshot.rows, snapshot.files) == (4, 3, len(files))
    assert snapshot.size_bytes == sum(file.size_bytes for file in files)
    assert [(each.version, each.operation, each.rows) for each in table.history()] == [
        (4, "overwrite", 3),
        (3, "append", 3),
        (2, "append", 2),
    ]
    assert lake.table("a.b", version=2).snapshot == table.history()[-1]


def test_a_repeated_batch_is_known_before_the_work(lake: hg.Lake) -> None:
    made_table(lake)
    with lake.transaction(app=("loader", 3)) as tx:
        assert tx.committed_before is None
        tx.table("a.b").append(batches(1))
    again = lake.transaction(app=("loader", 2)).committed_before
    assert again is not None
    assert (again.version, again.newest_batch, again.already_committed) == (2, 3, True)
    assert lake.transaction(app=("loader", 4)).committed_before is None
