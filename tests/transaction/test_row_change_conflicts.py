"""Deletes, updates and upserts against other writers, in a fixed order: A works, B commits, then A commits.

The rows of the matrix about changes of rows, at every isolation, with partitions and without, on read and on
write. Where nobody is refused, the result is that of A after B.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, UUIDType

import headgate as hg
from headgate.arrow.keys import MAX_LISTED
from headgate.iceberg.schema.arrow import transformed
from headgate.model.reports import RowCounts
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Get, Request
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, intercepted
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.transaction import Transaction
from tests.transaction.test_conflicts import (
    ADD_COLUMN,
    ALWAYS,
    BUCKETS,
    FOUR,
    LAYOUTS,
    LEVELS,
    NEVER,
    ONE,
    ORDERS,
    SERIAL,
    SORT,
    TWO,
    WRITES,
    Work,
    append,
    overwrite,
    overwrite_all,
    rows,
    run_again,
    shop,
)

READ, WRITE = "merge-on-read", "copy-on-write"
MIXED = {"write.delete.mode": READ, "write.update.mode": WRITE}


def modes(mode: str) -> dict[str, str]:
    return {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}


def content(lake: hg.Lake) -> list[tuple[int, dt.date, str]]:
    found = lake.table(ORDERS).read_arrow().to_pylist()
    return sorted((row["id"], row["day"], row["name"]) for row in found)


def delete(where: str) -> Work:
    return lambda tx: tx.table(ORDERS).delete(where)


def update(where: str, **values: str) -> Work:
    return lambda tx: tx.table(ORDERS).update(values or {"name": "name || '!'"}, where)


def upsert(*numbers: int, day: dt.date = ONE) -> Work:
    return lambda tx: tx.table(ORDERS).upsert(rows(*((number, day) for number in numbers)), ["id"])


def insert_zero(tx: Transaction) -> None:
    """An insert from a query: the number of the row says how many rows of another day there are."""
    count = tx.table(ORDERS).read_arrow(where=f"day = '{FOUR}'", columns=["id"]).num_rows
    tx.table(ORDERS).append(rows((count, ONE)))


def append_and_delete(tx: Transaction) -> None:
    append(ONE, 0)(tx)
    tx.table("sales.copy").delete("id = 1")


def add_column_with_rows(tx: Transaction) -> None:
    ADD_COLUMN(tx)
    append(ONE, 0)(tx)


INSERT_ZERO: Work = insert_zero
APPEND_AND_DELETE: Work = append_and_delete
ADD_COLUMN_WITH_ROWS: Work = add_column_with_rows


Verdict = tuple[int, tuple[str, ...]]
FREE: Verdict = (0, NEVER)
SAME_FILE: Verdict = (9, ALWAYS)
ON_ONE = f"day = '{ONE}'"
TO_ONE = f"DATE '{ONE}'"

# A, B, and the row of the matrix with the levels that refuse: on read, and on write.
CASES: dict[str, tuple[Work, Work, Verdict, Verdict]] = {
    "delete, append inside": (delete("id < 3"), append(ONE, 0), (8, SERIAL), (8, SERIAL)),
    "delete of whole files, append inside": (delete(ON_ONE), append(ONE), (8, SERIAL), (8, SERIAL)),
    "delete, append outside": (delete("id < 3"), append(ONE, 50), FREE, FREE),
    "update, append inside": (update("id < 3"), append(ONE, 0), (8, SERIAL), (8, SERIAL)),
    "update, append outside": (update("id = 1"), append(ONE, 50), FREE, FREE),
    "upsert, append of its key": (upsert(2, 60), append(ONE, 60), (8, SERIAL), (8, SERIAL)),
    "upsert, append of another": (upsert(2), append(ONE, 60), FREE, FREE),
    "append, delete": (append(ONE, 0), delete("id < 3"), FREE, FREE),
    "append, update": (append(ONE, 0), update("id < 3"), FREE, FREE),
    "update, row moves inside": (update(ON_ONE), update("id = 11", day=TO_ONE), (10, WRITES), (10, WRITES)),
    "delete, row moves inside": (delete(ON_ONE), update("id = 11", day=TO_ONE), (10, WRITES), (10, WRITES)),
    "delete, overwrite adds inside": (
        delete(f"id = 21 OR day = '{FOUR}'"),
        overwrite(FOUR, 60),
        (10, WRITES),
        (10, WRITES),
    ),
    "upsert, row gets its key": (upsert(2, 60), update("id = 11", id="60"), (10, WRITES), (10, WRITES)),
    "update, update elsewhere": (update(ON_ONE), update("id = 11"), FREE, FREE),
    "delete, delete elsewhere": (delete("id = 1"), delete("id > 10"), FREE, FREE),
    "delete, read file removed": (
        delete("id = 1 OR name = 'n11x'"),
        delete(f"day = '{TWO}'"),
        (12, WRITES),
        (12, WRITES),
    ),
    "delete, rows of a read file": (delete("id = 1 OR name = 'n11x'"), delete("id = 12"), FREE, (12, WRITES)),
    "delete, overwrite of all": (delete("id = 1"), overwrite_all, (14, ALWAYS), (14, ALWAYS)),
    "update, overwrite of all": (update("id = 1"), overwrite_all, (14, ALWAYS), (14, ALWAYS)),
    "upsert, overwrite of all": (upsert(1, 60), overwrite_all, (14, ALWAYS), (14, ALWAYS)),
    "delete, delete of other rows": (delete("id = 1"), delete("id = 2"), FREE, SAME_FILE),
    "delete, update of other rows": (delete("id = 1"), update("id = 2"), FREE, SAME_FILE),
    "update, delete of other rows": (update("id = 1"), delete("id = 2"), FREE, SAME_FILE),
    "update, update of other rows": (update("id = 1"), update("id = 2"), FREE, SAME_FILE),
    "delete, the same delete": (delete("id = 1"), delete("id = 1"), (16, SERIAL), SAME_FILE),
    "delete, some of the same rows": (delete("id < 3"), delete("id = 2"), (16, SERIAL), SAME_FILE),
    "update, delete of the same": (update("id = 1"), delete("id = 1"), (17, ALWAYS), SAME_FILE),
    "update, the same update": (update("id = 1"), update("id = 1"), (17, ALWAYS), SAME_FILE),
    "upsert, update of the same": (upsert(1), update("id = 1"), (17, ALWAYS), SAME_FILE),
    "delete, removal of the file": (delete("id = 1"), delete(ON_ONE), FREE, SAME_FILE),
    "removal of the file, delete": (delete(ON_ONE), delete("id = 1"), (13, ALWAYS), SAME_FILE),
    "update, removal of the file": (update("id = 1"), delete(ON_ONE), (21, ALWAYS), SAME_FILE),
    "delete, overwrite of the file": (delete("id = 1"), overwrite(ONE, 60), (45, ALWAYS), SAME_FILE),
    "delete, overwrite with the row": (delete("id = 1"), overwrite(ONE, 1), (45, ALWAYS), SAME_FILE),
    "delete, insert from a query inside": (delete("id < 3"), INSERT_ZERO, (10, WRITES), (10, WRITES)),
    "update, insert from a query inside": (update("id < 3"), INSERT_ZERO, (10, WRITES), (10, WRITES)),
    "upsert, insert from a query of its key": (upsert(0), INSERT_ZERO, (10, WRITES), (10, WRITES)),
    "update, insert from a query outside": (update("id = 11"), INSERT_ZERO, FREE, FREE),
    "update, append beside a delete": (update("id < 3"), APPEND_AND_DELETE, (10, WRITES), (10, WRITES)),
    "update, new column": (update("id = 1"), ADD_COLUMN, (46, WRITES), (46, WRITES)),
    "delete, new column": (delete("id = 1"), ADD_COLUMN, (46, WRITES), (46, WRITES)),
    "update, new column with rows": (update("id < 3"), ADD_COLUMN_WITH_ROWS, (10, WRITES), (10, WRITES)),
    "update, sort order": (update("id = 1"), SORT, FREE, FREE),
    "update, partition spec": (update("id = 1"), BUCKETS, FREE, FREE),
    "new column, update": (ADD_COLUMN, update("id = 1"), FREE, FREE),
    "update, overwrite of the file": (update("id = 1"), overwrite(ONE, 60), (21, ALWAYS), SAME_FILE),
    "overwrite, delete inside": (overwrite(ONE, 60), delete("id = 1"), (26, ALWAYS), (26, ALWAYS)),
    "overwrite, update elsewhere": (overwrite(ONE, 60), update("id = 11"), FREE, FREE),
    "upsert, upsert of the same": (upsert(1), upsert(1), (37, ALWAYS), (37, ALWAYS)),
    "upsert, upsert of the same new key": (upsert(60), upsert(60), (37, ALWAYS), (37, ALWAYS)),
    "upsert, upsert between its keys": (upsert(1, 60), upsert(30), (37, ALWAYS), (37, ALWAYS)),
    "upsert, upsert of other rows": (upsert(1), upsert(2), FREE, SAME_FILE),
    "upsert, upsert elsewhere": (upsert(1), upsert(11, day=TWO), FREE, FREE),
    "upsert, upsert of another new key": (upsert(60), upsert(61), FREE, FREE),
}


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition_by", LAYOUTS, ids=["partitioned", "unpartitioned"])
@pytest.mark.parametrize("mode", [READ, WRITE])
@pytest.mark.parametrize("case", CASES)
def test_a_row_of_the_matrix(case: str, mode: str, partition_by: Sequence[str], isolation: str) -> None:
    a, b, *verdicts = CASES[case]
    row, refused = verdicts[mode == WRITE]
    properties = {**modes(mode), "isolation": isolation}
    check(a, b, row, refused, partition_by, properties, free=isolation in refused or not refused)


def check(
    a: Work,
    b: Work,
    row: int,
    refused: tuple[str, ...],
    partition_by: Sequence[str],
    properties: dict[str, str],
    free: bool = True,
) -> None:
    """A is refused by the row, or commits; then the result is that of A after B, if they are `free`."""
    lake, _ = shop(partition_by, **properties)
    ours = hg.Lake.open(Inspector(lake).store).transaction(["a"])
    theirs = lake.transaction(["b"])
    a(ours)
    b(theirs)
    theirs.commit()
    after_b = content(lake)
    if properties["isolation"] not in refused:
        assert ours.commit().version == lake.version == theirs.result.version + 1
        if free:
            assert content(lake) == one_after_another(b, a, partition_by, properties)
        return
    with pytest.raises(TransactionConflictError, match=rf"\[rule {row}:") as caught:
        ours.commit()
    assert content(lake) == after_b
    assert lake.version == theirs.result.version
    again = hg.Lake.open(Inspector(lake).store)
    run_again(again, at_any_rate(a), caught.value)
    assert content(lake) == one_after_another(b, a, partition_by, properties)


def at_any_rate(work: Work) -> Work:
    """The work, with something to commit even if it finds no row."""

    def both(tx: Transaction) -> None:
        work(tx)
        tx.set_properties({"again": "1"})

    return both


def one_after_another(
    first: Work, second: Work, partition_by: Sequence[str], properties: dict[str, str]
) -> list[tuple[int, dt.date, str]]:
    lake, _ = shop(partition_by, **properties)
    for work in (first, second):
        with lake.transaction() as tx:
            work(tx)
    return content(lake)


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition_by", LAYOUTS, ids=["partitioned", "unpartitioned"])
@pytest.mark.parametrize(
    ("a", "b"),
    [(update("id = 1"), delete("id = 2")), (delete("id = 2"), update("id = 1"))],
    ids=["update, delete", "delete, update"],
)
def test_a_file_that_is_written_anew_and_rows_of_it(
    a: Work, b: Work, partition_by: Sequence[str], isolation: str
) -> None:
    """Row 13, which needs one writer that changes on read and one on write."""
    check(a, b, 13, ALWAYS, partition_by, {**MIXED, "isolation": isolation})


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition_by", LAYOUTS, ids=["partitioned", "unpartitioned"])
@pytest.mark.parametrize(("mode", "row"), [(READ, 18), (WRITE, 9)])
@pytest.mark.parametrize("b", [update("id = 1"), update("id = 1", id="2"), upsert(1)])
def test_an_updated_row_does_not_survive_its_delete(
    b: Work, mode: str, row: int, partition_by: Sequence[str], isolation: str
) -> None:
    """Row 18: deleting a row that was updated meanwhile is refused; run again, it deletes the new image."""
    check(delete("id = 1"), b, row, ALWAYS, partition_by, {**modes(mode), "isolation": isolation})


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("mode", [READ, WRITE])
def test_an_updated_row_does_not_survive_its_delete_if_its_file_was_emptied(
    mode: str, isolation: str
) -> None:
    """Row 18, where the transaction that updated the row then took all others away from its file."""
    lake, _ = shop([], **modes(mode), isolation=isolation)
    deleting = lake.transaction()
    delete("id = 1")(deleting)
    with lake.transaction() as tx:
        update("id = 1", name="'x1'")(tx)
        delete("name <= 'n9'")(tx)  # every row, but for the new image
    assert [name for _, _, name in content(lake)] == ["x1"]
    with pytest.raises(TransactionConflictError):
        deleting.commit()


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition_by", [[], ["k"]])
def test_zero_is_one_key_whatever_its_sign(partition_by: list[str], isolation: str) -> None:
    lake = hg.Lake.init(MemoryStore("zeros"), strategy="conditional")
    lake.create_table("t.t", "k DOUBLE", partition_by=partition_by, properties={"isolation": isolation})
    ours, theirs = lake.transaction(), lake.transaction()
    ours.table("t.t").upsert(pa.table({"k": [-0.0]}), ["k"])
    theirs.table("t.t").upsert(pa.table({"k": [0.0]}), ["k"])
    theirs.commit()
    with pytest.raises(TransactionConflictError):
        ours.commit()


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("mode", [READ, WRITE])
def test_upserts_into_other_buckets(mode: str, isolation: str) -> None:
    """Rows 37 and 38: by its partition spec, a bucket says which keys it holds; bounds say nothing here."""
    lake, _ = shop(["bucket(4, id)"], **modes(mode), isolation=isolation)
    keys = range(100, 200)
    buckets = lake.table(ORDERS)._view().metadata.spec.fields[0].transform
    kind = lake.table(ORDERS).schema.find_type("id")
    numbers = transformed(pa.array(keys, pa.int64()), buckets, kind).to_pylist()
    by_bucket = {
        bucket: [key for key, n in zip(keys, numbers, strict=True) if n == bucket] for bucket in range(4)
    }
    zero, one = [by_bucket[0][0], by_bucket[0][-1]], [by_bucket[1][0], by_bucket[1][-1]]
    assert zero[0] < one[1] and one[0] < zero[1], "the bounds meet"
    for others, refused in ((one, False), ([by_bucket[0][1]], True)):
        ours, theirs = lake.transaction(), lake.transaction()
        upsert(*zero)(ours)
        upsert(*others)(theirs)
        theirs.commit()
        if refused:
            with pytest.raises(TransactionConflictError, match=r"\[rule 37:"):
                ours.commit()
        else:
            ours.commit()


@pytest.mark.parametrize("isolation", LEVELS)
def test_many_keys_still_tell_buckets(isolation: str) -> None:
    """Row 38: so many keys are looked for as a range, which all buckets have."""
    lake = hg.Lake.init(MemoryStore())
    table = lake.create_table(
        "t.k", "id BIGINT, n BIGINT", partition_by=["bucket(2, id)"], properties={"isolation": isolation}
    )
    bucket = BucketTransform(2).transform(LongType())

    def keys(of: int, n: int) -> pa.Table:
        ids = [number for number in range(2000) if bucket(number) == of][: MAX_LISTED + 1]
        return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([n] * len(ids), pa.int64())})

    table.append(pa.concat_tables([keys(0, 0), keys(1, 0)]))
    ours, theirs = lake.transaction(), lake.transaction()
    ours.table("t.k").upsert(keys(0, 1), ["id"])
    theirs.table("t.k").upsert(keys(1, 2), ["id"])
    theirs.commit()
    ours.commit()
    assert sorted(table.read_arrow()["n"].to_pylist()) == [1] * (MAX_LISTED + 1) + [2] * (MAX_LISTED + 1)


# --- transactions that found nothing ------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("b", [append(ONE, 60), update("id = 11", id="60")], ids=["append", "update"])
def test_that_there_was_nothing_to_change_is_relied_upon(b: Work, isolation: str) -> None:
    lake, _ = shop([], isolation=isolation)
    lake.set_properties({"before": "1"})
    tx, other = lake.transaction(), lake.transaction()
    assert delete("id = 60")(tx) == RowCounts()
    tx.table("sales.copy").append(rows((1, ONE)))
    b(other)
    other.commit()
    row, refused = (5, SERIAL) if "append" in str(lake.log(limit=1)[0].record["tables"]) else (6, WRITES)
    if isolation in refused:
        with pytest.raises(TransactionConflictError, match=rf"{ORDERS}: your delete .*\[rule {row}:"):
            tx.commit()
    else:
        tx.commit()


# --- single operations run again ----------------------------------------------------------------------------


@dataclass
class Meddler:
    """Lets another writer commit just before a record is offered, as often as there is work."""

    store: MemoryStore
    work: Iterator[Callable[[hg.Lake], object]]

    def __call__(self, request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Create) and "/log/" in request.key:
            meddle = next(self.work, None)
            if meddle is not None:
                meddle(hg.Lake.open(self.store))
        return proceed(request)


def meddled(lake: hg.Lake, *work: Callable[[Any], object]) -> Any:
    store = Inspector(lake).store
    meddling = (lambda other, one=one: one(other.table(ORDERS)) for one in work)
    opened = hg.Lake.open(intercepted(store, Meddler(store, meddling)))  # type: ignore[arg-type]
    return opened.table(ORDERS)


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition_by", LAYOUTS, ids=["partitioned", "unpartitioned"])
@pytest.mark.parametrize("mode", [READ, WRITE])
def test_a_single_operation_is_run_again_and_exact(
    mode: str, partition_by: Sequence[str], isolation: str
) -> None:
    lake, _ = shop(partition_by, **modes(mode), isolation=isolation)
    mark = {"name": "name || '!'"}
    updated = meddled(lake, *[lambda t: t.update(mark, "id = 1")] * 3).update(mark, "id < 3")
    assert updated.rows == RowCounts(updated=2)
    assert updated.attempts == (4 if mode == WRITE else updated.attempts)
    deleted = meddled(lake, lambda t: t.update({"id": "2"}, "id = 3")).delete("id = 2")
    # What another writer moved there meanwhile is deleted too, unless nothing says that it was looked for.
    assert deleted.rows == RowCounts(deleted=1 if isolation == "snapshot" else 2)
    upserted = meddled(lake, lambda t: t.upsert(rows((60, ONE)), ["id"])).upsert(rows((60, TWO)), ["id"])
    assert upserted.rows == RowCounts(updated=1)
    found = content(lake)
    assert (1, ONE, "n1!!!!") in found
    assert [number for number, _, _ in found].count(60) == 1
    nothing = meddled(lake, lambda t: t.delete("id = 11")).update(mark, "id = 11")
    assert (nothing.changed, nothing.rows, nothing.version) == (False, RowCounts(), lake.version)
    assert nothing.attempts == 1


def test_a_block_is_not_run_again() -> None:
    lake, _ = shop([])
    tx = lake.transaction()
    update("id = 1")(tx)
    lake.table(ORDERS).delete("id = 1")
    with pytest.raises(TransactionConflictError, match="rule 17") as caught, tx:
        pass
    assert caught.value.next_step.startswith("retry the update in a new transaction")


def test_the_conflict_names_the_rows() -> None:
    lake, _ = shop([])
    tx = lake.transaction()
    delete("id < 3")(tx)
    lake.table(ORDERS).update({"name": "'x'"}, "id = 2")
    name = next(file for file in lake.table(ORDERS).files()).path.rsplit("/", 1)[1]
    with pytest.raises(
        TransactionConflictError, match=f"it updated rows that you delete: 1 same row of …/{name}"
    ):
        tx.commit()


def test_positions_are_looked_at_only_where_the_same_file_was_changed() -> None:
    for where, looked_at in (("id = 11", 0), ("id = 2", 1)):
        lake, tally = shop([])
        tx = hg.Lake.open(Inspector(lake).store).transaction()
        delete("id = 1")(tx)
        lake.table(ORDERS).update({"name": "'x'"}, where)
        tally.reset()
        tx.commit()
        read = [r.key for r in tally.history if isinstance(r, Get) and "-positions-" in r.key]
        assert len(read) == looked_at


# --- merges and upserts that only inserted ------------------------------------------------------------------


def insert_count(tx: hg.Transaction) -> None:
    """How many rows have the id 60, as a row of another table."""
    found = tx.table(ORDERS).read_arrow(where="id = 60").num_rows
    tx.table("sales.copy").append(rows((1000 + found, ONE)))


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize(
    ("a", "row"),
    [(insert_count, 6), (update("id IN (1, 60)", name="'x'"), 10), (delete("id IN (1, 60)"), 10)],
    ids=["query", "update", "delete"],
)
def test_an_upsert_that_found_nothing_is_no_append(a: Work, row: int, isolation: str) -> None:
    """It has looked for what it added: it cannot be told from an append by its files, but by what it did."""
    lake, _ = shop([], isolation=isolation)
    ours, theirs = lake.transaction(), lake.transaction()
    a(ours)
    upsert(60)(theirs)
    theirs.commit()
    assert "'operation': 'append'" in str(lake.log(limit=1)[0].record["tables"])
    if isolation in WRITES:
        with pytest.raises(TransactionConflictError, match=rf"\[rule {row}:"):
            ours.commit()
    else:
        ours.commit()


# --- keys that are UUIDs ------------------------------------------------------------------------------------


def with_uuids(numbers: Sequence[int], n: int) -> pa.Table:
    stored = pa.array([uuid.UUID(int=number * 7919).bytes for number in numbers], pa.binary(16))
    ids = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    return pa.table({"id": ids, "n": pa.array([n] * len(numbers), pa.int64())})


@pytest.mark.parametrize("layout", [[], ["id"], ["bucket(4, id)"]], ids=["whole", "by key", "by bucket"])
def test_upserts_find_the_rows_of_uuids(layout: list[str]) -> None:
    lake = hg.Lake.init(MemoryStore())
    table = lake.create_table("t.u", "id UUID, n BIGINT", partition_by=layout)
    for first in (1, 11, 21):
        table.append(with_uuids(range(first, first + 10), 0))
    assert table.upsert(with_uuids([3, 15, 30, 31], 1), ["id"]).rows == RowCounts(updated=3, inserted=1)
    many = table.upsert(with_uuids(range(1, 301), 2), ["id"])
    assert many.rows == RowCounts(updated=31, inserted=269)
    found = table.read_arrow()
    assert found.num_rows == 300
    assert found["n"].to_pylist() == [2] * 300


@pytest.mark.parametrize("isolation", LEVELS)
def test_upserts_of_uuids_into_other_buckets(isolation: str) -> None:
    """Row 38: they have no bounds that could be compared, but they have buckets."""
    lake = hg.Lake.init(MemoryStore())
    table = lake.create_table(
        "t.u", "id UUID, n BIGINT", partition_by=["bucket(4, id)"], properties={"isolation": isolation}
    )
    table.append(with_uuids(range(1, 40), 0))
    bucket = BucketTransform(4).transform(UUIDType())
    of = {bucket(uuid.UUID(int=number * 7919)): number for number in range(1, 40)}
    ours, theirs = lake.transaction(), lake.transaction()
    ours.table("t.u").upsert(with_uuids([of[0]], 1), ["id"])
    theirs.table("t.u").upsert(with_uuids([of[1]], 2), ["id"])
    theirs.commit()
    ours.commit()
    assert sorted(table.read_arrow()["n"].to_pylist())[-3:] == [0, 1, 2]
