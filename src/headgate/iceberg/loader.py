"""Reading tables from storage, each object once: metadata, manifests and position files never change."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError, HeadgateError
from headgate.forks import renew_after_fork
from headgate.iceberg.avro import Listed, Wanted, decode_listed, decode_manifest, decode_manifest_list
from headgate.iceberg.data_file import DataFile, Entry, Manifest
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.positions import Positions, decode_positions

# What is kept in memory, over all tables: a handle that lives for long sees many versions of them.
KEPT_METADATA = 10_000
"""Of metadata files, by the snapshots that they name: about 2 KB each, so 22 MB."""
KEPT_LISTS = 256
KEPT_ENTRIES = 50_000
"""Of manifests: about 2.3 KB each, so 115 MB."""
KEPT_POSITIONS = 10_000_000
"""Of deleted rows: about 2 bytes each, so 20 MB."""
POSITIONS_OF_A_FILE = 300
"""What a position file weighs beside its positions: about 600 bytes."""

T = TypeVar("T")

WhyMissing: TypeAlias = Callable[[str], HeadgateError]
"""Gives the error for an object that is named by the lake and is not there, by its key."""


class _Kept(Generic[T]):
    """Values by name, the oldest forgotten first when they weigh too much together."""

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
    """What was read of the tables of a lake, by the names of objects. Handles on the same place share it."""

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
    """Tables of one lake. Safe to share between threads."""

    def __init__(self, driver: Driver, memory: TableMemory | None = None) -> None:
        self.driver = driver
        self._root = driver.store.uri()
        self._why_missing: WhyMissing | None = None
        known = TableMemory() if memory is None else memory
        self._metadata, self._lists = known.metadata, known.lists
        self._entries, self._positions = known.entries, known.positions

    def explained(self, why: WhyMissing) -> TableLoader:
        """The same loader, with what it has read, that raises `why` an object is missing."""
        other = copy.copy(self)
        other._why_missing = why
        return other

    def uri(self, key: str) -> str:
        """How other engines name the object `key`."""
        return f"{self._root}/{key}"

    def key(self, uri: str) -> str:
        """The key of an object of this lake."""
        if not uri.startswith(f"{self._root}/"):
            raise CorruptLakeError(f"{uri} does not lie in the lake at {self._root}")
        return uri.removeprefix(f"{self._root}/")

    def metadata(self, key: str) -> TableMetadata:
        known = self.find_metadata(key)
        if known is None:
            raise self.missing(key)
        return known

    def find_metadata(self, key: str) -> TableMetadata | None:
        """The metadata file `key`; None if it is not there."""
        known = self._metadata.get(key)
        if known is not None:
            return known
        data = self.driver.get(key)
        if data is None:
            return None
        known = TableMetadata.decode(data, key)
        self._metadata.put(key, known)
        return known

    def manifests(self, metadata: TableMetadata) -> tuple[Manifest, ...]:
        """The manifests of the current snapshot."""
        snapshot = metadata.snapshot
        if snapshot is None:
            return ()
        path = str(snapshot["manifest-list"])
        known = self._lists.get(path)
        if known is None:
            known = decode_manifest_list(self._get(self.key(path)), path)
            self._lists.put(path, known)
        return known

    def entries(
        self, manifests: Iterable[Manifest], wanted: Callable[[Manifest], Wanted | None] | None = None
    ) -> list[tuple[Entry, ...]]:
        """The entries of each manifest, fetched at once; with `wanted`, not all."""
        tasks = [
            partial(self._entries_of, manifest, None if wanted is None else wanted(manifest))
            for manifest in manifests
        ]
        return self.driver.fetch_at_once(tasks)

    def listed(self, manifests: Iterable[Manifest], metadata: TableMetadata) -> list[Listed]:
        """What each manifest of the table lists, for a merge: as it is in the file where that will do."""
        return self.driver.fetch_at_once(
            [partial(self._listed_in, manifest, metadata) for manifest in manifests]
        )

    def _listed_in(self, manifest: Manifest, metadata: TableMetadata) -> Listed:
        known = self._entries.get(manifest.path)
        if known is not None and not manifest.existing_files:
            return Listed(known)
        # Encoding many entries again takes longer than reading them as they are.
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
        """Keeps what this process has just written, so that it need not be read again."""
        self._metadata.put(key, metadata)
        for path, known in entries.items():
            self._entries.put(path, known)
        if metadata.snapshot is not None:
            self._lists.put(str(metadata.snapshot["manifest-list"]), manifests)

    def positions(self, file: DataFile) -> Positions:
        """What a position delete file lists."""
        known = self._positions.get(file.path)
        if known is None:
            known = decode_positions(self._get(self.key(file.path)), file.path)
            self._positions.put(file.path, known)
        return known

    def remember_positions(self, path: str, positions: Positions) -> None:
        """Keeps what a position delete file lists that this process has just written."""
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
        """The error for an object that should be there."""
        if self._why_missing is not None:
            return self._why_missing(key)
        return CorruptLakeError(f"{self.uri(key)} is named by the lake, but is not there")
