"""Rows that Spark computes once and keeps, and how much of its memory they take."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

TASK_BYTES = 64 * 1024 * 1024
"""So much of what is kept is given to one task: what a change finds is little, and spread over many."""
NOBODY_KNOWS = sys.maxsize
PATIENCE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows that were computed, and what they take in memory and on the disks of executors, by estimate.

    Spark keeps them until nobody holds them. They are never computed again: where a part of them is lost with
    an executor, whatever needs it fails, instead of mixing two results.
    """

    rows: DataFrame
    size_bytes: int
    is_on_disk: bool = False

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
    info = _storage(done)
    if info is None:
        return Kept(done, NOBODY_KNOWS)
    on_disk = info.diskUsed()
    return Kept(done, info.memoryUsed() + on_disk, on_disk > 0)


def _storage(rows: DataFrame) -> Any | None:
    """What Spark knows of rows that were computed, once it knows of all of them; None if it does not."""
    jdf: Any = rows._jdf
    number = jdf.queryExecution().analyzed().rdd().id()
    context: Any = rows.sparkSession.sparkContext._jsc.sc()
    try:
        if not _is_complete(context.statusStore().rdd(number)):
            # It hears of what executors keep a moment later.
            context.listenerBus().waitUntilEmpty(PATIENCE_MS)
        info = context.statusStore().rdd(number)
    except Py4JJavaError:  # it has not heard of them, or has too much to hear
        return None
    return info if _is_complete(info) else None


def _is_complete(info: Any) -> bool:
    return bool(info.numCachedPartitions() == info.numPartitions())
