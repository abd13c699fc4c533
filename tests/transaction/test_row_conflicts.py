"""Rows of one file, changed by position: what two writers have in common is told by their position files.

The changes are put together here as a delete or an update does it, so that each row can be chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.conflict.detection import Retryable
from headgate.core.conflict.footprint import Read
from headgate.core.conflict.isolation import isolation_of
from headgate.iceberg.format.directories import Target
from headgate.iceberg.format.positions import Positions, write_positions
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.predicate.selection import selection_of
from headgate.iceberg.scan.planning import plan
from headgate.model.footprint import file_mark
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Get
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Tally, counted
from headgate.transaction.changes import Reach, TableChange
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.transaction import Transaction

NAME = "sales.orders"
LEVELS = ("snapshot", "write-serializable", "serializable")
NEVER: tuple[str, ...] = ()
SERIAL, WRITES, ALWAYS = LEVELS[2:], LEVELS[1:], LEVELS
Work = Callable[[Transaction], None]


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "part": [n // 100 for n in numbers]})


def shop(partition_by: tuple[str, ...], **properties: str) -> tuple[hg.Lake, Tally]:
    """A table with two files: the ids from 0 to 9, and from 100 to 109, each at the position of its digit."""
    store, tally = counted(MemoryStore("rows"))
    lake = hg.Lake.init(store, strategy="conditional", divisor=100)
    table = lake.create_table(
        NAME, "id BIGINT, part BIGINT", partition_by=partition_by, properties=properties
    )
    table.append(rows(*range(10)))
    table.append(rows(*range(100, 110)))
    return lake, tally


def changed(tx: Transaction, numbers: tuple[int, ...], kind: Literal["deleted", "updated"]) -> TableChange:
    """What a delete or an update of rows by their ids notes, without the new images."""
    writer = tx.table(NAME)
    opened, change = writer._tx, writer._change()
    metadata = writer._metadata(change)
    target = Target(opened.driver, opened.loader(), metadata, opened.id, NAME)
    where = bind_text(f"id IN ({', '.join(map(str, numbers))})", metadata.schema)
    files = {found.file.path: found.file for found in plan(opened.loader(), metadata, where).files}
    by_file: dict[str, list[int]] = {}
    for number in numbers:
        path = next(path for path, file in files.items() if _holds(file, number))
        by_file.setdefault(path, []).append(number % 100)
    positions = Positions.of(by_file)
    return replace(
        change,
        deletes=write_positions(target, positions, files, kind),
        deleted=positions.by_file if kind == "deleted" else {},
        updated=positions.by_file if kind == "updated" else {},
        reach=Reach(sought=(Read.of(selection_of(where, metadata), files),)),
        isolation=isolation_of(metadata.properties),
    )


def _holds(file: Any, number: int) -> bool:
    low = int.from_bytes(file.metrics.lower[1], "little")
    return low <= number <= low + 9


def delete(*numbers: int) -> Work:
    def work(tx: Transaction) -> None:
        change = changed(tx, numbers, "deleted")
        tx.table(NAME)._note_rows(replace(change, verbs=frozenset({"delete"})))

    return work


def update(number: int, to: int) -> Work:
    def work(tx: Transaction) -> None:
        change = changed(tx, (number,), "updated")
        writer = tx.table(NAME)
        images = writer._incoming(change, rows(to)).write_files()
        writer._note_rows(replace(change, added=(*change.added, *images), verbs=frozenset({"update"})))

    return work


def delete_where(where: str) -> Work:
    def work(tx: Transaction) -> None:
        tx.table(NAME).delete(where)

    return work


def removal(where: str) -> Work:
    return lambda tx: tx.table(NAME).overwrite(rows(), where=where)


def append(number: int) -> Work:
    return lambda tx: tx.table(NAME).append(rows(number))


def insert_from_query(where: str) -> Work:
    def work(tx: Transaction) -> None:
        count = tx.table(NAME).read_arrow(where=where).num_rows
        tx.table(NAME).append(rows(500 + count))

    return work


CASES: Mapping[str, tuple[int, Work, Work, tuple[str, ...]]] = {
    "append, delete": (1, append(200), delete(3), NEVER),
    "append, update": (1, append(200), update(3, 203), NEVER),
    "query, delete of its rows": (6, insert_from_query("id < 10"), delete(3), WRITES),
    "query, delete elsewhere": (6, insert_from_query("id < 10"), delete(103), NEVER),
    "query, update into it": (6, insert_from_query("id >= 200"), update(3, 203), WRITES),
    "delete, append of a match": (8, delete(3), append(3), SERIAL),
    "delete, append of others": (8, delete(3), append(203), NEVER),
    "delete, update to a match": (10, delete(3), update(103, 3), WRITES),
    "delete, update elsewhere": (11, delete(3), update(103, 203), NEVER),
    "delete, file written anew": (13, delete(3), removal("id = 5"), ALWAYS),
    "update, file written anew": (13, update(3, 203), removal("id = 5"), ALWAYS),
    "overwrite of a file, delete of its rows": (26, removal("id = 5"), delete(3), ALWAYS),
    "overwrite, delete elsewhere": (26, removal("id = 5"), delete(103), NEVER),
    "delete, overwrite of all": (14, delete(3), lambda tx: tx.table(NAME).overwrite(rows(7)), ALWAYS),
    "delete, delete of other rows": (15, delete(3, 4), delete(5, 6), NEVER),
    "update, delete of other rows": (15, update(3, 203), delete(5, 6), NEVER),
    "update, update of another row": (15, update(3, 203), update(4, 204), NEVER),
    "delete, delete of the same row": (16, delete(3, 4), delete(4, 5), SERIAL),
    "update, delete of the row": (17, update(3, 203), delete(3), ALWAYS),
    "update, update of the row": (17, update(3, 203), update(3, 303), ALWAYS),
    "delete, update of the row": (18, delete(3), update(3, 203), ALWAYS),
    "delete, removal of the file": (20, delete(3), delete_where("id < 10"), NEVER),
    "delete, overwrite of the file": (45, delete(3), removal("id < 10"), ALWAYS),
    "update, removal of the file": (21, update(3, 203), removal("id < 10"), ALWAYS),
}


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition_by", [("part",), ()], ids=["partitioned", "unpartitioned"])
@pytest.mark.parametrize("case", CASES)
def test_a_row_of_the_matrix(case: str, partition_by: tuple[str, ...], isolation: str) -> None:
    row, a, b, refused = CASES[case]
    lake, _ = shop(partition_by, isolation=isolation)
    ours, theirs = lake.transaction(), lake.transaction()
    a(ours)
    b(theirs)
    theirs.commit()
    after_b = ids(lake)
    if isolation not in refused:
        ours.commit()
        return
    with pytest.raises(TransactionConflictError, match=rf"\[rule {row}:") as caught:
        ours.commit()
    assert isinstance(caught.value.outcome, Retryable)
    assert ids(lake) == after_b


def ids(lake: hg.Lake) -> list[int]:
    return sorted(lake.table(NAME).read_arrow()["id"].to_pylist())


def test_row_18_an_updated_row_does_not_survive_its_delete() -> None:
    for isolation in LEVELS:
        lake, _ = shop((), isolation=isolation)
        ours, theirs = lake.transaction(), lake.transaction()
        delete(3)(ours)
        update(3, 203)(theirs)
        theirs.commit()
        with pytest.raises(
            TransactionConflictError, match=r"it updated rows that you delete: 1 same row of …/"
        ):
            ours.commit()
        assert ids(lake) == [0, 1, 2, *range(4, 10), *range(100, 110), 203]


def test_rows_that_both_delete_are_gone_once() -> None:
    lake, _ = shop(())
    ours, theirs = lake.transaction(), lake.transaction()
    delete(1, 2)(ours)
    delete(2, 3)(theirs)
    theirs.commit()
    ours.commit()
    assert ids(lake) == [0, *range(4, 10), *range(100, 110)]


def test_what_the_record_of_row_changes_says() -> None:
    lake, _ = shop(())
    with lake.transaction() as tx:
        update(3, 203)(tx)
    path = lake.table(NAME).files()[0].path
    tables = lake.log(limit=1)[0].record["tables"]
    assert isinstance(tables, list)
    (table,) = tables
    assert isinstance(table, dict)
    assert table["verbs"] == ["update"]
    assert table["footprint"] == {"added": [[0]], "updated": [file_mark(path)]}


def test_positions_are_read_only_where_the_same_file_was_changed() -> None:
    for number, read in ((103, 0), (5, 1)):
        lake, tally = shop(())
        # A handle of its own knows what the others write only by reading it.
        tx = hg.Lake.open(Inspector(lake).store).transaction(isolation="serializable")
        delete(3)(tx)
        with lake.transaction() as other:
            delete(number)(other)
        tally.reset()
        tx.commit()
        fetched = [r.key for r in tally.history if isinstance(r, Get) and "positions-" in r.key]
        assert len(fetched) == read
