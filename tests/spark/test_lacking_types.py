"""Tables with types that Spark lacks, while a session is active: their rows are changed without Spark."""

from __future__ import annotations

from datetime import time

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import headgate as hg
from headgate.lake.table import Table
from headgate.model.reports import RowCounts
from headgate.transaction import engines

MODES = ("merge-on-read", "copy-on-write")


def rows(*ids: int) -> pa.Table:
    times = pa.array([time(1, 2, 3)] * len(ids), pa.time64("us"))
    keys = pa.array([bytes([number] * 16) for number in ids], pa.uuid())
    return pa.table({"id": pa.array(ids, pa.int64()), "at": times, "key": keys})


def a_table(lake: hg.Lake, mode: str) -> Table:
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    table = lake.create_table("t.t", "id BIGINT, at TIME, key UUID", properties=properties)
    table.append(rows(1, 2, 3))
    return table


def ids(table: Table) -> list[int]:
    return sorted(table.read_arrow()["id"].to_pylist())


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_changed_without_spark(lake: hg.Lake, spark: SparkSession, mode: str) -> None:
    table = a_table(lake, mode)
    assert table.delete("id = 1").rows == RowCounts(deleted=1)
    assert table.update({"id": "id + 10"}, where="id = 2").rows == RowCounts(updated=1)
    assert table.upsert(rows(3, 4), ["id"]).rows == RowCounts(updated=1, inserted=1)
    table.overwrite(rows(4), where="id = 4")
    assert ids(table) == [3, 4, 12]
    with lake.transaction() as tx:
        tx.table("t.t").append(rows(5))
        tx.table("t.t").delete("id >= 4 AND id < 10")
    assert ids(table) == [3, 12]


@pytest.mark.parametrize("mode", MODES)
def test_a_session_that_begins_before_the_commit_is_no_matter(
    lake: hg.Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    table = a_table(lake, mode)
    tx = lake.transaction()
    with monkeypatch.context() as before_the_session:
        before_the_session.setattr(engines, "_running_session", lambda: None)
        tx.table("t.t").delete("id = 1")
    tx.commit()
    assert ids(table) == [2, 3]


def test_what_only_spark_can_compute_is_refused_and_says_why(lake: hg.Lake, spark: SparkSession) -> None:
    table = a_table(lake, MODES[0])
    with pytest.raises(hg.UnsupportedError, match="only Spark can evaluate") as caught:
        table.delete(sf.col("id") == 1)
    assert "types that Spark lacks" in str(caught.value.next_step)
    with pytest.raises(hg.UnsupportedError, match="only Spark can compute"):
        table.update({"id": sf.col("id") + 1}, where="id = 1")
    assert ids(table) == [1, 2, 3]
