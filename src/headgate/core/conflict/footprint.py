"""What a transaction read and is about to change: our side of the conflict rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap64

from headgate.core.conflict.evidence import EVERY_ROW, Selection
from headgate.core.conflict.isolation import Isolation
from headgate.model.footprint import Upserted, file_mark
from headgate.model.identifiers import TxId
from headgate.model.plan import PendingPlan
from headgate.model.record import PropertyChange
from headgate.model.retention import Retention


@dataclass(frozen=True, slots=True)
class Read:
    """Rows that a transaction looked for: which ones, and the files that could contain them, mark to path.

    The files are those of the base, and those to which compactions have moved the rows since; `lost` if these
    are unknown. `decisive`: rows that it found and left as they are also determine what it adds.
    """

    selection: Selection
    files: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False
    decisive: bool = False

    @classmethod
    def of(cls, selection: Selection, paths: Iterable[str], *, decisive: bool = False) -> Read:
        return cls(selection, {file_mark(path): path for path in paths}, decisive=decisive)


@dataclass(frozen=True, slots=True)
class TableFootprint:
    """What a transaction does to one table. `uuid` is None for a table that it creates.

    Files are named by their marks (`model.footprint.file_mark`); `names` has paths for them, for messages.

    | field | content |
    |---|---|
    | `reads` | rows that it read without changing them, such as for an insert from a query |
    | `sought` | rows that an update, a delete or a merge looked for |
    | `overwrites` | rows that overwrites selected; `replaces_all` if one selected every row |
    | `removed` | files that are removed with all their rows |
    | `rewritten` | files that copy-on-write replaces by others with the rest of their rows |
    | `compacted` | files whose rows all move to other files |
    | `deleted`, `updated` | positions of rows, by file, that are deleted or updated; no row is in both |
    | `upserted` | where an upsert by key, or a merge that inserts, looked for keys: partitions, key bounds |
    | `paths` | virtual paths of all files that are added or changed |
    | `structure` | parts of the schema that change |
    | `relies_on_spec` | the change depends on the partition spec, like an overwrite of partitions |
    | `bars_appends` | it drops or renames the table, or changes its columns, so an append cannot follow it |
    | `written_fields` | ids of the columns for which the new files have values |
    | `verbs` | what the caller did, in the words of the interface |
    """

    name: str
    uuid: str | None
    takes_name: str | None = None
    isolation: Isolation = Isolation.WRITE_SERIALIZABLE
    reads: tuple[Read, ...] = ()
    sought: tuple[Read, ...] = ()
    overwrites: tuple[Selection, ...] = ()
    replaces_all: bool = False
    removed: frozenset[str] = frozenset()
    rewritten: frozenset[str] = frozenset()
    compacted: frozenset[str] = frozenset()
    deleted: Mapping[str, BitMap64] = field(default_factory=dict)
    updated: Mapping[str, BitMap64] = field(default_factory=dict)
    upserted: Upserted | None = None
    paths: frozenset[str] = frozenset()
    property_names: frozenset[str] = frozenset()
    structure: frozenset[str] = frozenset()
    relies_on_spec: bool = False
    bars_appends: bool = False
    written_fields: frozenset[int] = frozenset()
    verbs: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def overwritten(self) -> tuple[Selection, ...]:
        """The rows that it overwrites; empty if it does not."""
        return (EVERY_ROW,) if self.replaces_all else self.overwrites

    @property
    def selections(self) -> tuple[Selection, ...]:
        """The rows that it looked for, regardless of what it did to them."""
        return (*(read.selection for read in (*self.reads, *self.sought)), *self.overwritten)

    @property
    def row_files(self) -> frozenset[str]:
        """The files in which it changes rows by position."""
        return frozenset(self.deleted) | frozenset(self.updated)

    @property
    def replaced(self) -> frozenset[str]:
        """The files that it removes and that are not compacted."""
        return self.removed | self.rewritten

    @property
    def changes_rows(self) -> bool:
        """Whether existing rows are changed or removed; a compaction does neither."""
        return bool(self.sought or self.overwritten or self.replaced or self.row_files or self.upserted)


@dataclass(frozen=True, slots=True)
class ObjectFootprint:
    """What a transaction does to one view or mount. `uuid` is None for one that it creates.

    `takes_name` is the name that it gets, if that is new. `replaces`: it may replace another view or mount
    that has the name by then. `only_read`: it is not changed, but the transaction's changes may depend on
    what was read through it.
    """

    name: str
    uuid: str | None
    takes_name: str | None = None
    replaces: bool = False
    only_read: bool = False


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a transaction read and changes, as far as the rules need to know.

    `tagged` are the versions that it tags, `expires` is what it keeps of earlier versions, `plan` is the
    table service that it schedules, `app` is the application whose batch it is.
    """

    txid: TxId
    properties: PropertyChange = field(default_factory=PropertyChange)
    tag_names: frozenset[str] = frozenset()
    tables: tuple[TableFootprint, ...] = ()
    objects: tuple[ObjectFootprint, ...] = ()
    strategy_change: bool = False
    cancels: frozenset[TxId] = frozenset()
    tagged: frozenset[int] = frozenset()
    expires: Retention | None = None
    plan: PendingPlan | None = None
    app: str | None = None

    @property
    def barred(self) -> frozenset[str]:
        """The tables, by uuid, to which no append that was made before it can be moved behind it."""
        return frozenset(one.uuid for one in self.tables if one.bars_appends and one.uuid is not None)
