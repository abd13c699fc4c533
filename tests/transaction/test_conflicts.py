"""The conflict matrix through the public interface, in a fixed order: A works, B commits, then A commits.

Every row that can be reached so, at every isolation, on a table with partitions and on one without, where the
bounds of columns must tell what partitions tell elsewhere. Who is refused leaves nothing behind, and can run
again on the new head.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.conflict.detection import Incompatible, Retryable
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Get
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Tally, counted
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.transaction import Transaction

ORDERS, COPY = "sales.orders", "sales.copy"
DDL = "id BIGINT, day DATE, name STRING"
ONE, TWO, THREE, FOUR = (dt.date(2026, 11, day) for day in (1, 2, 3, 4))
LEVELS = ("snapshot", "write-serializable", "serializable")
LAYOUTS: tuple[tuple[str, ...], ...] = (("day",), ())
NEVER: tuple[str, ...] = ()
SERIAL = LEVELS[2:]
WRITES = LEVELS[1:]
ALWAYS = LEVELS
Work = Callable[[Transaction], object]


def rows(*given: tuple[int, dt.date]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([number for number, _ in given], pa.int64()),
            "day": pa.array([day for _, day in given], pa.date32()),
            "name": [f"n{number}" for number, _ in given],
        }
    )


def shop(partition_by: Sequence[str], **properties: str) -> tuple[hg.Lake, Tally]:
    """A lake with two tables; the files of one hold the rows of one day each, however it is partitioned."""
    store, tally = counted(MemoryStore("conflicts"))
    lake = hg.Lake.init(store, strategy="conditional", divisor=100)
    orders = lake.create_table(ORDERS, DDL, partition_by=partition_by, properties=properties)
    lake.create_table(COPY, DDL)
    orders.append(rows((1, ONE), (2, ONE), (3, ONE)))
    orders.append(rows((11, TWO), (12, TWO)))
    orders.append(rows((21, THREE)))
    return lake, tally


def content(lake: hg.Lake) -> dict[str, list[tuple[int, dt.date]]]:
    """All rows of all tables, and so which tables there are."""
    return {
        name: sorted((row["id"], row["day"]) for row in lake.table(name).read_arrow().to_pylist())
        for name in lake.tables()
    }


# --- what is done ----------------------------------------------------------------------------------------


def append(day: dt.date, number: int = 50) -> Work:
    return lambda tx: tx.table(ORDERS).append(rows((number, day)))


def overwrite(day: dt.date, number: int) -> Work:
    return lambda tx: tx.table(ORDERS).overwrite(rows((number, day)), where=f"day = '{day}'")


def remove(where: str) -> Work:
    return lambda tx: tx.table(ORDERS).overwrite(rows(), where=where)


def overwrite_all(tx: Transaction) -> None:
    tx.table(ORDERS).overwrite(rows((99, FOUR)))


def overwrite_partition(day: dt.date, number: int) -> Work:
    return lambda tx: tx.table(ORDERS).overwrite_partitions(rows((number, day)))


def insert_from_query(where: str, into: str = ORDERS) -> Work:
    def work(tx: Transaction) -> None:
        count = tx.table(ORDERS).read_arrow(where=where, columns=["id"]).num_rows
        tx.table(into).append(rows((1000 + count, FOUR)))

    return work


def evolve(change: Callable[[Any], object]) -> Work:
    return lambda tx: change(tx.table(ORDERS))


ADD_COLUMN = evolve(lambda table: table.add_column("more", "INT"))
DROP_NAME = evolve(lambda table: table.drop_column("name"))
SORT = evolve(lambda table: table.replace_sort_by(["id"]))
BUCKETS = evolve(lambda table: table.replace_partition_by(["bucket(2, id)"]))


def set_property(name: str, value: str) -> Work:
    return lambda tx: tx.table(ORDERS).set_properties({name: value})


def set_lake_property(name: str, value: str) -> Work:
    return lambda tx: tx.set_properties({name: value})


def create(tx: Transaction) -> None:
    tx.create_table("sales.fresh", DDL)


def drop(tx: Transaction) -> None:
    tx.drop_table(ORDERS)


def rename(tx: Transaction) -> None:
    tx.rename_table(ORDERS, "sales.renamed")


def replace_by_another(tx: Transaction) -> None:
    tx.rename_table(ORDERS, "sales.former")


ON_ONE, ON_TWO, ON_FOUR = (f"day = '{day}'" for day in (ONE, TWO, FOUR))
ON_LOW = "id < 10"

CASES: dict[str, tuple[int, Work, Work, tuple[str, ...]]] = {
    "append, append": (1, append(ONE, 51), append(ONE, 52), NEVER),
    "append, overwrite": (1, append(ONE), overwrite(ONE, 60), NEVER),
    "append, overwrite of all": (1, append(ONE), overwrite_all, NEVER),
    "append, new column": (2, append(ONE), ADD_COLUMN, NEVER),
    "append, sort order": (2, append(ONE), SORT, NEVER),
    "new column, append": (2, ADD_COLUMN, append(ONE), NEVER),
    "append, dropped column": (3, append(ONE), DROP_NAME, ALWAYS),
    "dropped column, append": (3, DROP_NAME, append(ONE), NEVER),
    "query, append inside": (5, insert_from_query(ON_ONE), append(ONE), SERIAL),
    "query by bounds, append inside": (5, insert_from_query(ON_LOW), append(ONE, 5), SERIAL),
    "query, append outside": (5, insert_from_query(ON_ONE), append(TWO), NEVER),
    "query by bounds, append outside": (5, insert_from_query(ON_LOW), append(ONE, 50), NEVER),
    "append, query": (5, append(ONE), insert_from_query(ON_ONE), NEVER),
    "query into another table, append inside": (5, insert_from_query(ON_ONE, COPY), append(ONE), SERIAL),
    "query into another table, append outside": (5, insert_from_query(ON_ONE, COPY), append(TWO), NEVER),
    "query, overwrite inside": (6, insert_from_query(ON_ONE), overwrite(ONE, 60), WRITES),
    "query, rows written anew inside": (6, insert_from_query(ON_ONE), remove("id = 2"), WRITES),
    "query, overwrite that adds inside": (
        6,
        insert_from_query(f"day = '{FOUR}'"),
        overwrite(FOUR, 60),
        WRITES,
    ),
    "query, insert from a query inside": (6, insert_from_query(ON_FOUR), insert_from_query(ON_ONE), WRITES),
    "query, insert from a query outside": (6, insert_from_query(ON_ONE), insert_from_query(ON_TWO), NEVER),
    "query into another table, insert from a query": (
        6,
        insert_from_query(ON_FOUR, COPY),
        insert_from_query(ON_ONE),
        WRITES,
    ),
    "query, overwrite outside": (6, insert_from_query(ON_ONE), overwrite(TWO, 60), NEVER),
    "query, overwrite of all": (6, insert_from_query(ON_ONE), overwrite_all, WRITES),
    "query into another table, overwrite": (6, insert_from_query(ON_ONE, COPY), overwrite(ONE, 60), WRITES),
    "overwrite, query": (6, overwrite(ONE, 60), insert_from_query(ON_ONE), NEVER),
    "overwrite, overwrite of all": (14, overwrite(ONE, 60), overwrite_all, ALWAYS),
    "overwrite of a partition, overwrite of all": (14, overwrite_partition(ONE, 60), overwrite_all, ALWAYS),
    "overwrite, append inside": (25, overwrite(ONE, 60), append(ONE), SERIAL),
    "overwrite, append outside": (25, overwrite(ONE, 60), append(TWO), NEVER),
    "overwrite by bounds, append inside": (25, remove(ON_LOW), append(ONE, 5), SERIAL),
    "overwrite by bounds, append outside": (25, remove(ON_LOW), append(ONE, 50), NEVER),
    "overwrite, insert from a query inside": (47, overwrite(FOUR, 60), insert_from_query(ON_ONE), WRITES),
    "overwrite, insert from a query outside": (47, overwrite(ONE, 60), insert_from_query(ON_TWO), NEVER),
    "overwrite of all, insert from a query": (47, overwrite_all, insert_from_query(ON_ONE), WRITES),
    "append, overwrite inside": (25, append(ONE), overwrite(ONE, 60), NEVER),
    "overwrite, overwrite": (27, overwrite(ONE, 60), overwrite(ONE, 61), ALWAYS),
    "overwrite, other rows of its file": (27, remove("id = 1"), remove("id = 2"), ALWAYS),
    "overwrite, overwrite where nothing was": (27, overwrite(FOUR, 60), overwrite(FOUR, 61), ALWAYS),
    "overwrite, overwrite of a partition": (27, overwrite(ONE, 60), overwrite_partition(ONE, 61), ALWAYS),
    "overwrite, overwrite elsewhere": (27, overwrite(ONE, 60), overwrite(TWO, 61), NEVER),
    "overwrite by bounds, overwrite elsewhere": (27, remove(ON_LOW), overwrite(FOUR, 61), NEVER),
    "overwrite of all, overwrite": (27, overwrite_all, overwrite(ONE, 61), ALWAYS),
    "overwrite of all, overwrite where nothing was": (27, overwrite_all, overwrite(FOUR, 61), ALWAYS),
    "overwrite of all, overwrite of all": (27, overwrite_all, overwrite_all, ALWAYS),
    "overwrite of all, append": (28, overwrite_all, append(ONE), SERIAL),
    "query, new column": (46, insert_from_query(ON_ONE), ADD_COLUMN, WRITES),
    "query into another table, new column": (46, insert_from_query(ON_ONE, COPY), ADD_COLUMN, WRITES),
    "overwrite, new column": (46, overwrite(ONE, 60), ADD_COLUMN, WRITES),
    "overwrite, sort order": (46, overwrite(ONE, 60), SORT, NEVER),
    "overwrite, partition spec": (46, overwrite(ONE, 60), BUCKETS, NEVER),
    "overwrite of partitions, partition spec": (46, overwrite_partition(ONE, 60), BUCKETS, WRITES),
    "new column, dropped column": (29, ADD_COLUMN, DROP_NAME, ALWAYS),
    "sort order, new column": (29, SORT, ADD_COLUMN, ALWAYS),
    "property, the same": (31, set_property("a", "1"), set_property("a", "2"), ALWAYS),
    "property, another": (31, set_property("a", "1"), set_property("b", "2"), NEVER),
    "lake property, the same": (31, set_lake_property("a", "1"), set_lake_property("a", "2"), ALWAYS),
    "lake property, another": (31, set_lake_property("a", "1"), set_lake_property("b", "2"), NEVER),
    "create, create": (40, create, create, ALWAYS),
    "append, drop": (41, append(ONE), drop, ALWAYS),
    "overwrite, rename": (41, overwrite(ONE, 60), rename, ALWAYS),
    "query into another table, drop": (41, insert_from_query(ON_ONE, COPY), drop, ALWAYS),
    "new column, rename": (41, ADD_COLUMN, rename, ALWAYS),
    "rename, rename": (41, rename, replace_by_another, ALWAYS),
}


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("partition_by", LAYOUTS, ids=["partitioned", "unpartitioned"])
@pytest.mark.parametrize("case", CASES)
def test_a_row_of_the_matrix(case: str, partition_by: Sequence[str], isolation: str) -> None:
    row, a, b, refused = CASES[case]
    lake, _ = shop(partition_by, isolation=isolation)
    ours, theirs = lake.transaction(["a"]), lake.transaction(["b"])
    a(ours)
    b(theirs)
    theirs.commit()
    after_b = content(lake)
    if isolation not in refused:
        assert ours.commit().version == theirs.result.version + 1
        return
    with pytest.raises(TransactionConflictError, match=rf"\[rule {row}:") as caught:
        ours.commit()
    assert content(lake) == after_b
    assert lake.version == theirs.result.version
    assert {conflict.other.txid.text for conflict in caught.value.conflicts} == {theirs.txid}
    run_again(lake, a, caught.value)


def run_again(lake: hg.Lake, work: Work, refused: TransactionConflictError) -> None:
    """What was refused because of rows succeeds on the new head; names and columns that are gone do not."""
    again = lake.transaction(["a", "again"])
    match refused.outcome:
        case Retryable() if 3 not in {conflict.rule for conflict in refused.conflicts}:
            work(again)
            assert again.commit().version == lake.version
        case Retryable() | Incompatible():
            with pytest.raises((hg.NotFoundError, hg.AlreadyExistsError, hg.InvalidInputError)):
                work(again)


LEAVES: dict[str, Work] = {"drop": drop, "rename": rename, "drop a column": DROP_NAME, "add one": ADD_COLUMN}


@pytest.mark.parametrize("how", LEAVES)
@pytest.mark.parametrize("isolation", LEVELS)
def test_row_49_rows_are_not_lost_that_came_while_others_were_copied(how: str, isolation: str) -> None:
    """They were not copied, and nobody could append them to the table as it is left."""
    lake, _ = shop(["day"], isolation=isolation)
    tx = lake.transaction()
    tx.table(COPY).append(tx.table(ORDERS).read_arrow(where=ON_ONE))
    LEAVES[how](tx)
    lake.table(ORDERS).append(rows((51, TWO)))
    lake.table(ORDERS).append(rows((50, ONE)))
    if isolation == "snapshot":
        tx.commit()
        return
    with pytest.raises(TransactionConflictError) as caught:
        tx.commit()
    assert 49 in {conflict.rule for conflict in caught.value.conflicts}
    assert {conflict.other.version.number for conflict in caught.value.conflicts} == {lake.version}
    with lake.transaction() as again:
        again.table(COPY).append(again.table(ORDERS).read_arrow(where=ON_ONE))
        LEAVES[how](again)
    assert 50 in lake.table(COPY).read_arrow()["id"].to_pylist()


@pytest.mark.parametrize("isolation", LEVELS)
def test_a_transaction_chooses_its_isolation(isolation: str) -> None:
    lake, _ = shop(["day"], isolation="snapshot" if isolation == "serializable" else "serializable")
    tx = lake.transaction(isolation=isolation)
    insert_from_query(ON_ONE, COPY)(tx)
    lake.table(ORDERS).append(rows((50, ONE)))
    if isolation != "serializable":
        tx.commit()
        return
    with pytest.raises(TransactionConflictError, match=r"sales.orders: your read .*\[rule 5:"):
        tx.commit()


def test_an_isolation_that_is_none_is_named() -> None:
    lake, _ = shop([])
    with pytest.raises(hg.InvalidInputError, match="isolation cannot be 'strict'"):
        lake.transaction(isolation="strict")


def test_the_isolation_is_that_of_the_table_that_was_read() -> None:
    lake, _ = shop([])
    lake.table(COPY).set_properties({"isolation": "serializable"})
    tx = lake.transaction()
    assert tx.table(COPY).read_arrow().num_rows == 0
    assert tx.table(ORDERS).read_arrow().num_rows == 6
    tx.table(ORDERS).append(rows((50, ONE)))
    lake.table(ORDERS).append(rows((51, ONE)))
    tx.commit()
    tx = lake.transaction()
    tx.table(COPY).read_arrow()
    tx.table(ORDERS).append(rows((52, ONE)))
    lake.table(COPY).append(rows((1, ONE)))
    with pytest.raises(TransactionConflictError, match=r"sales.copy: your read .*\[rule 5:"):
        tx.commit()


# --- what is said ----------------------------------------------------------------------------------------


def test_a_conflict_in_plain_words() -> None:
    lake, _ = shop(["day"], isolation="serializable")
    tx = lake.transaction()
    overwrite(ONE, 60)(tx)
    other = lake.table(ORDERS).append(rows((50, ONE)))
    new = lake.table(ORDERS).files()[-1].path.rsplit("/", 1)[1]
    with pytest.raises(TransactionConflictError) as caught:
        tx.commit()
    (conflict,) = caught.value.conflicts
    assert conflict.reason == f"it added rows where you overwrite: …/{new}"
    words = f"{ORDERS}: your overwrite conflicts with version {other.version} (append by "
    assert caught.value.problem.startswith(words)
    assert f"transaction {other.txid}): {conflict.reason} [rule 25: " in caught.value.problem
    assert caught.value.next_step.startswith(
        f"retry the overwrite in a new transaction, on version {other.version} or later"
    )


# --- reading in a transaction ----------------------------------------------------------------------------


def test_a_transaction_reads_what_it_has_changed_itself() -> None:
    lake, _ = shop(["day"])
    with lake.transaction() as tx:
        orders = tx.table(ORDERS)
        orders.append(rows((50, ONE)))
        orders.overwrite(rows((60, TWO)), where=f"day = '{TWO}'")
        assert sorted(orders.read_arrow(columns=["id"])["id"].to_pylist()) == [1, 2, 3, 21, 50, 60]
        assert sorted(orders.read_arrow(where="id > 40")["id"].to_pylist()) == [50, 60]
        assert orders.read_arrow(limit=2).num_rows == 2
        orders.add_column("more", "INT")
        assert orders.read_arrow(where="more IS NULL", columns=["more"]).num_rows == 6
        fresh = tx.create_table("sales.fresh", DDL)
        fresh.append(rows((1, ONE)))
        assert fresh.read_arrow()["id"].to_pylist() == [1]
        with pytest.raises(hg.InvalidInputError, match="limit"):
            orders.read_arrow(limit=-1)
    assert sorted(lake.table(ORDERS).read_arrow()["id"].to_pylist()) == [1, 2, 3, 21, 50, 60]


def test_reading_alone_is_nothing_to_commit() -> None:
    lake, _ = shop([])
    tx = lake.transaction()
    tx.table(ORDERS).read_arrow()
    with pytest.raises(hg.InvalidInputError, match="nothing to commit"):
        tx.commit()


def test_a_read_sees_the_base_whatever_others_do() -> None:
    lake, _ = shop([])
    tx = lake.transaction()
    lake.table(ORDERS).overwrite(rows())
    assert tx.table(ORDERS).read_arrow().num_rows == 6


# --- evidence --------------------------------------------------------------------------------------------


def manifests_read(tally: Tally) -> int:
    return sum(
        isinstance(request, Get) and request.key.endswith(".avro") and "snap-" not in request.key
        for request in tally.history
    )


def test_bounds_are_looked_at_only_where_partitions_meet_and_once() -> None:
    for day, looked_at in ((ONE, 0), (FOUR, 2)):
        lake, tally = shop(["day"])
        # A handle of its own knows what the others write only by reading it.
        tx = hg.Lake.open(Inspector(lake).store).transaction(isolation="serializable")
        overwriting = tx.table(ORDERS)
        overwriting.overwrite(rows((60, FOUR)), where=f"day = '{FOUR}' AND id < 100")
        overwriting.overwrite(rows((70, FOUR)), where=f"day = '{FOUR}' AND id = 70")
        lake.table(ORDERS).append(rows((200, day)))
        lake.table(ORDERS).append(rows((300, day)))
        tally.reset()
        tx.commit()
        assert manifests_read(tally) == looked_at
        assert {60, 70, 200, 300} <= {number for number, _ in content(lake)[ORDERS]}


def test_a_column_that_was_widened_meanwhile_keeps_nothing_apart() -> None:
    """Its bounds are written otherwise by then, so they are not compared."""
    lake, _ = shop([])
    table = lake.create_table("sales.small", "id INT")
    small = pa.table({"id": pa.array([1, 2], pa.int32())})
    table.append(small)
    tx = lake.transaction(isolation="serializable")
    tx.table("sales.small").overwrite(small.slice(0, 0), where="id = 1")
    table.widen_column("id", "BIGINT")
    table.append(pa.table({"id": [2**40]}))
    with pytest.raises(TransactionConflictError, match="rule 25"):
        tx.commit()


def test_files_of_a_later_spec_are_told_apart_by_their_bounds() -> None:
    lake, _ = shop(["day"])
    orders = lake.table(ORDERS)
    for number, refused in ((200, False), (20, True)):
        tx = lake.transaction(isolation="serializable")
        tx.table(ORDERS).overwrite(rows(), where=f"day = '{FOUR}' AND id < 100")
        orders.add_partition_field(f"bucket({number}, id)")
        orders.append(rows((number, FOUR)))
        if refused:
            with pytest.raises(TransactionConflictError, match="rule 25"):
                tx.commit()
        else:
            tx.commit()


def test_partitions_by_uuid_meet() -> None:
    lake = hg.Lake.init(MemoryStore("uuids"), strategy="conditional")
    table = lake.create_table("a.b", "key UUID, id BIGINT", partition_by=["key"])
    one, two = (bytes([number]) * 16 for number in (1, 2))
    schema = pa.schema([pa.field("key", pa.uuid()), pa.field("id", pa.int64())])

    def row(key: bytes, number: int) -> pa.Table:
        keys = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([key], pa.binary(16)))
        return pa.table([keys, pa.array([number], pa.int64())], schema=schema)

    table.append(row(one, 1))
    for key, refused in ((two, False), (one, True)):
        tx = lake.transaction(isolation="serializable")
        tx.table("a.b").overwrite_partitions(row(one, 3))
        table.append(row(key, 2))
        if refused:
            with pytest.raises(TransactionConflictError, match="rule 25"):
                tx.commit()
        else:
            tx.commit()
