"""`${…}` in predicates, in expressions and in names that a lake contains stays what it is.

Spark replaces it by settings and environment variables where it reads SQL with the parser of the session.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.errors import InvalidInputError
from headgate.spark.change import rewrite as rewriting
from headgate.spark.change.rewrite import SparkRewriter
from headgate.spark.sql.columns import as_column
from headgate.storage.local import LocalStore
from tests.hostile.crafting import rename_files

SECRET = "swordfish"
"""The value of a setting that strings below name."""
TEXTS = ("${env:HOME}", "${spark.headgate.hidden}", "${system:user.dir}", "${spark.app.name}", "$x")
OTHERS = (SECRET, os.environ["HOME"])
"""Rows that Spark would confuse with those."""


@pytest.fixture(autouse=True)
def secret(spark: SparkSession) -> Any:
    spark.conf.set("spark.headgate.hidden", SECRET)
    yield
    spark.conf.unset("spark.headgate.hidden")


def texts_of(table: hg.Table) -> set[str]:
    return set(table.read_arrow().column("name").to_pylist())


def made(lake: hg.Lake, name: str = "a.t") -> hg.Table:
    table = lake.create_table(name, "id BIGINT, name STRING")
    names = [*TEXTS, *OTHERS]
    table.append(pa.table({"id": pa.array(range(len(names)), pa.int64()), "name": names}))
    return table


def test_spark_would_replace_it(spark: SparkSession) -> None:
    assert spark.sql("SELECT '${spark.headgate.hidden}'").collect() == [(SECRET,)]
    assert spark.range(1).select(as_column(spark, "'${spark.headgate.hidden}'")).collect() == [(TEXTS[1],)]


@pytest.mark.parametrize("text", TEXTS)
def test_a_read_selects_the_row_that_it_names(
    lake: hg.Lake, spark: SparkSession, both_ways: str, text: str
) -> None:
    table = made(lake)
    for where in (f"name = '{text}'", f"concat(name, '') = '{text}'"):
        assert [row["name"] for row in table.read(spark, where=where).collect()] == [text]
    assert table.read_arrow(where=f"name = '{text}'").column("name").to_pylist() == [text]


@pytest.mark.parametrize("text", TEXTS[:2])
def test_changes_are_made_to_the_row_that_they_name(lake: hg.Lake, spark: SparkSession, text: str) -> None:
    table, others = made(lake), {*TEXTS, *OTHERS} - {text}
    where = f"concat(name, '') = '{text}'"
    rows = table.update({"name": f"concat('{text}', '!')"}, where=where).rows
    assert rows is not None and rows.updated == 1
    assert texts_of(table) == {*others, f"{text}!"}
    table.delete(f"concat(name, '') = '{text}!'")
    assert texts_of(table) == others
    table.overwrite(spark.createDataFrame([(9, text)], "id BIGINT, name STRING"), where=f"name = '{text}'")
    assert texts_of(table) == {*others, text}
    wrong = spark.createDataFrame([(9, SECRET)], "id BIGINT, name STRING")
    with pytest.raises(InvalidInputError, match="does not match"):
        table.overwrite(wrong, where=f"name = '{text}'")


def test_a_merge_compares_and_assigns_it(lake: hg.Lake, spark: SparkSession) -> None:
    table, text = made(lake), TEXTS[1]
    source = spark.createDataFrame([(1, "x"), (70, "y")], "id BIGINT, name STRING")
    merge = table.merge(source, on=f"t.id = s.id AND t.name = '{text}'")
    merge = merge.when_matched_update({"name": f"concat('{text}', s.name)"}, condition=f"t.name = '{text}'")
    merge.when_not_matched_insert(condition=f"'{text}' != '{SECRET}'").commit()
    assert texts_of(table) == {*TEXTS, *OTHERS, "y", f"{text}x"} - {text}


def test_a_name_of_a_column_is_not_replaced(lake: hg.Lake, spark: SparkSession) -> None:
    table = lake.create_table("a.t", "`${spark.headgate.hidden}` BIGINT, swordfish BIGINT")
    table.append(pa.table({"${spark.headgate.hidden}": [1], SECRET: [2]}))
    assert table.read(spark, where="`${spark.headgate.hidden}` = 1").count() == 1
    assert table.read(spark, where="`${spark.headgate.hidden}` = 2").count() == 0
    table.update({"${spark.headgate.hidden}": "abs(swordfish)"})
    assert table.read(spark).collect() == [(2, 2)]


def test_expressions_are_read_with_the_settings_of_their_session(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    other.conf.set("spark.sql.ansi.enabled", "true")
    assert spark.range(1).select(as_column(spark, '"id"')).collect() == [("id",)]
    assert other.range(1).select(as_column(other, '"id"')).collect() == [(0,)]
    assert spark.range(1).select(as_column(spark, '"id"')).collect() == [("id",)]


def test_an_expression_that_is_nested_too_deeply(lake: hg.Lake, spark: SparkSession) -> None:
    table = made(lake)
    with pytest.raises(InvalidInputError, match="StackOverflowError"):
        table.read(spark, where="- " * 30_000 + "id = 1")


@pytest.mark.parametrize("way", ["native", "arrow"])
@pytest.mark.parametrize("text", TEXTS[:2])
def test_a_compaction_copies_no_secret_into_the_lake(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, way: str
) -> None:
    """A manifest names files in a directory that is called like a variable of the reader."""
    root = tmp_path / "lake"
    table = hg.Lake.init(LocalStore(root, fsync=False), divisor=2).create_table("t.t", "id BIGINT")
    for number in range(4):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    for file in list((root / "data/t/t/data").rglob("*.parquet")):
        (file.parent / text).mkdir()
        file.rename(file.parent / text / file.name)
    rename_files(root, lambda uri: "/".join([*uri.split("/")[:-1], text, uri.split("/")[-1]]))
    monkeypatch.setattr(rewriting, "SparkRewriter", partial(SparkRewriter, worker_bytes=0))
    spark.conf.set("spark.headgate.files", way)
    lake = hg.Lake.open(root)
    lake.compact(spark)
    origins = [
        origin
        for file in (root / "data/t/t/data").glob("L[1-9]*/**/*.parquet")
        for origin in pq.ParquetFile(file).read().column("_headgate_origin_file").to_pylist()
    ]
    assert len(origins) >= 2
    assert all(text in origin and SECRET not in origin for origin in origins)
    assert sorted(lake.table("t.t").read_arrow().column("id").to_pylist()) == [0, 1, 2, 3]
