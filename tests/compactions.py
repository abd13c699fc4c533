"""A compaction of chosen files, through what transactions are made of: no plan, and any window."""

from __future__ import annotations

from collections.abc import Collection

from headgate.arrow.rewrite import ArrowRewriter
from headgate.iceberg.format.data_file import partition_key
from headgate.iceberg.scan.engine import RewriteGroup
from headgate.iceberg.scan.planning import PlannedFile
from headgate.model.identifiers import Window
from headgate.transaction.reads import visible
from headgate.transaction.rewrite import Rewriting
from headgate.transaction.table_writer import TableWriter
from headgate.transaction.transaction import Transaction


def live_files(writer: TableWriter) -> tuple[PlannedFile, ...]:
    """The data files that the transaction sees, with the deletes that apply to each."""
    change = writer._change()
    return visible(change, writer._metadata(change), writer._tx.loader(), None).files


def compact_files(tx: Transaction, name: str, files: Collection[str]) -> None:
    """Puts the rows of data files, named by their paths, into new ones; those of each partition together."""
    writer = tx.table(name)
    places: dict[object, list[PlannedFile]] = {}
    for planned in live_files(writer):
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
