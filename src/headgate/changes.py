"""What a transaction is to change, as values: collected by its methods, applied anew at every attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headgate.core.conflict import Footprint, Isolation, Selects, TableFootprint
from headgate.iceberg.data_file import DataFile
from headgate.model.footprint import FileFootprint, file_mark
from headgate.model.identifiers import TxId
from headgate.model.plan import PendingPlan
from headgate.model.record import PropertyChange, TagChange
from headgate.model.strategy import StrategyName
from headgate.model.table import TableRef

if TYPE_CHECKING:
    # Loading pyiceberg takes longer than most commands that need no table.
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

    from headgate.iceberg.evolution import Evolution


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that the transaction makes."""

    uuid: str
    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableChange:
    """All that a transaction does to one table. Either `new` or `base` is given.

    `base` is the table as the transaction saw it. `replaced` are the files that it removes, by path: None if
    it overwrites nothing, empty if it found none. `selects` tells which rows an overwrite was about; None for
    all. `evolution` is what becomes of its structure. `dropped` excludes everything else.
    """

    name: str
    base: TableRef | None = None
    new: NewTable | None = None
    added: tuple[DataFile, ...] = ()
    replaced: Mapping[str, DataFile] | None = None
    selects: Selects | None = None
    isolation: Isolation = Isolation.WRITE_SERIALIZABLE
    properties: PropertyChange = field(default_factory=PropertyChange)
    evolution: Evolution | None = None
    renamed_to: str | None = None
    dropped: bool = False

    @property
    def name_after(self) -> str:
        return self.renamed_to or self.name

    @property
    def changes_files(self) -> bool:
        return bool(self.added) or self.replaced is not None

    @property
    def replaces_all(self) -> bool:
        return self.replaced is not None and self.selects is None

    @property
    def touched_files(self) -> frozenset[str]:
        """Marks of the files of the base that it changes or removes."""
        return frozenset(file_mark(path) for path in self.replaced or ())

    def file_footprint(self) -> FileFootprint | None:
        if not self.changes_files:
            return None
        return FileFootprint.of(((f.spec_id, f.partition) for f in self.added), self.replaced or ())

    @property
    def structure(self) -> frozenset[str]:
        """The parts of the structure that change."""
        if self.evolution is None:
            return frozenset()
        return frozenset(part.value for part in self.evolution.parts)

    def footprint(self) -> TableFootprint:
        takes_name = self.name_after if self.new is not None else self.renamed_to
        return TableFootprint(
            name=self.name,
            uuid=None if self.base is None else self.base.uuid,
            takes_name=takes_name,
            replaces_all=self.replaces_all,
            property_names=self.properties.names(),
            selects=self.selects,
            removed=self.touched_files,
            isolation=self.isolation,
            structure=self.structure,
            written_fields=_fields_with_values(self.added),
        )


def _fields_with_values(files: Iterable[DataFile]) -> frozenset[int]:
    """The columns that are not null throughout. Sizes are known of every column, counts not always."""
    return frozenset(
        field_id
        for file in files
        for field_id in file.metrics.sizes
        if file.metrics.nulls.get(field_id, 0) < file.metrics.values.get(field_id, 1)
    )


@dataclass(frozen=True, slots=True)
class Changes:
    """What a transaction is to change. Empty changes are refused."""

    properties: PropertyChange = field(default_factory=PropertyChange)
    tags: TagChange = field(default_factory=TagChange)
    tables: Mapping[str, TableChange] = field(default_factory=dict)
    strategy: StrategyName | None = None
    plan: PendingPlan | None = None
    completes: tuple[TxId, ...] = ()
    cancels: tuple[TxId, ...] = ()

    def __bool__(self) -> bool:
        of_plans = self.plan or self.completes or self.cancels
        return bool(self.properties or self.tags or self.tables or self.strategy or of_plans)

    @property
    def kind(self) -> str:
        if self.strategy:
            return "switch"
        if self.plan:
            return "plan"
        return "cancel" if self.cancels else "commit"

    def with_table(self, change: TableChange) -> Changes:
        return replace(self, tables={**self.tables, change.name: change})

    def footprint(self, txid: TxId) -> Footprint:
        return Footprint(
            txid=txid,
            properties=self.properties,
            tag_names=self.tags.names(),
            tables=tuple(change.footprint() for change in self.tables.values()),
            strategy_change=self.strategy is not None,
            cancels=frozenset(self.cancels),
        )
