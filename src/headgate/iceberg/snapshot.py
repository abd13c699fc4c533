"""From a change of files to a snapshot: manifests, the manifest list, and the new metadata.

Bytes in, bytes out. The names of all objects carry the transaction, so nobody else uses them, and the version
for which they were made. What depends on the version is made anew when it was lost; a manifest of files that
are added does not, since they inherit their number from the manifest list, and is made once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from headgate.core.windows import largest_complete_window
from headgate.iceberg.avro import Listed, encode_manifest, encode_manifest_list
from headgate.iceberg.data_file import Content, DataFile, Entry, FieldSummary, Manifest, Partition, Status
from headgate.iceberg.merging import due_merges
from headgate.iceberg.metadata import NewSnapshot, TableMetadata, with_snapshot
from headgate.model.identifiers import TxId, Version

TOTAL_SIZE = "total-files-size"
TOTAL_RECORDS = "total-records"
LIVE_RECORDS = "headgate.live-records"
"""How many rows a table has without those that are deleted by position; not there if it never had such."""


@dataclass(frozen=True, slots=True)
class Dead:
    """Rows that are deleted by position, as far as a change makes a difference to how many are live.

    `before`: how many rows of a removed data file, by its path, were deleted before. `now`: how many live
    rows an added delete file, by its path, takes away.
    """

    before: Mapping[str, int] = field(default_factory=dict)
    now: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a commit does to the files of a table; `operation` is Iceberg's word for it.

    Data files that it adds, those that it removes, by path, and position delete files that it adds. `numbers`
    are the data sequence numbers, by path, of added files that do not have that of the commit. `dead` tells
    what of this counts for rows that are deleted by position.
    """

    operation: str
    added: tuple[DataFile, ...] = ()
    removed: frozenset[str] = frozenset()
    deletes: tuple[DataFile, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    dead: Dead = field(default_factory=Dead)


@dataclass(frozen=True, slots=True)
class Draft:
    """A manifest that a transaction has made, for whichever version it will get."""

    entries: tuple[Entry, ...]
    path: str
    data: bytes


Drafts: TypeAlias = dict[Hashable, Draft]
"""The manifests that a transaction has made, by what is in them."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """The commit that a snapshot belongs to. `drafts` are those of its transaction, and are added to."""

    version: Version
    txid: TxId
    timestamp_ms: int
    divisor: int
    remarks: Mapping[str, str] = field(default_factory=dict)
    drafts: Drafts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is to be written: objects by URI, the metadata that names them, and its manifests.

    `entries` are those of new manifests that hold nothing but them, as a reader finds them.
    """

    metadata: TableMetadata
    manifests: tuple[Manifest, ...]
    objects: Mapping[str, bytes]
    entries: Mapping[str, tuple[Entry, ...]]


def snapshot_id(txid: TxId, table_uuid: str) -> int:
    """The id of the snapshot that a transaction makes of a table: the same at every attempt."""
    digest = hashlib.sha256(f"{txid}/{table_uuid}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def manifests_to_read(manifests: Sequence[Manifest], change: FileChange, occasion: Occasion) -> set[Manifest]:
    """The manifests of which `take_snapshot` must know what they list.

    If data files are removed, these are all manifests of data files, and their entries must be known.
    """
    searched = {m for m in manifests if change.removed and m.content is Content.DATA}
    # Those to be added can complete a group; only where they belong matters here.
    number = occasion.version.number
    added = {(f.content, f.spec_id, change.numbers.get(f.path, number)) for f in _all_added(change)}
    expected = [_placeholder(*place) for place in added]
    due = due_merges([*manifests, *expected], number, occasion.divisor)
    return searched | ({manifest for group in due for manifest in group} - set(expected))


def _all_added(change: FileChange) -> tuple[DataFile, ...]:
    return (*change.added, *change.deletes)


def _placeholder(content: Content, spec_id: int, number: int) -> Manifest:
    return Manifest("", 0, spec_id, content, number, number, 0, 0, 0, 0, 0, 0, 0)


def take_snapshot(
    metadata: TableMetadata,
    manifests: Sequence[Manifest],
    listed: Mapping[str, Listed],
    change: FileChange,
    occasion: Occasion,
) -> Snapshot:
    """The table after `change`. `listed` is what `manifests_to_read` list, by path."""
    maker = _Maker(metadata, occasion)
    # A manifest that only tells of removed files has told it.
    manifests = [manifest for manifest in manifests if manifest.added_files or manifest.existing_files]
    kept = maker.without_removed(manifests, listed, change.removed) if change.removed else list(manifests)
    new = maker.manifests_of(_all_added(change), change.numbers)
    merged = maker.merged([*new, *kept], listed)
    number, own_id = occasion.version.number, maker.snapshot_id
    parent = metadata.fields.get("current-snapshot-id")
    list_path = f"{metadata.location}/metadata/snap-{own_id}-{number}-{occasion.txid}.avro"
    objects = {**maker.objects, list_path: encode_manifest_list(merged, own_id, parent, number)}
    used = {manifest.path for manifest in merged} | {list_path}
    summary = _summary(change, merged, occasion) | _totals(metadata, listed, change)
    after = with_snapshot(
        metadata,
        NewSnapshot(own_id, number, occasion.timestamp_ms, list_path, summary),
    )
    return Snapshot(
        after,
        tuple(merged),
        {path: data for path, data in objects.items() if path in used},
        {
            manifest.path: maker.as_read(maker.listed[manifest.path])
            for manifest in merged
            if manifest.path in maker.listed and not manifest.existing_files
        },
    )


class _Maker:
    """Collects the objects of one snapshot."""

    def __init__(self, metadata: TableMetadata, occasion: Occasion) -> None:
        self._metadata = metadata
        self._occasion = occasion
        self.snapshot_id = snapshot_id(occasion.txid, metadata.uuid)
        self.objects: dict[str, bytes] = {}
        self.listed: dict[str, Listed] = {}

    def manifests_of(self, files: Sequence[DataFile], numbers: Mapping[str, int]) -> list[Manifest]:
        """New manifests that add `files`, one for each spec, content and window of sequence numbers."""
        groups: dict[tuple[Any, ...], list[Entry]] = {}
        own, divisor = self._occasion.version.number, self._occasion.divisor
        for file in files:
            given = numbers.get(file.path)
            assert given is None or given <= own, (given, own)
            entry = Entry(Status.ADDED, self.snapshot_id, given, None, file)
            # No manifest holds numbers of two windows: see merging.
            window = largest_complete_window(given or own, own, divisor)
            groups.setdefault((file.spec_id, file.content, window), []).append(entry)
        return [self._manifest(group) for group in groups.values()]

    def without_removed(
        self, manifests: Sequence[Manifest], listed: Mapping[str, Listed], removed: frozenset[str]
    ) -> list[Manifest]:
        """The manifests, those that name removed files written anew."""
        return [
            self._marked(listed[manifest.path].entries, removed)
            if manifest.content is Content.DATA
            and any(entry.file.path in removed for entry in listed[manifest.path].entries)
            else manifest
            for manifest in manifests
        ]

    def merged(self, manifests: Sequence[Manifest], listed: Mapping[str, Listed]) -> list[Manifest]:
        """The manifests, those that are due put together."""
        due = due_merges(manifests, self._occasion.version.number, self._occasion.divisor)
        gone = {manifest.path for group in due for manifest in group}
        kept = [manifest for manifest in manifests if manifest.path not in gone]
        known = {**listed, **self.listed}
        return [*(self._together(group, known) for group in due), *kept]

    def as_read(self, listed: Listed) -> tuple[Entry, ...]:
        """The entries of a new manifest with the numbers that they inherit."""
        number = self._occasion.version.number
        return tuple(
            replace(
                entry,
                sequence_number=number if entry.sequence_number is None else entry.sequence_number,
                file_sequence_number=number
                if entry.file_sequence_number is None
                else entry.file_sequence_number,
            )
            for entry in listed.entries
        )

    def _marked(self, entries: Sequence[Entry], removed: frozenset[str]) -> Manifest:
        return self._manifest(
            [
                replace(entry, status=Status.DELETED, snapshot_id=self.snapshot_id)
                if entry.file.path in removed
                else replace(entry, status=Status.EXISTING)
                for entry in entries
                if entry.status is not Status.DELETED
            ]
        )

    def _together(self, group: Sequence[Manifest], known: Mapping[str, Listed]) -> Manifest:
        entries = [entry for manifest in group for entry in known[manifest.path].entries]
        carried = [self._carried(entry) for entry in entries if self._stays(entry)]
        return self._manifest(carried, {m: known[m.path] for m in group if known[m.path].packs})

    def _stays(self, entry: Entry) -> bool:
        # What this snapshot removes must stay visible as removed by it; older removals are history.
        return entry.status is not Status.DELETED or entry.snapshot_id == self.snapshot_id

    def _carried(self, entry: Entry) -> Entry:
        if entry.snapshot_id == self.snapshot_id:
            return entry
        return replace(entry, status=Status.EXISTING)

    def _manifest(
        self, entries: Sequence[Entry], unseen: Mapping[Manifest, Listed] = MappingProxyType({})
    ) -> Manifest:
        """A manifest with `entries`, and with all that the manifests `unseen` list, as it is there."""
        owner: DataFile | Manifest = entries[0].file if entries else next(iter(unseen))
        spec = self._metadata.specs[owner.spec_id]
        number = self._occasion.version.number
        schema = self._metadata.schema_of(spec)
        listed = Listed(tuple(entries), tuple(pack for known in unseen.values() for pack in known.packs))
        draft = self._draft(listed, schema, spec, owner.content)
        path, data = draft.path, draft.data
        self.objects[path] = data
        self.listed[path] = listed
        live = [e.sequence_number or number for e in entries if e.status is not Status.DELETED]
        partitions = {e.file.partition for e in entries} | {pack.partition for pack in listed.packs}
        return Manifest(
            path=path,
            length=len(data),
            spec_id=owner.spec_id,
            content=owner.content,
            sequence_number=number,
            min_sequence_number=min([*live, *(m.min_sequence_number for m in unseen)], default=number),
            snapshot_id=self.snapshot_id,
            **_counts(entries, unseen),
            partitions=summaries(partitions, schema, spec),
        )

    def _draft(self, listed: Listed, schema: Schema, spec: PartitionSpec, content: Content) -> Draft:
        """The manifest in bytes, as it was made for an earlier attempt if nothing in it has changed."""
        entries, drafts = listed.entries, self._occasion.drafts
        made_of = (self._metadata.uuid, schema.schema_id, spec.spec_id, content, len(entries))
        what = (*made_of, entries[0].file.path if entries else None)
        known = drafts.get(what)
        if known is not None and not listed.packs and known.entries == entries:
            return known
        number, txid = self._occasion.version.number, self._occasion.txid
        path = f"{self._metadata.location}/metadata/{number}-{txid}-m{len(self.objects)}.avro"
        draft = Draft(entries, path, encode_manifest(listed, schema, spec, content))
        # Others are merged, or say what is removed: they hold what another writer may have changed.
        own = all(entry.status is Status.ADDED and entry.snapshot_id == self.snapshot_id for entry in entries)
        if entries and own and not listed.packs:
            drafts[what] = draft
        return draft


def _counts(entries: Sequence[Entry], unseen: Iterable[Manifest]) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    for status, name in ((Status.ADDED, "added"), (Status.EXISTING, "existing"), (Status.DELETED, "deleted")):
        files = [entry.file for entry in entries if entry.status is status]
        counts[f"{name}_files"] = len(files)
        counts[f"{name}_rows"] = sum(file.record_count for file in files)
    # Whatever they list is settled: neither added nor removed by anybody who is still to be told.
    counts["existing_files"] += sum(manifest.existing_files for manifest in unseen)
    counts["existing_rows"] += sum(manifest.existing_rows for manifest in unseen)
    return counts


def summaries(
    partitions: Collection[Partition], schema: Schema, spec: PartitionSpec
) -> tuple[FieldSummary, ...]:
    """What a manifest list says of `partitions`, a line for each partition field."""
    types = [partition_field.field_type for partition_field in spec.partition_type(schema).fields]
    found = []
    for position, field_type in enumerate(types):
        assert isinstance(field_type, PrimitiveType)
        values = {partition[position] for partition in partitions}
        nans = {value for value in values if isinstance(value, float) and math.isnan(value)}
        known = [value for value in values if value is not None and value not in nans]
        found.append(
            FieldSummary(
                contains_null=None in values,
                contains_nan=bool(nans),
                lower=to_bytes(field_type, min(known)) if known else None,
                upper=to_bytes(field_type, max(known)) if known else None,
            )
        )
    return tuple(found)


def _totals(metadata: TableMetadata, listed: Mapping[str, Listed], change: FileChange) -> dict[str, str]:
    """What follows from the snapshot before: nothing of what that one does not say."""
    before: Mapping[str, str] = {TOTAL_SIZE: "0", TOTAL_RECORDS: "0"}
    if metadata.snapshot is not None:
        before = metadata.snapshot.get("summary", {})
    entries = (entry for known in listed.values() for entry in known.entries) if change.removed else ()
    live = (entry.file for entry in entries if entry.status is not Status.DELETED)
    removed = {file.path: file for file in live if file.path in change.removed}.values()
    totals = {}
    if TOTAL_SIZE in before:
        added = sum(file.size_bytes for file in _all_added(change))
        totals[TOTAL_SIZE] = int(before[TOTAL_SIZE]) + added - sum(file.size_bytes for file in removed)
    if LIVE_RECORDS in before or change.deletes:
        rows = int(before.get(LIVE_RECORDS, before.get(TOTAL_RECORDS, 0)))
        rows += sum(file.record_count for file in change.added)
        rows -= sum(file.record_count for file in removed)
        rows += sum(change.dead.before.values()) - sum(change.dead.now.values())
        totals[LIVE_RECORDS] = rows
    return {name: str(total) for name, total in totals.items()}


def _summary(change: FileChange, manifests: Sequence[Manifest], occasion: Occasion) -> dict[str, str]:
    data = [manifest for manifest in manifests if manifest.content is Content.DATA]
    deletes = [manifest for manifest in manifests if manifest.content is Content.POSITION_DELETES]
    return {
        # First: whatever a caller calls its remarks, they take the place of nothing below.
        **occasion.remarks,
        "operation": change.operation,
        "added-data-files": str(len(change.added)),
        "added-records": str(sum(file.record_count for file in change.added)),
        "added-files-size": str(sum(file.size_bytes for file in _all_added(change))),
        "deleted-data-files": str(len(change.removed)),
        "total-data-files": str(sum(m.added_files + m.existing_files for m in data)),
        TOTAL_RECORDS: str(sum(m.added_rows + m.existing_rows for m in data)),
        **(_summary_of_deletes(change.deletes, deletes) if deletes else {}),
        "headgate.version": str(occasion.version),
        "headgate.txid": occasion.txid.text,
    }


def _summary_of_deletes(added: Sequence[DataFile], manifests: Sequence[Manifest]) -> dict[str, str]:
    """What is said of delete files, if there are any in the table."""
    return {
        "added-delete-files": str(len(added)),
        "added-position-delete-files": str(len(added)),
        "added-position-deletes": str(sum(file.record_count for file in added)),
        "total-delete-files": str(sum(m.added_files + m.existing_files for m in manifests)),
        "total-position-deletes": str(sum(m.added_rows + m.existing_rows for m in manifests)),
        "total-equality-deletes": "0",
    }
