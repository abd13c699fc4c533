"""Where a transaction and a commit touch the same table: what each did there, and what they have in common.

Whatever a record leaves out, because there was too much or because it was written before, is taken for the
worst: a conflict can be reported that is none, but none is missed.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyroaring import BitMap64

from headgate.core.evidence import ChangedRows, Evidence, Selection
from headgate.core.footprint import Read, TableFootprint
from headgate.model.footprint import FileFootprint, Marks, Upserted, shared_partitions
from headgate.model.record import Record
from headgate.model.table import TableCommit

SHOWN_FILES = 3

UNTOLD_OVERWRITE = FileFootprint(added=None, removed=None, rewritten=None)
"""Of a commit that was written before footprints were; rows were not changed by position then."""


@dataclass(frozen=True)
class Meeting:
    """Our footprint on a table, and what the commit `other` did to the same table."""

    mine: TableFootprint
    theirs: TableCommit
    other: Record
    evidence: Evidence = field(repr=False)

    # --- what they did ------------------------------------------------------------------------------------

    @property
    def did(self) -> str:
        """What they did, in a word or two."""
        words = (
            self.theirs.verbs or self.theirs.structure or {self.theirs.operation or self.theirs.action.value}
        )
        return " and ".join(sorted(words))

    @property
    def appended(self) -> bool:
        """They added rows, and did not look at others. A merge that found nothing to change has looked."""
        added = self.theirs.snapshot_id is not None and self.theirs.operation == "append"
        return added and self._verbs <= {"append"}

    @property
    def compacted(self) -> bool:
        """They moved rows to other files, and changed none."""
        return self.theirs.snapshot_id is not None and self.theirs.operation == "replace"

    @property
    def changed(self) -> bool:
        """They changed or removed rows, or added some because of those that they found or did not find."""
        return self.theirs.snapshot_id is not None and not self.appended and not self.compacted

    @property
    def replaced_all(self) -> bool:
        """They gave the table other rows altogether: an overwrite of all of them, or a restore."""
        return self.theirs.replaces_all or "restore" in self.theirs.verbs

    @property
    def overwrote(self) -> bool:
        return self.changed and "overwrite" in self._verbs

    @property
    def changed_otherwise(self) -> bool:
        """They changed rows, and not by overwriting alone. What a later release calls its own is such."""
        return self.changed and bool(self._verbs - {"append", "overwrite"})

    @property
    def _verbs(self) -> Set[str]:
        # Before records had verbs, there were appends and overwrites alone.
        return self.theirs.verbs or {self.theirs.operation or ""}

    @cached_property
    def files(self) -> FileFootprint:
        """What became of the files, as far as their record tells."""
        if self.theirs.snapshot_id is None:
            return FileFootprint()
        if self.theirs.footprint is not None:
            return self.theirs.footprint
        return FileFootprint(added=None) if self.appended else UNTOLD_OVERWRITE

    # --- what both touched --------------------------------------------------------------------------------

    def named(self, ours: Iterable[str], *theirs: Marks) -> str | None:
        """The files of `ours` that are in one of `theirs`, in words; None if there are none."""
        marks = frozenset(ours)
        shared = frozenset[str]().union(*(marks if some is None else marks & some for some in theirs))
        if not shared:
            return None
        return self._listed(shared)

    def added_inside(self, selections: Iterable[Selection]) -> str | None:
        """The files that they added and that can hold rows of a selection, in words; None if there are none.

        Partitions decide from the record alone. Only if they meet, the column bounds of the new files are
        looked at.
        """
        near = [selection for selection in selections if self._adds_near(selection)]
        if not near:
            return None
        files = self.evidence.added(self.other, self.theirs)
        if files is None:
            return "new files"
        inside = [path for path, file in files.items() if any(selection.file(file) for selection in near)]
        return listed(inside) if inside else None

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
            return "files to which rows were moved that you read"
        return self.named({mark for read in known for mark in read.files} - except_for, *theirs)

    def same_rows(self, ours: Mapping[str, BitMap64], *, deleted: bool, updated: bool) -> str | None:
        """The rows of `ours` that they deleted, or updated, too, in words; None if there are none.

        Only if they changed rows of the same files, the positions are looked at.
        """
        theirs = [*([self.files.deleted] if deleted else []), *([self.files.updated] if updated else [])]
        near = self.named(ours, *theirs)
        if near is None:
            return None
        rows = self._their_rows
        if rows is None:
            return f"rows of {near}, and which ones cannot be told"
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
        """Where two upserts by key can have met, in words; None if they cannot."""
        ours, theirs = self.mine.upserted, self.files.upserted
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
    """Whether a key column keeps the keys apart; values that cannot be compared do not."""
    return any(
        _apart(ours.bounds[field_id], theirs.bounds[field_id])
        for field_id in ours.bounds.keys() & theirs.bounds.keys()
    )


def _apart(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    if len({type(value) for value in (*one, *other)}) > 1:
        return False  # a column that was widened, or a value that the record keeps as text
    # Comparisons with NaN are false, so that it keeps nothing apart.
    return bool(one[1] < other[0] or other[1] < one[0])


def counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def listed(paths: Iterable[str]) -> str:
    """Files by their last names, the first few of them."""
    names = sorted(f"…/{path.rsplit('/', 1)[1]}" if "/" in path else path for path in paths)
    rest = len(names) - SHOWN_FILES
    return ", ".join(names[:SHOWN_FILES]) + (f" and {rest} more" if rest > 0 else "")
