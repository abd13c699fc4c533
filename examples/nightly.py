"""A nightly pipeline: orders and totals change in one version, and a repeated night is committed once.

Run it with `.venv/bin/python examples/nightly.py`. It works in a temporary directory and needs Java.
"""

import tempfile
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import headgate as hg

spark = hg.session("local[2]")
FIRST_NIGHT = date(2026, 11, 14)


def sold_on(day: date) -> DataFrame:
    """The sales of one day; a real pipeline reads files or a database here."""
    return spark.range(200).select(
        (sf.col("id") + day.toordinal() * 1000).alias("id"),
        sf.lit(day).alias("day"),
        (sf.col("id") % 7).alias("customer"),
        (sf.col("id") % 50 / 2).alias("amount"),
    )


def run_night(lake: hg.Lake, day: date) -> hg.CommitResult:
    """Loads one day and updates the totals, in one version. Safe to run again at any time."""
    number = (day - FIRST_NIGHT).days + 1
    with lake.transaction(["nightly", str(day)], app=("nightly", number)) as tx:
        orders, totals = tx.table("sales.orders"), tx.table("sales.totals")
        orders.overwrite(sold_on(day), where=f"day = '{day}'")
        # Reads inside the transaction see the rows that it has written.
        summed = orders.read(spark).groupBy("customer").agg(sf.sum("amount").alias("amount"))
        totals.overwrite(summed)
    return tx.result


with tempfile.TemporaryDirectory() as directory:
    lake = hg.Lake.init(Path(directory) / "lake")
    with lake.transaction(["setup"]) as tx:
        tx.create_table("sales.orders", sold_on(FIRST_NIGHT).schema, partition_by=["day"])
        tx.create_table("sales.totals", "customer BIGINT, amount DOUBLE")

    for night in range(3):
        done = run_night(lake, FIRST_NIGHT + timedelta(days=night))
        print(f"night {night + 1}: version {done.version}")

    # The scheduler did not receive the success, so it runs the last night again.
    again = run_night(lake, FIRST_NIGHT + timedelta(days=2))
    print("run again:", "was committed before" if again.already_committed else "doubled!")
    assert again.already_committed

    # At every version, the totals match the orders.
    for version in range(2, lake.version + 1):
        view = lake.at(version=version)
        sums = [
            view.table(name).read(spark).agg(sf.sum("amount")).collect()[0][0]
            for name in ("sales.orders", "sales.totals")
        ]
        print(f"version {version}: orders {sums[0]}, totals {sums[1]}")
        assert sums[0] == sums[1]

    # A correction of one day would not even read the files of other days.
    print(lake.table("sales.orders").plan("day = '2026-11-15'").describe())
