"""Applies database changes as they arrive: inserts, updates and deletes by key, newest change per key.

Run it with `.venv/bin/python examples/cdc_upserts.py`. It works in a temporary directory and needs Java.
"""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

import headgate as hg

spark = hg.session("local[2]")
COLUMNS = "op STRING, position BIGINT, id BIGINT, name STRING, city STRING"


def newest(changes: DataFrame) -> DataFrame:
    """The last change of each key: a merge accepts only one source row for each row of the table."""
    last = sf.row_number().over(Window.partitionBy("id").orderBy(sf.col("position").desc()))
    return changes.withColumn("last", last).where("last = 1").drop("last")


def apply(lake: hg.Lake, batch: int, changes: DataFrame) -> hg.CommitResult:
    """Commits one batch of changes as one version, exactly once."""
    with lake.transaction(["cdc"], app=("cdc", batch)) as tx:
        counts = (
            tx.table("shop.customers")
            .merge(newest(changes), on="t.id = s.id")
            .when_matched_delete(condition="s.op = 'd'")
            .when_matched_update({"name": "s.name", "city": "s.city"})
            .when_not_matched_insert(
                {"id": "s.id", "name": "s.name", "city": "s.city"}, condition="s.op <> 'd'"
            )
            .commit()
        )
        print(f"batch {batch}: {counts}")
    return tx.result


with tempfile.TemporaryDirectory() as directory:
    lake = hg.Lake.init(Path(directory) / "lake")
    customers = lake.create_table(
        "shop.customers", "id BIGINT NOT NULL, name STRING, city STRING", partition_by=["bucket(4, id)"]
    )
    apply(lake, 1, spark.createDataFrame(
        [("c", 1, 1, "Ann", "Oslo"), ("c", 2, 2, "Bob", "Lima"), ("c", 3, 3, "Eve", "Pune")], COLUMNS
    ))  # fmt: skip
    loaded = lake.version
    apply(lake, 2, spark.createDataFrame(
        [
            ("u", 4, 1, "Ann", "Bergen"),
            ("u", 5, 1, "Ann", "Paris"),  # twice in one batch: only the last change counts
            ("d", 6, 2, None, None),
            ("c", 7, 4, "Joe", "Rome"),
            ("d", 8, 9, None, None),  # deletes a row that never existed
        ],
        COLUMNS,
    ))  # fmt: skip

    now = {row.id: row.city for row in customers.read(spark).orderBy("id").collect()}
    print("now:", now)
    assert now == {1: "Paris", 3: "Pune", 4: "Rome"}

    # What a downstream copy needs: the exact changes of the table.
    for change in customers.changes(spark, since=loaded).orderBy("id", "_change_type").collect():
        print(f"  version {change._version}: {change._change_type} {change.id} {change.city}")
