"""Overwrites inside a transaction: of all rows, of those that a predicate selects, of whole partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from headgate.changes import TableChange
from headgate.commit.driver import Driver
from headgate.core.conflict import Isolation, Selects
from headgate.errors import InvalidInputError
from headgate.iceberg.arrow import fitted, partitioned
from headgate.iceberg.binding import bind_text, in_partitions
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile, Partition
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import Plan, plan, planned
from headgate.iceberg.pruning import Pruning
from headgate.iceberg.rewriting import ArrowRewrite, Rewrite, Rewritten, require_matching, without_matching
from headgate.model.identifiers import TxId

Write: TypeAlias = Callable[[TableChange, Any], tuple[DataFile, ...]]
"""Writes rows of any kind that the table takes as new data files."""
ISOLATION = "isolation"
"""The table property."""


@dataclass(frozen=True, slots=True)
class Overwriting:
    """A table in a transaction that is about to be overwritten.

    Each method writes the new data files, and returns the change with them; nobody sees them yet. `write`
    writes new rows, `rewrite` files of which some rows stay.
    """

    change: TableChange
    metadata: TableMetadata
    driver: Driver
    loader: TableLoader
    txid: TxId
    write: Write
    rewrite: Rewrite | None = None

    def all(self, rows: Any) -> TableChange:
        """Replaces every row that the transaction sees, its own among them."""
        replaced = {planned.file.path: planned.file for planned in self._at_base(None).files}
        added = self.write(self.change, rows)
        return replace(
            self.change, added=added, replaced=replaced, selects=None, isolation=isolation_of(self.metadata)
        )

    def some(self, rows: Any, where: str) -> TableChange:
        """Replaces the rows that `where` selects by `rows`, which must all be such."""
        matching = bind_text(where, self.metadata.schema)
        fitting = fitted(checked_rows(rows, self.change.name), self.metadata.schema, self.change.name)
        require_matching(fitting, matching, self.change.name, where)
        return self._replacing(fitting, matching)

    def partitions(self, rows: Any) -> TableChange:
        """Replaces the partitions, by the present spec, that `rows` belong to."""
        schema, spec = self.metadata.schema, self.metadata.spec
        fitting = fitted(checked_rows(rows, self.change.name), schema, self.change.name)
        touched: frozenset[Partition] = frozenset(key for key, _ in partitioned(fitting, schema, spec))
        return self._replacing(fitting, in_partitions(spec, schema, touched))

    def _replacing(self, rows: pa.Table, matching: Bound) -> TableChange:
        before = self.change
        rewrite = self.rewrite or ArrowRewrite(
            self.driver, self.loader, self.metadata, self.txid, before.name
        )
        at_base = without_matching(self._at_base(matching), matching, rewrite)
        own = without_matching(planned(before.added, self.metadata, matching), matching, rewrite)
        return replace(
            before,
            added=(*_without(before.added, own), *own.added, *at_base.added, *self.write(before, rows)),
            replaced={**(before.replaced or {}), **{file.path: file for file in at_base.removed}},
            selects=self._selects(matching),
            isolation=isolation_of(self.metadata),
        )

    def _at_base(self, matching: Bound | None) -> Plan:
        """What the transaction sees of the table's files, without those that it has removed itself."""
        if self.change.base is None:
            return Plan(())
        found = plan(self.loader, self.metadata, matching)
        gone = self.change.replaced or {} if matching is not None else {}
        return replace(found, files=tuple(f for f in found.files if f.file.path not in gone))

    def _selects(self, matching: Bound) -> Selects | None:
        """Which partitions the overwrites of this transaction are about, all of them together."""
        before = self.change
        if before.replaced is not None and before.selects is None:
            return None  # all rows were replaced before
        specs = self.metadata.specs
        pruning = Pruning(matching, self.metadata.schema, specs)
        earlier = before.selects

        def selects(spec_id: int, partition: Partition) -> bool:
            # A spec that we have not seen may hold anything.
            if spec_id not in specs or pruning.partition_could_match(spec_id, partition):
                return True
            return earlier is not None and earlier(spec_id, partition)

        return selects


def checked_rows(rows: Any, table: str) -> pa.Table:
    if not isinstance(rows, pa.Table):
        raise InvalidInputError(
            f"{table}: rows that replace some others must be a pyarrow Table, not a {type(rows).__name__}"
        )
    return rows


def isolation_of(metadata: TableMetadata) -> Isolation:
    """The isolation that the table asks for."""
    given = metadata.properties.get(ISOLATION, Isolation.WRITE_SERIALIZABLE.value)
    known = {isolation.value: isolation for isolation in Isolation}
    if given not in known:
        raise InvalidInputError(
            f"the table property {ISOLATION} is {given!r}", f"set it to {', '.join(known)}"
        )
    return known[given]


def _without(files: tuple[DataFile, ...], gone: Rewritten) -> tuple[DataFile, ...]:
    paths = {file.path for file in gone.removed}
    return tuple(file for file in files if file.path not in paths)
