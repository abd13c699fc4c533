"""What a transaction read and is about to change: the side of the conflict rules that is ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap64

from headgate.core.evidence import EVERY_ROW, Selection
from headgate.core.isolation import Isolation
from headgate.model.footprint import Upserted, file_mark
from headgate.model.identifiers import TxId
from headgate.model.plan import PendingPlan
from headgate.model.record import PropertyChange
from headgate.model.retention import Retention


@dataclass(frozen=True, slots=True)
class Read:
    """Rows that were looked for: which ones, and the files that could hold them, mark to path.

    Those of the base, and those to which compactions have moved them since; `lost` if it cannot be told where
    that was. `decisive`: also rows that it found and left as they are decide what it adds.
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

    Files are named by their marks (`model.footprint.file_mark`); `names` has paths for them, for people.

    | field | content |
    |---|---|
    | `reads` | rows that it read for something else than to change them, such as an insert from a query |
    | `sought` | rows that an update, a delete or a merge looked for |
    | `overwrites` | rows that overwrites were about; `replaces_all` if one was about every row |
    | `removed` | files that go with all their rows |
    | `rewritten` | files that copy-on-write replaces by others with the rest of their rows |
    | `compacted` | files whose rows all move to other files |
    | `deleted`, `updated` | positions of rows, by file, that are deleted, or updated; none is both |
    | `upserted` | the partitions that an upsert by key has looked at, and the bounds of its keys |
    | `paths` | virtual paths of all files that are added or changed |
    | `structure` | parts of the structure that change; `tightens` if it allows less than before |
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
    tightens: bool = False
    written_fields: frozenset[int] = frozenset()
    verbs: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def overwritten(self) -> tuple[Selection, ...]:
        """The rows that it overwrites; empty if it does not."""
        return (EVERY_ROW,) if self.replaces_all else self.overwrites

    @property
    def row_files(self) -> frozenset[str]:
        """The files in which it changes rows by position."""
        return frozenset(self.deleted) | frozenset(self.updated)

    @property
    def replaced(self) -> frozenset[str]:
        """The files that it takes away and that are not compacted."""
        return self.removed | self.rewritten

    @property
    def changes_rows(self) -> bool:
        """Whether rows that were there before are changed or removed; a compaction does neither."""
        return bool(self.sought or self.overwritten or self.replaced or self.row_files or self.upserted)


@dataclass(frozen=True, slots=True)
class ObjectFootprint:
    """What a transaction does to one view or mount. `uuid` is None for one that it makes.

    `takes_name` is the name that it gets, if it is new to it. `replaces`: if another view or mount has that
    name by then, it may be replaced.
    """

    name: str
    uuid: str | None
    takes_name: str | None = None
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a transaction read and changes, as far as the rules need to know.

    `tagged` are the versions that it gives names to, `expires` is what it leaves of earlier versions, `plan`
    the table service that it schedules.
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
