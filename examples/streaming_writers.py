"""Two streams write to one table at once. Each batch is committed exactly once, even if it is run again.

Run it with `.venv/bin/python examples/streaming_writers.py`. It works in a temporary directory and needs
Java.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import headgate as hg

spark = hg.session("local[2]")
SHOPS = ("north", "south")
FILES, ROWS = 2, 5


def receive(inbox: Path, shop: str) -> None:
    """Creates files that arrive from a shop."""
    inbox.mkdir(parents=True)
    for number in range(FILES):
        rows = [{"id": number * ROWS + row, "shop": shop, "amount": row / 2} for row in range(ROWS)]
        (inbox / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))


def write_to(place: Path, shop: str) -> Any:
    """Returns the function that a stream calls for each of its batches."""
    lake = hg.Lake.open(place)

    def write(batch: DataFrame, number: int) -> None:
        # A restarted stream repeats a batch with the same number, so it is not committed again.
        with lake.transaction([f"stream {shop}"], app=(f"stream-{shop}", number)) as tx:
            tx.table("sales.orders").append(batch)
        told = "was there already" if tx.result.already_committed else f"version {tx.result.version}"
        print(f"  {shop}, batch {number}: {told}")

    return write


with tempfile.TemporaryDirectory() as directory:
    root = Path(directory)
    place = root / "lake"
    lake = hg.Lake.init(place)
    orders = lake.create_table("sales.orders", "id BIGINT, shop STRING, amount DOUBLE", partition_by=["shop"])

    streams = []
    for shop in SHOPS:
        receive(root / "inbox" / shop, shop)
        source = (
            spark.readStream.schema("id BIGINT, shop STRING, amount DOUBLE")
            .option("maxFilesPerTrigger", 1)
            .json(str(root / "inbox" / shop))
        )
        writer = source.writeStream.foreachBatch(write_to(place, shop)).trigger(availableNow=True)
        streams.append(writer.option("checkpointLocation", str(root / "checkpoints" / shop)).start())
    for stream in streams:
        stream.awaitTermination()

    # A driver died after its commit, but before Spark recorded the batch, so Spark runs the batch again.
    write_to(place, "north")(orders.read(spark).where("shop = 'north'").limit(ROWS), FILES - 1)

    print("rows by shop:", {row.shop: row.n for row in lake.sql(
        spark, "SELECT shop, count(*) AS n FROM sales.orders GROUP BY shop ORDER BY shop"
    ).collect()})  # fmt: skip
    assert orders.read(spark).count() == len(SHOPS) * FILES * ROWS
    for entry in lake.log(table="sales.orders", kind="append"):
        print(f"  version {entry.version}: {entry.app}")
