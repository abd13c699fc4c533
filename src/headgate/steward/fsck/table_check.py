"""Looking at tables: metadata files, manifest lists, manifests, and whether the files they name are there.

Objects that several versions share are read once. What is kept of a manifest is what its files are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyiceberg.table.metadata import TableMetadataV2

from headgate.core.fsck.kinds import finding
from headgate.core.fsck.log import TableVersion
from headgate.core.fsck.sight import Trouble, trouble_with
from headgate.core.fsck.tables import (
    Counts,
    ListedManifest,
    SeenFile,
    SeenManifest,
    SeenMetadata,
    SeenSnapshot,
    judge_file,
    judge_manifest,
    judge_metadata,
    judge_totals,
    judge_twice,
)
from headgate.errors import CorruptLakeError
from headgate.iceberg.avro import check_blocks, decode_manifest, decode_manifest_list
from headgate.iceberg.data_file import Content, Entry, Manifest, Status
from headgate.iceberg.metadata import TableMetadata
from headgate.model.fsck import Finding
from headgate.steward.fsck.sight import Sight, attempt, batches


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """A manifest that could be read: what is judged of it, and its live entries."""

    seen: SeenManifest
    live: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A version of a table that could be read as far as its manifests; `whole`: all of them."""

    version: TableVersion
    summary: dict[str, str]
    live: tuple[Entry, ...]
    whole: bool


@dataclass
class TableCheck:
    """One look at the tables of a lake. `sizes` is the listing of `data/`."""

    sight: Sight
    sizes: dict[str, int | None]
    findings: list[Finding] = field(default_factory=list)
    referenced: set[str] = field(default_factory=set)
    files: dict[str, SeenFile] = field(default_factory=dict)
    """The live files of all versions that were looked at, by key."""
    counted: dict[str, int] = field(default_factory=dict)
    _manifests: dict[str, ReadManifest | None] = field(default_factory=dict)
    _metadata: dict[str, tuple[bytes, TableMetadata] | None] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return self.sight.driver.store.uri()

    def run(self, tables: Sequence[TableVersion], progress: Callable[[int, int], None]) -> list[ReadTable]:
        """Looks at versions of tables, and at the files that they name."""
        read = []
        for number, table in enumerate(tables, start=1):
            read.append(self._table(table))
            progress(number, len(tables))
        self._look_for_files()
        return [table for table in read if table is not None]

    def look_at_metadata(self, tables: Iterable[TableVersion]) -> None:
        """Looks at versions of which only the metadata is kept: later files tell their rows."""
        for table in tables:
            self._count("table versions")
            known = self._read_metadata(table.ref.metadata)
            if known is not None:
                self.findings += judge_metadata(table, _seen_metadata(known[1]), self.root)

    def metadata_bytes(self, key: str) -> bytes | None:
        """The bytes of a metadata file, if it could be read."""
        known = self._read_metadata(key)
        return None if known is None else known[0]

    def key(self, uri: str) -> str | None:
        """The key of an object of this lake; None if it lies elsewhere."""
        return uri.removeprefix(f"{self.root}/") if uri.startswith(f"{self.root}/") else None

    # --- metadata -----------------------------------------------------------------------------------------

    def _table(self, table: TableVersion) -> ReadTable | None:
        self._count("table versions")
        known = self._read_metadata(table.ref.metadata)
        if known is None:
            return None
        seen = _seen_metadata(known[1])
        wrong = judge_metadata(table, seen, self.root)
        self.findings += wrong
        if any(one.kind == "metadata-of-another-table" for one in wrong):
            return None  # what it names belongs to that table, and is looked at there
        if seen.snapshot is None:
            return ReadTable(table, {}, (), whole=True)
        return self._snapshot(table, seen.snapshot)

    def _read_metadata(self, key: str) -> tuple[bytes, TableMetadata] | None:
        if key not in self._metadata:
            self._metadata = {**dict(list(self._metadata.items())[-64:]), key: self._load_metadata(key)}
        return self._metadata[key]

    def _load_metadata(self, key: str) -> tuple[bytes, TableMetadata] | None:
        self.referenced.add(key)
        data = self._object(key, "metadata-missing", "the log names it")
        if data is None:
            return None
        read = attempt(partial(_parsed_metadata, data, key))
        if isinstance(read, Trouble):
            self.findings.append(finding("metadata-unreadable", key, read.problem))
            return None
        return data, read

    # --- manifests ----------------------------------------------------------------------------------------

    def _snapshot(self, table: TableVersion, snapshot: SeenSnapshot) -> ReadTable | None:
        manifests = self._manifest_list(snapshot.manifest_list, table)
        if manifests is None:
            return None
        read = self._read_manifests(manifests)
        known = [one for one in read if one is not None]
        whole = len(known) == len(manifests)
        live = tuple(entry for one in known for entry in one.live)
        files = tuple(file for one in known for file in one.seen.live)
        lines = [_line(manifest) for manifest in manifests]
        self.findings += judge_totals(table.ref.metadata, snapshot.summary, lines, files if whole else None)
        self.findings += judge_twice(table, files)
        for file in files:
            self._reference(file, table)
        return ReadTable(table, dict(snapshot.summary), live, whole)

    def _manifest_list(self, uri: str, table: TableVersion) -> tuple[Manifest, ...] | None:
        key = self._inside(uri, table)
        if key is None:
            return None
        self._count("manifest lists", key not in self.referenced)
        self.referenced.add(key)
        data = self._object(key, "manifest-list-missing", f"{table.name} at version {table.version} needs it")
        read = None if data is None else attempt(partial(decode_manifest_list, data, key))
        if isinstance(read, Trouble):
            self.findings.append(finding("manifest-list-unreadable", key, read.problem))
            return None
        return read

    def _read_manifests(self, manifests: Iterable[Manifest]) -> list[ReadManifest | None]:
        wanted = list(manifests)
        new = [manifest for manifest in wanted if manifest.path not in self._manifests]
        for batch in batches(new):
            known = self.sight.together([partial(self._manifest, manifest) for manifest in batch])
            self._manifests.update(zip((manifest.path for manifest in batch), known, strict=True))
        return [self._manifests[manifest.path] for manifest in wanted]

    def _manifest(self, manifest: Manifest) -> ReadManifest | None:
        key = self._inside(manifest.path, None)
        if key is None:
            return None
        self._count("manifests")
        self.referenced.add(key)
        data = self._object(key, "manifest-missing", "a manifest list names it")
        read = None if data is None else attempt(partial(_read_manifest, data, manifest))
        if read is None:
            return None
        if isinstance(read, Trouble):
            self.findings.append(finding("manifest-unreadable", key, read.problem))
            return None
        self.findings += judge_manifest(key, _line(manifest), read.seen)
        return read

    # --- files --------------------------------------------------------------------------------------------

    def _reference(self, file: SeenFile, table: TableVersion) -> None:
        key = self._inside(file.path, table)
        if key is not None and key not in self.files:
            self.files[key] = file
            self.referenced.add(key)
            self._count("data files" if file.is_data else "delete files")

    def _look_for_files(self) -> None:
        for key, file in self.files.items():
            listed = self.sizes.get(key)
            if listed is not None:
                self.findings += judge_file(key, file, listed)
        # The listing has no sizes, or not this file: then it is asked for before anything is said of it.
        doubtful = [key for key in self.files if self.sizes.get(key) is None]
        for batch in batches(doubtful):
            sizes = self.sight.together([partial(self.sight.size, key) for key in batch])
            for key, size in zip(batch, sizes, strict=True):
                if isinstance(size, Trouble):
                    self.findings.append(trouble_with(key, size))
                else:
                    self.findings += judge_file(key, self.files[key], size)

    # --- objects ------------------------------------------------------------------------------------------

    def _object(self, key: str, missing: str, who: str) -> bytes | None:
        data = self.sight.get(key)
        if isinstance(data, Trouble):
            self.findings.append(trouble_with(key, data))
            return None
        if data is None:
            self.findings.append(finding(missing, key, f"{who}, but it is not there"))
        return data

    def _inside(self, uri: str, table: TableVersion | None) -> str | None:
        key = self.key(uri)
        if key is None:
            named = "a manifest list" if table is None else f"{table.name} at version {table.version}"
            told = f"{named} names it, but it does not lie in the lake at {self.root}"
            self.findings.append(finding("metadata-of-another-place", uri, told))
        return key

    def _count(self, what: str, is_new: bool = True) -> None:
        self.counted[what] = self.counted.get(what, 0) + is_new


