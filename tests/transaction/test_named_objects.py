"""Views and mounts in the log: made, replaced, renamed, dropped, and as they were at every version."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.core.conflict.detection import Incompatible, Retryable
from headgate.lake.table import Table
from headgate.model.named_object import CsvMount, Foreign, HostMount, NamedObject, View
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import all_keys
from headgate.testing.inspector import Inspector
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.table_writer import TableWriter
from headgate.transaction.transaction import Transaction

ORDERS = "sales.orders"
RECENT = "sales.recent"
SQL = "SELECT * FROM sales.orders WHERE id > 1"


@pytest.fixture
def lake() -> hg.Lake:
    made = hg.Lake.init(MemoryStore("objects"), strategy="conditional", divisor=4)
    made.create_table(ORDERS, "id BIGINT, name STRING")
    return made


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "a.csv").write_text("id,name\n1,ann\n2,\n")
    (directory / "b.csv").write_text('name,id\n"",3\n')
    return directory


def sql_of(lake: hg.Lake, name: str, version: int | None = None) -> str:
    definition = lake.objects(version=version)[name].definition
    assert isinstance(definition, View)
    return definition.sql


# --- made, replaced, renamed, dropped -------------------------------------------------------------------


def test_a_view_is_part_of_the_lake_at_every_version_since_it_was_made(lake: hg.Lake) -> None:
    made = lake.create_view(RECENT, SQL)
    assert (made.version, sql_of(lake, RECENT)) == (2, SQL)
    lake.create_view(RECENT, "SELECT 2", replace=True)
    lake.rename_object(RECENT, "sales.late")
    lake.drop_object("sales.late")
    assert [dict.fromkeys(lake.objects(version=v)) for v in range(1, 6)] == [
        {},
        {RECENT: None},
        {RECENT: None},
        {"sales.late": None},
        {},
    ]
    assert sql_of(lake, RECENT, 2) == SQL
    assert sql_of(lake, RECENT, 3) == sql_of(lake, "sales.late", 4) == "SELECT 2"
    uuids = {found.uuid for v in range(1, 6) for found in lake.objects(version=v).values()}
    assert len(uuids) == 1
    assert lake.at(version=4).objects == lake.objects(version=4)
    assert [entry.objects for entry in lake.log(limit=4)] == [
        ("drop view sales.late",),
        ("rename view sales.late",),
        ("replace view sales.recent",),
        ("create view sales.recent",),
    ]
    assert lake.log(limit=1)[0].args == ("drop_object", "sales.late")


def test_another_handle_finds_them_through_the_checkpoint(lake: hg.Lake) -> None:
    lake.create_view(RECENT, SQL)
    for number in range(8):  # beyond the next boundaries
        lake.set_properties({"n": str(number)})
    other = hg.Lake.open(Inspector(lake).store)
    assert other.objects() == lake.objects()
    assert other.namespaces() == ("sales",)


def test_a_name_belongs_to_one_thing(lake: hg.Lake, inbox: Path) -> None:
    lake.create_view(RECENT, SQL)
    for make in (
        lambda: lake.create_view(RECENT, SQL),
        lambda: lake.create_table(RECENT, "id INT"),
        lambda: lake.mount_csv(RECENT, inbox),
        lambda: lake.rename_table(ORDERS, RECENT),
        lambda: lake.rename_object(RECENT, ORDERS),
        lambda: lake.create_view(ORDERS, "SELECT 1", replace=True),
    ):
        with pytest.raises(hg.AlreadyExistsError, match="already"):
            make()
    assert lake.version == 2
    lake.mount_csv(RECENT, inbox, replace=True)
    assert lake.objects()[RECENT].kind == "csv"


def test_the_wrong_way_to_drop_says_which_is_right(lake: hg.Lake) -> None:
    lake.create_view(RECENT, SQL)
    with pytest.raises(hg.InvalidInputError, match="is a view, not a table") as caught:
        lake.drop_table(RECENT)
    assert "drop_object" in str(caught.value.next_step)
    with pytest.raises(hg.InvalidInputError, match="is a table") as caught:
        lake.drop_object(ORDERS)
    assert "drop_table" in str(caught.value.next_step)
    with pytest.raises(hg.NotFoundError, match=r"no view or mount sales.recnt") as missing:
        lake.drop_object("sales.recnt")
    assert RECENT in str(missing.value.next_step)
    with pytest.raises(hg.NotFoundError):
        lake.rename_object("sales.gone", "sales.new")
    with pytest.raises(hg.InvalidInputError, match="not a table name"):
        lake.create_view("recent", SQL)


def test_nothing_is_written_to_a_view(lake: hg.Lake, inbox: Path) -> None:
    lake.create_view(RECENT, SQL)
    lake.mount_csv("raw.orders", inbox)
    rows = pa.table({"id": [1]})
    writes: list[Callable[[Table], object]] = [
        lambda table: table.append(rows),
        lambda table: table.overwrite(rows),
        lambda table: table.delete("id = 1"),
        lambda table: table.update({"id": "2"}),
        lambda table: table.upsert(rows, ["id"]),
        lambda table: table.add_column("x", "INT"),
        lambda table: table.set_properties({"a": "b"}),
        lambda table: table.files(),
        lambda table: table.history(),
    ]
    for name in (RECENT, "raw.orders"):
        for write in writes:
            with pytest.raises(hg.InvalidInputError, match=r"not a table: it has no rows of its own"):
                write(lake.table(name))
    assert lake.version == 3
    with pytest.raises(hg.UnsupportedError, match="only Spark"):
        lake.table(RECENT).read_arrow()


def test_a_definition_of_a_later_release_is_kept_and_not_read(lake: hg.Lake) -> None:
    foreign = NamedObject("k", Foreign("kafka", {"topic": "orders"}))
    with lake.transaction() as tx:
        from headgate.transaction.changes import ObjectChange

        tx._work.noted = tx._work.noted.with_object(ObjectChange("raw.stream", None, foreign))
    assert lake.objects()["raw.stream"] == foreign
    assert lake.table("raw.stream").kind == "kafka"
    with pytest.raises(hg.UnsupportedError, match="a later release"):
        lake.table("raw.stream").read_arrow()
    lake.rename_object("raw.stream", "raw.other")
    assert lake.objects() == {"raw.other": foreign}
    lake.drop_object("raw.other")


# --- what a view may be ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "error", "problem"),
    [
        ("SELECT * FROM sales.order", hg.NotFoundError, "reads sales.order"),
        ("SELECT * FROM orders", hg.NotFoundError, "reads orders"),
        ("SELECT * FROM sales.recent", hg.InvalidInputError, "read each other"),
        ("SELECT (1", hg.InvalidInputError, "not closed"),
        ("DELETE FROM sales.orders", hg.UnsupportedError, "a query cannot begin with"),
        ("SELECT 'https://ann:secret@host/'", hg.InvalidInputError, "credential"),
    ],
)
def test_a_view_is_checked_when_it_is_made(
    lake: hg.Lake, sql: str, error: type[hg.HeadgateError], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        lake.create_view(RECENT, sql)
    assert (lake.version, lake.objects()) == (1, {})


def test_views_do_not_read_each_other_in_a_circle(lake: hg.Lake) -> None:
    lake.create_view("v.a", SQL)
    lake.create_view("v.b", "SELECT * FROM v.a")
    with pytest.raises(hg.InvalidInputError, match=r"v.a → v.b → v.a"):
        lake.create_view("v.a", "SELECT * FROM v.b", replace=True)
    assert sql_of(lake, "v.a") == SQL


# --- transactions ---------------------------------------------------------------------------------------


def test_tables_and_views_change_in_one_version(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        tx.create_table("sales.new", "id BIGINT").append(pa.table({"id": [1]}))
        tx.create_view("v.new", "SELECT * FROM sales.new")
        tx.create_view("v.upper", "SELECT * FROM v.new")
        tx.rename_table(ORDERS, "sales.old")
        tx.create_view(ORDERS, "SELECT * FROM sales.old")
    assert tx.result.version == 2
    assert lake.tables() == ("sales.new", "sales.old")
    assert list(lake.objects()) == [ORDERS, "v.new", "v.upper"]
    assert lake.table(ORDERS).kind == "view"
    assert lake.table(ORDERS, version=1).kind == "table"


def test_what_is_not_committed_leaves_nothing(lake: hg.Lake, inbox: Path) -> None:
    before = list(all_keys(Inspector(lake).store, ""))
    tx = lake.transaction()
    tx.create_view(RECENT, SQL)
    tx.mount_csv("raw.orders", inbox)
    del tx  # as if the process had died
    aborted = lake.transaction()
    aborted.create_view(RECENT, SQL)
    aborted.abort()
    assert (lake.version, lake.objects()) == (1, {})
    assert list(all_keys(Inspector(lake).store, "")) == before


def test_steps_on_one_object_become_one_change(lake: hg.Lake) -> None:
    lake.create_view("v.a", "SELECT 1")
    with lake.transaction() as tx:
        tx.create_view("v.new", "SELECT 1")
        tx.rename_object("v.new", "v.newer")
        tx.create_view("v.newer", "SELECT 2", replace=True)
        tx.rename_object("v.a", "v.b")
        tx.create_view("v.b", "SELECT 3", replace=True)
        tx.create_view("v.short", "SELECT 4")
        tx.drop_object("v.short")
        with pytest.raises(hg.InvalidInputError, match="this transaction renames"):
            tx.create_view("v.a", "SELECT 5")
        with pytest.raises(hg.InvalidInputError, match="is a view, not a table"):
            tx.table("v.newer").append(pa.table({"id": [1]}))
    assert {name: sql_of(lake, name) for name in lake.objects()} == {
        "v.b": "SELECT 3",
        "v.newer": "SELECT 2",
    }
    assert lake.log(limit=1)[0].objects == ("create view v.newer", "rename view v.b")
    with lake.transaction() as tx:
        tx.drop_object("v.b")
        tx.create_view("v.b", "SELECT 6")
        tx.rename_object("v.newer", "v.c")
        tx.rename_object("v.c", "v.newer")
        tx.drop_object("v.newer")
    assert lake.log(limit=1)[0].objects == ("replace view v.b", "drop view v.newer")


def test_a_transaction_that_only_makes_and_drops_has_nothing_to_commit(lake: hg.Lake) -> None:
    tx = lake.transaction()
    tx.create_view(RECENT, SQL)
    tx.drop_object(RECENT)
    with pytest.raises(hg.InvalidInputError, match="nothing to commit"):
        tx.commit()


# --- two writers ----------------------------------------------------------------------------------------

Work = Callable[[Transaction], object]


def view(sql: str = "SELECT 1", *, replace: bool = False) -> Work:
    return lambda tx: tx.create_view(RECENT, sql, replace=replace)


def table(tx: Transaction) -> None:
    tx.create_table(RECENT, "id INT")


def renamed_table(tx: Transaction) -> None:
    tx.rename_table(ORDERS, RECENT)


def dropped(tx: Transaction) -> None:
    tx.drop_object(RECENT)


def renamed(to: str) -> Work:
    return lambda tx: tx.rename_object(RECENT, to)


def refused(lake: hg.Lake, first: Work, second: Work) -> TransactionConflictError:
    """What `second` ends with, if `first` is committed after it began."""
    tx = lake.transaction()
    second(tx)
    with lake.transaction() as other:
        first(other)
    with pytest.raises(TransactionConflictError) as caught:
        tx.commit()
    assert lake.version == other.result.version
    return caught.value


@pytest.mark.parametrize(
    ("one", "other"),
    [(view(), view("SELECT 2")), (view(), table), (view(), renamed_table), (view(replace=True), table)],
)
def test_two_take_one_name_in_either_order(lake: hg.Lake, one: Work, other: Work) -> None:
    error = refused(lake, one, other)
    assert isinstance(error.outcome, Incompatible)
    assert "both took the name sales.recent" in error.problem


@pytest.mark.parametrize(
    ("one", "other"),
    [(other, one) for one, other in [(view(), table), (view(), renamed_table), (view(replace=True), table)]],
)
def test_two_take_one_name_the_other_way_round(lake: hg.Lake, one: Work, other: Work) -> None:
    assert isinstance(refused(lake, one, other).outcome, Incompatible)


@pytest.mark.parametrize("one", [view("SELECT 2", replace=True), dropped, renamed("v.one")])
@pytest.mark.parametrize("other", [view("SELECT 3", replace=True), dropped, renamed("v.two")])
def test_two_change_one_view(lake: hg.Lake, one: Work, other: Work) -> None:
    lake.create_view(RECENT, "SELECT 1")
    error = refused(lake, one, other)
    assert isinstance(error.outcome, Retryable)
    assert [conflict.rule for conflict in error.conflicts] == [42]


def test_two_that_may_replace_make_the_same_view(lake: hg.Lake) -> None:
    error = refused(lake, view(replace=True), view("SELECT 2", replace=True))
    assert isinstance(error.outcome, Retryable)


def test_different_views_and_rows_of_tables_do_not_meet(lake: hg.Lake) -> None:
    tx = lake.transaction()
    tx.create_view("v.one", SQL)
    tx.table(ORDERS).append(pa.table({"id": [1]}))
    lake.create_view("v.two", SQL)
    lake.table(ORDERS).append(pa.table({"id": [2]}))
    lake.drop_object("v.two")
    assert tx.commit().version == 5
    assert list(lake.objects()) == ["v.one"]


def test_a_replacement_is_run_again_until_it_wins(lake: hg.Lake) -> None:
    lake.create_view(RECENT, "SELECT 0")
    handles = [hg.Lake.open(Inspector(lake).store) for _ in range(4)]
    start = threading.Barrier(len(handles))

    def replace(number: int) -> None:
        start.wait()
        handles[number].create_view(RECENT, f"SELECT {number + 1}", replace=True)

    threads = [threading.Thread(target=replace, args=(number,)) for number in range(len(handles))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lake.version == 2 + len(handles)
    seen = [sql_of(lake, RECENT, version) for version in range(3, 7)]
    assert sorted(seen) == [f"SELECT {number}" for number in range(1, 5)]


# --- mounts ---------------------------------------------------------------------------------------------


def test_a_csv_mount_is_read_as_its_files_are(lake: hg.Lake, inbox: Path) -> None:
    made = lake.mount_csv("raw.orders", inbox)
    table = lake.table("raw.orders")
    assert table.kind == "csv"
    assert [f"{f.name} {f.field_type}" for f in table.schema.fields] == ["id long", "name string"]
    expected = [{"id": 1, "name": "ann"}, {"id": 2, "name": None}, {"id": 3, "name": ""}]
    assert table.read_arrow().to_pylist() == expected
    assert table.read_arrow(where="id > 1 AND name IS NOT NULL").to_pylist() == expected[2:]
    assert table.read_arrow(columns=["name"], limit=1).to_pylist() == [{"name": "ann"}]
    assert table.read_arrow(limit=0).num_rows == 0
    (inbox / "c.csv").write_text("id,name\n4,dan\n")
    lake.set_properties({"a": "b"})
    # The files are not the lake's: an older version has them as they are now.
    assert lake.at(version=made.version).table("raw.orders").read_arrow().num_rows == 4
    with pytest.raises(hg.InvalidInputError, match="no column 'nme'"):
        table.read_arrow(columns=["nme"])


def mounted_by_another(lake: hg.Lake, directory: Path, **options: Any) -> Table:
    """A mount that another process made, through a handle with `options`."""
    lake.mount_csv("raw.theirs", directory, replace=True)
    return hg.Lake.open(Inspector(lake).store, **options).table("raw.theirs")


def test_a_mount_of_others_is_read_only_from_directories_that_the_reader_allows(
    lake: hg.Lake, inbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = mounted_by_another(lake, inbox)
    with pytest.raises(hg.InvalidInputError, match="reading it is not allowed") as refused:
        theirs.read_arrow()
    for words in ("allow_mounts", "--allow-mounts", "HEADGATE_MOUNTS_ALLOW", str(inbox)):
        assert words in str(refused.value)
    assert theirs.schema.column_names == ["id", "name"]  # what stands in the log
    (tmp_path / "innocent").mkdir()
    for given in (tmp_path / "innocent", f"{inbox}side", inbox / "deeper", inbox / "a.csv"):
        with pytest.raises(hg.InvalidInputError, match="not allowed"):
            mounted_by_another(lake, inbox, allow_mounts=[given]).read_arrow()
    for given in (inbox, tmp_path, tmp_path / "innocent" / ".." / "in", str(inbox)):
        assert mounted_by_another(lake, inbox, allow_mounts=[given]).read_arrow().num_rows == 3
    monkeypatch.setenv("HEADGATE_MOUNTS_ALLOW", f"/nowhere:{inbox}")
    assert mounted_by_another(lake, inbox).read_arrow().num_rows == 3


def test_links_do_not_lead_out_of_what_is_allowed(lake: hg.Lake, inbox: Path, tmp_path: Path) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    (drop / "linked").symlink_to(inbox)
    for path in (drop / "linked", drop / ".." / "in"):
        with pytest.raises(hg.InvalidInputError, match=f"mount of {inbox}"):
            mounted_by_another(lake, path, allow_mounts=[drop]).read_arrow()
    (tmp_path / "also").symlink_to(inbox)
    assert mounted_by_another(lake, inbox, allow_mounts=[tmp_path / "also"]).read_arrow().num_rows == 3
    (tmp_path / "private.csv").write_text("id,name\n9,secret\n")
    (drop / "a.csv").symlink_to(tmp_path / "private.csv")
    with pytest.raises(hg.InvalidInputError, match=r"a\.csv is a link to"):
        mounted_by_another(lake, drop, allow_mounts=[drop]).read_arrow()
    assert mounted_by_another(lake, drop, allow_mounts=[tmp_path]).read_arrow().num_rows == 1


def test_a_handle_reads_what_was_mounted_through_it(lake: hg.Lake, inbox: Path) -> None:
    with lake.transaction() as tx:
        tx.mount_csv("raw.own", inbox)
    assert lake.table("raw.own").read_arrow().num_rows == 3
    assert lake.at().table("raw.own").read_arrow().num_rows == 3
    (inbox / "deeper").mkdir()
    (inbox / "deeper" / "a.csv").write_text("id,name\n9,secret\n")
    hg.Lake.open(Inspector(lake).store).mount_csv("raw.theirs", inbox / "deeper")
    with pytest.raises(hg.InvalidInputError, match="not allowed"):
        lake.table("raw.theirs").read_arrow()


def test_a_mount_is_read_inside_of_a_transaction(lake: hg.Lake, inbox: Path) -> None:
    lake.mount_csv("raw.orders", inbox)
    with lake.transaction() as tx:
        found = tx.table("raw.orders")
        assert found.schema.column_names == ["id", "name"]
        tx.table(ORDERS).append(found.read_arrow(where="id < 3", columns=["id", "name"]))
        tx.mount_csv("raw.again", inbox)
        assert tx.table("raw.again").read_arrow(limit=1).num_rows == 1
    assert lake.table(ORDERS).read_arrow().num_rows == 2
    theirs = hg.Lake.open(Inspector(lake).store).transaction()
    with pytest.raises(hg.InvalidInputError, match="not allowed"):
        theirs.table("raw.orders").read_arrow()


def test_what_the_transaction_dropped_or_renamed_is_not_said_to_be_readable(
    lake: hg.Lake, inbox: Path
) -> None:
    lake.mount_csv("raw.orders", inbox)
    lake.create_view(RECENT, SQL)
    for name in ("raw.orders", RECENT):
        tx = lake.transaction()
        tx.rename_object(name, "raw.renamed")
        with pytest.raises(hg.NotFoundError, match=f"this transaction renames {name} to raw.renamed"):
            tx.table(name)
        assert tx.table("raw.renamed").name == "raw.renamed"
        tx.drop_object("raw.renamed")
        with pytest.raises(hg.NotFoundError, match=f"{name} was dropped in this transaction"):
            tx.table(name)
        made = tx.create_table(name, "id INT")
        assert made.read_arrow().num_rows == tx.table(name).read_arrow().num_rows == 0


WRITES: list[Callable[[TableWriter], object]] = [
    lambda table: table.append(pa.table({"id": [1]})),
    lambda table: table.overwrite(pa.table({"id": [1]})),
    lambda table: table.overwrite_partitions(pa.table({"id": [1]})),
    lambda table: table.delete("true"),
    lambda table: table.update({"id": "1"}),
    lambda table: table.upsert(pa.table({"id": [1]}), ["id"]),
    lambda table: table.merge(pa.table({"id": [1]}), "t.id = s.id").when_matched_delete().commit(),
    lambda table: table.set_properties({"a": "b"}),
    lambda table: table.remove_properties("a"),
    lambda table: table.add_column("x", "INT"),
    lambda table: table.partition_by,
]


@pytest.mark.parametrize("write", WRITES)
def test_what_is_no_table_is_only_read_inside_of_a_transaction(
    lake: hg.Lake, inbox: Path, write: Callable[[TableWriter], object]
) -> None:
    lake.mount_csv("raw.orders", inbox)
    lake.create_view(RECENT, SQL)
    tx = lake.transaction()
    for name in ("raw.orders", RECENT):
        with pytest.raises(hg.InvalidInputError, match="not a table: it has no rows of its own"):
            write(tx.table(name))
    with pytest.raises(hg.UnsupportedError, match="only Spark"):
        tx.table(RECENT).read_arrow()


def test_a_commit_depends_on_the_mounts_that_it_read(lake: hg.Lake, inbox: Path) -> None:
    lake.mount_csv("raw.orders", inbox)
    changes: list[Callable[[], object]] = [
        lambda: lake.mount_csv("raw.orders", inbox, schema="id INT, name STRING", replace=True),
        lambda: lake.rename_object("raw.orders", "raw.others"),
        lambda: lake.rename_object("raw.others", "raw.orders"),
    ]
    for isolation, fails in (("serializable", True), (None, True), ("snapshot", False)):
        for change in changes:
            (name,) = lake.objects()
            tx = lake.transaction(isolation=isolation)
            tx.table(ORDERS).append(pa.table({"id": tx.table(name).read_arrow()["id"].cast("int64")}))
            change()
            if not fails:
                tx.commit()
                continue
            with pytest.raises(TransactionConflictError, match=f"it changed {name}, which was read"):
                tx.commit()


@pytest.mark.parametrize("given", ["/data", Path("/data"), 7, [7], [""], ["\0"]])
def test_what_allows_no_directory_is_refused(lake: hg.Lake, given: Any) -> None:
    with pytest.raises(hg.InvalidInputError):
        hg.Lake.open(Inspector(lake).store, allow_mounts=given)


def test_rows_of_a_mount_are_counted_without_columns(lake: hg.Lake, inbox: Path) -> None:
    lake.mount_csv("sales.inbox", inbox)
    mounted = lake.table("sales.inbox")
    assert mounted.read_arrow(columns=[]).num_rows == 3
    assert mounted.read_arrow(columns=[], where="id > 1").num_rows == 2
    assert mounted.read_arrow(columns=[], limit=9).num_rows == 3
    assert mounted.read_arrow(columns=[], limit=2).num_rows == 2


def test_columns_stay_what_they_were_when_the_directory_was_mounted(lake: hg.Lake, inbox: Path) -> None:
    lake.mount_csv("raw.orders", inbox)
    table, version = lake.table("raw.orders"), lake.version
    (inbox / "a.csv").write_text("id,name\n1,ann\nx,bob\n")
    with pytest.raises(hg.InvalidInputError, match=r"a\.csv, row 3, column id") as caught:
        table.read_arrow()
    assert "schema" in str(caught.value.next_step)
    (inbox / "a.csv").write_text("id,name,more\n1,ann,2\n")
    with pytest.raises(hg.InvalidInputError, match=r"(?s)a\.csv.*more"):
        table.read_arrow()
    (inbox / "a.csv").write_text("")
    with pytest.raises(hg.InvalidInputError, match=r"a\.csv"):
        table.read_arrow()
    for path in inbox.iterdir():
        path.unlink()
    with pytest.raises(hg.StorageError, match=r"raw.orders: there is no csv file in .*/in"):
        table.read_arrow()
    inbox.rmdir()
    with pytest.raises(hg.StorageError, match=r"raw.orders: .*/in cannot be read: No such"):
        table.read_arrow()
    assert lake.version == version
    inbox.mkdir()
    (inbox / "a.csv").write_text("name\nann\n")
    assert table.read_arrow().to_pylist() == [{"id": None, "name": "ann"}]


def test_csv_options_and_a_given_schema(lake: hg.Lake, tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "a.csv.gz").write_bytes(gzip.compress(b"1;2026-11-15\n"))
    (directory / "_SUCCESS").write_text("")
    (directory / ".hidden.csv").write_text("x")
    (directory / "note.txt").write_text("x")
    lake.mount_csv(
        "raw.days",
        directory,
        schema="id INT NOT NULL, day DATE",
        options={"header": "false", "delimiter": ";"},
    )
    found = lake.table("raw.days").read_arrow()
    assert [(row["id"], str(row["day"])) for row in found.to_pylist()] == [(1, "2026-11-15")]
    assert not lake.table("raw.days").schema.find_field("id").required
    definition = lake.objects()["raw.days"].definition
    assert isinstance(definition, CsvMount)
    assert (definition.header, definition.delimiter, definition.directory) == (False, ";", str(directory))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"password": "hunter2"}, "no option 'password'"),
        ({"header": "maybe"}, "header is 'maybe'"),
        ({"delimiter": ";;"}, "not a delimiter"),
        ({"delimiter": 1}, "not a delimiter"),
        ("header=false", "must be a mapping"),
    ],
)
def test_wrong_options_are_refused(lake: hg.Lake, inbox: Path, options: dict[str, str], problem: str) -> None:
    with pytest.raises(hg.InvalidInputError, match=problem) as caught:
        lake.mount_csv("raw.orders", inbox, options=options)
    assert "hunter2" not in str(caught.value)
    assert lake.objects() == {}


def test_host_mounts_of_each_format(lake: hg.Lake, tmp_path: Path) -> None:
    for format in ("parquet", "json", "text"):
        (tmp_path / format).mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "parquet" / "a.parquet")
    (tmp_path / "json" / "a.jsonl").write_text('{"id": 1, "at": {"x": 2}}\n')
    (tmp_path / "json" / "empty.json").write_text("")
    (tmp_path / "text" / "a.log").write_text("one\r\ntwo\n\nlast")
    for format in ("parquet", "text"):
        lake.mount_directory(f"raw.{format}", tmp_path / format, format=format)
    lake.mount_directory(
        "raw.json", tmp_path / "json", format="json", schema="id BIGINT, at STRUCT<x: BIGINT, y: INT>"
    )
    assert lake.table("raw.parquet").read_arrow(where="id = 2").to_pylist() == [{"id": 2}]
    assert lake.table("raw.json").read_arrow().to_pylist() == [{"id": 1, "at": {"x": 2, "y": None}}]
    assert lake.table("raw.json").read_arrow(columns=["at.x"]).to_pylist() == [{"at": {"x": 2}}]
    lines = lake.table("raw.text").read_arrow().column("value").to_pylist()
    assert lines == ["one", "two", "", "last"]
    assert isinstance(lake.objects()["raw.text"].definition, HostMount)
    assert lake.table("raw.text").kind == "host"


def test_files_of_a_host_mount_that_changed(lake: hg.Lake, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    lake.mount_directory("raw.rows", tmp_path)
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(hg.InvalidInputError, match=r"b\.parquet"):
        lake.table("raw.rows").read_arrow()
    (tmp_path / "b.parquet").write_bytes(b"")
    with pytest.raises(hg.InvalidInputError, match=r"b\.parquet is not a Parquet file"):
        lake.table("raw.rows").read_arrow()
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.txt").write_bytes(b"fine\n\xff\n")
    lake.mount_directory("raw.text", tmp_path / "t", format="text")
    with pytest.raises(hg.InvalidInputError, match=r"a\.txt, line 2 is not UTF-8"):
        lake.table("raw.text").read_arrow()


@pytest.mark.parametrize(
    ("directory", "problem"),
    [
        ("s3://ann:hunter2@bucket/x", "not a directory of this host"),
        ("/data/password=hunter2", "not a directory of this host"),
        ("/no/such/place", "there is no directory"),
        ("", "a directory must be a path"),
        ("\0", "there is no directory"),
    ],
)
def test_what_is_no_directory_is_refused(lake: hg.Lake, directory: str, problem: str) -> None:
    with pytest.raises(hg.InvalidInputError, match=problem) as caught:
        lake.mount_csv("raw.orders", directory, schema="id INT")
    assert "hunter2" not in str(caught.value)


def test_other_wrong_mounts_are_refused(lake: hg.Lake, inbox: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(hg.InvalidInputError, match="there is no csv file") as caught:
        lake.mount_csv("raw.orders", tmp_path / "empty")
    assert "schema" in str(caught.value.next_step)
    with pytest.raises(hg.InvalidInputError, match="does not support the format csv"):
        lake.mount_directory("raw.orders", inbox, format="csv")
    with pytest.raises(hg.InvalidInputError, match="'orc' is not a format"):
        lake.mount_directory("raw.orders", inbox, format="orc")
    with pytest.raises(hg.InvalidInputError, match="one column"):
        lake.mount_directory("raw.orders", inbox, format="text", schema="x STRING")
    (inbox / "c.csv").write_text("id,name\nx,y\n")
    with pytest.raises(hg.InvalidInputError, match=r"c\.csv: column id is string, but int64"):
        lake.mount_csv("raw.orders", inbox)
    assert (lake.version, lake.objects()) == (1, {})


def test_a_mount_lies_outside_of_the_lake_and_its_path_is_whole(
    tmp_path: Path, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    (tmp_path / "link").symlink_to(tmp_path / "lake" / "data", target_is_directory=True)
    lake.create_table(ORDERS, "id INT")
    for inside in ("lake", "lake/data", "link"):
        with pytest.raises(hg.InvalidInputError, match="inside the lake"):
            lake.mount_csv("raw.orders", tmp_path / inside, schema="id INT")
    monkeypatch.chdir(tmp_path)
    lake.mount_csv("raw.orders", "lake/../in")
    monkeypatch.chdir("/")
    definition = lake.objects()["raw.orders"].definition
    assert isinstance(definition, CsvMount)
    assert definition.directory == str(inbox)
    assert lake.table("raw.orders").read_arrow().num_rows == 3
