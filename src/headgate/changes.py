"""What a transaction is to change, as values: collected by its methods, applied anew at every attempt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from headgate.core.evidence import Selection
from headgate.core.footprint import Footprint, ObjectFootprint, Read, TableFootprint
from headgate.core.isolation import Isolation
from headgate.errors import AlreadyExistsError
from headgate.iceberg.data_file import DataFile
from headgate.model.footprint import FileFootprint, Upserted, file_mark
from headgate.model.identifiers import TxId
from headgate.model.named_object import NamedObject, ObjectAction, ObjectCommit
from headgate.model.plan import PendingPlan
from headgate.model.record import PropertyChange, TagChange
from headgate.model.retention import Retention
from headgate.model.state import LakeState
from headgate.model.strategy import StrategyName
from headgate.model.table import TableRef

if TYPE_CHECKING:
    # Loading pyiceberg takes longer than most commands that need no table.
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

    from headgate.iceberg.evolution import Evolution
    from headgate.iceberg.planning import PlannedFile


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

    `instead_of` is the table that had the name and is dropped by the same transaction, before `new` is made.
    `base` is the table as the transaction saw it. `added` are new data files; `replaced`, by path, those that
    it takes away: None if it takes none away, empty if it found none. `deletes` are position delete files
    that it adds. `numbers` are the data sequence numbers, by path, of added files and deletes that keep one
    from before; others get that of the commit. `to_rewrite`, by path, are files that copy-on-write has to
    write anew without the rows that `deletes` and `positions` tell of; it is done once, before the commit.
    `compaction`: no row changes, they only move. `evolution` is what becomes of the structure. `expires`:
    snapshots and older metadata files that it does not keep are named no more. `dropped` excludes everything
    else.

    The rest is what other writers may meet; it becomes the footprint:

    | field | content |
    |---|---|
    | `rewritten` | those that are or will be `replaced`, and whose other rows live on in `added`, by path |
    | `deleted`, `updated` | by path of a data file, the positions that `deletes` tell of, by kind |
    | `sought` | what an update, delete or merge looked for, and the files that could hold it at the base |
    | `overwrites`, `replaces_all` | the rows that overwrites were about; all of them |
    | `upserted` | where an upsert by key has looked |
    | `positions` | position files that do not come into the table (copy-on-write) |
    | `paths` | the virtual paths of all files above |
    | `verbs` | what the caller did: `append`, `overwrite`, `delete`, `update`, `merge`, `upsert`, … |
    """

    name: str
    base: TableRef | None = None
    new: NewTable | None = None
    instead_of: TableRef | None = None
    added: tuple[DataFile, ...] = ()
    replaced: Mapping[str, DataFile] | None = None
    deletes: tuple[DataFile, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    to_rewrite: Mapping[str, PlannedFile] = field(default_factory=dict)
    compaction: bool = False
    rewritten: frozenset[str] = frozenset()
    deleted: Mapping[str, BitMap64] = field(default_factory=dict)
    updated: Mapping[str, BitMap64] = field(default_factory=dict)
    sought: tuple[Read, ...] = ()
    overwrites: tuple[Selection, ...] = ()
    replaces_all: bool = False
    upserted: Upserted | None = None
    positions: tuple[DataFile, ...] = ()
    paths: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    isolation: Isolation = Isolation.WRITE_SERIALIZABLE
    properties: PropertyChange = field(default_factory=PropertyChange)
    evolution: Evolution | None = None
    renamed_to: str | None = None
    dropped: bool = False
    expires: Retention | None = None

    @property
    def name_after(self) -> str:
        return self.renamed_to or self.name

    @property
    def changes_files(self) -> bool:
        return bool(self.added or self.deletes or self.to_rewrite) or self.replaced is not None

    @property
    def own_deletes(self) -> tuple[DataFile, ...]:
        """The position files of the transaction: what they tell of is gone for all that it does later."""
        return (*self.deletes, *self.positions)

    @property
    def operation(self) -> str:
        """Iceberg's word for what becomes of the files."""
        if self.compaction:
            return "replace"
        if not self.added and (self.replaced or self.deletes):
            return "delete"
        return "append" if self.replaced is None and not self.deletes else "overwrite"

    @property
    def compacted(self) -> frozenset[str]:
        """Files of which all rows live on in others, by path."""
        return frozenset(self.replaced or ()) if self.compaction else frozenset()

    @property
    def removed(self) -> frozenset[str]:
        """Files of which no row lives on, by path."""
        return frozenset(self.replaced or ()) - self.rewritten - self.compacted

    def _staying(self, rows: Mapping[str, BitMap64]) -> dict[str, BitMap64]:
        """Rows of files that were there before, and are not taken away by a later step."""
        gone = frozenset(self.replaced or ()) | {file.path for file in self.added}
        return {path: positions for path, positions in rows.items() if positions and path not in gone}

    @property
    def touched_files(self) -> frozenset[str]:
        """Marks of the files of the base that it changes or removes."""
        changed = {*self._staying(self.deleted), *self._staying(self.updated), *self.rewritten}
        return _marks(changed.union(self.replaced or ()))

    def file_footprint(self) -> FileFootprint | None:
        if not self.changes_files:
            return None
        return FileFootprint.of(
            ((file.spec_id, file.partition) for file in self.added),
            self.removed,
            rewritten=self.rewritten,
            compacted=self.compacted,
            deleted=self._staying(self.deleted),
            updated=self._staying(self.updated),
            upserted=self.upserted,
            positions=[file.path for file in self.positions],
        )

    @property
    def structure(self) -> frozenset[str]:
        """The parts of the structure that change."""
        if self.evolution is None:
            return frozenset()
        return frozenset(part.value for part in self.evolution.parts)

    def footprints(self) -> Iterator[TableFootprint]:
        """What other writers may meet: the table, and the one whose place it takes."""
        if self.instead_of is not None:
            yield TableFootprint(self.name, self.instead_of.uuid, verbs=frozenset({"drop"}))
        yield self.footprint()

    def footprint(self) -> TableFootprint:
        # Position deletes that nobody else could know of would be lost conflicts; those of own files are not.
        assert not self.deletes or self.deleted or self.updated or self.compaction or self.added, self.name
        paths = frozenset(self.replaced or ()).union(self.rewritten, self.deleted, self.updated)
        return TableFootprint(
            name=self.name,
            uuid=None if self.base is None else self.base.uuid,
            takes_name=self.name_after if self.new is not None else self.renamed_to,
            isolation=self.isolation,
            sought=self.sought,
            overwrites=self.overwrites,
            replaces_all=self.replaces_all,
            removed=_marks(self.removed),
            rewritten=_marks(self.rewritten),
            compacted=_marks(self.compacted),
            deleted={file_mark(path): rows for path, rows in self._staying(self.deleted).items()},
            updated={file_mark(path): rows for path, rows in self._staying(self.updated).items()},
            upserted=self.upserted,
            paths=self.paths,
            property_names=self.properties.names(),
            structure=self.structure,
            written_fields=_fields_with_values(self.added),
            verbs=self.verbs,
            names={file_mark(path): path for path in paths},
        )


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """What a transaction does to one view or mount; either `before` or `after` is given, or both.

    `before` is the one that it saw under `name`, `after` what it leaves behind: None if it is dropped.
    `replaces`: another one that takes the name meanwhile may be replaced.
    """

    name: str
    before: NamedObject | None
    after: NamedObject | None
    renamed_to: str | None = None
    replaces: bool = False

    @property
    def name_after(self) -> str:
        return self.renamed_to or self.name

    def commit(self) -> ObjectCommit:
        """What the record says."""
        match self.before, self.after:
            case NamedObject() as before, None:
                return ObjectCommit(self.name, ObjectAction.DROP, before)
            case None, NamedObject() as after:
                return ObjectCommit(self.name, ObjectAction.CREATE, after)
            case _, NamedObject() as after if self.renamed_to is not None:
                return ObjectCommit(self.renamed_to, ObjectAction.RENAME, after, self.name)
            case _, after:
                assert after is not None, self.name
                return ObjectCommit(self.name, ObjectAction.REPLACE, after)

    def footprint(self) -> ObjectFootprint:
        return ObjectFootprint(
            name=self.name,
            uuid=None if self.before is None else self.before.uuid,
            takes_name=self.name if self.before is None else self.renamed_to,
            replaces=self.replaces,
        )


@dataclass(frozen=True, slots=True)
class TableRead:
    """Rows of a table that a transaction read: what it then changes anywhere may follow from them.

    `verb` is what the caller did: a delete that found nothing has read, too.
    """

    name: str
    base: TableRef
    read: Read
    isolation: Isolation
    verb: str = "read"

    def footprint(self) -> TableFootprint:
        return TableFootprint(
            name=self.name,
            uuid=self.base.uuid,
            isolation=self.isolation,
            reads=(self.read,),
            verbs=frozenset({self.verb}),
        )


def _marks(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(file_mark(path) for path in paths)


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
    """What a transaction is to change, and what it read. Changes without any change are refused."""

    properties: PropertyChange = field(default_factory=PropertyChange)
    tags: TagChange = field(default_factory=TagChange)
    tables: Mapping[str, TableChange] = field(default_factory=dict)
    objects: Mapping[str, ObjectChange] = field(default_factory=dict)
    reads: tuple[TableRead, ...] = ()
    strategy: StrategyName | None = None
    plan: PendingPlan | None = None
    completes: tuple[TxId, ...] = ()
    cancels: tuple[TxId, ...] = ()
    expires: Retention | None = None

    def __bool__(self) -> bool:
        of_plans = self.plan or self.completes or self.cancels or self.expires
        named = self.tables or self.objects
        return bool(self.properties or self.tags or named or self.strategy or of_plans)

    @property
    def kind(self) -> str:
        if self.strategy:
            return "switch"
        if self.plan:
            return "plan"
        if self.expires:
            return "expire"
        return "cancel" if self.cancels else "commit"

    def with_table(self, change: TableChange) -> Changes:
        return replace(self, tables={**self.tables, change.name: change})

    def with_object(self, change: ObjectChange) -> Changes:
        return replace(self, objects={**self.objects, change.name: change})

    def without_object(self, name: str) -> Changes:
        return replace(self, objects={key: each for key, each in self.objects.items() if key != name})

    def tables_on(self, base: LakeState) -> frozenset[str]:
        """The names of the tables after the changes."""
        kept = {change.name_after for change in self.tables.values() if not change.dropped}
        return frozenset(kept.union(name for name in base.tables if name not in self.tables))

    def objects_on(self, base: LakeState) -> dict[str, NamedObject]:
        """The views and mounts after the changes."""
        kept = {name: each for name, each in base.objects.items() if name not in self.objects}
        changed = {c.name_after: c.after for c in self.objects.values() if c.after is not None}
        return kept | changed

    def require_free(self, name: str, base: LakeState) -> None:
        """Refuses a name that a table, a view or a mount has after the changes."""
        found = "table" if name in self.tables_on(base) else None
        if name in (objects := self.objects_on(base)):
            kind = objects[name].kind
            found = kind if kind == "view" else f"{kind} mount"
        if found is not None:
            replaced = "" if found == "table" else ", replace it (replace=True, --replace)"
            raise AlreadyExistsError(
                f"there is a {found} {name} already", f"choose another name{replaced}, or drop it first"
            )

    def with_read(self, read: TableRead) -> Changes:
        return replace(self, reads=(*self.reads, read))

    def footprint(self, txid: TxId, isolation: Isolation | None = None) -> Footprint:
        """What the rules need to know. `isolation` is the one that the caller chose; else the tables' own."""
        reads = (read.footprint() for read in self.reads)
        changed = (one for change in self.tables.values() for one in change.footprints())
        footprints = (*reads, *changed)
        if isolation is not None:
            footprints = tuple(replace(footprint, isolation=isolation) for footprint in footprints)
        return Footprint(
            txid=txid,
            properties=self.properties,
            tag_names=self.tags.names(),
            tables=footprints,
            objects=tuple(change.footprint() for change in self.objects.values()),
            strategy_change=self.strategy is not None,
            cancels=frozenset(self.cancels),
            tagged=frozenset(version.number for version in self.tags.set.values()),
            expires=self.expires,
            plan=self.plan,
        )
