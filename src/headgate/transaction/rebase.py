"""Rebases row changes onto the files of a compaction, and a compaction onto row changes.

If the file of a delete was compacted, the same rows are marked in the compacted files. If rows in the inputs
of a compaction were deleted meanwhile, the same rows are marked in its outputs, at the version that deleted
them. No work is lost, and no deleted row comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from headgate.arrow.origins import locate_moved
from headgate.core.conflict.evidence import ChangedRows, Evidence
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Target
from headgate.iceberg.format.positions import Kind, Positions, read_positions, write_positions
from headgate.iceberg.predicate.selection import AddedFile
from headgate.model.footprint import Marks, file_mark
from headgate.model.record import Record
from headgate.model.table import TableCommit
from headgate.transaction.changes import TableChange

if TYPE_CHECKING:
    from headgate.transaction.builder import Work


def rebase_changes(work: Work, record: Record, evidence: Evidence) -> bool:
    """Rebases noted row changes onto the files of a compaction in `record`, or a compaction onto row changes.

    False, with nothing noted, if it cannot be determined where rows are now.
    """
    rebased: list[TableChange] = []
    for commit in record.tables:
        for change in work.changes().tables.values():
            if change.base is None or change.base.uuid != commit.table.uuid:
                continue
            after = _rebase_table(work, change, record, commit, evidence)
            if after is None:
                return False
            rebased.append(after)
    for change in rebased:
        work.note(change)
    return True


def _rebase_table(
    work: Work, change: TableChange, record: Record, commit: TableCommit, evidence: Evidence
) -> TableChange | None:
    loader = work.loader()
    # The table after their commit: their files may use a partition spec that we have not seen.
    target = Target(work.driver, loader, loader.metadata(commit.table.metadata), work.id, change.name)
    if change.compaction:
        marks = frozenset(file_mark(path) for path in change.compacted)
        rows = evidence.rows(record, commit, marks)
        return None if rows is None else rebase_onto_row_changes(change, target, record.version.number, rows)
    added = evidence.added(record, commit)
    if added is None or commit.footprint is None:
        return None
    outputs = [file.file for file in added.values() if isinstance(file, AddedFile)]
    return rebase_onto_compaction(change, target, commit.footprint.compacted, outputs)


def rebase_onto_compaction(
    change: TableChange, target: Target, compacted: Marks, outputs: Sequence[DataFile]
) -> TableChange | None:
    """Rebases the row changes of `change` onto `outputs`, the new files of a compaction by others.

    None if it cannot be determined where the rows are now.
    """
    if compacted is None:
        # Too many to list: rows that are not in the new files may be where they were, or deleted.
        return None
    files = {file.path: file for file in outputs}
    after = change
    for kind in ("deleted", "updated"):
        rows = _of_kind(after, kind)
        gone = {path: found for path, found in rows.items() if file_mark(path) in compacted}
        if not gone:
            continue
        now = locate_moved(target.driver, target.loader, outputs, Positions(gone))
        # A missing row was deleted by others too. An updated row must still exist.
        if now is None or (kind == "updated" and len(now) != len(Positions(gone))):
            return None
        stay = {path: found for path, found in rows.items() if path not in gone}
        after = replace(after, deletes=(*after.deletes, *write_positions(target, now, files, kind)))
        after = _with_kind(after, kind, {**stay, **now.by_file})
    # Position files that refer only to files that are gone are no longer needed.
    known = {*after.deleted, *after.updated, *(file.path for file in after.added)}
    return replace(after, deletes=tuple(f for f in after.deletes if _tells_of(f, known, target)))


def rebase_onto_row_changes(
    change: TableChange, target: Target, version: int, rows: Mapping[str, ChangedRows]
) -> TableChange | None:
    """Rebases a compaction after `version` changed `rows` of its inputs, by the marks of the files.

    None if it cannot be determined where the rows are now.
    """
    paths = {file_mark(path): path for path in change.compacted}
    files = {file.path: file for file in change.added}
    after = change
    for kind in ("deleted", "updated"):
        places = Positions.of(
            {paths[mark]: _rows_of_kind(found, kind) for mark, found in rows.items() if mark in paths}
        )
        if not len(places):
            continue
        now = locate_moved(target.driver, target.loader, change.added, places)
        if now is None:
            return None
        written = write_positions(target, now, files, kind)
        numbers = {**after.numbers, **{file.path: version for file in written}}
        after = replace(after, deletes=(*after.deletes, *written), numbers=numbers)
    return after


def _of_kind(change: TableChange, kind: Kind) -> Mapping[str, BitMap64]:
    return change.deleted if kind == "deleted" else change.updated


def _with_kind(change: TableChange, kind: Kind, rows: Mapping[str, BitMap64]) -> TableChange:
    return replace(change, deleted=rows) if kind == "deleted" else replace(change, updated=rows)


def _rows_of_kind(rows: ChangedRows, kind: Kind) -> BitMap64:
    return rows.deleted if kind == "deleted" else rows.updated


def _tells_of(positions: DataFile, paths: set[str], target: Target) -> bool:
    told = read_positions(target.driver, target.loader, [positions]).by_file
    return not paths.isdisjoint(told)
