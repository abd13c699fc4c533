"""Copies what one version added to one table: data files unchanged, metadata rewritten for the new root.

All files have names that no reader uses before the record of the version exists. Idempotent: the leftovers of
a replication that died are overwritten with the same bytes.

The source may have deleted files of expired versions, but nothing that its newest version needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from headgate.errors import CorruptLakeError, StorageError
from headgate.iceberg.format.avro import decode_manifest, decode_manifest_list
from headgate.iceberg.format.data_file import Content, DataFile, Entry, Manifest, Status
from headgate.iceberg.format.directories import Role, role_of
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.relocation import FileSizes, Relocation
from headgate.log.driver import Driver
from headgate.model.footprint import below_table
from headgate.model.limits import POSITIONS_BYTES, require_size
from headgate.model.state import LakeState
from headgate.model.table import TableCommit, TableRef
from headgate.storage.capabilities import Tail

FILES_AT_ONCE = 16
BYTES_AT_ONCE = 256 << 20
"""How many bytes of data files are copied at once; a larger file is copied by itself."""
PART_BYTES = 32 << 20
"""Of a file that is longer, so much is in memory: manifests do not decide it, which may say anything."""
WORTH_A_LISTING = 4
"""With more files than this, the target is checked first for files that were already copied."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How many data and delete files were copied, and their bytes."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Copied) -> Copied:
        return Copied(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class _Read:
    """A manifest of the source with its bytes and entries."""

    manifest: Manifest
    data: bytes
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot that was copied, with its manifests in the replica; None if the source lacks some."""

    copied: Copied = Copied()
    manifests: tuple[Manifest, ...] | None = None


@dataclass(frozen=True, slots=True)
class TableCopy:
    """Copies tables from the lake of `source` to that of `target`. `expired` decides what may be missing.

    `resumes`: an earlier replication may have copied a part of the version; existing files are not copied
    again.
    """

    source: TableLoader
    target: TableLoader
    move: Relocation
    expired: Expired
    resumes: bool = False
    _sizes: dict[str, FileSizes] = field(default_factory=dict)

    def copy(self, commit: TableCommit, before: TableRef | None) -> Copied:
        """Copies what a commit added to a table; `before` is the table at the version before.

        If `before` is not in the replica, because the source had already expired it, copies all files of the
        table.
        """
        key = commit.table.metadata
        metadata = self.source.find_metadata(key)
        if metadata is None:
            self.expired.allow(commit.table.uuid, key)
            return Copied()
        known = None if before is None else self._find_known(before)
        moved, snapshot = self.move.metadata(metadata), _Snapshot()
        if metadata.snapshot is not None and (commit.snapshot_id is not None or known is None):
            snapshot = self._copy_snapshot(commit, metadata, known)
            if snapshot.manifests is None:
                # If the version is kept, files of a later version contain its rows: nothing else is needed.
                self._driver.put(key, moved.data)
                return snapshot.copied
        copied = snapshot.copied + self._copy_statistics(metadata, known)
        self._driver.put(key, moved.data)
        if snapshot.manifests is not None:
            self.target.remember(key, moved, snapshot.manifests, {})
        return copied

    def _find_known(self, before: TableRef) -> TableMetadata | None:
        """The table in the replica, if its snapshot exists there."""
        metadata = self.target.find_metadata(before.metadata)
        if metadata is None:
            return None
        try:
            self.target.manifests(metadata)
        except CorruptLakeError:
            return None
        return metadata

    @property
    def _driver(self) -> Driver:
        return self.target.driver

    def _copy_snapshot(
        self, commit: TableCommit, metadata: TableMetadata, known: TableMetadata | None
    ) -> _Snapshot:
        """Copies the snapshot of a table, except the parts that `known`, the table in the replica, has."""
        there = {} if known is None else {m.path: m for m in self.target.manifests(known)}
        path = _list_of(metadata)
        data = self._fetch(metadata.uuid, path)
        if data is None:
            return _Snapshot()
        listed = decode_manifest_list(data, path)
        read = self._read(
            metadata.uuid, [manifest for manifest in listed if self.move.uri(manifest.path) not in there]
        )
        copied = self._copy_files(commit, read, whole=known is None)
        self._know_sizes(read, there)
        lengths = {uri: manifest.length for uri, manifest in there.items()} | self._write_manifests(read)
        uris = [self.move.uri(manifest.path) for manifest in listed]
        if not set(uris) <= set(lengths):
            return _Snapshot(copied)  # a manifest has expired, so the snapshot can no longer be read
        self._driver.put(self.source.key(path), self.move.manifest_list(data, path, lengths))
        pairs = zip(listed, uris, strict=True)
        return _Snapshot(copied, tuple(replace(m, path=uri, length=lengths[uri]) for m, uri in pairs))

    def _copy_statistics(self, metadata: TableMetadata, known: TableMetadata | None) -> Copied:
        """Copies new statistics files of the table, which only other engines write."""
        before = set() if known is None else set(map(self.target.key, _statistics(known)))
        copied = Copied()
        for uri in _statistics(metadata):
            if self.source.key(uri) not in before:
                copied += self._copy_object(metadata.uuid, uri)
        return copied

    def _read(self, uuid: str, manifests: Sequence[Manifest]) -> list[_Read]:
        fetched = self._driver.host.together([partial(self._fetch, uuid, m.path) for m in manifests])
        return [
            _Read(manifest, data, tuple(decode_manifest(data, manifest)))
            for manifest, data in zip(manifests, fetched, strict=True)
            if data is not None
        ]

    # --- data files -----------------------------------------------------------------------------------------

    def _copy_files(self, commit: TableCommit, read: Sequence[_Read], *, whole: bool) -> Copied:
        """Copies the files that a version added, or with `whole` all files of the table."""
        entries = [entry for one in read for entry in one.entries if entry.status is not Status.DELETED]
        own = [entry.file for entry in entries if whole or _is_new(entry, commit)]
        files = [*own, *self._beside(commit, own)]
        present = self._present(commit, files)
        copied = Copied()
        for batch in _batches(files):
            tasks = [partial(self._copy_file, commit.table.uuid, file, present) for file in batch]
            copied = sum(self._driver.host.together(tasks), copied)
        return copied

    def _copy_file(self, uuid: str, file: DataFile, present: frozenset[str]) -> Copied:
        key = self.source.key(file.path)
        is_data = file.content is Content.DATA
        if is_data and key in present:
            return Copied()
        if is_data:
            return self._copy_object(uuid, file.path)
        data = self._fetch(uuid, file.path, POSITIONS_BYTES)
        if data is None:
            self._sizes[self.move.uri(file.path)] = FileSizes(file.size_bytes, file.metrics.sizes)
            return Copied()
        data, self._sizes[self.move.uri(file.path)] = self.move.positions(data, file.path)
        self._driver.put(key, data)
        return Copied(1, len(data))

    def _copy_object(self, uuid: str, uri: str) -> Copied:
        """Copies an object unchanged, a part at a time; nothing if it is missing and may be."""
        key = self.source.key(uri)
        # One request for most files. A longer one is as long as it is, whatever its manifest says.
        end = self.source.driver.tail(key, PART_BYTES)
        if end is None:
            self.expired.allow(uuid, key)
            return Copied()
        require_size(key, end.object_bytes)
        if len(end.data) == end.object_bytes:
            self._driver.put(key, end.data)
            return Copied(1, end.object_bytes)
        return Copied(1, self._driver.put_in_parts(key, _parts(self.source.driver, key, end)))

    def _beside(self, commit: TableCommit, added: Sequence[DataFile]) -> list[DataFile]:
        """Position files outside the manifests, which list the rows that copy-on-write changed."""
        footprint, location = commit.footprint, commit.table.location
        if footprint is None:
            return []
        paths = footprint.positions
        if paths is None:
            paths = tuple(self._list_positions(commit, added))
        known = {file.path for file in added}
        uris = (self.source.uri(f"{location}/{below_table(path)}") for path in paths)
        return [
            DataFile(uri, (), 0, 0, 0, content=Content.POSITION_DELETES) for uri in uris if uri not in known
        ]

    def _list_positions(self, commit: TableCommit, added: Sequence[DataFile]) -> Iterator[str]:
        """The same, if there were too many for the record: they are in the directory of the transaction."""
        names = {below_table(file.path).split("/")[1] for file in added}
        for name in sorted(names):
            for key in self.source.driver.keys(f"{commit.table.location}/data/{name}/"):
                if role_of(f"/{key}") in (Role.POSITIONS_DELETED, Role.POSITIONS_UPDATED):
                    yield key

    def _present(self, commit: TableCommit, files: Sequence[DataFile]) -> frozenset[str]:
        """The keys of data files that an earlier attempt has copied. Objects appear whole or not at all."""
        if not self.resumes or len(files) <= WORTH_A_LISTING:
            return frozenset()
        names = {below_table(file.path).split("/")[1] for file in files}
        found: set[str] = set()
        for name in sorted(names):
            found.update(self._driver.keys(f"{commit.table.location}/data/{name}/"))
        return frozenset(found)

    # --- manifests ------------------------------------------------------------------------------------------

    def _know_sizes(self, read: Sequence[_Read], there: Mapping[str, Manifest]) -> None:
        """Finds the sizes of existing delete files in the replica that the new manifests list again."""
        lists_older = any(
            self.move.uri(entry.file.path) not in self._sizes
            for one in read
            if one.manifest.content is Content.POSITION_DELETES
            for entry in one.entries
        )
        if not lists_older:
            return
        manifests = [m for m in there.values() if m.content is Content.POSITION_DELETES]
        for entries in self.target.entries(manifests):
            for entry in entries:
                sizes = FileSizes(entry.file.size_bytes, entry.file.metrics.sizes)
                self._sizes.setdefault(entry.file.path, sizes)

    def _write_manifests(self, read: Sequence[_Read]) -> dict[str, int]:
        """Writes manifests; returns their lengths by their URIs in the replica."""
        return dict(self._driver.host.together([partial(self._write_manifest, one) for one in read]))

    def _write_manifest(self, one: _Read) -> tuple[str, int]:
        path = one.manifest.path
        data = self.move.manifest(one.data, path, self._sizes)
        self._driver.put(self.source.key(path), data)
        return self.move.uri(path), len(data)

    def _fetch(self, uuid: str, uri: str, at_most_bytes: int | None = None) -> bytes | None:
        """An object of the source; None if it is missing and may be."""
        key = self.source.key(uri)
        driver = self.source.driver
        data = driver.get(key) if at_most_bytes is None else driver.get_short(key, at_most_bytes)
        if data is None:
            self.expired.allow(uuid, key)
        return data


def _parts(source: Driver, key: str, end: Tail) -> Iterator[bytes]:
    """A long object, of which the `end` is known."""
    start_of_end = end.object_bytes - len(end.data)
    for start in range(0, start_of_end, PART_BYTES):
        wanted = range(start, min(start + PART_BYTES, start_of_end))
        found = source.ranges(key, [wanted])
        if found is None or len(found[0]) != len(wanted):
            raise StorageError(
                f"{key} was removed or changed while it was copied", "run the replication again"
            )
        yield found[0]
    yield end.data


def _is_new(entry: Entry, commit: TableCommit) -> bool:
    return entry.status is Status.ADDED and entry.snapshot_id == commit.snapshot_id


def _list_of(metadata: TableMetadata) -> str:
    snapshot = metadata.snapshot
    if snapshot is None or "manifest-list" not in snapshot:
        raise CorruptLakeError(f"{metadata.location}: the current snapshot has no manifest list")
    return str(snapshot["manifest-list"])


def _statistics(metadata: TableMetadata) -> list[str]:
    named = (metadata.fields.get(name) or [] for name in ("statistics", "partition-statistics"))
    return [str(item["statistics-path"]) for items in named for item in items]


def _batches(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """The files in groups that are copied at once."""
    batch: list[DataFile] = []
    held = 0
    for file in files:
        if batch and (len(batch) == FILES_AT_ONCE or held + file.size_bytes > BYTES_AT_ONCE):
            yield batch
            batch, held = [], 0
        batch.append(file)
        held += file.size_bytes
    if batch:
        yield batch


class Expired:
    """Decides whether an object may be missing at the source, and remembers the missing ones."""

    def __init__(self, source: TableLoader, newest: LakeState, refresh: Callable[[], LakeState]) -> None:
        self._source = source
        self._newest = newest
        self._refresh = refresh
        self._needed: dict[str, frozenset[str]] = {}
        self.keys: list[str] = []

    def allow(self, uuid: str, key: str) -> None:
        """Remembers a missing object of a table. Raises `CorruptLakeError` if the newest version needs it."""
        if self._is_needed(uuid, key):
            raise CorruptLakeError(
                f"version {self._newest.version} needs {self._source.uri(key)}, which is missing",
                "restore it from a backup, or from another replica",
            )
        self.keys.append(key)

    def _is_needed(self, uuid: str, key: str) -> bool:
        if uuid not in self._needed:
            self._needed[uuid] = frozenset(self._keys_of(uuid))
        if key not in self._needed[uuid]:
            return False
        now = self._refresh()
        if self._newest.version.number > now.retention.until:
            return True
        # The version that was newest may have expired meanwhile: check the version that is newest now.
        self._newest, self._needed = now, {}
        return self._is_needed(uuid, key)

    def _keys_of(self, uuid: str) -> set[str]:
        """The keys of all objects of a table in the newest version."""
        ref = next((ref for ref in self._newest.tables.values() if ref.uuid == uuid), None)
        metadata = None if ref is None else self._source.find_metadata(ref.metadata)
        if ref is None:
            return set()
        if metadata is None or metadata.snapshot is None:
            return {ref.metadata}
        manifests = self._source.manifests(metadata)
        paths = {str(metadata.snapshot["manifest-list"]), *(manifest.path for manifest in manifests)}
        for entries in self._source.entries(manifests):
            paths.update(entry.file.path for entry in entries if entry.status is not Status.DELETED)
        return {ref.metadata, *map(self._source.key, paths)}
