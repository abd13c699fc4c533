"""What a transaction has read is known after a compaction has moved it: who changes it there is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import headgate as hg
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from tests.compactions import compact_files

NAME = "a.b"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([60, 60], pa.int64())})


def made(isolation: str) -> hg.Lake:
    lake = hg.Lake.init(MemoryStore("moved"), strategy="conditional")
    table = lake.create_table(NAME, "id BIGINT, n BIGINT", properties={"isolation": isolation})
    table.append(ROWS.slice(0, 1))
    table.append(ROWS.slice(1, 1))
    return lake


def opened(lake: hg.Lake) -> hg.Lake:
    return hg.Lake.open(Inspector(lake).store)


def compact(lake: hg.Lake) -> None:
    with opened(lake).transaction() as tx:
        compact_files(tx, NAME, [file.path for file in lake.table(NAME).files()])


def insert_of_a_sum(lake: hg.Lake) -> hg.Transaction:
    tx = opened(lake).transaction()
    found = tx.table(NAME).read_arrow(where="id < 10")
    tx.table(NAME).append(pa.table({"id": pa.array([100]), "n": pa.array([sum(found["n"].to_pylist())])}))
    return tx


def update_after_a_read(lake: hg.Lake) -> hg.Transaction:
    """If both rows have 100 together, one may be lowered: whoever does so must see what the other did."""
    tx = opened(lake).transaction()
    tx.set_properties({"looked": tx.txid})
    if sum(tx.table(NAME).read_arrow(where="n >= 0")["n"].to_pylist()) >= 100:
        tx.table(NAME).update({"n": "n - 60"}, "id = 1")
    return tx


@pytest.mark.parametrize("isolation", ["write-serializable", "serializable"])
@pytest.mark.parametrize("compactions", [0, 1, 2])
@pytest.mark.parametrize("reader", [insert_of_a_sum, update_after_a_read])
def test_rows_that_were_read_are_changed_where_they_were_moved_to(
    reader: Callable[[hg.Lake], hg.Transaction], compactions: int, isolation: str
) -> None:
    lake = made(isolation)
    tx = reader(lake)
    for _ in range(compactions):
        compact(lake)
    opened(lake).table(NAME).update({"n": "n - 60"}, where="id = 2")
    with pytest.raises(hg.ConflictError, match="rule 6"):
        tx.commit()
    # On the new head it goes through, with what is there now.
    reader(lake).commit()


def test_it_is_noticed_also_if_the_compaction_was_seen_by_an_earlier_attempt() -> None:
    lake = made("serializable")
    tx = insert_of_a_sum(lake)
    compact(lake)
    tx._others.catch_up(100)
    tx._others.judge(tx._work)  # as an attempt does it that then loses its version
    opened(lake).table(NAME).delete("id = 2")
    with pytest.raises(hg.ConflictError, match="rule 6"):
        tx.commit()


@pytest.mark.parametrize("reader", [insert_of_a_sum, update_after_a_read])
def test_a_compaction_alone_is_no_conflict(reader: Callable[[hg.Lake], hg.Transaction]) -> None:
    lake = made("serializable")
    tx = reader(lake)
    compact(lake)
    opened(lake).set_properties({"x": "1"})
    tx.commit()


def test_rows_that_were_not_read_may_change_in_the_same_new_file() -> None:
    """By its bounds the file that they were moved to can hold no row that was read."""
    lake = made("serializable")
    tx = opened(lake).transaction()
    count = tx.table(NAME).read_arrow(where="id = 1").num_rows
    tx.table(NAME).append(pa.table({"id": pa.array([100]), "n": pa.array([count])}))
    with opened(lake).transaction() as other:
        other_files = [p.file.path for p in lake.table(NAME).plan("id = 2").files]
        compact_files(other, NAME, other_files)
    opened(lake).table(NAME).delete("id = 2")
    tx.commit()
