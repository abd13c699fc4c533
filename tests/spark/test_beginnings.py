"""Operations that need Spark, on a stale handle: see `tests/isolation/test_beginnings.py`."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.system.host import SystemHost
from headgate.testing.inspector import Inspector
from tests.isolation.beginnings import DDL, TABLE, WITH_SPARK, rows


@pytest.mark.parametrize("name", WITH_SPARK)
def test_what_commits_begins_on_the_newest_version(lake: hg.Lake, spark: SparkSession, name: str) -> None:
    table = lake.create_table(TABLE, DDL)
    table.append(rows(0, 1))
    lake.create_materialized_view(spark, "a.stale", "SELECT id FROM a.b")
    stale = hg.Lake.open(lake.place, host=SystemHost())
    seen = table.append(rows(7)).version
    WITH_SPARK[name](stale, spark)
    newest = Inspector(lake).refresh()
    (record,) = Inspector(lake).handle.log.records_down(newest, newest.version.number - seen)
    assert record.base.number >= seen
