"""Row deletes and compactions that met: what the one did is carried over to what the other left.

A delete that finds its file compacted marks the same rows in the compacted files. A compaction that finds new
deletes on its inputs marks the same rows in its outputs, at the version that deleted them. Nobody's work is
lost, and no deleted row comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyroaring import BitMap64

from headgate.changes import TableChange
from headgate.core.evidence import ChangedRows
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.origins import moved
from headgate.iceberg.positions import Kind, Positions, read_positions, write_positions
from headgate.iceberg.target import Target
from headgate.model.footprint import Marks, file_mark


def over_compaction(
    change: TableChange, target: Target, compacted: Marks, outputs: Sequence[DataFile]
) -> TableChange | None:
    """The row changes of `change` after others compacted files; `outputs` are the files that they made.

    None if it cannot be told where the rows are now.
    """
    if compacted is None:
        # Too many to say which: rows that are not in the new files may be where they were, or deleted.
        return None
    files = {file.path: file for file in outputs}
    after = change
    for kind in ("deleted", "updated"):
        rows = _of_kind(after, kind)
        gone = {path: found for path, found in rows.items() if file_mark(path) in compacted}
        if not gone:
            continue
        now = moved(target.driver, target.loader, outputs, Positions(gone))
        # A row that is not there any more was deleted by others, too; an updated one must be there.
        if now is None or (kind == "updated" and len(now) != len(Positions(gone))):
            return None
        stay = {path: found for path, found in rows.items() if path not in gone}
        after = replace(after, deletes=(*after.deletes, *write_positions(target, now, files, kind)))
        after = _with_kind(after, kind, {**stay, **now.by_file})
    # What only told of files that are gone is not needed any more.
    known = {*after.deleted, *after.updated, *(file.path for file in after.added)}
    return replace(after, deletes=tuple(f for f in after.deletes if _tells_of(f, known, target)))


def over_row_changes(
    change: TableChange, target: Target, version: int, rows: Mapping[str, ChangedRows]
) -> TableChange | None:
    """A compaction after version `version` changed rows of its inputs: `rows`, by the marks of the files.

    None if it cannot be told where the rows are now.
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
        now = moved(target.driver, target.loader, change.added, places)
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
