"""Where a transaction and a commit touch the same table: what each did there, and where they overlap.

If a record leaves something out, because there was too much or because an earlier release wrote it, the worst
is assumed: a conflict can be reported where there is none, but none is missed.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyroaring import BitMap64

from headgate.core.conflict.evidence import ChangedRows, Evidence, Selection
from headgate.core.conflict.footprint import Read, TableFootprint
from headgate.model.footprint import FileFootprint, Marks, Upserted, shared_partitions
from headgate.model.record import Record
from headgate.model.table import TableCommit

SHOWN_FILES = 3

UNTOLD_OVERWRITE = FileFootprint(added=None, removed=None, rewritten=None, overwritten=None)
"""Of a commit from before footprints existed; rows were not changed by position then."""


@dataclass(frozen=True)
class Meeting:
    """Our footprint on a table, and what the commit `other` did to the same table.

    `barred` are the tables, by uuid, to which nobody can append after us: this one or others. `app` is the
    application whose batch we are.
    """

    mine: TableFootprint
    theirs: TableCommit
    other: Record
    evidence: Evidence = field(repr=False)
    barred: frozenset[str] = frozenset()
    app: str | None = None

    # --- what they did ------------------------------------------------------------------------------------

    @property
    def did(self) -> str:
        """What they did, in one or two words."""
        words = (
            self.theirs.verbs or self.theirs.structure or {self.theirs.operation or self.theirs.action.value}
        )
        return " and ".join(sorted(words))

    @property
    def appended(self) -> bool:
        """They added rows, and read nothing. A transaction that read anything is not a blind append."""
        return self.theirs.snapshot_id is not None and self.other.appends_blindly

    @property
    def compacted(self) -> bool:
        """They moved rows to other files, and changed none."""
        return self.theirs.snapshot_id is not None and self.theirs.operation == "replace"

    @property
    def changed(self) -> bool:
        """They changed or removed rows, or added some depending on rows that they found or did not find."""
        return self.theirs.snapshot_id is not None and not self.appended and not self.compacted

    @property
    def inserted(self) -> bool:
        """They only added rows to this table, and these depend on what they did elsewhere."""
        return self.changed and self._verbs <= {"append"}

    @property
    def replaced_all(self) -> bool:
        """They replaced all rows of the table."""
        return self.theirs.replaces_all

    @property
    def overwrote(self) -> bool:
        return self.changed and "overwrite" in self._verbs

    @property
    def changed_otherwise(self) -> bool:
        """They changed rows, and not only by overwriting. Verbs of later releases count as such."""
        return self.changed and bool(self._verbs - {"append", "overwrite"})

    @property
    def _verbs(self) -> Set[str]:
        # Before records had verbs, appends and overwrites were the only operations.
        return self.theirs.verbs or {self.theirs.operation or ""}

    @cached_property
    def files(self) -> FileFootprint:
        """What happened to the files, as far as their record says."""
        if self.theirs.snapshot_id is None:
            return FileFootprint()
        if self.theirs.footprint is not None:
            return self.theirs.footprint
        return FileFootprint(added=None) if self.theirs.operation == "append" else UNTOLD_OVERWRITE

    @property
    def is_earlier_batch(self) -> bool:
        """Whether they are a batch of the application of which we are a later one."""
        return self.other.app is not None and self.other.app.app == self.app

    @property
    def appended_where_barred(self) -> Iterator[str]:
        """The names of tables to which they appended, and to which nobody can append after us."""
        if self.appended:
            yield from (one.name for one in self.other.tables if one.table.uuid in self.barred)

    # --- what both touched --------------------------------------------------------------------------------

    def named(self, ours: Iterable[str], *theirs: Marks) -> str | None:
        """The files of `ours` that are in one of `theirs`, in words; None if there are none."""
        marks = frozenset(ours)
        shared = frozenset[str]().union(*(marks if some is None else marks & some for some in theirs))
        if not shared:
            return None
        return self._listed(shared)

    def added_inside(self, selections: Iterable[Selection]) -> str | None:
        """The files that they added and that can contain selected rows, in words; None if there are none.

        Partitions decide, from the record alone. Only if they overlap, the column bounds of the new files are
        fetched.
        """
        inside = self.files_inside(selections)
        if inside is None:
            return "new files"
        return listed(inside) if inside else None

    def files_inside(self, selections: Iterable[Selection]) -> tuple[str, ...] | None:
        """The paths of these files; None if there may be some, but which ones is unknown."""
        near = [selection for selection in selections if self._adds_near(selection)]
        if not near:
            return ()
        files = self.evidence.added(self.other, self.theirs)
        if files is None:
            return None
        return tuple(path for path, file in files.items() if any(selection.file(file) for selection in near))

    def _adds_near(self, selection: Selection) -> bool:
        if self.theirs.snapshot_id is None:
            return False
        added = self.files.added
        return added is None or any(selection.partition(*partition) for partition in added)

    def read_of(
        self, reads: Iterable[Read], *theirs: Marks, except_for: Set[str] = frozenset()
    ) -> str | None:
        """The files that we read and that are in one of `theirs`, in words."""
        known = list(reads)
        if any(read.lost for read in known) and any(some is None or some - except_for for some in theirs):
            return "files to which rows that you read were moved"
        return self.named({mark for read in known for mark in read.files} - except_for, *theirs)

    def same_rows(self, ours: Mapping[str, BitMap64], *, deleted: bool, updated: bool) -> str | None:
        """The rows of `ours` that they also deleted, or updated, in words; None if there are none.

        The positions are fetched only if they changed rows of the same files.
        """
        theirs = [*([self.files.deleted] if deleted else []), *([self.files.updated] if updated else [])]
        near = self.named(ours, *theirs)
        if near is None:
            return None
        rows = self._their_rows
        if rows is None:
            return f"rows of {near} (it is unknown which rows)"
        kinds = (deleted, updated)
        shared = {mark: positions & _of_kinds(rows.get(mark), kinds) for mark, positions in ours.items()}
        met = [mark for mark, positions in shared.items() if positions]
        if not met:
            return None
        count = sum(len(shared[mark]) for mark in met)
        return f"{counted(count, 'same row')} of {self._listed(met)}"

    def _listed(self, marks: Iterable[str]) -> str:
        reads = (read.files for read in (*self.mine.reads, *self.mine.sought))
        names = ChainMap(dict(self.mine.names), *map(dict, reads))
        return listed(names.get(mark, mark) for mark in marks)

    @cached_property
    def _their_rows(self) -> Mapping[str, ChangedRows] | None:
        return self.evidence.rows(self.other, self.theirs, self.mine.row_files)

    def same_keys(self) -> str | None:
        """Where two upserts by key can overlap, in words; None if they cannot."""
        return keys_in_common(self.mine.upserted, self.files.upserted)


def keys_in_common(ours: Upserted | None, theirs: Upserted | None) -> str | None:
    """Where two upserts of a table can look for the same keys, in words; None if they cannot."""
    if ours is None or theirs is None or _disjoint_bounds(ours, theirs):
        return None
    if ours.partitions is None or theirs.partitions is None:
        return "the same keys"
    shared = shared_partitions(ours.partitions, theirs.partitions)
    if shared:
        return f"the same keys of {counted(len(shared), 'partition')}"
    specs = {spec_id for spec_id, _ in (*ours.partitions, *theirs.partitions)}
    return None if len(specs) <= 1 else "the same keys under different partition specs"


def _of_kinds(rows: ChangedRows | None, kinds: tuple[bool, bool]) -> BitMap64:
    if rows is None:
        return BitMap64()
    deleted, updated = kinds
    return (rows.deleted if deleted else BitMap64()) | (rows.updated if updated else BitMap64())


def _disjoint_bounds(ours: Upserted, theirs: Upserted) -> bool:
    """Whether the bounds of a key column are disjoint; values that cannot be compared are not."""
    return any(
        _apart(ours.bounds[field_id], theirs.bounds[field_id])
        for field_id in ours.bounds.keys() & theirs.bounds.keys()
    )


def _apart(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    if len({type(value) for value in (*one, *other)}) > 1:
        return False  # a column that was widened, or a value that the record stores as text
    # Comparisons with NaN are false, so NaN never makes bounds disjoint.
    return bool(one[1] < other[0] or other[1] < one[0])


def counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def listed(paths: Iterable[str]) -> str:
    """Files by their last names, the first few of them."""
    names = sorted(f"…/{path.rsplit('/', 1)[1]}" if "/" in path else path for path in paths)
    rest = len(names) - SHOWN_FILES
    return ", ".join(names[:SHOWN_FILES]) + (f" and {rest} more" if rest > 0 else "")
