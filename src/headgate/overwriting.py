"""Overwrites inside a transaction: of all rows, of those that a predicate selects, of whole partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headgate.changes import TableChange
from headgate.changing import Mode, RowOperation
from headgate.iceberg.binding import bind_text, in_partitions
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile, Partition
from headgate.iceberg.planning import Plan
from headgate.iceberg.positions import Positions
from headgate.iceberg.row_change import RowChange, RowEngine, Wanted
from headgate.iceberg.rows import IncomingRows
from headgate.iceberg.selection import selection_of
from headgate.iceberg.target import Target
from headgate.intents import Announce, announce_change
from headgate.reading import isolation_of
from headgate.visibility import visible, visible_at_base

VERB = "overwrite"


@dataclass(frozen=True, slots=True)
class Overwriting:
    """A table in a transaction that is about to be overwritten.

    Each method writes the new data files, and returns the change with them; nobody sees them yet.
    """

    change: TableChange
    target: Target
    rows: IncomingRows
    engine: Callable[[Bound], RowEngine]
    announce: Announce

    def all(self) -> TableChange:
        """Replaces every row that the transaction sees, its own among them."""
        metadata = self.target.metadata
        at_base = visible_at_base(replace(self.change, replaced=None), metadata, self.target.loader, None)
        change = replace(
            self.change,
            added=(),
            replaced={planned.file.path: planned.file for planned in at_base.files},
            positions=(),
            to_rewrite={},
            rewritten=frozenset(),
            deletes=(),
            replaces_all=True,
            verbs=self.change.verbs | {VERB},
            isolation=isolation_of(metadata),
        )
        self._announce(change, at_base)
        return replace(change, added=self.rows.written())

    def some(self, where: str) -> TableChange:
        """Replaces the rows that `where` selects by the new ones, which must all be such."""
        matching = bind_text(where, self.target.metadata.schema)
        at_base = visible_at_base(self.change, self.target.metadata, self.target.loader, matching)
        self._announce(self._selecting(self.change, matching), at_base)
        written = self.rows.written_matching(matching, where)
        return self._replacing(written, Wanted(matching, None, where))

    def partitions(self) -> TableChange:
        """Replaces the partitions, by the present spec, that the new rows belong to."""
        self._announce(self.change, None)  # which partitions, only the rows can tell
        written = self.rows.written()
        metadata = self.target.metadata
        touched: frozenset[Partition] = frozenset(file.partition for file in written)
        matching = in_partitions(metadata.spec, metadata.schema, touched)
        return self._replacing(written, Wanted(matching, None, "the partitions of the rows"))

    def _replacing(self, written: tuple[DataFile, ...], wanted: Wanted) -> TableChange:
        """The rows that are wanted go as copy-on-write deletes them, and those that were written come."""
        target, matching = self.target, wanted.bound
        assert matching is not None
        plan = visible(self.change, target.metadata, target.loader, matching)
        operation = RowOperation(self.change, target, VERB, Mode.COPY_ON_WRITE, matching, plan)
        partial = plan.partial
        found = self.engine(matching).deleted(partial, wanted) if partial else Positions()
        gone = operation.changed(RowChange(deleted=found), plan.whole).change
        selecting = self._selecting(replace(gone, sought=self.change.sought), matching)
        return replace(selecting, added=(*selecting.added, *written))

    def _selecting(self, change: TableChange, matching: Bound) -> TableChange:
        """The change with an overwrite of some rows."""
        metadata = self.target.metadata
        return replace(
            change,
            replaced=change.replaced or {},
            overwrites=(*change.overwrites, selection_of(matching, metadata)),
            verbs=change.verbs | {VERB},
            isolation=isolation_of(metadata),
        )

    def _announce(self, change: TableChange, at_base: Plan | None) -> None:
        """Tells others what the overwrite is about, before its rows are written."""
        files = None if at_base is None else [planned.file for planned in at_base.files]
        announce_change(self.announce, VERB, change, self.target.metadata, files)
