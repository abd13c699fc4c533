"""Tables through the public API, without a JVM: create, append, overwrite, many tables in one version."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.input.arguments import found_table
from headgate.model.identifiers import Version
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Create, Put, all_keys
from headgate.testing.faulty import Fault, faulty, refuse
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import counted
from headgate.transaction.conflicts import TransactionConflictError
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg

DDL = "id BIGINT NOT NULL, ts TIMESTAMP_NTZ, name STRING, tags ARRAY<STRING>"


def rows(first: int, count: int = 10) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "ts": pa.array([dt.datetime(2026, 1, 1 + n % 3, 12) for n in range(count)], pa.timestamp("us")),
            "name": [f"n{n}" if n % 2 else None for n in range(first, first + count)],
            "tags": [["a", None]] * count,
        }
    )


@pytest.fixture
def lake() -> hg.Lake:
    return hg.Lake.init(MemoryStore("tables"))


def ids(table: Any, **options: Any) -> list[int]:
    return sorted(table.read_arrow(columns=["id"], **options).column("id").to_pylist())


def test_what_is_appended_is_read_at_every_version(lake: hg.Lake) -> None:
    orders = lake.create_table("sales.orders", DDL, partition_by=["day(ts)", "bucket(3, id)"])
    assert orders.read_arrow().num_rows == 0
    for number in range(25):
        assert orders.append(rows(number * 10)).version == number + 2
    assert ids(orders) == list(range(250))
    for version in range(1, 27):
        assert ids(orders, version=version) == list(range((version - 1) * 10))
    read = orders.read_arrow().sort_by("id").slice(0, 10)
    assert read.to_pylist() == rows(0).to_pylist()


def test_every_file_carries_the_version_that_added_it(lake: hg.Lake) -> None:
    orders = lake.create_table("sales.orders", DDL)
    for number in range(23):
        orders.append(rows(number))
    assert [file.version for file in orders.files()] == list(range(2, 25))


def test_many_tables_are_one_version(lake: hg.Lake) -> None:
    orders = lake.create_table("sales.orders", DDL)
    with lake.transaction(["nightly"]) as tx:
        totals = tx.create_table("sales.totals", "n BIGINT")
        totals.append(pa.table({"n": [1]}))
        totals.append(pa.table({"n": [2]}))
        tx.table("sales.orders").append(rows(0))
        tx.set_properties({"loaded": "yes"})
    assert tx.result.version == lake.version == 2
    assert lake.tables() == ("sales.orders", "sales.totals")
    assert sorted(lake.table("sales.totals").read_arrow().column("n").to_pylist()) == [1, 2]
    assert ids(orders) == list(range(10))
    assert lake.log(limit=1)[0].tables == ("create sales.totals", "change sales.orders")
    assert lake.at(1).properties == {}


def test_a_transaction_that_fails_leaves_all_tables_as_they_were(lake: hg.Lake) -> None:
    orders = lake.create_table("sales.orders", DDL)
    tx = lake.transaction()
    tx.table("sales.orders").append(rows(0))
    with pytest.raises(hg.InvalidInputError, match=r"does not fit sales.orders"):
        tx.table("sales.orders").append(pa.table({"x": [1]}))
    tx.abort()
    assert ids(orders) == []
    assert lake.version == 1


def test_overwrite_replaces_what_it_saw(lake: hg.Lake) -> None:
    orders = lake.create_table("sales.orders", DDL)
    orders.append(rows(0))
    tx = lake.transaction()
    tx.table("sales.orders").overwrite(rows(100, 5))
    orders.append(rows(50, 2))  # by another writer, meanwhile
    tx.commit()
    assert ids(orders) == [50, 51, 100, 101, 102, 103, 104]
    assert ids(orders, version=3) == [*range(10), 50, 51]


def test_two_overwrites_conflict_and_two_appends_do_not(lake: hg.Lake) -> None:
    orders = lake.create_table("sales.orders", DDL)
    one, two = lake.transaction(), lake.transaction()
    for number, tx in enumerate((one, two)):
        tx.table("sales.orders").overwrite(rows(number * 100, 1))
    one.commit()
    with pytest.raises(TransactionConflictError, match=r"your overwrite .* both replaced all rows \[rule 27"):
        two.commit()
    three, four = lake.transaction(), lake.transaction()
    for number, tx in enumerate((three, four)):
        tx.table("sales.orders").append(rows(10 + number, 1))
    three.commit()
    four.commit()
    assert ids(orders) == [0, 10, 11]


def test_rename_keeps_the_rows_and_frees_the_name(lake: hg.Lake) -> None:
    lake.create_table("sales.orders", DDL).append(rows(0))
    lake.rename_table("sales.orders", "sales.old_orders")
    fresh = lake.create_table("sales.orders", DDL)
    fresh.append(rows(100, 1))
    assert ids(lake.table("sales.old_orders")) == list(range(10))
    assert ids(fresh) == [100]
    assert fresh.location != lake.table("sales.old_orders").location
    assert ids(lake.table("sales.orders"), version=2) == list(range(10))


def test_tables_exchange_their_names_in_one_version(lake: hg.Lake) -> None:
    for name, first in (("sales.a", 0), ("sales.b", 100)):
        lake.create_table(name, DDL).append(rows(first, 1))
    with lake.transaction() as tx:
        tx.table("sales.b").append(rows(101, 1))  # so that b comes first in the record
        tx.rename_table("sales.a", "sales.c")
        tx.rename_table("sales.b", "sales.a")
        tx.rename_table("sales.a", "sales.b")
    assert lake.tables() == ("sales.a", "sales.b")
    assert ids(lake.table("sales.a")) == [100, 101]
    assert ids(lake.table("sales.b")) == [0]


def test_a_renamed_table_is_not_lost_to_a_new_one_of_its_name(lake: hg.Lake) -> None:
    lake.create_table("sales.a", DDL).append(rows(0, 1))
    with lake.transaction() as tx:
        tx.rename_table("sales.a", "sales.b")
        with pytest.raises(hg.InvalidInputError, match="this transaction renames the table"):
            tx.create_table("sales.a", DDL)
    assert lake.tables() == ("sales.b",)
    assert ids(lake.table("sales.b")) == [0]


def test_a_dropped_table_is_gone_and_its_history_stays(lake: hg.Lake) -> None:
    orders = lake.create_table("sales.orders", DDL)
    orders.append(rows(0))
    lake.drop_table("sales.orders")
    assert lake.tables() == ()
    with pytest.raises(hg.NotFoundError, match=r"there is no table sales.orders at version 3"):
        orders.read_arrow()
    assert ids(orders, version=2) == list(range(10))


@pytest.mark.parametrize("dropped", [True, False])
def test_a_table_that_was_dropped_or_renamed_meanwhile_is_not_written_to(
    lake: hg.Lake, dropped: bool
) -> None:
    lake.create_table("sales.orders", DDL)
    tx = lake.transaction()
    tx.table("sales.orders").append(rows(0))
    if dropped:
        lake.drop_table("sales.orders")
    else:
        lake.rename_table("sales.orders", "sales.other")
    with pytest.raises(TransactionConflictError, match="rule 41"):
        tx.commit()


def test_a_table_that_was_dropped_and_made_again_is_another_table(lake: hg.Lake) -> None:
    lake.create_table("sales.orders", DDL)
    tx = lake.transaction()
    tx.table("sales.orders").append(rows(0))
    lake.drop_table("sales.orders")
    lake.create_table("sales.orders", "other INT")
    with pytest.raises(TransactionConflictError, match=r"sales.orders: .* it dropped the table"):
        tx.commit()


@pytest.mark.parametrize("then", ["renamed", "dropped"])
def test_a_table_that_takes_the_place_of_another_meets_what_became_of_that(lake: hg.Lake, then: str) -> None:
    lake.create_table("a.b", "id BIGINT").append(pa.table({"id": [1]}))
    tx = lake.transaction()
    tx.drop_table("a.b")
    tx.create_table("a.b", "other STRING")
    if then == "renamed":
        lake.rename_table("a.b", "a.kept")
    else:
        lake.drop_table("a.b")
    with pytest.raises(hg.ConflictError, match=f"it {then} the table"):
        tx.commit()
    assert lake.tables() == (("a.kept",) if then == "renamed" else ())


def test_a_table_is_dropped_once(lake: hg.Lake) -> None:
    lake.create_table("a.b", "id BIGINT")
    with lake.transaction() as tx:
        tx.drop_table("a.b")
        with pytest.raises(hg.NotFoundError, match="was dropped in this transaction"):
            tx.drop_table("a.b")
        tx.create_table("a.b", "id BIGINT")
        tx.drop_table("a.b")
    assert lake.tables() == ()


@pytest.mark.parametrize(
    "use",
    [
        lambda tx: tx.table("a.y"),
        lambda tx: tx.drop_table("a.y"),
        lambda tx: tx.rename_table("a.y", "a.z"),
    ],
)
def test_a_table_has_its_old_name_until_the_commit(
    lake: hg.Lake, use: Callable[[hg.Transaction], object]
) -> None:
    lake.create_table("a.x", "id BIGINT")
    with lake.transaction() as tx:
        tx.rename_table("a.x", "a.y")
        with pytest.raises(hg.NotFoundError, match=r"renames a\.x to a\.y when it commits") as caught:
            use(tx)
        assert "use the old name, a.x" in str(caught.value.next_step)
        tx.table("a.x").append(pa.table({"id": [1]}))
    assert lake.table("a.y").read_arrow().num_rows == 1


def test_a_table_takes_the_place_of_another_in_one_version(lake: hg.Lake) -> None:
    old = lake.create_table("a.b", "id BIGINT")
    old.append(pa.table({"id": [1]}))
    uuid = found_table(Inspector(lake).refresh(), "a.b").uuid
    with lake.transaction() as tx:
        tx.drop_table("a.b")
        with pytest.raises(hg.NotFoundError, match="was dropped in this transaction"):
            tx.rename_table("a.b", "a.c")
        tx.create_table("a.b", "other STRING").append(pa.table({"other": ["x"]}))
    assert lake.table("a.b").read_arrow().to_pylist() == [{"other": "x"}]
    assert lake.table("a.b", version=2).read_arrow().to_pylist() == [{"id": 1}]
    record, _ = Inspector(lake).handle.log.read_decided(Version(lake.version))
    done = [(one.action.value, one.table.uuid == uuid) for one in record.tables]
    assert done == [("drop", True), ("create", False)]
    assert lake.fsck().ok
    with lake.transaction() as tx:
        tx.drop_table("a.b")
        tx.create_table("a.b", "third STRING")
        tx.drop_table("a.b")
    assert lake.tables() == ()


def test_two_writers_cannot_make_the_same_table(lake: hg.Lake) -> None:
    one, two = lake.transaction(), lake.transaction()
    for tx in (one, two):
        tx.create_table("sales.orders", DDL)
    one.commit()
    with pytest.raises(TransactionConflictError, match=r"both took the name sales.orders"):
        two.commit()
    with pytest.raises(hg.AlreadyExistsError):
        lake.create_table("sales.orders", DDL)


def test_table_properties(lake: hg.Lake) -> None:
    orders = lake.create_table("sales.orders", DDL, properties={"owner": "ann"})
    stale = lake.transaction()
    stale.table("sales.orders").set_properties({"owner": "bob"})
    orders.set_properties({"tier": "gold"})
    stale.commit()
    assert orders.properties == {"owner": "bob", "tier": "gold"}
    stale = lake.transaction()
    stale.table("sales.orders").set_properties({"owner": "eve"})
    orders.set_properties({"owner": "dan"})
    with pytest.raises(TransactionConflictError, match=r"both changed the table properties owner"):
        stale.commit()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda lake: lake.table("sales.order"), hg.NotFoundError, "did you mean sales.orders"),
        (lambda lake: lake.table("orders"), hg.InvalidInputError, "write it as namespace.table"),
        (lambda lake: lake.create_table("a.b", "x INTT"), hg.InvalidInputError, "'INTT' is not a type"),
        (lambda lake: lake.create_table("a.b", 7), hg.InvalidInputError, "not a int"),
        (
            lambda lake: lake.create_table("a.b", DDL, partition_by=["hour(id)"]),
            hg.InvalidInputError,
            "be applied",
        ),
        (
            lambda lake: lake.create_table("a.b", pa.schema([("x", pa.int32()), ("X", pa.int32())])),
            hg.InvalidInputError,
            "X occurs twice",
        ),
        (
            lambda lake: lake.create_table("a.b", pa.schema([("", pa.int32())])),
            hg.InvalidInputError,
            "a valid name",
        ),
        (lambda lake: lake.create_table("a.b", pa.schema([])), hg.InvalidInputError, "at least one"),
        (lambda lake: lake.create_table("../b.c", DDL), hg.InvalidInputError, "is not a table name"),
        (lambda lake: lake.table("sales.orders").append([1]), hg.InvalidInputError, "pyarrow Table"),
        (
            lambda lake: lake.table("sales.orders").read_arrow(columns=["idd"]),
            hg.InvalidInputError,
            "mean id",
        ),
        (lambda lake: lake.table("sales.orders").read_arrow(version=9), hg.NotFoundError, "newest is 1"),
        (lambda lake: lake.drop_table("sales.nothing"), hg.NotFoundError, "there is no table"),
        (lambda lake: lake.rename_table("sales.orders", "x/y.z"), hg.InvalidInputError, "not a table name"),
    ],
)
def test_wrong_calls_are_told_what_is_wrong_and_change_nothing(
    lake: hg.Lake, wrong: Any, error: type[Exception], message: str
) -> None:
    lake.create_table("sales.orders", DDL)
    with pytest.raises(error, match=message):
        wrong(lake)
    assert lake.version == 1


def test_an_append_writes_four_objects_then_publishes_two_and_a_control_entry() -> None:
    store, tally = counted(MemoryStore())
    lake = hg.Lake.init(store, strategy="conditional", divisor=100)
    orders = lake.create_table("sales.orders", DDL)
    orders.append(rows(0))
    for number in range(8):
        tally.reset()
        orders.append(rows(number))
        written = [request.key for request in tally.history if isinstance(request, Put | Create)]
        assert sum(key.endswith(".parquet") for key in written) == 1
        # A manifest, a manifest list, a metadata file; the record; the announcement with its hint, the entry.
        assert len(written) == 1 + 3 + 1 + 2 + 1
        assert tally.counts()["get"] <= 2


def test_the_cost_of_an_append_stays_flat() -> None:
    store, tally = counted(MemoryStore())
    lake = hg.Lake.init(store, divisor=5)
    orders = lake.create_table("sales.orders", "id BIGINT")
    totals = []
    for _ in range(12):
        tally.reset()
        for _ in range(25):
            orders.append(pa.table({"id": [1]}))
        totals.append(sum(tally.counts().values()))
    # Windows of higher levels come due now and then; nothing grows with the number of versions.
    assert max(totals[2:]) <= 1.2 * min(totals[2:])


def test_many_threads_append_to_many_tables(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path)
    names = [f"sales.t{number}" for number in range(3)]
    for name in names:
        lake.create_table(name, "id BIGINT")

    def work(writer: int) -> None:
        handle = hg.Lake.open(tmp_path)
        for number in range(6):
            with handle.transaction() as tx:
                for name in names:
                    tx.table(name).append(pa.table({"id": [writer * 100 + number]}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    expected = sorted(writer * 100 + number for writer in range(8) for number in range(6))
    for name in names:
        assert sorted(lake.table(name).read_arrow().column("id").to_pylist()) == expected
    assert lake.version == 3 + 48


def test_a_table_that_could_not_be_published_is_published_by_the_next_commit(tmp_path: Path) -> None:
    hg.Lake.init(tmp_path).create_table("sales.orders", DDL)
    lake = hg.Lake.open(tmp_path)
    bad, _ = faulty(
        Inspector(lake).store,
        Fault(lambda request: "version-hint" in getattr(request, "key", ""), refuse),
    )
    result = hg.Lake.open(bad).table("sales.orders").append(rows(0))
    assert result.postponed[0].startswith("publishing sales.orders")
    hint = tmp_path / "data/sales/orders/metadata/version-hint.text"
    assert hint.read_text() == "1"
    lake.table("sales.orders").append(rows(10))
    assert hint.read_text() == "3"


@pytest.mark.slow
def test_other_engines_read_the_published_table(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path)
    orders = lake.create_table("sales.orders", DDL, partition_by=["day(ts)"])
    for number in range(12):
        orders.append(rows(number * 10))
    orders.overwrite(rows(1000, 30))
    orders.append(rows(2000, 4))
    root = tmp_path / "data/sales/orders"
    expected = [(34, sum(ids(orders)), 34 * 2)]
    assert ask_duckdb(root, "count(*), sum(id), sum(len(tags))") == expected
    told = ask_clickhouse(root, "count(), sum(id), sum(length(tags))")
    assert [tuple(int(value) for value in row) for row in told] == expected
    published = root / "metadata" / f"v{lake.version}.metadata.json"
    assert sorted(row["id"] for row in ask_pyiceberg(str(published))) == ids(orders)
    at_eight = root / "metadata" / "v8.metadata.json"
    assert sorted(row["id"] for row in ask_pyiceberg(str(at_eight))) == ids(orders, version=8)


def test_rows_that_are_longer_than_a_file_should_be_become_several() -> None:
    lake = hg.Lake.init(MemoryStore())
    properties = {"write.target-file-size-bytes": "20000"}
    table = lake.create_table("a.long", "id BIGINT", sort_by=["id desc"], properties=properties)
    ids = random.Random(5).sample(range(1 << 60), 20_000)
    table.append(pa.table({"id": pa.array(ids, pa.int64())}))
    files = table.files()
    assert len(files) > 3
    # Numbers that do not compress are more than twice what was expected of them.
    assert all(file.size_bytes <= 60_000 for file in files)
    assert sum(file.rows for file in files) == 20_000
    found = table.read_arrow()["id"].to_pylist()
    assert sorted(found) == sorted(ids)
    # Sorted as a whole before it is cut: files come in any order, but each holds what follows one another.
    place = {number: at for at, number in enumerate(sorted(ids, reverse=True))}
    assert sum(place[one] + 1 != place[other] for one, other in pairwise(found)) < len(files)


# --- a table that is made and dropped by one transaction ----------------------------------------------------


def test_a_table_that_the_transaction_made_can_be_dropped_in_it(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        tx.create_table("a.work", "id BIGINT").append(pa.table({"id": [1]}))
        tx.create_table("a.kept", "id BIGINT").append(tx.table("a.work").read_arrow())
        tx.drop_table("a.work")
        with pytest.raises(hg.NotFoundError):
            tx.table("a.work")
        with pytest.raises(hg.NotFoundError):
            tx.drop_table("a.work")
    assert lake.tables() == ("a.kept",)
    assert lake.log(limit=1)[0].tables == ("create a.kept",)
    assert lake.table("a.kept").read_arrow()["id"].to_pylist() == [1]
    assert not lake.fsck(deep=True).damage
    lake.vacuum(older_than="0s")
    assert not any(key.startswith("data/a/work/") for key in all_keys(Inspector(lake).store, "data/"))


def test_making_and_dropping_alone_is_nothing_to_commit(lake: hg.Lake) -> None:
    tx = lake.transaction()
    tx.create_table("a.b", "id BIGINT")
    tx.drop_table("a.b")
    with pytest.raises(hg.InvalidInputError, match="nothing to commit"):
        tx.commit()


def test_it_can_be_made_again_and_dropped_again(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        for columns in ("id BIGINT", "name STRING", "x INT"):
            tx.create_table("a.b", columns)
            tx.drop_table("a.b")
        tx.create_table("a.b", "y DOUBLE")
    assert [field.name for field in lake.table("a.b").schema.fields] == ["y"]


def test_a_table_that_was_there_before_goes_even_if_its_successor_goes_too(lake: hg.Lake) -> None:
    lake.create_table("a.b", "id BIGINT")
    with lake.transaction() as tx:
        tx.drop_table("a.b")
        tx.create_table("a.b", "name STRING")
        tx.drop_table("a.b")
    assert lake.tables() == ()
    assert lake.log(limit=1)[0].tables == ("drop a.b",)


def test_one_that_was_made_and_renamed_can_be_dropped(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        tx.create_table("a.b", "id BIGINT")
        tx.rename_table("a.b", "a.c")
        tx.drop_table("a.b")  # until the transaction ends, this is its name
        tx.create_table("a.c", "id BIGINT")
    assert lake.tables() == ("a.c",)
