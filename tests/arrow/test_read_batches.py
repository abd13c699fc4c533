"""Rows in batches: the same as in a table, while they are asked for, in bounded memory."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.arrow import data_files
from headgate.errors import InvalidInputError
from headgate.iceberg.format.encoding import ROW_GROUP_ROWS
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import all_keys
from headgate.testing.intercept import counted


def rows(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "part": pa.array([f"p{number % 3}" for number in ids]), "v": ids / 2})


@pytest.fixture(scope="module")
def table() -> hg.Table:
    """Several files in partitions, deleted rows, and a column that came later."""
    lake = hg.Lake.init(MemoryStore())
    made = lake.create_table("a.b", "id BIGINT, part STRING, v DOUBLE", partition_by=["part"])
    made.append(rows(0, 1000))
    made.append(rows(1000, 10))
    made.delete("id IN (0, 7, 14, 700, 1003)")
    made.add_column("note", "STRING")
    made.append(rows(2000, 100).append_column("note", pa.array(["x"] * 100)))
    return made


@given(
    where=st.sampled_from(
        [None, "id > 990", "part = 'p1'", "id < 0", "note = 'x'", "v > 500 AND part = 'p0'"]
    ),
    columns=st.sampled_from([None, ["id"], ["note", "id"], ["v", "part"]]),
    limit=st.sampled_from([None, 0, 1, 50, 10_000]),
    portion=st.sampled_from([1, 2000, 1 << 25]),
)
def test_batches_have_the_rows_of_the_table(
    table: hg.Table, where: str | None, columns: list[str] | None, limit: int | None, portion: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_files, "PORTION_BYTES", portion)
        batches = table.read_batches(where=where, columns=columns, limit=limit)
        found = batches.read_all()
    whole = table.read_arrow(where=where, columns=columns)
    assert found.schema == whole.schema == batches.schema
    if limit is None:
        keys = [(name, "ascending") for name in whole.column_names]
        assert found.sort_by(keys).equals(whole.sort_by(keys))
    else:
        assert found.num_rows == min(limit, whole.num_rows)


def test_another_version(table: hg.Table) -> None:
    assert table.read_batches(version=2).read_all().num_rows == 1000


def test_a_long_file_takes_little_memory() -> None:
    lake = hg.Lake.init(MemoryStore())
    made = lake.create_table("a.b", "id BIGINT, v DOUBLE")
    groups = 12
    made.append(pa.table({"id": np.arange(groups * ROW_GROUP_ROWS), "v": np.ones(groups * ROW_GROUP_ROWS)}))
    whole = made.read_arrow().nbytes
    before, most, total = pa.total_allocated_bytes(), 0, 0
    for batch in made.read_batches():
        most = max(most, pa.total_allocated_bytes() - before)
        total += batch.num_rows
    assert total == groups * ROW_GROUP_ROWS
    # Two row groups at a time, decoded, with what decoding them takes besides; not twelve.
    assert most < whole / 2, (most, whole)


def test_nothing_is_read_before_it_is_asked_for() -> None:
    store = MemoryStore()
    hg.Lake.init(store).create_table("a.b", "id BIGINT, part STRING, v DOUBLE").append(rows(0, 10))
    watched, tally = counted(store)
    table = hg.Lake.open(watched).table("a.b")
    table.plan()
    before = len(tally.history)
    batches = table.read_batches()
    planned = len(tally.history) - before
    assert batches.read_next_batch().num_rows == 10
    assert len(tally.history) - before == planned + 1


def test_it_shows_the_version_that_it_began_with() -> None:
    table = hg.Lake.init(MemoryStore()).create_table("a.b", "id BIGINT, part STRING, v DOUBLE")
    table.append(rows(0, 10))
    batches = table.read_batches()
    table.overwrite(rows(100, 1))
    assert batches.read_all().num_rows == 10


def test_a_missing_file_is_told_when_its_rows_are_asked_for() -> None:
    store = MemoryStore()
    table = hg.Lake.init(store).create_table("a.b", "id BIGINT, part STRING, v DOUBLE")
    table.append(rows(0, 10))
    batches = table.read_batches()
    (file,) = (key for key in all_keys(store, "data/a/b/data/"))
    store.delete(file)
    with pytest.raises(hg.CorruptLakeError, match="is missing"):
        batches.read_all()


def test_what_cannot_be_read_in_batches(table: hg.Table) -> None:
    with pytest.raises(InvalidInputError, match="rows without columns"):
        table.read_batches(columns=[])
    with pytest.raises(InvalidInputError, match="no column"):
        table.read_batches(columns=["nothing"])


def test_other_engines_and_other_tables_take_them() -> None:
    lake = hg.Lake.init(MemoryStore())
    source = lake.create_table("a.b", "id BIGINT, part STRING, v DOUBLE")
    source.append(rows(0, 1000))
    batches = source.read_batches(where="id < 10")  # noqa: F841 — DuckDB finds it by its name
    assert duckdb.sql("SELECT sum(id), count(*) FROM batches").fetchall() == [(45, 10)]
    target = lake.create_table("a.c", "id BIGINT, part STRING, v DOUBLE")
    with lake.transaction() as tx:
        tx.table("a.c").append(source.read_batches())
    assert pc.sum(target.read_arrow()["id"]).as_py() == 999 * 500
