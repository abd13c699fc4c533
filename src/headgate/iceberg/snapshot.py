"""From a change of files to a snapshot: manifests, the manifest list, and the new metadata.

Pure: bytes in, bytes out. The names of all objects carry the transaction, so nobody else uses them; what
depends on the version carries the version too, and is made anew when a version was lost.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from headgate.iceberg.avro import encode_manifest, encode_manifest_list
from headgate.iceberg.data_file import Content, DataFile, Entry, FieldSummary, Manifest, Status
from headgate.iceberg.merging import due_merges
from headgate.iceberg.metadata import NewSnapshot, TableMetadata, with_snapshot
from headgate.model.identifiers import TxId, Version


@dataclass(frozen=True, slots=True)
class FileChange:
    """Files that a commit adds to a table and removes from it; `operation` is Iceberg's word for it."""

    operation: str
    added: tuple[DataFile, ...] = ()
    removed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Occasion:
    """The commit that a snapshot belongs to."""

    version: Version
    txid: TxId
    timestamp_ms: int
    divisor: int
    remarks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is to be written: objects by URI, the metadata that names them, and its manifests."""

    metadata: TableMetadata
    manifests: tuple[Manifest, ...]
    objects: Mapping[str, bytes]


def snapshot_id(txid: TxId, table_uuid: str) -> int:
    """The id of the snapshot that a transaction makes of a table: the same at every attempt."""
    digest = hashlib.sha256(f"{txid}/{table_uuid}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def manifests_to_read(manifests: Sequence[Manifest], change: FileChange, occasion: Occasion) -> set[Manifest]:
    """The manifests whose entries `take_snapshot` needs."""
    if change.removed:
        return set(manifests)
    # Those to be added can complete a group; only where they belong matters here.
    added = {(file.content, file.spec_id) for file in change.added}
    expected = [_placeholder(content, spec_id, occasion.version.number) for content, spec_id in added]
    due = due_merges([*manifests, *expected], occasion.version.number, occasion.divisor)
    return {manifest for group in due for manifest in group} - set(expected)


def _placeholder(content: Content, spec_id: int, number: int) -> Manifest:
    return Manifest("", 0, spec_id, content, number, number, 0, 0, 0, 0, 0, 0, 0)


def take_snapshot(
    metadata: TableMetadata,
    manifests: Sequence[Manifest],
    entries: Mapping[str, Sequence[Entry]],
    change: FileChange,
    occasion: Occasion,
) -> Snapshot:
    """The table after `change`. `entries` are those of `manifests_to_read`, by path."""
    maker = _Maker(metadata, occasion)
    # A manifest that only tells of removed files has told it.
    manifests = [manifest for manifest in manifests if manifest.added_files or manifest.existing_files]
    kept = maker.without_removed(manifests, entries, change.removed) if change.removed else list(manifests)
    new = maker.manifests_of(change.added)
    merged = maker.merged([*new, *kept], entries)
    number, own_id = occasion.version.number, maker.snapshot_id
    parent = metadata.fields.get("current-snapshot-id")
    list_path = f"{metadata.location}/metadata/snap-{own_id}-{number}-{occasion.txid}.avro"
    objects = {**maker.objects, list_path: encode_manifest_list(merged, own_id, parent, number)}
    used = {manifest.path for manifest in merged} | {list_path}
    after = with_snapshot(
        metadata,
        NewSnapshot(own_id, number, occasion.timestamp_ms, list_path, _summary(change, merged, occasion)),
    )
    return Snapshot(after, tuple(merged), {path: data for path, data in objects.items() if path in used})


class _Maker:
    """Collects the objects of one snapshot."""

    def __init__(self, metadata: TableMetadata, occasion: Occasion) -> None:
        self._metadata = metadata
        self._occasion = occasion
        self.snapshot_id = snapshot_id(occasion.txid, metadata.uuid)
        self.objects: dict[str, bytes] = {}
        self.entries: dict[str, Sequence[Entry]] = {}

    def manifests_of(self, files: Sequence[DataFile]) -> list[Manifest]:
        """New manifests that add `files`, one for each spec and content."""
        groups: dict[tuple[int, Content], list[Entry]] = {}
        for file in files:
            entry = Entry(Status.ADDED, self.snapshot_id, None, None, file)
            groups.setdefault((file.spec_id, file.content), []).append(entry)
        return [self._manifest(group) for group in groups.values()]

    def without_removed(
        self, manifests: Sequence[Manifest], entries: Mapping[str, Sequence[Entry]], removed: frozenset[str]
    ) -> list[Manifest]:
        """The manifests, those that name removed files written anew."""
        return [
            self._marked(entries[manifest.path], removed)
            if any(entry.file.path in removed for entry in entries[manifest.path])
            else manifest
            for manifest in manifests
        ]

    def merged(self, manifests: Sequence[Manifest], entries: Mapping[str, Sequence[Entry]]) -> list[Manifest]:
        """The manifests, those that are due put together."""
        due = due_merges(manifests, self._occasion.version.number, self._occasion.divisor)
        gone = {manifest.path for group in due for manifest in group}
        kept = [manifest for manifest in manifests if manifest.path not in gone]
        known = {**entries, **self.entries}
        return [*(self._together([known[m.path] for m in group]) for group in due), *kept]

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

    def _together(self, groups: Sequence[Sequence[Entry]]) -> Manifest:
        return self._manifest(
            [self._carried(entry) for group in groups for entry in group if self._stays(entry)]
        )

    def _stays(self, entry: Entry) -> bool:
        # What this snapshot removes must stay visible as removed by it; older removals are history.
        return entry.status is not Status.DELETED or entry.snapshot_id == self.snapshot_id

    def _carried(self, entry: Entry) -> Entry:
        if entry.snapshot_id == self.snapshot_id:
            return entry
        return replace(entry, status=Status.EXISTING)

    def _manifest(self, entries: Sequence[Entry]) -> Manifest:
        first = entries[0].file
        spec = self._metadata.specs[first.spec_id]
        number, txid = self._occasion.version.number, self._occasion.txid
        path = f"{self._metadata.location}/metadata/{number}-{txid}-m{len(self.objects)}.avro"
        schema = self._metadata.schema_of(spec)
        data = encode_manifest(entries, schema, spec, first.content)
        self.objects[path] = data
        self.entries[path] = entries
        live = [e.sequence_number or number for e in entries if e.status is not Status.DELETED]
        return Manifest(
            path=path,
            length=len(data),
            spec_id=first.spec_id,
            content=first.content,
            sequence_number=number,
            min_sequence_number=min(live, default=number),
            snapshot_id=self.snapshot_id,
            **_counts(entries),
            partitions=summaries([entry.file for entry in entries], schema, spec),
        )


def _counts(entries: Sequence[Entry]) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    for status, name in ((Status.ADDED, "added"), (Status.EXISTING, "existing"), (Status.DELETED, "deleted")):
        files = [entry.file for entry in entries if entry.status is status]
        counts[f"{name}_files"] = len(files)
        counts[f"{name}_rows"] = sum(file.record_count for file in files)
    return counts


def summaries(files: Sequence[DataFile], schema: Schema, spec: PartitionSpec) -> tuple[FieldSummary, ...]:
    """What a manifest list says of the partitions of `files`, a line for each partition field."""
    types = [partition_field.field_type for partition_field in spec.partition_type(schema).fields]
    found = []
    for position, field_type in enumerate(types):
        assert isinstance(field_type, PrimitiveType)
        values = {file.partition[position] for file in files}
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


def _summary(change: FileChange, manifests: Sequence[Manifest], occasion: Occasion) -> dict[str, str]:
    data = [manifest for manifest in manifests if manifest.content is Content.DATA]
    return {
        "operation": change.operation,
        "added-data-files": str(len(change.added)),
        "added-records": str(sum(file.record_count for file in change.added)),
        "added-files-size": str(sum(file.size_bytes for file in change.added)),
        "deleted-data-files": str(len(change.removed)),
        "total-data-files": str(sum(m.added_files + m.existing_files for m in data)),
        "total-records": str(sum(m.added_rows + m.existing_rows for m in data)),
        "headgate.version": str(occasion.version),
        "headgate.txid": occasion.txid.text,
        **occasion.remarks,
    }
