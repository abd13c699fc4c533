"""Deletes and updates with Spark: which rows, in every layout of a table, and what they are refused for."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

import headgate as hg
from headgate.model.reports import RowCounts

COLUMNS = "id BIGINT NOT NULL, p STRING, v INT, at TIMESTAMP"
NOON = dt.datetime(2024, 5, 1, 12)
MODES = ("merge-on-read", "copy-on-write")
WAYS = [("auto", "merge-on-read"), ("native", "merge-on-read"), ("arrow", "copy-on-write")]
LAYOUTS = [
    ("auto", "merge-on-read", ["p"]),
    ("auto", "copy-on-write", ["bucket(3, id)"]),
    ("native", "merge-on-read", []),
    ("native", "copy-on-write", ["p"]),
    ("native", "merge-on-read", ["day(at)"]),
    ("arrow", "merge-on-read", ["bucket(3, id)"]),
    ("arrow", "copy-on-write", []),
]


def modes(mode: str) -> dict[str, str]:
    return {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}


def a_row(number: int) -> tuple[Any, ...]:
    p = None if number % 7 == 0 else "xyz"[number % 3]
    return (number, p, None if number % 5 == 0 else number, NOON + dt.timedelta(hours=9 * number))


def filled(lake: hg.Lake, spark: SparkSession, name: str = "t.rows", **given: Any) -> hg.Table:
    """A table with 30 rows in two versions."""
    table = lake.create_table(name, COLUMNS, **given)
    for numbers in (range(15), range(15, 30)):
        table.append(spark.createDataFrame([a_row(number) for number in numbers], COLUMNS).coalesce(1))
    return table


def rows_of(table: hg.Table, spark: SparkSession) -> list[tuple[Any, ...]]:
    """The rows, which Spark and Arrow must agree on."""
    found = sorted((tuple(row) for row in table.read(spark).collect()), key=repr)
    keys = sorted(table.read_arrow().column(0).to_pylist(), key=repr)
    assert keys == sorted((row[0] for row in found), key=repr)
    return found


def expected(
    rows: list[tuple[Any, ...]], change: Callable[[list[Any]], bool | None]
) -> list[tuple[Any, ...]]:
    """The rows after `change` was called with each; it returns True for those to go."""
    changed = [list(row) for row in rows]
    return sorted((tuple(row) for row in changed if not change(row)), key=repr)


@pytest.mark.parametrize(("way", "mode", "partition_by"), LAYOUTS)
def test_deletes_and_updates_in_every_layout(
    lake: hg.Lake, spark: SparkSession, way: str, mode: str, partition_by: list[str]
) -> None:
    spark.conf.set("spark.headgate.files", way)
    table = filled(lake, spark, partition_by=partition_by, properties=modes(mode))
    model = sorted(map(a_row, range(30)), key=repr)

    # A predicate of ours, and one that only Spark reads.
    assert table.delete("id < 4 or v = 21").rows == RowCounts(deleted=5)
    assert table.delete("id % 6 = 5").rows == RowCounts(deleted=5)
    model = expected(model, lambda row: row[0] < 4 or row[2] == 21 or row[0] % 6 == 5)

    # Rows that move to other partitions; a value from the old ones of other columns.
    result = table.update({"p": "concat('w', p)", "at": sf.col("at") + sf.expr("INTERVAL 1 DAY")}, "id >= 16")
    assert result.rows == RowCounts(updated=10)

    def moved(row: list[Any]) -> None:
        if row[0] >= 16:
            row[1], row[3] = None if row[1] is None else f"w{row[1]}", row[3] + dt.timedelta(days=1)

    model = expected(model, moved)

    # Several changes in one version, each seeing those before it.
    with lake.transaction() as tx:
        writer = tx.table("t.rows")
        writer.append(spark.createDataFrame([a_row(number) for number in (40, 41)], COLUMNS))
        assert writer.delete(sf.col("id").isin(40, 8)) == RowCounts(deleted=2)
        assert writer.update({"v": "coalesce(v, 0) - 1"}, "id in (41, 9, 10)") == RowCounts(updated=3)
        assert writer.delete("id = 9 or id = 41") == RowCounts(deleted=2)

    def again(row: list[Any]) -> bool:
        if row[0] == 10:
            row[2] = -1
        return row[0] in (8, 9)

    model = expected(model, again)
    assert rows_of(table, spark) == model


@pytest.mark.parametrize(("way", "mode"), WAYS)
def test_rows_that_are_added_and_updated_at_once_are_new(
    lake: hg.Lake, spark: SparkSession, way: str, mode: str
) -> None:
    spark.conf.set("spark.headgate.files", way)
    table = filled(lake, spark, properties=modes(mode))
    before = lake.version
    with lake.transaction() as tx:
        writer = tx.table("t.rows")
        writer.append(spark.createDataFrame([a_row(number) for number in (40, 41)], COLUMNS))
        writer.update({"v": "7"}, "id in (1, 40)")
        rows = spark.createDataFrame([(number, "u", 8, NOON) for number in (2, 41, 50)], COLUMNS)
        assert writer.upsert(rows, ["id"]) == RowCounts(updated=2, inserted=1)
    told = table.changes_arrow(before).to_pylist()
    assert sorted((row["id"], row["_change_type"], row["v"]) for row in told) == [
        (1, "update_after", 7),
        (1, "update_before", 1),
        (2, "update_after", 8),
        (2, "update_before", 2),
        (40, "insert", 7),
        (41, "insert", 8),
        (50, "insert", 8),
    ]


def test_nothing_to_change_makes_no_version(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    before = lake.version
    for result in (
        table.delete("id = 1000"),
        table.delete("id + 1 = 1000"),
        table.update({"v": "1"}, "id + 1 = 1000"),
        table.update({"v": "1"}, "p = 'none'"),
    ):
        assert not result.changed and result.rows == RowCounts()
    assert lake.version == before


ODD = [
    "t",
    "s",
    "_file",
    "_pos",
    "count",
    "rows",
    "a b",
    "c.d",
    "e`f",
    "Upper",
    "_headgate_row",
    "path",
    "kind",
]


@pytest.mark.parametrize(("way", "mode"), WAYS)
def test_columns_of_any_name(lake: hg.Lake, spark: SparkSession, way: str, mode: str) -> None:
    spark.conf.set("spark.headgate.files", way)
    struct = ", ".join(f"`{name.replace('`', '``')}` INT" for name in ODD)
    table = lake.create_table("t.odd", struct, properties=modes(mode))
    table.append(spark.createDataFrame([tuple(range(n, n + len(ODD))) for n in range(4)], struct))
    table.delete("`count` = 4 or `e``f` = 9")
    assert table.update({name: f"- `{name.replace('`', '``')}`" for name in ODD[1:]}, "`a b` = 8").rows
    assert rows_of(table, spark) == sorted([(2, *(-n for n in range(3, 15))), tuple(range(3, 16))], key=repr)


NESTED = (
    "id INT, tags ARRAY<STRING>, seen MAP<STRING, ARRAY<BIGINT>>, at STRUCT<x: INT, inner: STRUCT<y: STRING>>"
)


@pytest.mark.parametrize("mode", MODES)
def test_lists_maps_and_structs(lake: hg.Lake, spark: SparkSession, mode: str) -> None:
    rows = [(n, ["a", None], {"k": [n, None]}, Row(x=n, inner=Row(y=f"y{n}"))) for n in range(4)]
    table = lake.create_table("t.nested", NESTED, properties=modes(mode))
    table.append(spark.createDataFrame([*rows, (4, None, None, None)], NESTED).coalesce(1))
    table.delete("array_contains(tags, 'a') and id = 1")
    table.update({"tags": "array()", "seen": "map('n', array(1, 2))"}, "id = 2")
    # Fields by their names, in whatever order.
    table.update({"at": "named_struct('inner', named_struct('y', at.inner.y), 'x', null)"}, "at.x = 3")
    found = {row.id: row for row in table.read(spark).collect()}
    assert found[0] == Row(id=0, tags=["a", None], seen={"k": [0, None]}, at=Row(x=0, inner=Row(y="y0")))
    assert (found[2].tags, found[2].seen) == ([], {"n": [1, 2]})
    assert found[3].at == Row(x=None, inner=Row(y="y3"))
    assert found[4] == Row(id=4, tags=None, seen=None, at=None)
    assert sorted(found) == [0, 2, 3, 4]


@pytest.mark.parametrize(("way", "mode"), WAYS)
def test_after_the_table_has_changed(lake: hg.Lake, spark: SparkSession, way: str, mode: str) -> None:
    spark.conf.set("spark.headgate.files", way)
    table = filled(lake, spark, partition_by=["p"], properties=modes(mode))
    table.rename_column("v", "amount")
    table.add_column("note", "STRING")
    table.widen_column("amount", "BIGINT")
    table.replace_partition_by(["bucket(2, id)"])
    table.append(spark.sql("SELECT 30L AS id, 'x' AS p, 3000000000L AS amount, 'new' AS note"))
    assert table.delete("amount >= 27").rows == RowCounts(deleted=4)
    assert table.update({"note": "'seen'", "amount": "amount * 1000000000"}, "id < 3 or id = 26").rows
    found = {row.id: row for row in table.read(spark).collect()}
    assert (found[2].note, found[2].amount, found[26].amount) == ("seen", 2_000_000_000, 26_000_000_000)
    assert found[3].note is None
    assert len(rows_of(table, spark)) == 27


# --- what is refused ----------------------------------------------------------------------------------------
WRONG: list[tuple[dict[str, Any], str | None, str]] = [
    ({"vv": "1"}, "id = 1", "there is no column vv"),
    ({"v": "vee + 1"}, "id = 1", "the value of v, vee + 1, cannot be computed: there is no column vee"),
    ({"v": "1 +"}, "id = 1", "the value of v, 1 +, cannot be computed: "),
    ({"v": "sum(v)"}, "id = 1", "the value of v, sum(v), cannot be computed"),
    ({"v": "explode(array(1, 2))"}, "id = 1", "cannot be computed"),
    ({"v": "p", "p": "v"}, "id = 1", "column v is string, but the table has int"),
    ({"v": 5}, "id = 1", "the value of v must be a string of SQL, not the int 5"),
    ({"v": "id * 1000000000000"}, "id = 1", "column v (int) cannot hold 1000000000000"),
    ({"v": "v * 2000000000"}, "id = 2", "overflow"),
    ({"v": "cast(concat('a', p) as int)"}, "id = 1", "The value 'ay' of the type"),
    ({"id": "if(v = 3, null, id)"}, None, "column id is required"),
    ({"v": "1"}, "idd + 1 = 2", "there is no column idd"),
    ({"v": "1"}, "id +", "neither Headgate nor Spark"),
    ({"v": "1"}, "id + 1", "is not a boolean"),
    ({"v": "1"}, "cast(p as int) = 1", "cannot be cast"),
]


def test_wrong_updates(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    before = lake.version
    for values, where, told in WRONG:
        with pytest.raises(hg.InvalidInputError) as caught:
            table.update(values, where)
        assert told in caught.value.problem
        assert "did you mean v" in str(caught.value) or "vv" not in values
    assert lake.version == before


def test_functions_of_python_that_fail(lake: hg.Lake, spark: SparkSession) -> None:
    def boom(value):  # type: ignore[no-untyped-def]  # Spark looks at the types
        raise ValueError(f"boom at {value}")

    def dies(value):  # type: ignore[no-untyped-def]
        os._exit(3)

    table = filled(lake, spark)
    before = lake.version
    with pytest.raises(hg.InvalidInputError, match=r"t\.rows: Spark could not find .* ValueError: boom at 1"):
        table.update({"v": sf.udf(boom, "int")("v")}, "id = 1")
    with pytest.raises(hg.StorageError, match=r"t\.rows: Spark could not find the rows to delete"):
        table.delete(sf.udf(dies, "boolean")("v"))
    assert lake.version == before
    assert len(rows_of(table, spark)) == 30


def test_numbers_that_do_not_fit_are_not_cut(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(hg.InvalidInputError, match=r"column v \(int\) cannot hold 3000000000"):
            table.update({"v": "id * 3000000000"}, "id = 1")
        with pytest.raises(hg.InvalidInputError, match=r"column v \(int\) cannot hold 1\.9"):
            table.update({"v": "id * 1.9D"}, "id = 1")
        assert table.update({"v": "id * 2.0D"}, "id = 1").rows == RowCounts(updated=1)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert table.read_arrow(where="id = 1", columns=["v"]).to_pylist() == [{"v": 2}]


def test_files_without_deletes_are_read_as_they_are(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    table.delete("id = 3")
    assert table.read(spark, where="id >= 15").count() == 15
    assert "LeftAnti" not in _plan(table.read(spark, where="id >= 15"))
    assert "LeftAnti" in _plan(table.read(spark))


def _plan(rows: DataFrame) -> str:
    jdf: Any = rows._jdf
    return str(jdf.queryExecution().executedPlan().toString())
