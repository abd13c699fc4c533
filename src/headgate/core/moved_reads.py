"""What was read stays known after its rows were moved: a compaction puts them into files of other names.

Without it, a change of rows in those files would not be taken for a change of what was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headgate.core.evidence import Evidence
from headgate.core.footprint import Footprint, Read, TableFootprint
from headgate.model.footprint import file_mark
from headgate.model.record import Record
from headgate.model.table import TableCommit


def moves_rows(record: Record) -> bool:
    """Whether a commit has put rows into other files without changing them."""
    return any(_is_compaction(commit) for commit in record.tables)


def following(ours: Footprint, moves: Iterable[Record], evidence: Evidence) -> Footprint:
    """Our footprint, whose reads also name the files to which `moves` have put rows that were read."""
    for record in moves:
        moved = {commit.table.uuid: commit for commit in record.tables if _is_compaction(commit)}
        tables = (_followed(table, moved, record, evidence) for table in ours.tables)
        ours = replace(ours, tables=tuple(tables))
    return ours


def _is_compaction(commit: TableCommit) -> bool:
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
