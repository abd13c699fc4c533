"""A compaction of chosen files, through what transactions are made of: no plan, and any window."""

from __future__ import annotations

from collections.abc import Collection

from headgate.compacting import Rewriting
from headgate.iceberg.arrow_rewrite import ArrowRewriter
from headgate.iceberg.bound import partition_key
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.rewriting import RewriteGroup
from headgate.model.window import Window
from headgate.transaction import Transaction


def compact_files(tx: Transaction, name: str, files: Collection[str]) -> None:
    """Puts the rows of data files, named by their paths, into new ones; those of each partition together."""
    writer = tx.table(name)
    places: dict[object, list[PlannedFile]] = {}
    for planned in writer._live_files():
        if planned.file.path in files:
            place = (planned.file.spec_id, partition_key(planned.file.partition))
            places.setdefault(place, []).append(planned)
    groups = [group(name, here) for here in places.values()]
    writer._rewrite(lambda _: Rewriting(groups, ArrowRewriter()))


def group(path: str, files: list[PlannedFile]) -> RewriteGroup:
    """Files with the versions that they are of, from the first to the last."""
    first = min(planned.covers.first for planned in files)
    last = max(planned.covers.last for planned in files)
    return RewriteGroup(path, Window(first, last, 1), tuple(files))
