"""Views, mounts and materialized views read with Spark, now and as they were."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from headgate.errors import InvalidInputError
from headgate.hooks import CommitEvent, Hook, Python
from headgate.lake.ingest.load import IngestOptions, ingest
from headgate.lake.materialized_views import RefreshResult
from headgate.lake.table import Table
from headgate.model.named_object import NamedObject, View
from headgate.spark.sql.run import traits_of
from headgate.transaction.changes import ObjectChange

ORDERS = "sales.orders"
COPY = "sales.copy"


@pytest.fixture
def orders(lake: hg.Lake) -> Table:
    table = lake.create_table(ORDERS, "id BIGINT, name STRING, day DATE")
    table.append(rows(1, 2, 3))
    return table


def rows(*ids: int) -> pa.Table:
    names = [f"n{number}" for number in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "name": names})


def ids(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.collect())


# --- views ----------------------------------------------------------------------------------------------


def test_a_view_is_its_query_at_every_version(lake: hg.Lake, orders: Table, spark: SparkSession) -> None:
    lake.create_view("v.late", "SELECT id, name FROM sales.orders WHERE id > 1")  # version 3
    lake.tag("made")
    orders.append(rows(4))
    lake.create_view("v.late", "SELECT id FROM sales.orders WHERE id > 3", replace=True)
    orders.append(rows(5))
    late = lake.table("v.late")
    assert late.kind == "view"
    assert ids(late.read(spark)) == [4, 5]
    assert ids(late.read(spark, version=3)) == ids(lake.at(tag="made").table("v.late").read(spark)) == [2, 3]
    assert ids(late.read(spark, version=5)) == [2, 3, 4]
    assert ids(lake.sql(spark, "SELECT l.id FROM v.late l JOIN sales.orders o ON l.id = o.id")) == [4, 5]
    assert ids(lake.sql(spark, "SELECT v.late.id FROM v.late VERSION AS OF 'made'")) == [2, 3]
    assert ids(lake.at(version=5).sql(spark, "SELECT id FROM v.late")) == [2, 3, 4]
    with pytest.raises(hg.NotFoundError, match=r"no table v.late at version 2"):
        late.read(spark, version=2)


def test_what_is_selected_from_a_view(lake: hg.Lake, orders: Table, spark: SparkSession) -> None:
    lake.create_view("v.all", "SELECT id, name, DATE '2026-11-15' AS day FROM sales.orders")
    view = lake.table("v.all")
    assert ids(view.read(spark, where="id < 3", columns=["id"])) == [1, 2]
    assert view.read(spark, columns=["name", "id"]).columns == ["name", "id"]
    # In the words of docs/predicates.md, where Spark's own function of this name counts days of a month.
    assert ids(view.read(spark, where="day(day) = '2026-11-15'")) == [1, 2, 3]
    with pytest.raises(hg.InvalidInputError):
        view.read(spark, where="nme = 'x'")


def test_views_on_views(lake: hg.Lake, orders: Table, spark: SparkSession) -> None:
    lake.create_view("v.a", "SELECT id FROM sales.orders WHERE id > 1")
    lake.create_view(
        "v.b", "WITH a AS (SELECT * FROM v.a) SELECT a.id * 10 AS id FROM a, v.a x WHERE x.id = 2"
    )
    assert ids(lake.table("v.b").read(spark)) == [20, 30]
    lake.create_view("v.then", "SELECT id FROM sales.orders VERSION AS OF 1")
    assert ids(lake.table("v.then").read(spark)) == []


def test_what_a_view_reads_may_be_gone(lake: hg.Lake, orders: Table, spark: SparkSession) -> None:
    lake.create_view("v.a", "SELECT * FROM sales.orders")
    lake.create_view("v.b", "SELECT * FROM v.a")
    lake.drop_table(ORDERS)
    with pytest.raises(hg.NotFoundError, match=r"reads sales.orders, which does not exist in the lake"):
        lake.table("v.b").read(spark)
    # A table of the session is not what the view was made for.
    spark.sql("CREATE DATABASE IF NOT EXISTS sales")
    spark.range(1).write.mode("overwrite").saveAsTable("sales.orders")
    try:
        with pytest.raises(hg.NotFoundError, match=r"the view v.a reads sales.orders"):
            lake.sql(spark, "SELECT * FROM v.b")
    finally:
        spark.sql("DROP DATABASE sales CASCADE")
    assert ids(lake.at(version=3).table("v.a").read(spark)) == [1, 2, 3]
    lake.drop_object("v.a")
    with pytest.raises(hg.NotFoundError, match=r"the view v.b reads v.a"):
        lake.table("v.b").read(spark)


def test_a_circle_that_two_writers_made_is_found_when_it_is_read(lake: hg.Lake, spark: SparkSession) -> None:
    lake.create_view("v.a", "SELECT 1 AS id")
    lake.create_view("v.b", "SELECT 1 AS id")
    one, other = lake.transaction(), lake.transaction()
    one.create_view("v.a", "SELECT * FROM v.b", replace=True)
    other.create_view("v.b", "SELECT * FROM v.a", replace=True)
    one.commit()
    other.commit()  # they changed different views
    for name in ("v.a", "v.b"):
        with pytest.raises(
            hg.InvalidInputError, match=r"read each other: v.. at version 4 → v.. at version 4"
        ):
            lake.table(name).read(spark)
    lake.create_view("v.a", "SELECT 2 AS id", replace=True)
    assert ids(lake.table("v.b").read(spark)) == [2]


def test_a_tower_of_views_has_a_bound(lake: hg.Lake, spark: SparkSession) -> None:
    with lake.transaction() as tx:
        tx.create_view("v.n0", "SELECT 1 AS id")
        for level in range(1, 40):
            view = NamedObject(f"u{level}", View(f"SELECT * FROM v.n{level - 1}"))
            tx._work.noted = tx._work.noted.with_object(ObjectChange(f"v.n{level}", None, view))
    assert ids(lake.table("v.n5").read(spark)) == [1]
    with pytest.raises(hg.InvalidInputError, match="nested more than 32 deep"):
        lake.table("v.n39").read(spark)


def test_the_parser_of_a_running_session_checks_a_view(lake: hg.Lake, spark: SparkSession) -> None:
    with pytest.raises(hg.InvalidInputError, match="Spark cannot read the query"):
        lake.create_view("v.bad", "SELECT 1 +")
    assert lake.version == 0
    lake.create_view("v.unknown", "SELECT no_such_column")  # names of columns are not its business
    with pytest.raises(hg.InvalidInputError, match="no_such_column"):
        lake.table("v.unknown").read(spark)


# --- inside of a transaction ------------------------------------------------------------------------------


def test_a_view_shows_what_the_transaction_sees(
    lake: hg.Lake, orders: Table, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n7\n")
    lake.create_table("sales.other", "id BIGINT")
    lake.tag("then")
    with lake.transaction() as tx:
        tx.mount_csv("raw.in", tmp_path / "in")
        tx.rename_table("sales.other", "s.renamed")
        tx.create_view("v.late", "SELECT id FROM sales.orders WHERE id > 1")
        tx.create_view(
            "v.all", "SELECT id FROM v.late UNION ALL SELECT id FROM raw.in UNION ALL TABLE s.renamed"
        )
        tx.create_view("v.then", "SELECT id FROM sales.orders VERSION AS OF 'then'")
        tx.table(ORDERS).append(rows(4))
        tx.table(ORDERS).delete("id = 2")
        tx.table("sales.other").append(pa.table({"id": [9]}))
        lake.tag("then", 1)  # another one moves it meanwhile
        assert ids(tx.table("v.all").read(spark)) == [3, 4, 7, 9]
        assert ids(tx.table("v.all").read(spark, where="id > 4", columns=["id"])) == [7, 9]
        assert ids(tx.table("v.then").read(spark)) == [1, 2, 3]
    assert ids(lake.table("v.all").read(spark)) == [3, 4, 7, 9]


CONFLICTS = {
    "rows that were added": lambda lake: lake.table(ORDERS).append(rows(9)),
    "rows that were deleted": lambda lake: lake.table(ORDERS).delete("id = 1"),
    "the view": lambda lake: lake.create_view("v.top", "SELECT 1L AS id", replace=True),
    "a view below": lambda lake: lake.create_view("v.low", "SELECT 1L AS id", replace=True),
    "a view that is gone": lambda lake: lake.drop_object("v.low"),
    "a table that is gone": lambda lake: lake.drop_table(ORDERS),
}


@pytest.mark.parametrize("case", [*CONFLICTS, "another table", "another view"])
def test_a_commit_depends_on_what_is_under_a_view(
    lake: hg.Lake, orders: Table, spark: SparkSession, case: str
) -> None:
    """Without that, the sum would be one of rows that were never there together."""
    lake.create_table("sales.sums", "total BIGINT")
    lake.create_table("sales.other", "id BIGINT")
    lake.create_view("v.low", "SELECT id FROM sales.orders")
    lake.create_view("v.top", "SELECT sum(id) AS total FROM v.low WHERE id > 0")
    harmless = {
        "another table": lambda lake: lake.table("sales.other").append(rows(1).select(["id"])),
        "another view": lambda lake: lake.create_view("v.other", "SELECT 1L AS id", replace=True),
    }
    lake.create_view("v.other", "SELECT 2L AS id")
    tx = lake.transaction(isolation="serializable")
    tx.table("sales.sums").append(tx.table("v.top").read(spark))
    (CONFLICTS | harmless)[case](lake)
    if case in harmless:
        tx.commit()
        assert lake.table("sales.sums").read_arrow().to_pydict() == {"total": [6]}
        return
    with pytest.raises(hg.ConflictError):
        tx.commit()


# --- mounts ---------------------------------------------------------------------------------------------


def test_mounts_are_the_same_with_spark_and_without(
    lake: hg.Lake, orders: Table, spark: SparkSession, tmp_path: Path
) -> None:
    for kind in ("csv", "json", "parquet", "text"):
        (tmp_path / kind).mkdir()
    (tmp_path / "csv" / "a.csv").write_text('id,name\n1,ann\n2,\n3,""\n4,"two\nlines"\n')
    (tmp_path / "csv" / "b.csv").write_text("name,id\neve,5\n")
    (tmp_path / "csv" / "c.tsv").write_text("id\n6\n")
    (tmp_path / "json" / "a.json").write_text('{"id": 1, "name": "ann"}\n{"id": 2}\n')
    pq.write_table(rows(1, 2), tmp_path / "parquet" / "a.parquet")
    odd = tmp_path / "parquet" / "day=1" / "100% [x] {y}"
    odd.mkdir(parents=True)
    pq.write_table(rows(3), odd / "b%41*?.parquet")
    (tmp_path / "text" / "a.txt").write_text("one\n\ntwo")
    lake.mount_csv("raw.csv", tmp_path / "csv", schema="id BIGINT, name STRING")
    for kind in ("json", "parquet", "text"):
        lake.mount_directory(f"raw.{kind}", tmp_path / kind, format=kind)
    for kind in ("csv", "json", "parquet", "text"):
        table = lake.table(f"raw.{kind}")
        without = [tuple(row.values()) for row in table.read_arrow().to_pylist()]
        assert sorted(map(repr, map(tuple, table.read(spark).collect()))) == sorted(map(repr, without)), kind
    assert ids(lake.table("raw.csv").read(spark, where="id > 4", columns=["id"])) == [5, 6]
    assert ids(lake.sql(spark, "SELECT c.id FROM raw.csv c JOIN sales.orders o ON c.id = o.id")) == [1, 2, 3]
    lake.create_view("v.in", "SELECT id FROM raw.parquet")
    assert ids(lake.table("v.in").read(spark)) == [1, 2, 3]


def test_files_that_do_not_fit_are_named_with_spark(
    lake: hg.Lake, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    lake.mount_csv("raw.csv", tmp_path)
    lake.mount_directory("raw.parquet", tmp_path)
    (tmp_path / "b.csv").write_text("id,more\n1,2\n")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(hg.InvalidInputError, match=r"raw.csv \(.*b\.csv\): column more"):
        lake.table("raw.csv").read(spark)
    with pytest.raises(hg.InvalidInputError, match=r"b\.parquet"):
        lake.table("raw.parquet").read(spark)
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(hg.InvalidInputError, match=r"b\.csv is empty"):
        lake.table("raw.csv").read(spark)
    (tmp_path / "b.csv").write_text("id\nx\n")
    with pytest.raises(Exception, match=r"b\.csv"):
        lake.table("raw.csv").read(spark).collect()


# --- materialized views ---------------------------------------------------------------------------------


def told(result: RefreshResult) -> tuple[str, int]:
    return result.mode, result.rows


def test_unclosed_quotes_are_rejected_with_spark_too(
    lake: hg.Lake, spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text('id,name\n1,"ann\n' + "".join(f"{number},x\n" for number in range(300)))
    lake.mount_csv("raw.csv", tmp_path, schema="id BIGINT, name STRING")
    with pytest.raises(InvalidInputError, match=r"a\.csv, line 2: the quoted cell"):
        lake.table("raw.csv").read(spark)
    with pytest.raises(InvalidInputError, match=r"a\.csv, line 2: the quoted cell"):
        ingest(lake, "sales.loaded", [str(file)], IngestOptions(), spark=spark)
    assert "sales.loaded" not in lake.tables()


def test_added_rows_are_added(lake: hg.Lake, orders: Table, spark: SparkSession) -> None:
    copy = lake.create_materialized_view(
        spark, COPY, "SELECT id, upper(name) AS name FROM sales.orders o WHERE id <> 5", partition_by=["id"]
    )
    assert copy.kind == "materialized view"
    assert ids(copy.read(spark)) == [1, 2, 3]
    before = {file.path for file in copy.files()}
    assert told(lake.refresh(spark, COPY)) == ("unchanged", 0)
    assert lake.version == 3
    orders.append(rows(4, 5))
    orders.set_properties({"owner": "ann"})
    lake.create_table("sales.other", "id INT").append(pa.table({"id": pa.array([1], pa.int32())}))
    result = lake.refresh(spark, COPY)
    assert told(result) == ("incremental", 1)
    assert result.version == result.source_version + 1 == lake.version
    assert "only added to sales.orders, in 1 version" in result.reason
    assert before < {file.path for file in copy.files()}  # the rows that were there are not written again
    assert sorted(copy.read(spark).toArrow().to_pylist(), key=lambda row: row["id"])[3] == {
        "id": 4,
        "name": "N4",
    }
    assert told(lake.refresh(spark, COPY)) == ("unchanged", 0)
    orders.append(rows(5))
    assert told(lake.refresh(spark, COPY)) == ("incremental", 0)
    assert told(lake.refresh(spark, COPY)) == ("unchanged", 0)
    assert ids(copy.read(spark, version=3)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("sql", "row_by_row"),
    [
        ("SELECT id, upper(name) || '!' AS n FROM t WHERE id > 1 AND name LIKE 'a%'", True),
        ("SELECT * FROM (SELECT id + 1 AS i FROM t) WHERE i > 1", True),
        ("SELECT count(*) FROM t", False),
        ("SELECT id, sum(id) FROM t GROUP BY id", False),
        ("SELECT DISTINCT id FROM t", False),
        ("SELECT id FROM t LIMIT 2", False),
        ("SELECT row_number() OVER (ORDER BY id) FROM t", False),
        ("SELECT a.id FROM t a JOIN t b ON a.id = b.id", False),
        ("SELECT id FROM t WHERE id IN (SELECT max(id) FROM t)", False),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t)", False),
        ("SELECT (SELECT max(id) FROM t), id FROM t", False),
        ("SELECT id FROM t UNION ALL SELECT id FROM t", False),
        ("SELECT id FROM t EXCEPT SELECT 1", False),
        ("SELECT explode(array(id, id)) FROM t", False),
        ("SELECT id FROM t TABLESAMPLE (10 PERCENT)", False),
    ],
)
def test_what_works_row_by_row(spark: SparkSession, sql: str, row_by_row: bool) -> None:
    empty = spark.createDataFrame([], "id BIGINT, name STRING")
    found = traits_of(spark.sql(sql.replace(" t", " {t}"), t=empty))
    assert found.varies is None
    assert (found.more_than_rows is None) is row_by_row, found


@pytest.mark.parametrize("extra", ["rand()", "uuid()", "monotonically_increasing_id()"])
def test_what_differs_each_time(spark: SparkSession, extra: str) -> None:
    assert traits_of(spark.sql(f"SELECT {extra} AS x")).varies is not None


def test_totals_are_made_anew(lake: hg.Lake, orders: Table, spark: SparkSession) -> None:
    lake.create_view("v.some", "SELECT id, id % 2 AS odd FROM sales.orders")
    copy = lake.create_materialized_view(spark, COPY, "SELECT odd, sum(id) AS s FROM v.some GROUP BY odd")
    assert told(lake.refresh(spark, COPY)) == ("unchanged", 0)
    orders.append(rows(4))
    assert told(lake.refresh(spark, COPY)) == ("full", 2)
    assert sorted(tuple(row) for row in copy.read(spark).collect()) == [(0, 6), (1, 4)]
    assert told(lake.refresh(spark, COPY)) == ("unchanged", 0)


@pytest.mark.parametrize("extra", ["rand() AS x", "current_timestamp() AS x"])
def test_a_query_that_differs_each_time_is_run_each_time(
    lake: hg.Lake, orders: Table, spark: SparkSession, extra: str
) -> None:
    lake.create_materialized_view(spark, COPY, f"SELECT id, {extra} FROM sales.orders")
    assert told(lake.refresh(spark, COPY)) == ("full", 3)


def test_changed_rows_lead_to_a_full_refresh(lake: hg.Lake, orders: Table, spark: SparkSession) -> None:
    copy = lake.create_materialized_view(spark, COPY, "SELECT * FROM sales.orders")
    orders.append(rows(4))
    orders.delete("id = 1")
    result = lake.refresh(spark, COPY)
    assert (result.mode, ids(copy.read(spark))) == ("full", [2, 3, 4])
    assert "version 5 (delete) changed rows of sales.orders" in result.reason
    copy.append(rows(9))  # behind its back
    result = lake.refresh(spark, COPY)
    assert (result.mode, ids(copy.read(spark))) == ("full", [2, 3, 4])
    assert "wrote to the view directly" in result.reason
    assert told(lake.refresh(spark, COPY)) == ("unchanged", 0)
    lake.drop_table(ORDERS)
    with pytest.raises(hg.NotFoundError, match=r"the view sales.copy reads sales.orders"):
        lake.refresh(spark, COPY)
    lake.create_table(ORDERS, "id BIGINT, name STRING, day DATE").append(rows(7))
    result = lake.refresh(spark, COPY)
    assert (result.mode, ids(copy.read(spark))) == ("full", [7])
    assert "another table" in result.reason


def test_other_definitions_and_columns(lake: hg.Lake, orders: Table, spark: SparkSession) -> None:
    lake.create_view("v.some", "SELECT id FROM sales.orders")
    copy = lake.create_materialized_view(spark, COPY, "SELECT * FROM v.some")
    lake.create_view("v.some", "SELECT id FROM sales.orders WHERE id > 1", replace=True)
    result = lake.refresh(spark, COPY)
    assert (result.mode, ids(copy.read(spark))) == ("full", [2, 3])
    assert "the view v.some was changed" in result.reason
    lake.create_view("v.some", "SELECT id, name FROM sales.orders", replace=True)
    with pytest.raises(hg.InvalidInputError, match="now returns the columns id, name"):
        lake.refresh(spark, COPY)
    assert ids(copy.read(spark)) == [2, 3]


def test_a_refresh_carries_no_files_of_the_reader_into_the_lake(
    lake: hg.Lake, spark: SparkSession, tmp_path: Path
) -> None:
    """Somebody else's lake, with a materialized view over a mount of a directory that the reader has, too."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "ids.csv").write_text("id\n1\n")
    lake.mount_csv("raw.ids", private)
    lake.create_materialized_view(spark, COPY, "SELECT * FROM raw.ids")
    (private / "ids.csv").write_text("id\n1\n42\n")
    place = tmp_path / "lake"
    before = lake.version
    with pytest.raises(hg.InvalidInputError, match="not allowed"):
        hg.Lake.open(place).refresh(spark, COPY)
    with pytest.raises(hg.InvalidInputError, match="not allowed"):
        hg.Lake.open(place).sql(spark, "SELECT * FROM raw.ids")
    assert lake.version == before
    assert lake.table(COPY).read_arrow().to_pydict() == {"id": [1]}
    hg.Lake.open(place, allow_mounts=[private]).refresh(spark, COPY)
    assert lake.table(COPY).read_arrow().num_rows == 2


