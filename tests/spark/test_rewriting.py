"""Files rewritten by Spark: the same rows, in order, in files that tell where each row was."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyspark.sql import SparkSession

import headgate as hg
from headgate.arrow.data_files import read_rows
from headgate.arrow.origins import locate_moved
from headgate.arrow.rewrite import ArrowRewriter
from headgate.iceberg.format.data_file import partition_key
from headgate.iceberg.format.directories import Target
from headgate.iceberg.format.positions import Positions
from headgate.iceberg.scan.engine import Clustering, RewriteGroup, Rewritten
from headgate.iceberg.scan.planning import PlannedFile
from headgate.model.identifiers import TxId, Window
from headgate.spark.change import rewrite as rewriting
from headgate.spark.change.rewrite import SparkRewriter
from headgate.spark.store.hadoop import HadoopStore
from headgate.storage.local import LocalStore
from headgate.testing.inspector import Inspector
from headgate.transaction.rewrite import Rewriting

DDL = """
    n BIGINT, part STRING, a BOOLEAN, b INT, c FLOAT, d DOUBLE, e DECIMAL(9, 2), f DECIMAL(38, 10), g DATE,
    h TIMESTAMP, i TIMESTAMP_NTZ, j BINARY, `odd name` STRING, s STRUCT<x: INT, y: STRUCT<z: STRING>>
"""
LISTS = ", l ARRAY<BIGINT>, m MAP<STRING, DOUBLE>, k ARRAY<STRUCT<k: MAP<INT, ARRAY<STRING>>>>"
WINDOW = Window(1, 10, 1)


def a_row(number: int) -> dict[str, Any]:
    """Each value is null in some row, alone."""
    values: dict[str, Any] = {
        "a": number % 2 == 0,
        "b": -number,
        "c": [math.nan, -0.0, 0.5 * number][number % 3],
        "d": [math.inf, math.nan, -0.25 * number][number % 3],
        "e": Decimal(number) / 4,
        "f": Decimal(f"{number}12345678901234567890.5"),
        "g": date(1960 + number, 1, 2),
        "h": datetime(1960 + number, 1, 2, 3, tzinfo=UTC),
        "i": datetime(1960 + number, 1, 2, 3),
        "j": bytes([number, 0, 255]),
        "odd name": f"ü{number}",
        "s": {"x": number, "y": {"z": None if number % 2 else "z"}},
        "l": [[number, None], [], [None, number]][number % 3],
        "m": [[("a", None), ("b", 1.0 * number)], [], [("b", 2.0)]][number % 3],
        "k": [[{"k": [(1, ["x", None])]}, None], [], [None]][number % 3],
    }
    names = list(values)
    missing = {names[number % len(names)]: None}
    return {"n": number, "part": "ab"[number % 2], **values, **missing}


def made(lake: hg.Lake, ddl: str, properties: dict[str, str], **how: Any) -> hg.Table:
    table = lake.create_table("t.t", ddl, properties=properties, **how)
    arrow = schema_to_pyarrow(table.schema, include_field_ids=False)
    for start in range(0, 60, 20):
        rows = [a_row(number) for number in range(start, start + 20)]
        table.append(pa.table({f.name: pa.array([r[f.name] for r in rows], f.type) for f in arrow}))
    return table


class Place:
    """A table, and what a transaction would need to rewrite its files."""

    def __init__(self, table: hg.Table, deleted: str | None = "n = 7 or n = 30") -> None:
        if deleted is not None:
            table.delete(deleted)
        view = table._view()
        self.files = view.files()
        self.target = Target(
            Inspector(table._lake).driver,
            view.loader,
            view.metadata,
            TxId("0123456789abcdef" * 2),
            table.name,
        )

    def groups(self) -> list[RewriteGroup]:
        places: dict[object, list[PlannedFile]] = {}
        for planned in self.files:
            place = (planned.file.spec_id, partition_key(planned.file.partition))
            places.setdefault(place, []).append(planned)
        return [RewriteGroup(str(place), WINDOW, tuple(files)) for place, files in places.items()]

    def rows(self, done: Rewritten) -> list[dict[str, Any]]:
        """The rows of new files, in their order."""
        files = [PlannedFile(file, 0, all_match=False) for file in done.files]
        schema = self.target.metadata.schema
        found: list[dict[str, Any]] = read_rows(
            self.target.driver, self.target.loader, files, schema
        ).to_pylist()
        return found

    def rewrite(
        self, spark: SparkSession, clustering: Clustering | None = None, worker_bytes: int = 0
    ) -> list[Rewritten]:
        """By Spark, or by its workers if they may hold so much."""
        done = list(SparkRewriter(spark, worker_bytes).rewrite(self.target, self.groups(), clustering))
        assert len(done) == len(self.groups())
        for group, one in zip(self.groups(), done, strict=True):
            assert one.before == one.after
            assert one.before.rows == sum(file.record_count for file in one.files)
            assert {file.partition for file in one.files} <= {group.files[0].file.partition}
            assert {file.spec_id for file in one.files} <= {group.files[0].file.spec_id}
            assert all("/L1-1-10-" in file.path for file in one.files)
        return done


def shown(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows as texts: NaN is not equal to itself."""
    return sorted(map(str, rows))


