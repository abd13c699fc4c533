"""A small pipeline: a Spark batch, a correction, a new column, and a query of an earlier version.

Run it with `.venv/bin/python examples/spark_pipeline.py`. It works in a temporary directory and needs Java.
"""

import tempfile
from pathlib import Path

from pyspark.sql import functions as sf

import headgate as hg

spark = hg.session("local[2]")

with tempfile.TemporaryDirectory() as directory:
    lake = hg.Lake.init(Path(directory) / "lake")

    raw = spark.range(10_000).select(
        "id",
        (sf.col("id") % 97).alias("customer"),
        sf.timestamp_seconds(sf.lit(1_763_200_000) + sf.col("id") * 60).alias("ts"),
        (sf.col("id") % 500 / 4).alias("amount"),
    )

    # Orders and their totals become visible together, or not at all.
    with lake.transaction(["load"], app=("loader", 1)) as tx:
        made = tx.create_table("sales.orders", raw.schema, partition_by=["day(ts)"], sort_by=["customer"])
        made.append(raw)
        totals = raw.groupBy("customer").agg(sf.sum("amount").alias("total"))
        tx.create_table("sales.totals", totals.schema).append(totals)
    print("loaded as version", tx.result.version)
    lake.tag("first-load")

    # One day was wrong. Replace exactly its rows; the files of other days are not even read.
    orders = lake.table("sales.orders")
    day = "day(ts) = '2025-11-16'"
    corrected = orders.read(spark, where=day).withColumn("amount", sf.col("amount") * 2)
    print("corrected as version", orders.overwrite(corrected, where=day).version)
    print(orders.plan(day).describe())

    # A new column is null in existing rows.
    orders.add_column("channel", "STRING", doc="where the order came from")
    orders.append(raw.where("id < 5").withColumn("channel", sf.lit("web")))

    lake.sql(
        spark,
        """
        SELECT now.channel, count(*) AS orders, round(sum(now.amount)) AS amount
        FROM sales.orders AS now GROUP BY now.channel ORDER BY orders DESC
        """,
    ).show()
    lake.at(tag="first-load").sql(spark, "SELECT count(*) AS at_first FROM sales.orders").show()
