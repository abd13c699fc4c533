"""Turns a change of files into a snapshot: manifests, the manifest list, and the new metadata.

Bytes in, bytes out. The names of all objects contain the transaction, so no other transaction uses them, and
the version for which they were made. After a lost race, what depends on the version is created again. A
manifest that adds files does not depend on it, because files inherit their number from the manifest list, so
it is created once.

Which earlier versions can be read from its files: `iceberg.format.boundaries` reads them.

A pure function of the versions in manifests decides which manifests of a table are merged.

The rule is that of all compaction in Headgate: when a version divisible by divisor^level is reached, the
contents of the window before it are merged. A manifest belongs to the window of its lowest version, and never
contains versions of two windows; so after version N a table has at most (divisor − 1) manifests per level.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import PrimitiveType

from headgate.core.compaction.windows import largest_complete_window
from headgate.iceberg.format.avro import Listed, encode_manifest, encode_manifest_list
from headgate.iceberg.format.data_file import (
    Content,
    DataFile,
    Entry,
    FieldSummary,
    Manifest,
    Partition,
    Status,
)
from headgate.iceberg.format.directories import manifest_list, window_covered
from headgate.iceberg.format.metadata import NewSnapshot, TableMetadata, told_number, with_snapshot
from headgate.model.identifiers import TxId, Version, Window

TOTAL_SIZE = "total-files-size"
TOTAL_RECORDS = "total-records"
LIVE_RECORDS = "headgate.live-records"
"""The number of rows of a table that are not deleted by position; absent if it never had such deletes."""
READABLE_SINCE = "headgate.readable-since"
"""In the summary of a snapshot: the oldest version that can be read from its files.

