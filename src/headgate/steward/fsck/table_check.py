"""Checks tables: metadata files, manifest lists, manifests, and whether the files that they name exist.

Reads objects that several versions share only once, and keeps only the files of a manifest in memory.

Also checks what engines find when they open a table by its path: the hint, and the metadata that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyiceberg.table.metadata import TableMetadataV2

from headgate.core.fsck.control import SHOWN
from headgate.core.fsck.kinds import Trouble, finding, trouble_with
from headgate.core.fsck.log import LogJudge, TableVersion
from headgate.core.fsck.tables import (
    Counts,
    Hint,
    ListedManifest,
    SeenFile,
    SeenManifest,
    SeenMetadata,
    SeenSnapshot,
    hinted_version,
    judge_file,
    judge_hint,
    judge_manifest,
    judge_metadata,
    judge_totals,
    judge_twice,
)
from headgate.errors import CorruptLakeError
from headgate.iceberg.format.avro import check_blocks, decode_manifest, decode_manifest_list
from headgate.iceberg.format.data_file import Content, Entry, Manifest, Status
from headgate.iceberg.format.metadata import TableMetadata
from headgate.log.layout import PLAIN, TRACKER
from headgate.model.fsck import Finding
from headgate.model.identifiers import TABLES, Version, key_of
from headgate.model.json_object import JsonObject
from headgate.steward.fsck.published import PublishedFile, beyond, by_version, published_in
from headgate.steward.fsck.sight import Sight, attempt, batches
from headgate.steward.publishing import hint_key, published_key


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """A manifest that could be read: the parts that are checked, and its live entries."""

    seen: SeenManifest
    live: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A version of a table that could be read down to its manifests; `whole`: all manifests were read."""

    version: TableVersion
    summary: dict[str, str]
    live: tuple[Entry, ...]
    whole: bool


@dataclass
class TableCheck:
    """One check of the tables of a lake. `sizes` is the listing of `data/`."""

    sight: Sight
    sizes: dict[str, int | None]
    findings: list[Finding] = field(default_factory=list)
    referenced: set[str] = field(default_factory=set)
    files: dict[str, SeenFile] = field(default_factory=dict)
    """The live files of all checked versions, by key."""
    counted: dict[str, int] = field(default_factory=dict)
    _manifests: dict[str, ReadManifest | None] = field(default_factory=dict)
    _metadata: dict[str, tuple[bytes, TableMetadata] | None] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return self.sight.driver.store.uri()

    def run(self, tables: Sequence[TableVersion], progress: Callable[[int, int], None]) -> list[ReadTable]:
        """Checks versions of tables, and the files that they name."""
        read = []
        for number, table in enumerate(tables, start=1):
            read.append(self._table(table))
            progress(number, len(tables))
        self._look_for_files()
        return [table for table in read if table is not None]

    def look_at_metadata(self, tables: Iterable[TableVersion]) -> None:
        """Checks versions of which only the metadata is kept, because later files contain their rows."""
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
        """The key of an object of a table; None if it is outside the lake."""
        key = key_of(uri, self.root)
        return None if key is None or not key.startswith(TABLES) else key

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
            return None  # the objects that it names belong to that table, and are checked there
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
        # If the listing has no sizes, or lacks this file, ask for the file itself before reporting it.
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
            self.findings.append(finding(missing, key, f"{who}, but it does not exist"))
        return data

    def _inside(self, uri: str, table: TableVersion | None) -> str | None:
        key = self.key(uri)
        if key is None:
            named = "a manifest list" if table is None else f"{table.name} at version {table.version}"
            told = f"{named} names it, but it is outside the tables of the lake at {self.root}"
            self.findings.append(finding("metadata-of-another-place", uri, told))
        return key

    def _count(self, what: str, is_new: bool = True) -> None:
        self.counted[what] = self.counted.get(what, 0) + is_new


def _parsed_metadata(data: bytes, key: str) -> TableMetadata:
    metadata = TableMetadata.decode(data, key)
    # Our own classes check only the fields that they need; this checks the rules of the specification.
    TableMetadataV2.model_validate_json(data)
    _seen_metadata(metadata)
    return metadata


