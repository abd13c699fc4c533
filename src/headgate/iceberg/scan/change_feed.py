"""The changes that versions made to the rows of a table: which rows of which files were added and removed.

Derived from the manifests that each version wrote, its position files, and the roles of its files
(`iceberg.format.directories`). A compaction moves rows without changing them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from pyroaring import BitMap64

from headgate.iceberg.format.avro import Wanted
from headgate.iceberg.format.data_file import Content, DataFile, Entry, Manifest, Status, partition_key
from headgate.iceberg.format.directories import Role, role_of
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.positions import Positions, read_positions
from headgate.iceberg.scan.planning import DeleteIndex, place_of
from headgate.log.driver import Driver
from headgate.model.footprint import below_table, file_mark
from headgate.model.table import TableCommit

CHANGE_TYPE, VERSION = "_change_type", "_version"
"""The columns with the kind of change to a row, and its version."""


class ChangeType(Enum):
    """The kind of change to a row. The value is what `_change_type` contains."""

    INSERT = "insert"
    DELETE = "delete"
    UPDATE_BEFORE = "update_before"
    UPDATE_AFTER = "update_after"


_OF_POSITIONS = {
    Role.POSITIONS_DELETED: ChangeType.DELETE,
    Role.POSITIONS_UPDATED: ChangeType.UPDATE_BEFORE,
}


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of one data file that a version changed. `rows` None means all of them."""

    change: ChangeType
    version: int
    file: DataFile
    rows: BitMap64 | None = None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version that changed rows of a table: what it did, and the resulting metadata.

    `before` is the metadata of the table on which it was committed; None if it created the table.
    """

    number: int
    commit: TableCommit
    after: TableMetadata
    before: TableMetadata | None


def read_changed_rows(
    driver: Driver, loader: TableLoader, versions: Iterable[TableVersion]
) -> list[ChangedRows]:
    """All rows that `versions` changed, in their order."""
    return [rows for version in versions for rows in _Feed(driver, loader, version).all()]


class _Feed:
    """The changes of one version."""

    def __init__(self, driver: Driver, loader: TableLoader, version: TableVersion) -> None:
        self._driver = driver
        self._loader = loader
        self._version = version

    def all(self) -> Iterator[ChangedRows]:
        if self._version.commit.operation == "replace":
            return
        yield from self._gone()
        yield from self._marked()
        yield from self._come()

    def _come(self) -> Iterator[ChangedRows]:
        """Rows of added files that are new, without those that the same version deleted."""
        for file in self._files(Content.DATA, Status.ADDED):
            role = role_of(file.path)
            if role is Role.CARRIED:
                continue
            change = ChangeType.UPDATE_AFTER if role is Role.UPDATED else ChangeType.INSERT
            yield from self._rows(change, file, self._all_positions.in_file(file.path))

    def _gone(self) -> Iterator[ChangedRows]:
        """Rows of removed files, unless they were only moved to other files."""
        for file in self._files(Content.DATA, Status.DELETED):
            if not self._is_rewritten(file):
                yield from self._rows(ChangeType.DELETE, file, self._dead_before(file))

    def _marked(self) -> Iterator[ChangedRows]:
        """Rows that were changed by position in files that other versions had written.

        Without rows of files that were already removed, or are removed with all their rows: `_gone` reports
        those.
        """
        for role, positions in self._positions.items():
            for path, rows in positions.by_file.items():
                file = None if path in self._own else self._file_with_rows(path)
                changed = BitMap64() if file is None else rows - self._dead_before(file)
                if file is not None and changed:
                    yield ChangedRows(_OF_POSITIONS[role], self._version.number, file, changed)

    def _rows(self, change: ChangeType, file: DataFile, without: BitMap64) -> Iterator[ChangedRows]:
        if not without:
            yield ChangedRows(change, self._version.number, file)
            return
        rest = BitMap64(range(file.record_count)) - without
        if rest:
            yield ChangedRows(change, self._version.number, file, rest)

    @cached_property
    def _entries(self) -> tuple[tuple[Content, Entry], ...]:
        """The changes that this version listed in manifests of its own, merged with others or not."""
        number, snapshot_id = self._version.number, self._version.commit.snapshot_id
        own = [m for m in self._loader.manifests(self._version.after) if m.sequence_number == number]
        return tuple(
            (manifest.content, entry)
            for manifest, entries in zip(own, self._loader.entries(own), strict=True)
            for entry in entries
            if entry.snapshot_id == snapshot_id and entry.status is not Status.EXISTING
        )

    def _files(self, content: Content, status: Status) -> list[DataFile]:
        return [entry.file for found, entry in self._entries if found is content and entry.status is status]

    @cached_property
    def _own(self) -> frozenset[str]:
        return frozenset(file.path for file in self._files(Content.DATA, Status.ADDED))

    @cached_property
    def _position_files(self) -> list[DataFile]:
        """The position files of this version: those in the table, and those outside of it (copy-on-write)."""
        return [*self._files(Content.POSITION_DELETES, Status.ADDED), *self._beside()]

    def _beside(self) -> list[DataFile]:
        footprint = self._version.commit.footprint
        if footprint is None:
            return []
        paths = footprint.positions
        if paths is None:
            # Too many for the record: they are in the directory of the transaction.
            paths = self._listed_positions()
        location = self._version.after.location
        paths = tuple(f"{location}/{below_table(path)}" for path in paths)
        return [DataFile(path, (), 0, 0, 0, content=Content.POSITION_DELETES) for path in paths]

    def _listed_positions(self) -> tuple[str, ...]:
        added = next(iter(self._own))
        start, _, rest = added.rpartition("/data/L0-")
        directory = self._loader.key(f"{start}/data/L0-{rest.split('/', 1)[0]}")
        uris = map(self._loader.uri, self._driver.keys(f"{directory}/"))
        known = {file.path for file in self._files(Content.POSITION_DELETES, Status.ADDED)}
        return tuple(uri for uri in uris if role_of(uri) in _OF_POSITIONS and uri not in known)

    @cached_property
    def _positions(self) -> dict[Role, Positions]:
        found: dict[Role, Positions] = {}
        for role in _OF_POSITIONS:
            files = [file for file in self._position_files if role_of(file.path) is role]
            found[role] = read_positions(self._driver, self._loader, files)
        return found

    @cached_property
    def _all_positions(self) -> Positions:
        deleted, updated = self._positions.values()
        return deleted | updated

    def _is_rewritten(self, file: DataFile) -> bool:
        """Whether rows of a removed file live on in other files of this version."""
        footprint = self._version.commit.footprint
        if footprint is None:
            return False
        if footprint.rewritten is None:
            return file.path in self._all_positions.by_file
        return file_mark(file.path) in footprint.rewritten

    def _file_with_rows(self, path: str) -> DataFile | None:
        """A data file on which this version was committed, unless it is removed with all its rows."""
        removed = {file.path: file for file in self._files(Content.DATA, Status.DELETED)}
        if path in removed:
            return removed[path] if self._is_rewritten(removed[path]) else None
        return self._files_before.get(path)

    @cached_property
    def _files_before(self) -> dict[str, DataFile]:
        """The data files on which this version was committed, in the partitions of its position files."""
        before = self._version.before
        if before is None:
            return {}
        places = {place_of(file) for file in self._files(Content.POSITION_DELETES, Status.ADDED)}
        specs = {spec_id for spec_id, _ in places}
        manifests = [
            manifest
            for manifest in self._loader.manifests(before)
            if manifest.content is Content.DATA and manifest.spec_id in specs
        ]

        def wanted(manifest: Manifest) -> Wanted:
            return Wanted(lambda partition: (manifest.spec_id, partition_key(partition)) in places)

        return {
            entry.file.path: entry.file
            for entries in self._loader.entries(manifests, wanted)
            for entry in entries
            if entry.status is not Status.DELETED
        }

    def _dead_before(self, file: DataFile) -> BitMap64:
        """The rows of a file that were deleted before this version."""
        # With any sequence number: a position file never applies to a data file that is younger than itself.
        deletes = self._deletes_before.applying_to(file, 0)
        return read_positions(self._driver, self._loader, deletes).in_file(file.path)

    @cached_property
    def _deletes_before(self) -> DeleteIndex:
        before = self._version.before
        if before is None:
            return DeleteIndex(())
        manifests = [m for m in self._loader.manifests(before) if m.content is Content.POSITION_DELETES]
        return DeleteIndex(
            (entry.file, entry.sequence_number or 0)
            for entries in self._loader.entries(manifests)
            for entry in entries
            if entry.status is not Status.DELETED
        )