def expected(place: Place, group: RewriteGroup) -> list[str]:
    schema = place.target.metadata.schema
    return shown(read_rows(place.target.driver, place.target.loader, group.files, schema).to_pylist())


@pytest.mark.parametrize("lists", [False, True], ids=["plain", "lists"])
def test_rows_of_every_type_stay_what_they_are(
    lake: hg.Lake, spark: SparkSession, both_ways: str, lists: bool
) -> None:
    spark.conf.set("spark.headgate.files", "auto" if both_ways == "native" else "arrow")
    place = Place(made(lake, DDL + LISTS if lists else DDL, {}, partition_by=["part"]))
    for group, done in zip(place.groups(), place.rewrite(spark), strict=True):
        found = place.rows(done)
        assert shown(found) == expected(place, group)
        assert len(done.files) == 1
        # Without an order, rows stay as they came.
        assert [row["n"] for row in found] == sorted(row["n"] for row in found)
        # NaN is counted, so that bounds can be trusted.
        assert set(done.files[0].metrics.nans) == {5, 6}


def test_rows_are_sorted_as_the_table_is_and_tell_where_they_were(
    lake: hg.Lake, spark: SparkSession, both_ways: str
) -> None:
    table = made(lake, DDL, {"write.target-file-size-bytes": "4000"}, sort_by=["n desc"])
    place = Place(table)
    (done,) = place.rewrite(spark)
    assert len(done.files) > 2
    assert {file.sort_order_id for file in done.files} == {1}
    by_file = [[row["n"] for row in place.rows(replace(done, files=(file,)))] for file in done.files]
    for numbers in by_file:
        assert numbers == sorted(numbers, reverse=True)
    ranges = sorted((min(numbers), max(numbers)) for numbers in by_file)
    assert all(one[1] < other[0] for one, other in pairwise(ranges))
    # Row 34 was the sixth of the second file, which is sorted too.
    origin = place.files[1].file.path
    now = locate_moved(place.target.driver, place.target.loader, done.files, Positions.of({origin: [5]}))
    assert now is not None
    ((path, positions),) = now.by_file.items()
    at = next(file for file in done.files if file.path == path)
    assert place.rows(replace(done, files=(at,)))[next(iter(positions))]["n"] == 34


@pytest.mark.parametrize("zorder", [False, True], ids=["sorted", "z-order"])
def test_a_clustering_by_spark_is_that_of_arrow(lake: hg.Lake, spark: SparkSession, zorder: bool) -> None:
    place = Place(made(lake, DDL, {}, partition_by=["part"]))
    clustering = Clustering(("d", "odd name", "n"), zorder)
    there = list(ArrowRewriter().rewrite(place.target, place.groups(), clustering))
    for done, other in zip(place.rewrite(spark, clustering), there, strict=True):
        assert list(map(str, place.rows(done))) == list(map(str, place.rows(other)))
        assert {file.sort_order_id for file in done.files} == {0}


def test_small_groups_are_rewritten_by_workers_in_one_job(lake: hg.Lake, spark: SparkSession) -> None:
    place = Place(made(lake, DDL + LISTS, {}, partition_by=["bucket(8, n)"], sort_by=["n desc"]))
    context: Any = spark.sparkContext
    context.setJobGroup("small groups", "small groups")
    done = place.rewrite(spark, worker_bytes=1 << 30)
    assert len(context.statusTracker().getJobIdsForGroup("small groups")) == 1
    context.setLocalProperty("spark.jobGroup.id", None)
    for group, one in zip(place.groups(), done, strict=True):
        found = place.rows(one)
        assert shown(found) == expected(place, group)
        assert [row["n"] for row in found] == sorted((row["n"] for row in found), reverse=True)