def _seen_metadata(metadata: TableMetadata) -> SeenMetadata:
    current = metadata.fields.get("current-snapshot-id")
    snapshot = None
    if current not in (None, -1):
        snapshots: list[Any] = [s for s in metadata.fields["snapshots"] if s["snapshot-id"] == current]
        if len(snapshots) != 1:
            raise CorruptLakeError(f"its current snapshot {current} occurs {len(snapshots)} times")
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


@dataclass(frozen=True, slots=True)
class PublishedCheck:
    """One check of the published metadata of tables."""

    sight: Sight
    tables: TableCheck
    judge: LogJudge

    def run(self, newest: Sequence[TableVersion]) -> list[Finding]:
        at_place = self._by_place()
        found = [one for table in newest for one in self._table(table, at_place.get(table.ref.location, {}))]
        return [*found, *self._beyond()]

    def _beyond(self) -> list[Finding]:
        """Published metadata of versions that the tables do not have: the log had them once."""
        head = self.judge.head
        if not self.judge.certain:
            return []  # a lost record may have changed the table
        wrong: dict[str, list[PublishedFile]] = {}
        for file in sorted(beyond(published_in(self.tables.sizes), self.judge.state), key=by_version):
            # Others may have been committed and published since the log was listed.
            if file.version <= head or not self._is_decided(file.version.number):
                wrong.setdefault(file.location, []).append(file)
        return [
            finding("published-beyond", files[0].key, _beyond_text(files, head)) for files in wrong.values()
        ]

    def _by_place(self) -> Mapping[str, dict[int, TableVersion]]:
        """The versions of tables by directory: another table may use the directory of a dropped one."""
        found: dict[str, dict[int, TableVersion]] = {}
        for versions in self.judge.tables.values():
            for table in versions:
                if not table.dropped:
                    found.setdefault(table.ref.location, {})[table.version.number] = table
        return found

    def _table(self, table: TableVersion, versions: Mapping[int, TableVersion]) -> list[Finding]:
        key = hint_key(table.ref.location)
        data = self.sight.get(key)
        if isinstance(data, Trouble):
            return [trouble_with(key, data)]
        number = None if data is None else hinted_version(data)
        if number is not None and number > self.judge.head.number and self._is_decided(number):
            return []  # committed and published since the log was listed
        known = frozenset(versions)
        if not self.judge.complete and number is not None:
            known |= {number}  # its record may be the lost one
        found = judge_hint(Hint(key, table.version.number, known), data, self.judge.head.number)
        wrong = any(one.is_damage for one in found)
        if number in versions and number is not None and not wrong:
            found = [*found, *self._check_published(versions[number], is_named=True)]
        if number != table.version.number and self.judge.complete:
            # The newest, too: it differs if it is of a version that was lost.
            found = [*found, *self._check_published(table, is_named=False)]
        return found

    def _check_published(self, table: TableVersion, is_named: bool) -> list[Finding]:
        key = published_key(table.ref.location, table.version)
        data = self.sight.get(key)
        if isinstance(data, Trouble):
            return [trouble_with(key, data)]
        if data is None:
            told = "the hint names it, but it does not exist"
            return [finding("published-missing", key, told)] if is_named else []
        original = self.tables.metadata_bytes(table.ref.metadata)
        if original is None or original == data or _same(original, data):
            return []
        return [finding("published-differs", key, f"it differs from {table.ref.metadata}")]

    def _is_decided(self, number: int) -> bool:
        keys = [layout.record_key(Version(number)) for layout in (PLAIN, TRACKER)]
        return any(isinstance(data, bytes) for data in self.sight.get_all(keys))


def _beyond_text(files: Sequence[PublishedFile], head: Version) -> str:
    versions = ", ".join(str(file.version) for file in files[:SHOWN])
    more = "" if len(files) <= SHOWN else f" and {len(files) - SHOWN} more"
    return f"versions {versions}{more} were published, but the log, which ends at {head}, does not have them"


def _same(one: bytes, other: bytes) -> bool:
    """Whether two files have the same content, regardless of formatting."""
    read = [attempt(partial(JsonObject.parse, data, "")) for data in (one, other)]
    return not any(isinstance(value, Trouble) for value in read) and read[0] == read[1]
