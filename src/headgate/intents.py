"""What is told to others before the work on a table begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from headgate.changes import TableChange
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.metadata import TableMetadata
from headgate.model.announcement import Intent
from headgate.model.footprint import file_mark
from headgate.preparation import virtual_path

Announce: TypeAlias = Callable[[Intent, TableChange], None]
"""Tells others what is about to be done; may raise the conflict that it would end in."""


def announce_change(
    announce: Announce,
    verb: str,
    change: TableChange,
    metadata: TableMetadata,
    files: Sequence[DataFile] | None,
    *,
    by_position: bool = False,
) -> None:
    """Tells which files an operation may change; None if only its rows can tell. Nobody sees a new table."""
    if change.base is None:
        return
    paths = {virtual_path(change.name, file, metadata) for file in files or ()}
    marks = None if files is None else [file_mark(file.path) for file in files]
    announce(Intent.of(verb, change.name, change.base.uuid, paths, marks, by_position=by_position), change)
