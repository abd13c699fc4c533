"""Overwrites inside a transaction: of all rows, of those that a predicate selects, of whole partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headgate.changes import TableChange
from headgate.iceberg.binding import bind_text, in_partitions
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile, Partition
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import Plan
from headgate.iceberg.rewriting import Rewritten, without_matching
from headgate.iceberg.rows import IncomingRows
from headgate.iceberg.selection import selection_of
from headgate.intents import Announce, announce_change
from headgate.reading import isolation_of
from headgate.visibility import visible_at_base, visible_own

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
    announce: Announce

    def all(self) -> TableChange:
        """Replaces every row that the transaction sees, its own among them."""
        at_base = visible_at_base(replace(self.change, replaced=None), self.metadata, self.loader, None)
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
            isolation=isolation_of(self.metadata),
        )
        self._announce(change, at_base)
        return replace(change, added=self.rows.written())

    def some(self, where: str) -> TableChange:
        """Replaces the rows that `where` selects by the new ones, which must all be such."""
        matching = bind_text(where, self.metadata.schema)
        at_base = self._at_base(matching)
        whole = [planned.file for planned in at_base.whole]
        self._announce(self._selecting(matching, whole), at_base)
        return self._replacing(self.rows.written_matching(matching, where), matching, at_base)

    def partitions(self) -> TableChange:
        """Replaces the partitions, by the present spec, that the new rows belong to."""
        self._announce(self.change, None)  # which partitions, only the rows can tell
        written = self.rows.written()
        touched: frozenset[Partition] = frozenset(file.partition for file in written)
        matching = in_partitions(self.metadata.spec, self.metadata.schema, touched)
        return self._replacing(written, matching, self._at_base(matching))

    def _replacing(self, written: tuple[DataFile, ...], matching: Bound, at_base: Plan) -> TableChange:
        before = self.change
        rest = without_matching(at_base, matching, self.rows.rewrite)
        own = without_matching(self._own(matching), matching, self.rows.rewrite)
        added = (*_without(before.added, own), *own.added, *rest.added, *written)
        anew = {file.path for file in rest.removed} - {whole.file.path for whole in at_base.whole}
        change = self._selecting(matching, rest.removed)
        return replace(change, added=added, rewritten=before.rewritten | anew)

    def _selecting(self, matching: Bound, removed: Iterable[DataFile]) -> TableChange:
        """The change with an overwrite of some rows, as far as the files go that it removes."""
        before = self.change
        return replace(
            before,
            replaced={**(before.replaced or {}), **{file.path: file for file in removed}},
            overwrites=(*before.overwrites, selection_of(matching, self.metadata)),
            verbs=before.verbs | {VERB},
            isolation=isolation_of(self.metadata),
        )

    def _announce(self, change: TableChange, at_base: Plan | None) -> None:
        """Tells others what the overwrite is about, before its rows are written."""
        files = None if at_base is None else [planned.file for planned in at_base.files]
        announce_change(self.announce, VERB, change, self.metadata, files)

    def _at_base(self, matching: Bound) -> Plan:
        """What the transaction sees of the table's files, without those that it has removed itself."""
        return visible_at_base(self.change, self.metadata, self.loader, matching)

    def _own(self, matching: Bound) -> Plan:
        """What the transaction has added itself."""
        return visible_own(self.change, self.metadata, matching)


def _without(files: tuple[DataFile, ...], gone: Rewritten) -> tuple[DataFile, ...]:
    paths = {file.path for file in gone.removed}
    return tuple(file for file in files if file.path not in paths)
