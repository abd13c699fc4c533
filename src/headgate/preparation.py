"""From the table changes of a transaction to what its record says, and the objects that must be there first.

Done anew for every version that is tried, on the tables as they are at the version before. Data files are
never written again, nor are the manifests that list them; only what depends on the version is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath

from pyiceberg.typedef import Record as PartitionRecord

from headgate.changes import TableChange
from headgate.errors import ConflictError
from headgate.iceberg.avro import Listed
from headgate.iceberg.data_file import DataFile, Entry, Manifest, Status
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import (
    TableMetadata,
    new_table,
    with_previous,
    with_properties,
    without_expired,
)
from headgate.iceberg.snapshot import (
    Dead,
    Drafts,
    FileChange,
    Occasion,
    Snapshot,
    manifests_to_read,
    removed_in,
    snapshot_id,
    take_snapshot,
)
from headgate.liveness import count_dead, idle_deletes
from headgate.model.identifiers import TxId, Version
from headgate.model.retention import Retention
from headgate.model.state import LakeState
from headgate.model.table import PathChange, TableAction, TableCommit, TableName, TableRef


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a version. `drafts` is what earlier ones of the transaction made, and is added to."""

    state: LakeState
    txid: TxId
    now: datetime
    divisor: int
    remarks: Mapping[str, str]
    drafts: Drafts = field(default_factory=dict)

    @property
    def version(self) -> Version:
        return self.state.version.next()

    @property
    def now_ms(self) -> int:
        return int(self.now.timestamp() * 1000)

    def occasion(self) -> Occasion:
        return Occasion(self.version, self.txid, self.now_ms, self.divisor, self.remarks, self.drafts)


@dataclass(frozen=True, slots=True)
class PreparedTable:
    """A table as it will be: what the record says, and the objects (by key) that it names."""

    commit: TableCommit
    metadata: TableMetadata | None = None
    manifests: tuple[Manifest, ...] = ()
    entries: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    objects: Mapping[str, bytes] = field(default_factory=dict)
    paths: Mapping[str, PathChange] = field(default_factory=dict)


def prepare(loader: TableLoader, changes: Sequence[TableChange], attempt: Attempt) -> list[PreparedTable]:
    """The tables of a transaction on top of `attempt.state`. Reads what it needs, writes nothing."""
    return [table for change in changes for table in _prepare_each(loader, change, attempt)]


def _prepare_each(loader: TableLoader, change: TableChange, attempt: Attempt) -> Iterator[PreparedTable]:
    if change.instead_of is not None:
        yield _dropped(change, attempt)
    yield _prepare_one(loader, change, attempt)


def _dropped(change: TableChange, attempt: Attempt) -> PreparedTable:
    return PreparedTable(TableCommit(change.name, TableAction.DROP, attempt.state.tables[change.name]))


def _prepare_one(loader: TableLoader, change: TableChange, attempt: Attempt) -> PreparedTable:
    if change.dropped:
        assert change.base is not None
        return _dropped(change, attempt)
    ref, metadata = _before(loader, change, attempt)
    if change.evolution is not None:
        metadata = change.evolution.applied(metadata, attempt.now_ms)
    snapshot: Snapshot | None = None
    if change.properties:
        set_, removed = change.properties.set, change.properties.removed
        metadata = with_properties(metadata, set_, removed, attempt.now_ms)
    dead = Dead()
    if change.changes_files:
        dead = count_dead(loader, change, metadata)
        snapshot = _with_files(loader, change, metadata, attempt, dead)
        metadata = snapshot.metadata
    key = f"{ref.location}/metadata/{attempt.version.padded()}-{attempt.txid}.metadata.json"
    if change.expires is not None:
        # Without a note of the file that it follows, which would be the next to expire.
        metadata = _pruned(metadata, change.expires, attempt)
    elif change.new is None:
        metadata = with_previous(metadata, loader.uri(ref.metadata), metadata.fields["last-updated-ms"])
    return PreparedTable(
        commit=_commit(change, TableRef(ref.uuid, ref.location, key), metadata, attempt.txid),
        metadata=metadata,
        manifests=loader.manifests(metadata) if snapshot is None else snapshot.manifests,
        entries={} if snapshot is None else snapshot.entries,
        objects=_objects(loader, snapshot) | {key: metadata.data},
        paths=_paths(change, metadata, dead),
    )


def _pruned(metadata: TableMetadata, kept: Retention, attempt: Attempt) -> TableMetadata:
    pruned = without_expired(metadata, kept.until, kept.files.get(metadata.uuid, ()))
    return pruned.changed(last_updated_ms=max(attempt.now_ms, metadata.fields["last-updated-ms"]))


