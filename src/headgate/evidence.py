"""Evidence for the conflict rules, fetched from the tables of the lake: each answer once.

What is fetched never changes: manifests and position delete files of a committed version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from headgate.commit.driver import Driver
from headgate.core.evidence import ChangedRows
from headgate.model.footprint import file_mark
from headgate.model.record import Record
from headgate.model.table import TableCommit

if TYPE_CHECKING:
    # Loading pyiceberg takes longer than most commands that need no table.
    from headgate.iceberg.data_file import Content, DataFile
    from headgate.iceberg.loader import TableLoader
    from headgate.iceberg.metadata import TableMetadata

Place: TypeAlias = tuple[int, str]
"""A version, and the uuid of a table."""


class FetchedEvidence:
    """The `Evidence` of one transaction. Asks storage only when a rule asks."""

    def __init__(self, driver: Driver, loader: Callable[[], TableLoader]) -> None:
        self._driver = driver
        self._loader = loader
        self._added: dict[Place, Mapping[str, object]] = {}
        self._rows: dict[Place, Mapping[str, ChangedRows]] = {}

    def added(self, other: Record, table: TableCommit) -> Mapping[str, object] | None:
        from headgate.iceberg.data_file import Content
        from headgate.iceberg.selection import AddedFile

        place = (other.version.number, table.table.uuid)
        if place not in self._added:
            metadata = self._loader().metadata(table.table.metadata)
            files = self._files(metadata, other, table, Content.DATA)
            self._added[place] = {file.path: AddedFile(file, metadata) for file in files}
        return self._added[place]

    def rows(
        self, other: Record, table: TableCommit, files: frozenset[str]
    ) -> Mapping[str, ChangedRows] | None:
        place = (other.version.number, table.table.uuid)
        if place not in self._rows:
            self._rows[place] = self._changed_rows(other, table)
        return {mark: rows for mark, rows in self._rows[place].items() if mark in files}

    def _changed_rows(self, other: Record, table: TableCommit) -> Mapping[str, ChangedRows]:
        from headgate.iceberg.data_file import Content
        from headgate.iceberg.directories import Role, role_of
        from headgate.iceberg.positions import Positions, read_positions

        loader = self._loader()
        metadata = loader.metadata(table.table.metadata)
        listed = tuple(self._files(metadata, other, table, Content.POSITION_DELETES))

        def told(not_in: Role) -> Positions:
            # A file that does not say which of the two it tells of is taken for both.
            return read_positions(self._driver, loader, [f for f in listed if role_of(f.path) is not not_in])

        deleted, updated = told(not_in=Role.POSITIONS_UPDATED), told(not_in=Role.POSITIONS_DELETED)
        paths = {*deleted.by_file, *updated.by_file}
        return {file_mark(path): ChangedRows(deleted.in_file(path), updated.in_file(path)) for path in paths}

    def _files(
        self, metadata: TableMetadata, other: Record, table: TableCommit, content: Content
    ) -> Iterator[DataFile]:
        """The files that `other` added to the table, which it left as `metadata` says."""
        from headgate.iceberg.data_file import Status

        loader, number = self._loader(), other.version.number
        # Whatever a version adds stands in manifests that it wrote itself, merged with others or not.
        new = [m for m in loader.manifests(metadata) if m.sequence_number == number and m.content is content]
        for entries in loader.entries(new):
            for entry in entries:
                if entry.status is Status.ADDED and entry.snapshot_id == table.snapshot_id:
                    yield entry.file