def test_groups_of_both_sizes_come_in_their_order(lake: hg.Lake, spark: SparkSession) -> None:
    table = made(lake, DDL, {}, partition_by=["part"])
    table.append(pa.table({"n": list(range(100, 3000)), "part": ["a"] * 2900}))
    place = Place(table)
    sizes = [sum(planned.file.size_bytes for planned in group.files) for group in place.groups()]
    done = place.rewrite(spark, worker_bytes=min(sizes))
    assert min(sizes) < max(sizes)
    for group, one in zip(place.groups(), done, strict=True):
        assert shown(place.rows(one)) == expected(place, group)


def test_where_workers_do_not_reach_groups_of_a_window_are_one_write(
    lake: hg.Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on HDFS: told that this storage is such, Spark writes all groups of a window together."""
    place = Place(made(lake, DDL, {}, partition_by=["bucket(8, n)"], sort_by=["n desc"]))
    monkeypatch.setattr(rewriting, "HadoopStore", LocalStore)
    done = place.rewrite(spark, Clustering(("b",)), worker_bytes=1 << 30)
    assert len({file.path.split("/headgate_group=")[0] for one in done for file in one.files}) == 1
    for group, one in zip(place.groups(), done, strict=True):
        found = place.rows(one)
        assert len(one.files) == 1
        assert shown(found) == expected(place, group)
        known = [row["b"] for row in found if row["b"] is not None]
        assert [row["b"] for row in found] == [None] * (len(found) - len(known)) + sorted(known)


def test_files_of_an_old_spec_and_schema_are_rewritten_in_it(lake: hg.Lake, spark: SparkSession) -> None:
    table = made(lake, DDL, {}, partition_by=["part"])
    table.replace_partition_by(["bucket(2, n)"])
    table.drop_column("b")
    table.rename_column("a", "was_a")
    table.add_column("b", "STRING")
    place = Place(table)
    for group, done in zip(place.groups(), place.rewrite(spark), strict=True):
        assert group.files[0].file.spec_id == done.files[0].spec_id == 0
        assert shown(place.rows(done)) == expected(place, group)


def test_a_group_of_which_all_rows_are_deleted_leaves_no_file(lake: hg.Lake, spark: SparkSession) -> None:
    table = made(lake, DDL, {})
    table.delete("n >= 20 and n < 39")
    place = Place(table, "n = 39")
    groups = [replace(place.groups()[0], files=tuple(file for file in place.files if file.deletes))]
    for worker_bytes in (0, 1 << 30):
        (done,) = SparkRewriter(spark, worker_bytes).rewrite(place.target, groups, None)
        assert (done.files, done.before.rows, done.after.rows) == ((), 0, 0)


# --- through the log ----------------------------------------------------------------------------------------


Rewrite = Callable[[hg.Table], None]


def test_a_rewrite_by_spark_carries_row_deletes(lake: hg.Lake, spark: SparkSession) -> None:
    table = made(lake, DDL, {}, sort_by=["n desc"])
    place = Place(table, None)
    tx = lake.transaction()
    groups = [replace(group, window=Window(1, 4, 1)) for group in place.groups()]
    tx.table("t.t")._rewrite(lambda _: Rewriting(groups, SparkRewriter(spark, 0)))
    hg.Lake.open(Inspector(lake).store).table("t.t").delete("n in (3, 33, 59)")
    tx.commit()
    assert [row.n for row in table.read(spark).orderBy("n").collect()] == [
        n for n in range(60) if n not in (3, 33, 59)
    ]


@pytest.mark.parametrize("on_hadoop", [False, True])
def test_types_that_spark_has_not_are_rewritten_through_arrow(
    tmp_path: Path, spark: SparkSession, on_hadoop: bool
) -> None:
    """Workers do not reach a Hadoop file system, and Spark cannot read the column: this process does both."""
    place = HadoopStore(spark, f"file://{tmp_path}/lake") if on_hadoop else tmp_path / "lake"
    lake = hg.Lake.init(place, divisor=2)
    columns = pa.schema([("id", pa.int64()), ("at", pa.time64("us"))])
    table = lake.create_table("t.times", columns, partition_by=["bucket(2, id)"])
    for number in range(4):
        at = pa.array([dt.time(number), None], pa.time64("us"))
        table.append(pa.table({"id": pa.array([number, 10 + number]), "at": at}))
    before = sorted(table.read_arrow().to_pylist(), key=repr)
    report = lake.compact()
    assert report.files_in > report.files_out > 0
    assert sorted(table.read_arrow().to_pylist(), key=repr) == before
    assert table.cluster(spark, by=["at"]).changed
    assert sorted(table.read_arrow().to_pylist(), key=repr) == before
