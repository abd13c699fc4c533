"""Overwrites inside a transaction: of all rows, of those that a predicate selects, of whole partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headgate.changes import TableChange
from headgate.iceberg.binding import bind_text, in_partitions
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile, Partition
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import Plan, plan, planned
from headgate.iceberg.rewriting import Rewritten, without_matching
from headgate.iceberg.rows import IncomingRows
from headgate.iceberg.selection import selection_of
from headgate.reading import isolation_of

VERB = "overwrite"


@dataclass(frozen=True, slots=True)
class Overwriting:
    """A table in a transaction that is about to be overwritten.

    Each method writes the new data files, and returns the change with them; nobody sees them yet.
    """

    change: TableChange
    metadata: TableMetadata
    loader: TableLoader
    rows: IncomingRows

    def all(self) -> TableChange:
        """Replaces every row that the transaction sees, its own among them."""
        replaced = {planned.file.path: planned.file for planned in self._at_base(None).files}
        return replace(
            self.change,
            added=self.rows.written(),
            replaced=replaced,
            rewritten=frozenset(),
            deletes=(),
            replaces_all=True,
            verbs=self.change.verbs | {VERB},
            isolation=isolation_of(self.metadata),
        )

    def some(self, where: str) -> TableChange:
        """Replaces the rows that `where` selects by the new ones, which must all be such."""
        matching = bind_text(where, self.metadata.schema)
        return self._replacing(self.rows.written_matching(matching, where), matching)

    def partitions(self) -> TableChange:
        """Replaces the partitions, by the present spec, that the new rows belong to."""
        written = self.rows.written()
        touched: frozenset[Partition] = frozenset(file.partition for file in written)
        return self._replacing(written, in_partitions(self.metadata.spec, self.metadata.schema, touched))

    def _replacing(self, written: tuple[DataFile, ...], matching: Bound) -> TableChange:
        before = self.change
        found = self._at_base(matching)
        at_base = without_matching(found, matching, self.rows.rewrite)
        own = without_matching(self._own(matching), matching, self.rows.rewrite)
        anew = {file.path for file in at_base.removed} - {whole.file.path for whole in found.whole}
        return replace(
            before,
            added=(*_without(before.added, own), *own.added, *at_base.added, *written),
            replaced={**(before.replaced or {}), **{file.path: file for file in at_base.removed}},
            rewritten=before.rewritten | anew,
            overwrites=(*before.overwrites, selection_of(matching, self.metadata)),
            verbs=before.verbs | {VERB},
            isolation=isolation_of(self.metadata),
        )

    def _at_base(self, matching: Bound | None) -> Plan:
        """What the transaction sees of the table's files, without those that it has removed itself."""
        if self.change.base is None:
            return Plan(())
        found = plan(self.loader, self.metadata, matching, self.change.deletes)
        gone = self.change.replaced or {} if matching is not None else {}
        return replace(found, files=tuple(f for f in found.files if f.file.path not in gone))

    def _own(self, matching: Bound) -> Plan:
        """What the transaction has added itself."""
        return planned(self.change.added, self.metadata, matching, self.change.deletes)


def _without(files: tuple[DataFile, ...], gone: Rewritten) -> tuple[DataFile, ...]:
    paths = {file.path for file in gone.removed}
    return tuple(file for file in files if file.path not in paths)
