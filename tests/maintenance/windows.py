"""Compaction of windows in tests: files of a table put together, as a compactor would do it."""

from __future__ import annotations

import headgate as hg
from headgate.arrow.rewrite import ArrowRewriter
from headgate.core.compaction.windows import window_of
from headgate.iceberg.format.data_file import partition_key
from headgate.iceberg.scan.engine import RewriteGroup
from headgate.iceberg.scan.planning import PlannedFile
from headgate.transaction.rewrite import Rewriting
from tests.compactions import live_files


def compact_window(lake: hg.Lake, table: str, level: int, last: int) -> int | None:
    """Compacts the files that lie in the window of `level` that ends at `last`; None if there are too few."""
    window = window_of(last, level, lake.divisor)
    tx = lake.transaction()
    writer = tx.table(table)
    inside = [
        planned
        for planned in live_files(writer)
        if window.holds(planned.covers) and planned.covers.level < window.level
    ]
    if len(inside) < 2 and not any(planned.as_of(window.last).deletes for planned in inside):
        tx.abort()
        return None
    groups = [RewriteGroup(table, window, tuple(files)) for files in _by_partition(inside)]
    writer._rewrite(lambda _: Rewriting(groups, ArrowRewriter()))
    return tx.commit().version


def _by_partition(files: list[PlannedFile]) -> list[list[PlannedFile]]:
    groups: dict[object, list[PlannedFile]] = {}
    for planned in files:
        place = (planned.file.spec_id, partition_key(planned.file.partition))
        groups.setdefault(place, []).append(planned)
    return list(groups.values())