def _before(loader: TableLoader, change: TableChange, attempt: Attempt) -> tuple[TableRef, TableMetadata]:
    """The table before the change: that of the state, or an empty one that is being made."""
    if change.new is None:
        # The rules have checked that the table of this name is still the one that the caller saw.
        ref = attempt.state.tables[change.name]
        return ref, loader.metadata(ref.metadata)
    new = change.new
    location = table_location(TableName.parse(change.name_after), new.uuid, attempt.state)
    metadata = new_table(
        new.uuid, loader.uri(location), new.schema, new.spec, new.sort_order, new.properties, attempt.now_ms
    )
    return TableRef(new.uuid, location, ""), metadata


def table_location(name: TableName, uuid: str, state: LakeState) -> str:
    """Where a new table lies. A table that was renamed keeps its place, so the plain one can be taken."""
    plain = f"data/{name.namespace}/{name.table}"
    taken = {table.location for table in state.tables.values()}
    return plain if plain not in taken else f"{plain}-{uuid[:8]}"


def _with_files(
    loader: TableLoader, change: TableChange, metadata: TableMetadata, attempt: Attempt, dead: Dead
) -> Snapshot:
    current = () if change.new is not None else loader.manifests(metadata)
    files = FileChange(
        change.operation,
        change.added,
        frozenset(change.replaced or ()),
        change.deletes,
        change.numbers,
        dead,
        idle_deletes(loader, change, current),
    )
    occasion = attempt.occasion()
    needed = sorted(manifests_to_read(current, files, occasion), key=lambda manifest: manifest.path)
    # Where files are removed, every entry must be looked at.
    seen = [manifest for manifest in needed if removed_in(files, manifest.content)]
    unseen = [manifest for manifest in needed if manifest not in seen]
    listed = [Listed(entries) for entries in loader.entries(seen)]
    _require_present(change, listed)
    known = zip((*seen, *unseen), (*listed, *loader.listed(unseen, metadata)), strict=True)
    by_path = {manifest.path: found for manifest, found in known}
    return take_snapshot(metadata, current, by_path, files, occasion)


def _objects(loader: TableLoader, snapshot: Snapshot | None) -> dict[str, bytes]:
    return {} if snapshot is None else {loader.key(uri): data for uri, data in snapshot.objects.items()}


def _require_present(change: TableChange, listed: Sequence[Listed]) -> None:
    """Refuses to remove a file that is gone: the rows that took its place would stay beside ours.

    The rules find this from the records alone; this is the last look, at the files themselves.
    """
    live = {e.file.path for known in listed for e in known.entries if e.status is not Status.DELETED}
    gone = sorted(path for path in change.replaced or () if path not in live)
    if gone:
        raise ConflictError(f"{change.name}: {len(gone)} files to be removed are gone already, as {gone[0]}")


def _commit(change: TableChange, ref: TableRef, metadata: TableMetadata, txid: TxId) -> TableCommit:
    action = TableAction.CHANGE
    if change.new is not None:
        action = TableAction.CREATE
    elif change.renamed_to is not None:
        action = TableAction.RENAME
    return TableCommit(
        name=change.name_after,
        action=action,
        table=ref,
        renamed_from=change.name if action is TableAction.RENAME else None,
        snapshot_id=snapshot_id(txid, metadata.uuid) if change.changes_files else None,
        operation=change.operation if change.changes_files else None,
        replaces_all=change.replaces_all,
        property_names=change.properties.names(),
        footprint=change.file_footprint(),
        structure=change.structure,
        dropped_fields=frozenset() if change.evolution is None else change.evolution.dropped,
        verbs=change.verbs,
    )


def _paths(change: TableChange, metadata: TableMetadata, dead: Dead) -> dict[str, PathChange]:
    """The virtual paths that the change touches, with what it adds and removes there."""
    paths: dict[str, PathChange] = {}
    for file in change.added:
        path = virtual_path(change.name_after, file, metadata)
        added = PathChange(files_added=1, rows_added=file.record_count, bytes_added=file.size_bytes)
        paths[path] = paths.get(path, PathChange()) + added
    for file in (change.replaced or {}).values():
        path = virtual_path(change.name_after, file, metadata)
        rows = file.record_count - dead.before.get(file.path, 0)
        removed = PathChange(files_removed=1, rows_removed=rows, bytes_removed=file.size_bytes)
        paths[path] = paths.get(path, PathChange()) + removed
    for file in change.deletes:
        path = virtual_path(change.name_after, file, metadata)
        paths[path] = paths.get(path, PathChange()) + PathChange(rows_removed=dead.now[file.path])
    return paths


def virtual_path(table: str, file: DataFile, metadata: TableMetadata) -> str:
    """Where a file belongs, as in `/sales/orders/ts_day=2026-11-15/customer_bucket=3`."""
    spec = metadata.specs[file.spec_id]
    if not spec.fields:
        return str(PurePosixPath("/", *table.split(".")))
    partition = spec.partition_to_path(PartitionRecord(*file.partition), metadata.schema_of(spec))
    return str(PurePosixPath("/", *table.split("."), partition))
