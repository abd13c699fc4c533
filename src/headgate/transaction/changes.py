"""The changes of a transaction, as values. Its methods collect them, and every attempt applies them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from headgate.core.conflict.evidence import Selection
from headgate.core.conflict.footprint import Footprint, ObjectFootprint, Read, TableFootprint
from headgate.core.conflict.isolation import Isolation
from headgate.errors import AlreadyExistsError
from headgate.iceberg.format.data_file import DataFile
from headgate.model.footprint import MAX_READ_FILES, FileFootprint, Marks, Upserted, file_mark
from headgate.model.identifiers import StrategyName, TxId
from headgate.model.named_object import NamedObject, ObjectAction, ObjectCommit
from headgate.model.plan import PendingPlan
from headgate.model.record import MAX_READ_OBJECTS, PropertyChange, TagChange
from headgate.model.retention import Retention
from headgate.model.state import LakeState
from headgate.model.table import StructurePart, TableRef

if TYPE_CHECKING:
    # Loading pyiceberg takes longer than most commands that need no table.
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

    from headgate.iceberg.scan.planning import PlannedFile
    from headgate.iceberg.schema.evolution import Evolution


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that the transaction creates."""

    uuid: str
    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Alteration:
    """The changes of a table itself: its name, properties, columns, specs and history.

    `evolution` changes the columns, the specs and the sort order. With `expires`, the metadata no longer
    refers to snapshots and older metadata files that it does not keep. `dropped` excludes everything else.
    """

    properties: PropertyChange = field(default_factory=PropertyChange)
    evolution: Evolution | None = None
    renamed_to: str | None = None
    dropped: bool = False
    expires: Retention | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """The rows that the operations on a table concern, beyond the files that they changed.

    `sought` is what an update, delete or merge searched for, and the files of the base that could contain
    it. `overwrites` are the rows that overwrites selected; with `replaces_all`, all of them. `overwritten`
    are the paths of the files that an overwrite removed. With `relies_on_spec`, the partition spec determines
    which rows are replaced. `upserted` is where an upsert by key, or a merge that inserts, has searched.
    """

    sought: tuple[Read, ...] = ()
    overwrites: tuple[Selection, ...] = ()
    overwritten: frozenset[str] = frozenset()
    replaces_all: bool = False
    relies_on_spec: bool = False
    upserted: Upserted | None = None