def _parsed_metadata(data: bytes, key: str) -> TableMetadata:
    metadata = TableMetadata.decode(data, key)
    # Our own values look at what they need only; these are the rules of the specification.
    TableMetadataV2.model_validate_json(data)
    _seen_metadata(metadata)
    return metadata


def _seen_metadata(metadata: TableMetadata) -> SeenMetadata:
    current = metadata.fields.get("current-snapshot-id")
    snapshot = None
    if current not in (None, -1):
        snapshots: list[Any] = [s for s in metadata.fields["snapshots"] if s["snapshot-id"] == current]
        if len(snapshots) != 1:
            raise CorruptLakeError(f"its current snapshot {current} is there {len(snapshots)} times")
        raw = snapshots[0]
        summary = {str(name): str(value) for name, value in raw.get("summary", {}).items()}
        snapshot = SeenSnapshot(current, raw["sequence-number"], str(raw["manifest-list"]), summary)
    last = metadata.fields.get("last-sequence-number", 0)
    return SeenMetadata(metadata.uuid, metadata.location, last, snapshot)


def _read_manifest(data: bytes, manifest: Manifest) -> ReadManifest:
    entries = tuple(decode_manifest(data, manifest))
    check_blocks(data, manifest, entries)
    live = tuple(entry for entry in entries if entry.status is not Status.DELETED)
    return ReadManifest(SeenManifest(len(data), _counts(entries), tuple(map(_file, live))), live)


def _file(entry: Entry) -> SeenFile:
    file = entry.file
    return SeenFile(file.path, file.size_bytes, file.record_count, file.content is Content.DATA)


def _counts(entries: Sequence[Entry]) -> Counts:
    def of(status: Status) -> tuple[int, int]:
        files = [entry.file for entry in entries if entry.status is status]
        return len(files), sum(file.record_count for file in files)

    added, existing, deleted = of(Status.ADDED), of(Status.EXISTING), of(Status.DELETED)
    return Counts(added[0], existing[0], deleted[0], added[1], existing[1], deleted[1])


def _line(manifest: Manifest) -> ListedManifest:
    counts = Counts(
        manifest.added_files,
        manifest.existing_files,
        manifest.deleted_files,
        manifest.added_rows,
        manifest.existing_rows,
        manifest.deleted_rows,
    )
    return ListedManifest(manifest.path, manifest.length, manifest.content is Content.DATA, counts)
