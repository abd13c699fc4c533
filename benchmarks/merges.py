"""MERGE of one percent of changed rows into ten million, beside reading the table once and writing it anew.

The changed rows are spread over all files, so that each of them is read. Whoever merges cannot do less than
read the columns that are compared or kept, and write the rows that changed: that is what the merge is
compared with. Writing the table anew is what a lake without row-level changes would do.

    .venv/bin/python -m benchmarks.merges [--quick]
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.page import Bar, Part, run
from benchmarks.spark_io import COLUMNS, made, scanned
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import headgate as hg
from headgate.table import Table

EVERY = 100
"""One row of so many is changed."""


@dataclass
class Bench:
    """A table, and rows that change one of a hundred of its own; each piece of work is timed in turns."""

    spark: SparkSession
    place: Path
    rows: int
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lake = hg.Lake.init(self.place / "lake")
        whole = made(self.spark, self.rows).cache()
        whole.count()
        self.original = self.table("original", whole)
        self.changed = self._changed(whole).localCheckpoint()
        whole.unpersist()

    def table(self, name: str, rows: DataFrame) -> Table:
        table = self.lake.create_table(f"bench.{name}", COLUMNS)
        table.append(rows)
        return table

    def _changed(self, rows: DataFrame) -> DataFrame:
        """As many rows as one of a hundred: nine of ten are in the table, the others are new."""
        row = sf.when(sf.col("id") % (10 * EVERY) == 0, sf.col("id") + self.rows).otherwise(sf.col("id"))
        return rows.where(f"id % {EVERY} = 0").select(
            row.alias("id"), "kind", (sf.col("amount") + 1).alias("amount"), "name", "ts"
        )

    def fresh(self, number: int) -> Table:
        """A table that nobody has changed, which shares its files with no other."""
        return self.table(f"copy_{number}", self.original.read(self.spark))

    def timed(self, name: str, work: Callable[[], object]) -> None:
        os.sync()
        started = time.perf_counter()
        work()
        self.seconds.setdefault(name, []).append(time.perf_counter() - started)

    def round(self, number: int) -> None:
        """Every piece of work once, on tables of its own."""
        spark, original, changed = self.spark, self.original, self.changed
        spare = self.lake.create_table(f"bench.spare_{number}", COLUMNS)
        upserted, merged = self.fresh(2 * number), self.fresh(2 * number + 1)
        self.timed("read the keys", lambda: scanned(original.read(spark, columns=["id"])))
        self.timed("read the table", lambda: scanned(original.read(spark)))
        self.timed("write the changed rows", lambda: spare.append(changed))
        self.timed("write the table anew", lambda: spare.overwrite(original.read(spark)))
        self.timed("upsert", lambda: upserted.upsert(changed, ["id"]))
        self.timed("merge", lambda: _merge(merged, changed))
        self.timed("read after the merge", lambda: scanned(merged.read(spark)))
        assert merged.read(spark).count() == upserted.read(spark).count() > self.rows

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name][1:])

    def cells(self, name: str) -> tuple[str, ...]:
        took = self.median(name)
        read, anew = self.median("read the table"), self.median("write the table anew")
        return (name, f"{took:.2f}", f"{took / read:.2f}", f"{took / anew:.2f}")


def _merge(table: Table, changed: DataFrame) -> object:
    """One column is set, so all others of the rows that match are read."""
    return (
        table.merge(changed, on="t.id = s.id")
        .when_matched_update({"amount": "s.amount"})
        .when_not_matched_insert()
        .commit()
    )


def measure(quick: bool) -> Part:
    rows, rounds = (1_000_000, 2) if quick else (10_000_000, 3)
    spark = hg.session("local[*]", **{"spark.driver.memory": "4g", "spark.ui.enabled": "false"})
    place = Path(tempfile.mkdtemp())
    try:
        bench = Bench(spark, place, rows)
        for number in range(rounds + 1):
            bench.round(number)
    finally:
        spark.stop()
        shutil.rmtree(place)
    written = bench.median("write the changed rows")
    least = bench.median("read the table") + written
    return Part(
        name="merges",
        title="Merges",
        text=f"""
{rows // EVERY:,} rows into {rows:,} of 5 columns, merge-on-read, on a local disk, warm; medians of
rounds, after one that warms up. One of ten rows is new, the others are spread over all files. The merge
sets one column, the upsert all of them, so it reads the keys alone. The promises compare them with one
read of the table, to Spark's `noop` sink, and a write of the changed rows. Each makes a dozen small jobs
of Spark, so the ratio is better the larger the table is.
""",
        columns=("work", "seconds", "of a read", "of a rewrite"),
        rows=[bench.cells(name) for name in bench.seconds],
        bars=(
            Bar("merge, beside one read and a write of the changed rows", bench.median("merge") / least, 1.5),
            Bar(
                "upsert, beside one read and a write of the changed rows", bench.median("upsert") / least, 1.5
            ),
        ),
    )


if __name__ == "__main__":
    sys.exit(run(measure, __doc__))