@dataclass(frozen=True, slots=True)
class TableChange:
    """All changes of a transaction to one table. Either `new` or `base` is given.

    `instead_of` is the table that had the name and is dropped by the same transaction, before `new` is
    created. `base` is the table as the transaction saw it. `added` are new data files. `replaced` are the
    removed data files by path: None if the transaction removes none, empty if it found none to remove.
    `deletes` are position delete files that it adds. `numbers` are the data sequence numbers, by path, of
    added files and deletes that keep an earlier one; others get that of the commit. `to_rewrite`, by path,
    are files that copy-on-write must rewrite without the rows that `deletes` and `positions` mark; this
    happens once, before the commit. With `compaction`, no row changes; rows only move. `alters` contains the
    changes of the table itself.

    The other fields, with `reach`, can conflict with other writers. They become the footprint:

    | field | content |
    |---|---|
    | `rewritten` | paths of files that are or will be `replaced`, and whose other rows are in `added` |
    | `deleted`, `updated` | by path of a data file, the positions that `deletes` mark, by kind |
    | `positions` | position files that are not added to the table (copy-on-write) |
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
    reach: Reach = field(default_factory=Reach)
    positions: tuple[DataFile, ...] = ()
    paths: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    isolation: Isolation = Isolation.WRITE_SERIALIZABLE
    alters: Alteration = field(default_factory=Alteration)

    @property
    def name_after(self) -> str:
        return self.alters.renamed_to or self.name

    @property
    def is_append(self) -> bool:
        """Whether it only adds rows. Such a change is valid whatever others do to the rows."""
        return self == TableChange(
            self.name,
            base=self.base,
            added=self.added,
            paths=self.paths,
            verbs=frozenset({"append"}),
            isolation=self.isolation,
        )

    @property
    def changes_files(self) -> bool:
        return bool(self.added or self.deletes or self.to_rewrite) or self.replaced is not None

    @property
    def own_deletes(self) -> tuple[DataFile, ...]:
        """The position files of the transaction. Its later operations do not see the rows that they mark."""
        return (*self.deletes, *self.positions)

    @property
    def operation(self) -> str:
        """The operation in the Iceberg snapshot."""
        if self.compaction:
            return "replace"
        if not self.added and (self.replaced or self.deletes):
            return "delete"
        return "append" if self.replaced is None and not self.deletes else "overwrite"

    @property
    def compacted(self) -> frozenset[str]:
        """Paths of files whose rows are all in other files now."""
        return frozenset(self.replaced or ()) if self.compaction else frozenset()

    @property
    def removed(self) -> frozenset[str]:
        """Paths of files whose rows are all gone."""
        return frozenset(self.replaced or ()) - self.rewritten - self.compacted

    def _staying(self, rows: Mapping[str, BitMap64]) -> dict[str, BitMap64]:
        """Rows of files of the base that no later step removes."""
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
            overwritten=self.reach.overwritten & self.removed,
            rewritten=self.rewritten,
            compacted=self.compacted,
            deleted=self._staying(self.deleted),
            updated=self._staying(self.updated),
            upserted=self.reach.upserted,
            positions=[file.path for file in self.positions],
        )

    @property
    def structure(self) -> frozenset[str]:
        """The parts of the structure that change."""
        if self.alters.evolution is None:
            return frozenset()
        return frozenset(part.value for part in self.alters.evolution.parts)

    @property
    def _bars_appends(self) -> bool:
        columns = StructurePart.SCHEMA.value in self.structure
        return self.alters.dropped or self.alters.renamed_to is not None or columns

    def footprints(self) -> Iterator[TableFootprint]:
        """The footprints that can conflict with other writers: the table, and the one that it replaces."""
        if self.instead_of is not None:
            yield TableFootprint(
                self.name, self.instead_of.uuid, bars_appends=True, verbs=frozenset({"drop"})
            )
        yield self.footprint()

    def footprint(self) -> TableFootprint:
        # Position deletes that are not in the footprint would be missed conflicts, except for own files.
        assert not self.deletes or self.deleted or self.updated or self.compaction or self.added, self.name
        paths = frozenset(self.replaced or ()).union(self.rewritten, self.deleted, self.updated)
        return TableFootprint(
            name=self.name,
            uuid=None if self.base is None else self.base.uuid,
            takes_name=self.name_after if self.new is not None else self.alters.renamed_to,
            isolation=self.isolation,
            sought=self.reach.sought,
            overwrites=self.reach.overwrites,
            replaces_all=self.reach.replaces_all,
            removed=_marks(self.removed),
            rewritten=_marks(self.rewritten),
            compacted=_marks(self.compacted),
            deleted={file_mark(path): rows for path, rows in self._staying(self.deleted).items()},
            updated={file_mark(path): rows for path, rows in self._staying(self.updated).items()},
            upserted=self.reach.upserted,
            paths=self.paths,
            property_names=self.alters.properties.names(),
            structure=self.structure,
            relies_on_spec=self.reach.relies_on_spec,
            bars_appends=self._bars_appends,
            written_fields=_fields_with_values(self.added),
            verbs=self.verbs,
            names={file_mark(path): path for path in paths},
        )


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """The change of one view or mount. At least one of `before` and `after` is given.

    `before` is the object that the transaction saw under `name`. `after` is the result; None if it is
    dropped. With `replaces`, an object that takes the name meanwhile may be replaced.
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
        """The change as the record stores it."""
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
    """Rows of a table that a transaction read. Its later changes may depend on them.

    `verb` is what the caller did: a delete that found nothing is also a read.
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
    """The columns with at least one value. The size of every column is known, but not always the counts."""
    return frozenset(
        field_id
        for file in files
        for field_id in file.metrics.sizes
        if file.metrics.nulls.get(field_id, 0) < file.metrics.values.get(field_id, 1)
    )


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes and reads of a transaction. False if there are no changes."""

    properties: PropertyChange = field(default_factory=PropertyChange)
    tags: TagChange = field(default_factory=TagChange)
    tables: Mapping[str, TableChange] = field(default_factory=dict)
    objects: Mapping[str, ObjectChange] = field(default_factory=dict)
    reads: tuple[TableRead, ...] = ()
    read_objects: Mapping[str, NamedObject] = field(default_factory=dict)
    strategy: StrategyName | None = None
    plan: PendingPlan | None = None
    completes: tuple[TxId, ...] = ()
    cancels: tuple[TxId, ...] = ()
    expires: Retention | None = None
    fences: bool = False

    def __bool__(self) -> bool:
        of_plans = self.plan or self.completes or self.cancels or self.expires or self.fences
        named = self.tables or self.objects
        return bool(self.properties or self.tags or named or self.strategy or of_plans)

    @property
    def is_blind(self) -> bool:
        """Whether they do not depend on the contents of the lake: only added rows and lake properties.

        Conflicts of properties are found by name, however old the base is.
        """
        rest = replace(self, properties=PropertyChange(), tables={})
        return rest == Changes() and all(change.is_append for change in self.tables.values())

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

    def without_table(self, name: str) -> Changes:
        return replace(self, tables={key: each for key, each in self.tables.items() if key != name})

    def with_object(self, change: ObjectChange) -> Changes:
        return replace(self, objects={**self.objects, change.name: change})

    def without_object(self, name: str) -> Changes:
        return replace(self, objects={key: each for key, each in self.objects.items() if key != name})

    def tables_on(self, base: LakeState) -> frozenset[str]:
        """The names of the tables after the changes."""
        kept = {change.name_after for change in self.tables.values() if not change.alters.dropped}
        return frozenset(kept.union(name for name in base.tables if name not in self.tables))

    def objects_on(self, base: LakeState) -> dict[str, NamedObject]:
        """The views and mounts after the changes."""
        kept = {name: each for name, each in base.objects.items() if name not in self.objects}
        changed = {c.name_after: c.after for c in self.objects.values() if c.after is not None}
        return kept | changed

    def require_free(self, name: str, base: LakeState) -> None:
        """Raises an error if a table, a view or a mount has the name after the changes."""
        found = "table" if name in self.tables_on(base) else None
        if name in (objects := self.objects_on(base)):
            kind = objects[name].kind
            found = kind if kind == "view" else f"{kind} mount"
        if found is not None:
            replaced = "" if found == "table" else ", replace it (replace=True, --replace)"
            raise AlreadyExistsError(
                f"a {found} {name} already exists", f"choose another name{replaced}, or drop it first"
            )

    def with_read(self, read: TableRead) -> Changes:
        return replace(self, reads=(*self.reads, read))

    def with_object_read(self, name: str, read: NamedObject) -> Changes:
        """The same changes, with the note that a view or mount of the base was read."""
        return replace(self, read_objects={**self.read_objects, name: read})

    def _object_footprints(self, isolation: Isolation | None) -> Iterator[ObjectFootprint]:
        yield from (change.footprint() for change in self.objects.values())
        if isolation is not Isolation.SNAPSHOT:
            read = ((name, found) for name, found in self.read_objects.items() if name not in self.objects)
            yield from (ObjectFootprint(name, found.uuid, only_read=True) for name, found in read)

    def files_read(self) -> dict[str, Marks]:
        """The tables, by uuid, that were searched, with the files of the base that could contain the rows."""
        found: dict[str, set[str]] = {}
        for read in self.reads:
            found.setdefault(read.base.uuid, set()).update(read.read.files)
        for change in self.tables.values():
            if change.base is not None and change.reach.sought:
                marks = {mark for read in change.reach.sought for mark in read.files}
                found.setdefault(change.base.uuid, set()).update(marks)
        return {
            uuid: frozenset(marks) if len(marks) <= MAX_READ_FILES else None for uuid, marks in found.items()
        }

    def objects_read(self) -> tuple[str, ...]:
        """The views and mounts of the base, by uuid, that were read."""
        return tuple(sorted(found.uuid for found in self.read_objects.values()))[:MAX_READ_OBJECTS]

    def footprint(self, txid: TxId, isolation: Isolation | None = None) -> Footprint:
        """The footprint for the conflict rules. `isolation`, if given, overrides that of the tables."""
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
            objects=tuple(self._object_footprints(isolation)),
            strategy_change=self.strategy is not None,
            cancels=frozenset(self.cancels),
            tagged=frozenset(version.number for version in self.tags.set.values()),
            expires=self.expires,
            plan=self.plan,
        )