def test_a_mount_is_read_anew_each_time(
    lake: hg.Lake, orders: Table, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    lake.mount_csv("raw.ids", tmp_path)
    copy = lake.create_materialized_view(spark, COPY, "SELECT * FROM raw.ids")
    (tmp_path / "b.csv").write_text("id\n2\n")
    result = lake.refresh(spark, COPY)
    assert (result.mode, ids(copy.read(spark))) == ("full", [1, 2])
    assert "raw.ids, a mount" in result.reason
    (tmp_path / "a.csv").unlink()
    (tmp_path / "b.csv").unlink()
    version = lake.version
    with pytest.raises(hg.StorageError, match="no csv file"):
        lake.refresh(spark, COPY)
    assert (lake.version, ids(copy.read(spark))) == (version, [1, 2])


def test_what_is_no_materialized_view_is_not_refreshed(
    lake: hg.Lake, orders: Table, spark: SparkSession
) -> None:
    lake.create_view("v.a", "SELECT 1 AS id")
    for name in (ORDERS, "v.a"):
        with pytest.raises(hg.InvalidInputError, match="not a materialized view"):
            lake.refresh(spark, name)
    with pytest.raises(hg.NotFoundError):
        lake.refresh(spark, "sales.gone")
    version = lake.version
    for name, sql, error in [
        (ORDERS, "SELECT 1 AS id", hg.AlreadyExistsError),
        (COPY, "SELECT * FROM sales.gone", hg.NotFoundError),
        (COPY, "SELECT * FROM sales.copy", hg.NotFoundError),
        (COPY, "SELECT nope FROM sales.orders", hg.InvalidInputError),
    ]:
        with pytest.raises(error):
            lake.create_materialized_view(spark, name, sql)
    assert lake.version == version


def test_two_that_refresh_at_once_add_each_row_once(
    lake: hg.Lake, orders: Table, spark: SparkSession, tmp_path: Path
) -> None:
    copy = lake.create_materialized_view(spark, COPY, "SELECT id FROM sales.orders")
    orders.append(rows(4, 5))
    handles = [hg.Lake.open(tmp_path / "lake") for _ in range(3)]
    start, results = threading.Barrier(len(handles)), list[RefreshResult]()

    def refresh(handle: hg.Lake) -> None:
        start.wait()
        results.append(handle.refresh(spark, COPY))

    threads = [threading.Thread(target=refresh, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told(result) for result in results) == [
        ("incremental", 2),
        ("unchanged", 0),
        ("unchanged", 0),
    ]
    assert ids(copy.read(spark)) == [1, 2, 3, 4, 5]


def test_a_refresh_that_meets_another_one_is_refused_and_runs_again(
    lake: hg.Lake, orders: Table, spark: SparkSession
) -> None:
    from headgate.lake import materialized_views

    copy = lake.create_materialized_view(spark, COPY, "SELECT id FROM sales.orders")
    orders.append(rows(4))
    slow = lake.transaction()
    materialized_views.refresh(lake, spark, slow, COPY)
    assert told(lake.refresh(spark, COPY)) == ("incremental", 1)
    with pytest.raises(hg.ConflictError, match=r"headgate.view.refreshed-at"):
        slow.commit()
    assert ids(copy.read(spark)) == [1, 2, 3, 4]
    # One that dies before its commit leaves nothing that anybody reads.
    orders.append(rows(5))
    dead = lake.transaction()
    materialized_views.refresh(lake, spark, dead, COPY)
    del dead
    assert ids(copy.read(spark)) == [1, 2, 3, 4]
    assert told(lake.refresh(spark, COPY)) == ("incremental", 1)
    assert ids(copy.read(spark)) == [1, 2, 3, 4, 5]


def test_rows_that_come_while_it_refreshes_come_with_the_next_one(
    lake: hg.Lake, orders: Table, spark: SparkSession
) -> None:
    from headgate.lake import materialized_views

    copy = lake.create_materialized_view(spark, COPY, "SELECT id FROM sales.orders")
    orders.append(rows(4))
    tx = lake.transaction()
    materialized_views.refresh(lake, spark, tx, COPY)
    orders.append(rows(5))
    tx.commit()
    assert ids(copy.read(spark)) == [1, 2, 3, 4]
    assert told(lake.refresh(spark, COPY)) == ("incremental", 1)
    assert ids(copy.read(spark)) == [1, 2, 3, 4, 5]


def test_the_command_line(lake: hg.Lake, orders: Table, tmp_path: Path) -> None:
    def headgate(*words: str) -> Any:
        program = (sys.executable, "-c", "from headgate.cli import main; main()")
        done = subprocess.run([*program, *words], capture_output=True, text=True, cwd=tmp_path, timeout=120)
        return done.returncode, done.stdout + done.stderr

    made = headgate("view", "lake", COPY, "--sql", "SELECT id FROM sales.orders", "--materialized")
    assert made == (0, "version 3: sales.copy is a materialized view\n")
    orders.append(rows(4))
    code, said = headgate("refresh", "lake", COPY)
    assert (code, said.split(":")[1]) == (0, " sales.copy, incremental refresh, 1 row")
    assert headgate("view", "lake", "v.late", "--sql", "SELECT id FROM sales.copy WHERE id > 2")[0] == 0
    assert headgate("read", "lake", "v.late", "--where", "id < 4") == (0, "id\n3\n")


# --- what follows from making and refreshing them -----------------------------------------------------------


def test_columns_of_a_materialized_view_that_were_made_anew_are_filled_again(
    lake: hg.Lake, orders: Table, spark: SparkSession
) -> None:
    made = lake.create_materialized_view(spark, COPY, "SELECT id, name FROM sales.orders")
    made.drop_column("name")
    made.add_column("name", "STRING")
    assert made.read_arrow(columns=["name"]).column("name").null_count == 3
    done = lake.refresh(spark, COPY)
    assert (done.mode, done.reason) == ("full", "version 4 changed the columns of the view")
    assert sorted(made.read_arrow(columns=["name"]).column("name").to_pylist()) == ["n1", "n2", "n3"]
    orders.append(rows(4))
    assert lake.refresh(spark, COPY).mode == "incremental"


def test_hooks_that_are_not_done_are_told_by_making_and_refreshing(
    lake: hg.Lake, orders: Table, spark: SparkSession
) -> None:
    def fail(event: CommitEvent) -> None:
        raise RuntimeError("no")

    lake.add_hook(Hook("never", Python(fail), retry=hg.RetryPolicy(attempts=1)))
    made = lake.create_materialized_view(spark, COPY, "SELECT id, name FROM sales.orders")
    assert made.made is not None and made.made.hook_failures == ("never: RuntimeError: no",)
    assert lake.refresh(spark, COPY).hook_failures == ()  # no version was made
    orders.append(rows(4))
    assert lake.refresh(spark, COPY).hook_failures == ("never: RuntimeError: no",)
    plain = lake.create_table("sales.plain", "id BIGINT")
    assert plain.made is not None and plain.made.hook_failures
    assert lake.table("sales.plain").made is None
