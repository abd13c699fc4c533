"""A merge by Spark that dies at every request of its driver. Then somebody recovers, and all is as it should.

Spark's own reads and writes of data files are not requests of the driver; whatever they leave behind when it
dies is in a directory of the transaction, which nobody references.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.steward.hooks.hook import Hook
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.testing.intercept import intercepted
from tests.steward.crashes import deaths, restored
from tests.steward.test_crash_sweep import DIVISOR, Told, content, opened, require_whole, rows

BASE = 3


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A lake whose next version ends a window, so that a checkpoint and looking back are due as well."""
    place = tmp_path / "lake"
    lake = hg.Lake.init(LocalStore(place, fsync=False), divisor=DIVISOR)
    for name in ("a.b", "a.c"):
        lake.create_table(name, "id BIGINT, name STRING")
    lake.table("a.b").append(rows(1, 2, 3))
    assert lake.version == BASE
    shutil.copytree(place, tmp_path / "backup")
    return tmp_path / "backup"


def merge(lake: hg.Lake, spark: SparkSession) -> None:
    source = spark.createDataFrame([(2, "two"), (50, "fifty")], "id bigint, name string")
    merging = lake.table("a.b").merge(source, on="t.id = s.id")
    merging.when_matched_update().when_not_matched_insert().commit()


def test_a_merge_by_spark_that_dies_anywhere(backup: Path, tmp_path: Path, spark: SparkSession) -> None:
    seen = set()
    old = [(1, "n1"), (2, "n2"), (3, "n3")]
    merged = [(1, "n1"), (2, "two"), (3, "n3"), (50, "fifty")]
    sweep = deaths(
        partial(restored, tmp_path / "lake", backup),
        lambda dying: merge(opened(dying, Hook("told", Told())), spark),
    )
    for store, death in sweep:
        told = Told()
        lake = opened(store, Hook("told", told))
        report = lake.recover()
        seen.add(lake.version)
        assert content(lake)["a.b"] == (old if lake.version == BASE else merged), death
        require_whole(lake)
        if lake.version > BASE:
            entry = lake.control(BASE + 1)
            assert entry is not None and not entry.open_hooks
            assert told.events == [f"{lake.id}-{BASE + 1}"] * bool(report.hooks_done)
        assert not lake.recover().changed
        assert lake.fsck().ok, death
        if not death.came:
            assert lake.version == BASE + 1 and not report.changed
    assert seen == {BASE, BASE + 1}


def test_what_only_this_process_reaches_is_changed_by_this_process(spark: SparkSession) -> None:
    """Also through what stands before a lake in memory, while a session is active."""
    lake = hg.Lake.init(intercepted(MemoryStore("here"), lambda request, proceed: proceed(request)))
    table = lake.create_table("a.b", "id BIGINT, name STRING")
    table.append(rows(1, 2, 3))
    table.upsert(pa.table({"id": [2, 50], "name": ["two", "fifty"]}), keys=["id"])
    table.delete("id = 1")
    assert content(lake)["a.b"] == [(2, "two"), (3, "n3"), (50, "fifty")]
    with pytest.raises(hg.UnsupportedError, match="Spark cannot reach memory://here: only this process can"):
        table.read(spark)
    with pytest.raises(hg.UnsupportedError, match="only this process can"):
        table.append(spark.createDataFrame([(9, "nine")], "id bigint, name string"))


def test_what_stands_before_a_store_stays_in_this_process(
    tmp_path: Path, spark: SparkSession, both_ways: str
) -> None:
    """Spark's workers ask the store itself: an interceptor cannot travel, and need not."""
    place = intercepted(LocalStore(tmp_path / "lake"), lambda request, proceed: proceed(request))
    table = hg.Lake.init(place).create_table("a.b", "id BIGINT, name STRING")
    table.append(spark.createDataFrame([(1, "n1"), (2, "n2")], "id bigint, name string"))
    merge(table._lake, spark)
    assert sorted(map(tuple, table.read(spark).collect())) == [(1, "n1"), (2, "two"), (50, "fifty")]
