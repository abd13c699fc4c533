"""A Spark driver that changes a lake until it is killed. Says what it is about to do, and what it has done.

python -m tests.spark.killed_driver LAKE NUMBER
"""

from __future__ import annotations

import sys
from pathlib import Path

import headgate as hg
from headgate.model.commit_event import CommitEvent
from headgate.steward.hooks.hook import Hook


class Notes:
    """A hook that writes down the events that it was told, one line each."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def run(self, event: CommitEvent) -> None:
        with self.file.open("a") as out:
            out.write(f"{event.id}\n")

    def describe(self) -> str:
        return f"notes {self.file}"


def noting(place: str) -> Hook:
    return Hook("notes", Notes(Path(place).parent / "events.txt"))


def say(what: str, key: int) -> None:
    sys.stdout.write(f"{what} {key}\n")
    sys.stdout.flush()


def main(place: str, driver: int) -> None:
    spark = hg.session("local[1]", **{"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"})
    lake = hg.Lake.open(place, hooks=[noting(place)])
    orders = lake.table("sales.orders")
    for step in range(1_000_000):
        key = driver * 1_000_000 + step
        say("begin", key)
        rows = spark.createDataFrame([(key, driver, "new")], "id BIGINT, driver INT, state STRING")
        with lake.transaction(args=["driver", str(driver)]) as tx:
            tx.table("sales.orders").append(rows)
            tx.table("sales.counts").append(rows.select("id"))
        seen = spark.createDataFrame([(key, driver, "seen")], "id BIGINT, driver INT, state STRING")
        merge = orders.merge(seen, on="t.id = s.id").when_matched_update({"state": "s.state"})
        merge.when_not_matched_insert().commit()
        say("done", key)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
