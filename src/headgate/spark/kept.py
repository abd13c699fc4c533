"""Rows that Spark computes once and keeps, and how much of its memory they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

TASK_BYTES = 64 * 1024 * 1024
"""So much of what is kept is given to one task: what a change finds is little, and spread over many."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows that were computed, and what they take in memory and on the disks of executors.

    Spark keeps them until nobody holds them. They are never computed again: where a part of them is lost with
    an executor, whatever needs it fails, instead of mixing two results.
    """

    rows: DataFrame
    size_bytes: int

    @property
    def tasks(self) -> int:
        """How many tasks they are for."""
        return -(-self.size_bytes // TASK_BYTES) or 1

    def together(self) -> DataFrame:
        """The rows in one task if they are few: then Spark need not exchange them to group them."""
        return self.rows.coalesce(1) if self.tasks == 1 else self.rows


def kept(rows: DataFrame) -> Kept:
    """The rows, computed now and once."""
    done = rows.localCheckpoint()
    return Kept(done, _kept_bytes(done))


def _kept_bytes(rows: DataFrame) -> int:
    jdf: Any = rows._jdf
    number = jdf.queryExecution().analyzed().rdd().id()
    known: Any = rows.sparkSession.sparkContext._jsc.sc().getRDDStorageInfo()
    return sum(info.memSize() + info.diskSize() for info in known if info.id() == number)