Since then, rows have left the files only by position deletes and by compaction. Anything else that removes
rows or values (overwrites, deleted files, copy-on-write, a dropped or widened column) sets it to the
snapshot's own version. A snapshot without it can only be read at its own version.
"""


@dataclass(frozen=True, slots=True)
class Dead:
    """Rows that are deleted by position, as far as a change affects the number of live rows.

    `before`: how many rows of a removed data file, by its path, were deleted before. `now`: how many live
    rows an added delete file, by its path, deletes.
    """

    before: Mapping[str, int] = field(default_factory=dict)
    now: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a commit does to the files of a table; `operation` is Iceberg's name for it.

    It adds data files, removes data files by path, and adds position delete files. `numbers` are the data
    sequence numbers, by path, of added files that do not have that of the commit. `dead` describes how the
    change affects rows that are deleted by position. `idle_deletes` are position delete files, by path, that
    no remaining data file needs: they are removed too.
    """

    operation: str
    added: tuple[DataFile, ...] = ()
    removed: frozenset[str] = frozenset()
    deletes: tuple[DataFile, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    dead: Dead = field(default_factory=Dead)
    idle_deletes: frozenset[str] = frozenset()

    @property
    def all_removed(self) -> frozenset[str]:
        return self.removed | self.idle_deletes


@dataclass(frozen=True, slots=True)
class Draft:
    """A manifest that a transaction has made; it is valid for any version that the transaction gets."""

    entries: tuple[Entry, ...]
    path: str
    data: bytes


Drafts: TypeAlias = dict[Hashable, Draft]
"""The manifests that a transaction has made, by their contents."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """The commit that a snapshot belongs to. `drafts` are those of its transaction; new ones are added."""

    version: Version
    txid: TxId
    timestamp_ms: int
    divisor: int
    remarks: Mapping[str, str] = field(default_factory=dict)
    drafts: Drafts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What must be written: objects by URI, the metadata that refers to them, and its manifests.

    `entries` are those of new manifests that contain only new entries, in the form that a reader returns.
    """

    metadata: TableMetadata
    manifests: tuple[Manifest, ...]
    objects: Mapping[str, bytes]
    entries: Mapping[str, tuple[Entry, ...]]


def snapshot_id(txid: TxId, table_uuid: str) -> int:
    """The id of the snapshot of a table that a transaction creates: the same for every attempt."""
    digest = hashlib.sha256(f"{txid}/{table_uuid}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def manifests_to_read(manifests: Sequence[Manifest], change: FileChange, occasion: Occasion) -> set[Manifest]:
    """The manifests whose contents `take_snapshot` needs.

    If files are removed, these are all manifests of files of that kind, because their entries must be known.
    """
    searched = {m for m in manifests if removed_in(change, m.content)}
    # Manifests that are about to be added can complete a group; only their window matters here.
    number = occasion.version.number
    added = {(f.content, f.spec_id, change.numbers.get(f.path, number)) for f in _all_added(change)}
    expected = [_placeholder(*place) for place in added]
    due = due_merges([*manifests, *expected], number, occasion.divisor)
    return searched | ({manifest for group in due for manifest in group} - set(expected))


def removed_in(change: FileChange, content: Content) -> frozenset[str]:
    """The files of one kind that a change removes."""
    return change.removed if content is Content.DATA else change.idle_deletes


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
    """The table after `change`. `listed` has the contents of `manifests_to_read`, by path."""
    maker = _Maker(metadata, occasion)
    # A manifest that only lists removed files is no longer needed.
    manifests = [manifest for manifest in manifests if manifest.added_files or manifest.existing_files]
    kept = maker.without_removed(manifests, listed, change)
    new = maker.manifests_of(_all_added(change), change.numbers)
    merged = maker.merged([*new, *kept], listed)
    number, own_id = occasion.version.number, maker.snapshot_id
    parent = metadata.fields.get("current-snapshot-id")
    list_path = manifest_list(metadata.location, own_id, number, occasion.txid)
    objects = {**maker.objects, list_path: encode_manifest_list(merged, own_id, parent, number)}
    used = {manifest.path for manifest in merged} | {list_path}
    summary = _summary(change, merged, occasion) | _totals(metadata, listed, change)
    summary[READABLE_SINCE] = str(_readable_since(metadata, listed, change, occasion))
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
            # No manifest contains numbers of two windows: see `due_merges`.
            window = largest_complete_window(given or own, own, divisor)
            groups.setdefault((file.spec_id, file.content, window), []).append(entry)
        return [self._manifest(group) for group in groups.values()]

    def without_removed(
        self, manifests: Sequence[Manifest], listed: Mapping[str, Listed], change: FileChange
    ) -> list[Manifest]:
        """The manifests; those that list removed files are rewritten."""
        kept = []
        for manifest in manifests:
            removed = removed_in(change, manifest.content)
            entries = listed[manifest.path].entries if removed else ()
            met = any(entry.file.path in removed for entry in entries)
            kept.append(self._marked(entries, removed) if met else manifest)
        return kept

    def merged(self, manifests: Sequence[Manifest], listed: Mapping[str, Listed]) -> list[Manifest]:
        """The manifests, with those merged that are ready to merge."""
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
        # What this snapshot removes must be listed as removed by it; older removals are history.
        return entry.status is not Status.DELETED or entry.snapshot_id == self.snapshot_id

    def _carried(self, entry: Entry) -> Entry:
        if entry.snapshot_id == self.snapshot_id:
            return entry
        return replace(entry, status=Status.EXISTING)

    def _manifest(
        self, entries: Sequence[Entry], unseen: Mapping[Manifest, Listed] = MappingProxyType({})
    ) -> Manifest:
        """A manifest with `entries`, and with everything in the manifests `unseen`, unchanged."""
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
        """The encoded manifest; reuses the one from an earlier attempt if nothing in it has changed."""
        entries, drafts = listed.entries, self._occasion.drafts
        made_of = (self._metadata.uuid, schema.schema_id, spec.spec_id, content, len(entries))
        what = (*made_of, entries[0].file.path if entries else None)
        known = drafts.get(what)
        if known is not None and not listed.packs and known.entries == entries:
            return known
        number, txid = self._occasion.version.number, self._occasion.txid
        path = f"{self._metadata.location}/metadata/{number}-{txid}-m{len(self.objects)}.avro"
        draft = Draft(entries, path, encode_manifest(listed, schema, spec, content))
        # Others are merged, or list removed files: another writer may have changed their contents.
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
    # Their contents are settled: neither added nor removed by this snapshot or an unfinished one.
    counts["existing_files"] += sum(manifest.existing_files for manifest in unseen)
    counts["existing_rows"] += sum(manifest.existing_rows for manifest in unseen)
    return counts


def summaries(
    partitions: Collection[Partition], schema: Schema, spec: PartitionSpec
) -> tuple[FieldSummary, ...]:
    """The summaries of `partitions` for a manifest list, one for each partition field."""
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
    """Totals that follow from the previous snapshot; those that it does not contain are left out."""
    before: Mapping[str, str] = {TOTAL_SIZE: "0", TOTAL_RECORDS: "0"}
    if metadata.snapshot is not None:
        before = metadata.snapshot.get("summary", {})
    gone = _removed_files(listed, change)
    removed = [file for file in gone if file.content is Content.DATA]
    totals = {}
    if TOTAL_SIZE in before:
        added = sum(file.size_bytes for file in _all_added(change))
        totals[TOTAL_SIZE] = told_number(before, TOTAL_SIZE) + added - sum(file.size_bytes for file in gone)
    if LIVE_RECORDS in before or change.deletes:
        rows = told_number(before, LIVE_RECORDS if LIVE_RECORDS in before else TOTAL_RECORDS)
        rows += sum(file.record_count for file in change.added)
        rows -= sum(file.record_count for file in removed)
        rows += sum(change.dead.before.values()) - sum(change.dead.now.values())
        totals[LIVE_RECORDS] = rows
    return {name: str(total) for name, total in totals.items()}


def _removed_files(listed: Mapping[str, Listed], change: FileChange) -> list[DataFile]:
    removed = change.all_removed
    entries = (entry for known in listed.values() for entry in known.entries) if removed else ()
    live = (entry.file for entry in entries if entry.status is not Status.DELETED)
    return list({file.path: file for file in live if file.path in removed}.values())


def _readable_since(
    metadata: TableMetadata, listed: Mapping[str, Listed], change: FileChange, occasion: Occasion
) -> int:
    entries = (entry for known in listed.values() for entry in known.entries) if change.removed else ()
    live = (entry for entry in entries if entry.status is not Status.DELETED)
    removed = [entry for entry in live if entry.file.path in change.removed]
    number = occasion.version.number
    return readable_since(metadata, change.operation, change.added, removed, number, occasion.divisor)


def readable_since(
    metadata: TableMetadata,
    operation: str,
    added: Iterable[DataFile],
    removed: Collection[Entry],
    version: int,
    divisor: int,
) -> int:
    """What a new snapshot says for `READABLE_SINCE`; `metadata` is the table without it."""
    before = metadata.snapshot
    if before is None:
        return 0
    summary = before.get("summary", {})
    if READABLE_SINCE not in summary or not _keeps_values(metadata, before):
        return version
    said = told_number(summary, READABLE_SINCE)
    if not removed:
        return said
    outputs = frozenset(window_covered(file.path, version) for file in added)
    if operation != "replace" or not outputs or any(window.level == 0 for window in outputs):
        return version
    emptied = (window for window in map(_window, removed) if not any(o.holds(window) for o in outputs))
    # All rows of such a file were deleted within its window, which was complete: nothing is left of it that
    # would distinguish a version inside from later ones.
    ends = (largest_complete_window(window.last, version, divisor).last for window in emptied)
    return max([said, *ends])


def _window(entry: Entry) -> Window:
    return window_covered(entry.file.path, entry.sequence_number or 0)


def _keeps_values(metadata: TableMetadata, snapshot: Mapping[str, Any]) -> bool:
    """Whether files that are written now have every value that they had in the schema of `snapshot`.

    Only the first snapshot after the change says so, whatever it does; later compactions need not check.
    """
    known = snapshot.get("schema-id")
    if known == metadata.schema.schema_id:
        return True
    then = metadata.schemas.get(known) if isinstance(known, int) else None
    return then is not None and _has_all(metadata.schema, then)


def _has_all(now: Schema, before: Schema) -> bool:
    present = index_by_id(now)
    return all(
        field_id in present
        and (not field.field_type.is_primitive or present[field_id].field_type == field.field_type)
        for field_id, field in index_by_id(before).items()
    )


def _summary(change: FileChange, manifests: Sequence[Manifest], occasion: Occasion) -> dict[str, str]:
    data = [manifest for manifest in manifests if manifest.content is Content.DATA]
    deletes = [manifest for manifest in manifests if manifest.content is Content.POSITION_DELETES]
    return {
        # First, so that properties of the caller cannot replace anything below.
        **occasion.remarks,
        "operation": change.operation,
        "added-data-files": str(len(change.added)),
        "added-records": str(sum(file.record_count for file in change.added)),
        "added-files-size": str(sum(file.size_bytes for file in _all_added(change))),
        "deleted-data-files": str(len(change.removed)),
        "total-data-files": str(sum(m.added_files + m.existing_files for m in data)),
        TOTAL_RECORDS: str(sum(m.added_rows + m.existing_rows for m in data)),
        **(_summary_of_deletes(change, deletes) if deletes else {}),
        "headgate.version": str(occasion.version),
        "headgate.txid": occasion.txid.text,
    }


def _summary_of_deletes(change: FileChange, manifests: Sequence[Manifest]) -> dict[str, str]:
    """The summary of delete files, if the table has any, or had until now."""
    added, removed = change.deletes, len(change.idle_deletes)
    gone = {"removed-delete-files": str(removed), "removed-position-delete-files": str(removed)}
    return {
        **(gone if removed else {}),
        "added-delete-files": str(len(added)),
        "added-position-delete-files": str(len(added)),
        "added-position-deletes": str(sum(file.record_count for file in added)),
        "total-delete-files": str(sum(m.added_files + m.existing_files for m in manifests)),
        "total-position-deletes": str(sum(m.added_rows + m.existing_rows for m in manifests)),
        "total-equality-deletes": "0",
    }


TARGET_BYTES = 8 * 1024 * 1024
"""A manifest of this size is not merged any more."""


def due_merges(manifests: Sequence[Manifest], version: int, divisor: int) -> tuple[tuple[Manifest, ...], ...]:
    """The groups of manifests that the commit of `version` should merge, each of two or more."""
    groups: dict[tuple[Content, int, Window], list[Manifest]] = defaultdict(list)
    for manifest in manifests:
        if manifest.length < TARGET_BYTES:
            window = largest_complete_window(manifest.min_sequence_number, version, divisor)
            groups[manifest.content, manifest.spec_id, window].append(manifest)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
