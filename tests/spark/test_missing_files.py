"""Files that are gone, with Spark: it is said why, as without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import headgate as hg
from headgate.storage.requests import all_keys
from headgate.testing.inspector import Inspector

COLUMNS = "id BIGINT, n INT"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([0] * len(ids), pa.int32())})


LOOKS: dict[str, Callable[[hg.Transaction, SparkSession], object]] = {
    "read": lambda tx, spark: tx.table("t.t").read(spark),
    "append": lambda tx, spark: tx.table("t.t").append(tx.table("t.t").read(spark)),
    "delete": lambda tx, _: tx.table("t.t").delete("id = 100"),
    "update": lambda tx, _: tx.table("t.t").update({"n": "n + 1"}, where="id = 100"),
    "upsert": lambda tx, spark: tx.table("t.t").upsert(spark.createDataFrame([(100, 5)], COLUMNS), ["id"]),
    "merge": lambda tx, spark: (
        tx.table("t.t")
        .merge(spark.createDataFrame([(100, 5)], COLUMNS), on="t.id = s.id")
        .when_matched_update()
        .commit()
    ),
    "overwrite": lambda tx, spark: tx.table("t.t").overwrite(
        spark.createDataFrame([(100, 5)], COLUMNS), where="id = 100"
    ),
}


@pytest.mark.parametrize("how", LOOKS)
def test_a_cancelled_transaction_that_misses_its_files_is_told_so(
    lake: hg.Lake, spark: SparkSession, both_ways: str, how: str
) -> None:
    lake.create_table("t.t", COLUMNS).append(rows(1, 2))
    tx = lake.transaction()
    tx.table("t.t").append(rows(100, 101))
    assert lake.vacuum(older_than=timedelta(0)).cancelled == (tx.txid,)
    if (how, both_ways) == ("read", "arrow"):
        require_that_a_worker_says_so(tx, spark)
        return
    with pytest.raises(hg.ConflictError, match="it cancels this transaction") as caught:
        LOOKS[how](tx, spark)
    assert caught.value.next_step, both_ways


def require_that_a_worker_says_so(tx: hg.Transaction, spark: SparkSession) -> None:
    """The workers read when the rows are asked for, and nothing of ours can translate their error."""
    frame = tx.table("t.t").read(spark)
    with pytest.raises(PythonException) as caught:
        frame.collect()
    text = str(caught.value)
    assert "headgate.errors.ConflictError: " in text
    assert f"which transaction {tx.txid} wrote" in text and "so this one was cancelled" in text
    assert "CorruptLakeError" not in text
    with pytest.raises(hg.ConflictError, match="it cancels this transaction"):
        tx.commit()


@pytest.mark.parametrize("value", ["plain", "a/b:c%", "a b", "ü%20", "x", "xx"])
def test_a_missing_file_is_named_however_its_partition_is_encoded(
    lake: hg.Lake, spark: SparkSession, value: str
) -> None:
    table = lake.create_table("t.t", "id BIGINT, p STRING", partition_by=["p"])
    table.append(pa.table({"id": [1], "p": [value]}))
    store = Inspector(lake).store
    (key,) = all_keys(store, "data/t/t/data/")
    table.append(pa.table({"id": [2, 3], "p": ["other", f"{value}x"]}))
    store.delete(key)
    with pytest.raises(hg.CorruptLakeError, match="is missing, but the lake refers to it") as caught:
        table.read(spark).collect()
    assert key in caught.value.problem


def test_a_file_that_somebody_else_deleted_is_damage(lake: hg.Lake, spark: SparkSession) -> None:
    table = lake.create_table("t.t", COLUMNS)
    table.append(rows(1, 2))
    for key in all_keys(Inspector(lake).store, "data/t/t/data/"):
        Inspector(lake).store.delete(key)
    with pytest.raises(hg.CorruptLakeError, match="is missing, but the lake refers to it"):
        table.read(spark)
    with pytest.raises(hg.CorruptLakeError, match="is missing, but the lake refers to it"):
        table.delete("n = 0 AND id = 1")
