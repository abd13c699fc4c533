"""Reads tables from storage, each object once: metadata, manifests and position files never change."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from headgate.errors import CorruptLakeError, HeadgateError
from headgate.iceberg.format.avro import Listed, Wanted, decode_listed, decode_manifest, decode_manifest_list
from headgate.iceberg.format.data_file import DataFile, Entry, Manifest
from headgate.iceberg.format.directories import manifest_list
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.positions import Positions, decode_positions
from headgate.log.driver import Driver
from headgate.model.identifiers import TABLES, TxId, Version, key_of
from headgate.model.limits import POSITIONS_BYTES
from headgate.model.table import TableCommit
from headgate.system.host import renew_after_fork

# How much is kept in memory, over all tables: a handle that lives for long reads many versions of them.
KEPT_METADATA = 10_000
"""For metadata files, counted in snapshots that they list: about 2 KB each, so 22 MB."""
KEPT_LISTS = 256
KEPT_ENTRIES = 50_000
"""For manifests, counted in entries: about 2.3 KB each, so 115 MB."""
KEPT_POSITIONS = 10_000_000
"""For deleted rows: about 2 bytes each, so 20 MB."""
POSITIONS_OF_A_FILE = 300
"""The fixed cost of a position file, counted in positions: about 600 bytes."""

DATA_ENDING = ".parquet"
"""Of the name of every data file and delete file, also those that other engines write."""

T = TypeVar("T")

WhyMissing: TypeAlias = Callable[[str], HeadgateError]
"""Returns the error for an object that the lake refers to but that does not exist, by its key."""


class _Kept(Generic[T]):
    """Values by name; the oldest are evicted when their total weight is too high."""

    def __init__(self, limit: int, weight: Callable[[T], int]) -> None:
        self._limit = limit
        self._weight = weight
        self._total = 0
        self._values: dict[str, T] = {}
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._total = sum(map(self._weight, self._values.values()))

    def get(self, name: str) -> T | None:
        return self._values.get(name)

    def put(self, name: str, value: T) -> None:
        with self._lock:
            if name in self._values:
                return
            self._values[name] = value
            self._total += self._weight(value)
            while self._total > self._limit and len(self._values) > 1:
                oldest = next(iter(self._values))
                self._total -= self._weight(self._values.pop(oldest))


class TableMemory:
    """What was read of the tables of a lake, by object name. Handles on the same location share it."""

    def __init__(self) -> None:
        self.metadata: _Kept[TableMetadata] = _Kept(
            KEPT_METADATA, lambda metadata: len(metadata.fields["snapshots"]) + 1
        )
        self.lists: _Kept[tuple[Manifest, ...]] = _Kept(KEPT_LISTS, lambda _: 1)
        self.entries: _Kept[tuple[Entry, ...]] = _Kept(KEPT_ENTRIES, lambda entries: len(entries) + 1)
        self.positions: _Kept[Positions] = _Kept(
            KEPT_POSITIONS, lambda positions: len(positions) + POSITIONS_OF_A_FILE
        )


class TableLoader:
    """Reads the tables of one lake. Safe to share between threads."""

    def __init__(self, driver: Driver, memory: TableMemory | None = None) -> None:
        self.driver = driver
        self._root = driver.store.uri()
        self._why_missing: WhyMissing | None = None
        known = TableMemory() if memory is None else memory
        self._metadata, self._lists = known.metadata, known.lists
        self._entries, self._positions = known.entries, known.positions

    def explained(self, why: WhyMissing) -> TableLoader:
        """The same loader, with its cache, that uses `why` to raise errors for missing objects."""
        other = copy.copy(self)
        other._why_missing = why
        return other

    def uri(self, key: str) -> str:
        """The URI of the object `key`, as other engines see it."""
        return f"{self._root}/{key}"

    def key(self, uri: str) -> str:
        """The key of a table's object that a metadata file or a manifest of this lake refers to.

        Every such name goes through this method before anything is opened, copied or deleted.
        `CorruptLakeError` if it leads out of the lake, or to something that is not part of a table.
        """
        key = key_of(uri, self._root)
        if key is None or not key.startswith(TABLES):
            raise CorruptLakeError(f"{uri!r} is outside of the tables of the lake at {self._root}")
        return key

    def require_data_files(self, paths: Iterable[str]) -> None:
        """Raises `CorruptLakeError` unless these can be data files or delete files, by their names.

        For readers that open the files later, where the error would not be ours.
        """
        for path in paths:
            if not self.key(path).endswith(DATA_ENDING):
                raise CorruptLakeError(f"{path!r} is not a Parquet file, but the lake refers to it as one")

    def metadata(self, key: str) -> TableMetadata:
        known = self.find_metadata(key)
        if known is None:
            raise self.missing(key)
        return known

    def find_metadata(self, key: str) -> TableMetadata | None:
        """The metadata file `key`; None if it does not exist."""
        known = self._metadata.get(key)
        if known is not None:
            return known
        data = self.driver.get(key)
        if data is None:
            return None
        known = TableMetadata.decode(data, key)
        self._metadata.put(key, known)
        return known

    def prefetch(self, commits: Iterable[tuple[TableCommit, Version, TxId]]) -> None:
        """Reads what table commits, with their versions and transactions, have left of their tables.

        Metadata and manifest list are read at the same time, since the names of both follow from the record.
        An object that is missing raises an error only when it is needed.
        """
        tasks: list[Callable[[], object]] = []
        for commit, version, txid in commits:
            ref = commit.table
            if self._metadata.get(ref.metadata) is not None:
                continue
            tasks.append(partial(self.find_metadata, ref.metadata))
            if commit.snapshot_id is not None:
                path = self.uri(manifest_list(ref.location, commit.snapshot_id, version, txid))
                tasks.append(partial(self._find_manifests, path))
        self.driver.fetch_at_once(tasks)

    def _find_manifests(self, path: str) -> tuple[Manifest, ...] | None:
        known = self._lists.get(path)
        if known is not None:
            return known
        data = self.driver.get(self.key(path))
        if data is None:
            return None
        known = decode_manifest_list(data, path)
        self._lists.put(path, known)
        return known

    def manifests(self, metadata: TableMetadata) -> tuple[Manifest, ...]:
        """The manifests of the current snapshot."""
        snapshot = metadata.snapshot
        if snapshot is None:
            return ()
        path = str(snapshot["manifest-list"])
        known = self._find_manifests(path)
        if known is None:
            raise self.missing(self.key(path))
        newest = int(snapshot["sequence-number"])
        for manifest in known:
            if not 1 <= manifest.min_sequence_number <= manifest.sequence_number <= newest:
                raise CorruptLakeError(
                    f"the manifest list {path} gives {manifest.path} sequence numbers "
                    f"{manifest.min_sequence_number} to {manifest.sequence_number}; the newest is {newest}"
                )
        unknown = {manifest.spec_id for manifest in known}.difference(metadata.specs)
        if unknown:
            raise CorruptLakeError(
                f"the manifest list {path} refers to partition specs that the table does not have"
            )
        return known

    def entries(
        self, manifests: Iterable[Manifest], wanted: Callable[[Manifest], Wanted | None] | None = None
    ) -> list[tuple[Entry, ...]]:
        """The entries of each manifest, fetched concurrently; with `wanted`, not all of them."""
        tasks = [
            partial(self._entries_of, manifest, None if wanted is None else wanted(manifest))
            for manifest in manifests
        ]
        return self.driver.fetch_at_once(tasks)

    def read_listed(self, manifests: Iterable[Manifest], metadata: TableMetadata) -> list[Listed]:
        """The contents of each manifest of the table, for a merge; in encoded form where possible."""
        return self.driver.fetch_at_once(
            [partial(self._read_listed, manifest, metadata) for manifest in manifests]
        )

    def _read_listed(self, manifest: Manifest, metadata: TableMetadata) -> Listed:
        known = self._entries.get(manifest.path)
        if known is not None and not manifest.existing_files:
            return Listed(known)
        # Encoding many entries again takes longer than copying them.
        spec = metadata.specs[manifest.spec_id]
        data = self._get(self.key(manifest.path))
        return decode_listed(data, manifest, metadata.schema_of(spec), spec)

    def remember(
        self,
        key: str,
        metadata: TableMetadata,
        manifests: tuple[Manifest, ...],
        entries: Mapping[str, tuple[Entry, ...]],
    ) -> None:
        """Caches what this process has just written, so that it need not be read again."""
        self._metadata.put(key, metadata)
        for path, known in entries.items():
            self._entries.put(path, known)
        if metadata.snapshot is not None:
            self._lists.put(str(metadata.snapshot["manifest-list"]), manifests)

    def positions(self, file: DataFile) -> Positions:
        """The contents of a position delete file."""
        known = self._positions.get(file.path)
        if known is None:
            key = self.key(file.path)
            data = self.driver.get_short(key, POSITIONS_BYTES)
            if data is None:
                raise self.missing(key)
            known = decode_positions(data, file.path)
            self._positions.put(file.path, known)
        return known

    def remember_positions(self, path: str, positions: Positions) -> None:
        """Caches the contents of a position delete file that this process has just written."""
        self._positions.put(path, positions)

    def _entries_of(self, manifest: Manifest, wanted: Wanted | None) -> tuple[Entry, ...]:
        known = self._entries.get(manifest.path)
        if known is not None:
            return known if wanted is None else tuple(e for e in known if wanted.partition(e.file.partition))
        entries = tuple(decode_manifest(self._get(self.key(manifest.path)), manifest, wanted))
        if wanted is None:
            self._entries.put(manifest.path, entries)
        return entries

    def _get(self, key: str) -> bytes:
        data = self.driver.get(key)
        if data is None:
            raise self.missing(key)
        return data

    def missing(self, key: str) -> HeadgateError:
        """The error for an object that should exist."""
        if self._why_missing is not None:
            return self._why_missing(key)
        return CorruptLakeError(f"{self.uri(key)} is missing, but the lake refers to it")
