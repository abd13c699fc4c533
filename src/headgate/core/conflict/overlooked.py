"""Appended rows that a transaction did not read, and whether another one that committed before it needs them.

A blind append may be ordered after a transaction that did not read it. That is impossible if a third
transaction was committed before and must come after the append: then the append comes before the third one,
and the third one before this transaction, so no order of all three exists. The append moves as a whole: we
may have missed its rows in one table, and the third transaction may need those in another one.

A batch of an application never moves behind a later batch of the same application, where it would be skipped
as one that was committed before. So if an append that we missed is a batch, its later batches move with it.

What was read stays known after its rows are moved by a compaction, which puts them into files with other
names. Otherwise a change of rows in those files would not count as a change of what was read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from headgate.core.conflict.evidence import EVERY_ROW, Evidence, Selection
from headgate.core.conflict.footprint import Footprint, Read, TableFootprint
from headgate.core.conflict.meeting import Meeting, listed
from headgate.model.footprint import Marks, file_mark
from headgate.model.identifiers import Version
from headgate.model.record import Record
from headgate.model.table import TableCommit


@dataclass(frozen=True)
class Overlooked:
    """A table that we read, the commit `other`, and the commits between our base and it, oldest first.

    `barred` are the tables, by uuid, to which nobody can append after us: this one or others.
    """

    mine: TableFootprint
    other: Record
    before: Sequence[Record]
    evidence: Evidence = field(repr=False)
    barred: frozenset[str] = frozenset()

    def needed(self) -> str | None:
        """Why `other` must come after an append that we missed, in words; None if there is no reason.

        New files are looked up only if `other` depends on an append, as far as the records say.
        """
        if self.other.appends_blindly:
            return self._stays_before_us()
        found = (self._needed_after(append) for append in self.before if append.appends_blindly)
        return next(filter(None, found), None)

    def _stays_before_us(self) -> str | None:
        """Why `other`, an append, cannot move with an earlier batch of its application; None if it can."""
        barred = next((one.name for one in self.other.tables if one.table.uuid in self.barred), None)
        if barred is None or not self._follows_missed_batch(self.other):
            return None
        return (
            "it is a later batch than an append that you did not read, and cannot be ordered after you, "
            f"because it appended to {barred}, which you drop, rename or change"
        )

    def _needed_after(self, append: Record) -> str | None:
        app = self.other.app
        if app is not None and append.app is not None and app.app == append.app.app:
            return _later_batch_text(append, app.app) if self._missed(append) else None
        needed = [commit for commit in append.tables if self._may_need(append, commit)]
        if not needed or not (self._missed(append) or self._follows_missed_batch(append)):
            return None
        words = (self._needs(append, commit) for commit in needed)
        return next(filter(None, words), None)

    def _follows_missed_batch(self, append: Record) -> bool:
        """Whether an append is a later batch than one that we missed."""
        first = None if append.app is None else self._missed_batches.get(append.app.app)
        return first is not None and append.version > first

    @cached_property
    def _missed_batches(self) -> Mapping[str, Version]:
        """The version of the first batch of each application that is an append that we missed."""
        found: dict[str, Version] = {}
        for append in self.before:
            app = append.app.app if append.app is not None and append.appends_blindly else None
            if app is not None and app not in found and self._missed(append):
                found[app] = append.version
        return found

    def _may_need(self, append: Record, commit: TableCommit) -> bool:
        return self._bars(commit) or self._looked(append, commit) != frozenset()

    def _needs(self, append: Record, commit: TableCommit) -> str | None:
        if self._bars(commit):
            # Also if it missed the append itself: the rows are gone with the table, so it came after them.
            return f"it dropped, renamed or changed {commit.name} after an append that you did not read"
        return self._seen(append, commit)

    def _bars(self, commit: TableCommit) -> bool:
        """Whether what `other` did to a table of the append leaves no table to append to."""
        return any(one.bars_appends for one in self.other.tables if one.table.uuid == commit.table.uuid)

    def _missed(self, append: Record) -> bool:
        """Whether the append added rows that we looked for."""
        selections = self.mine.selections
        ours = (commit for commit in append.tables if commit.table.uuid == self.mine.uuid)
        return any(self._files(append, commit, selections) != () for commit in ours)

    def _seen(self, append: Record, commit: TableCommit) -> str | None:
        """The rows of the append that `other` read in one table, in words."""
        looked = self._looked(append, commit)
        files = self._files(append, commit, (EVERY_ROW,))
        rows = f"it read rows that you did not read: rows of version {append.version}"
        if files is None:
            return rows
        shared = [path for path in files if looked is None or file_mark(path) in looked]
        return f"{rows}, in {listed(shared)}" if shared else None

    def _files(
        self, append: Record, commit: TableCommit, selections: Sequence[Selection]
    ) -> tuple[str, ...] | None:
        return Meeting(self.mine, commit, append, self.evidence).files_inside(selections)

    def _looked(self, append: Record, commit: TableCommit) -> Marks:
        """The files in which `other` may have seen rows of the append; those of its base are all it sees."""
        if append.version > self.other.base or commit.snapshot_id is None:
            return frozenset()
        looked = looked_at(self.other, commit.table.uuid)
        return None if looked != frozenset() and self._moved(append, commit) else looked

    def _moved(self, append: Record, commit: TableCommit) -> bool:
        """Whether rows of the append may have been in other files by the time that `other` began."""
        return any(
            is_compaction(one) and one.table.uuid == commit.table.uuid
            for record in self.before
            if append.version < record.version <= self.other.base
            for one in record.tables
        )


def _later_batch_text(append: Record, app: str) -> str:
    return (
        f"it is a later batch of {app} than version {append.version}, an append that you did not read, and "
        "no batch can be ordered behind a later one"
    )


def looked_at(record: Record, uuid: str) -> Marks:
    """The files of a table that a transaction read or changed; None if it can be any."""
    if record.reads is None:
        return None
    looked = [record.reads.get(uuid, frozenset())]
    for commit in record.tables:
        if commit.table.uuid == uuid and commit.snapshot_id is not None and not is_compaction(commit):
            files = commit.footprint
            if files is None:
                return None
            looked += [files.removed, files.rewritten, files.deleted, files.updated]
    return _union(looked)


def _union(all_marks: Sequence[Marks]) -> Marks:
    known = [marks for marks in all_marks if marks is not None]
    return frozenset[str]().union(*known) if len(known) == len(all_marks) else None


def is_overlooked(record: Record, ours: Footprint, apps: Container[str] = ()) -> bool:
    """Whether later commits must be compared with this one too: an append that we missed, or a compaction.

    The compaction may be of a table that we did not read: the append may have added rows there as well. So
    may a later batch of one of `apps`, the applications with batches among the appends that we missed.
    """
    if not record.appends_blindly:
        return moves_rows(record)
    uuids = {table.uuid for table in ours.tables if table.selections}
    searched = any(commit.table.uuid in uuids for commit in record.tables)
    return searched or (record.app is not None and record.app.app in apps)


@dataclass
class Earlier:
    """Commits that were judged, as far as later ones must be compared with them too, oldest first."""

    records: list[Record] = field(default_factory=list)
    _apps: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Earlier:
        kept = list(records)
        return cls(kept, {record.app.app for record in kept if record.app is not None})

    def note(self, record: Record, ours: Footprint) -> None:
        """Adds a commit that was judged if later ones must be compared with it."""
        if is_overlooked(record, ours, self._apps):
            self.records.append(record)
            self._apps |= {record.app.app} if record.app is not None else set()


def moves_rows(record: Record) -> bool:
    """Whether a commit moved rows to other files without changing them."""
    return any(is_compaction(commit) for commit in record.tables)


def following(ours: Footprint, moves: Iterable[Record], evidence: Evidence) -> Footprint:
    """Our footprint, with the reads extended by the files to which `moves` moved rows that were read."""
    for record in moves:
        moved = {commit.table.uuid: commit for commit in record.tables if is_compaction(commit)}
        tables = (_followed(table, moved, record, evidence) for table in ours.tables)
        ours = replace(ours, tables=tuple(tables))
    return ours


def is_compaction(commit: TableCommit) -> bool:
    """Whether rows were moved to other files, and none was changed."""
    return commit.snapshot_id is not None and commit.operation == "replace"


def _followed(
    table: TableFootprint, moved: Mapping[str, TableCommit], record: Record, evidence: Evidence
) -> TableFootprint:
    commit = None if table.uuid is None else moved.get(table.uuid)
    if commit is None:
        return table
    return replace(
        table,
        reads=tuple(_followed_read(read, commit, record, evidence) for read in table.reads),
        sought=tuple(_followed_read(read, commit, record, evidence) for read in table.sought),
    )


def _followed_read(read: Read, commit: TableCommit, record: Record, evidence: Evidence) -> Read:
    compacted = None if commit.footprint is None else commit.footprint.compacted
    if compacted is not None and not read.files.keys() & compacted:
        return read
    added = evidence.added(record, commit)
    if added is None:
        return replace(read, lost=True)
    inside = {file_mark(path): path for path, file in added.items() if read.selection.file(file)}
    return replace(read, files={**read.files, **inside})
