"""Turns the table changes of a transaction into the contents of its record and the objects that it needs.

This is repeated for every version that is tried, on the tables of the version before. Data files and the
manifests that list them are not written again; only objects that depend on the version are.

Also counts exactly how many live rows a change removes, although files record only their total. A position
can be listed twice, if two writers deleted the same row, and a delete file can refer to a data file that is
gone. Neither counts. This costs nothing for tables without delete files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePosixPath

from pyiceberg.typedef import Record as PartitionRecord

from headgate.errors import ConflictError
from headgate.iceberg.format.avro import Listed
from headgate.iceberg.format.data_file import Content, DataFile, Entry, Manifest, Status
from headgate.iceberg.format.directories import attempt_metadata
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import (
    TableMetadata,
    new_table,
    not_after,
    with_previous,
    with_properties,
    without_expired,
)
from headgate.iceberg.format.positions import Positions, read_positions
from headgate.iceberg.format.snapshot import (
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
from headgate.iceberg.scan.planning import DeleteIndex
from headgate.model.identifiers import TxId, Version
from headgate.model.retention import Retention
from headgate.model.state import LakeState
from headgate.model.table import PathChange, TableAction, TableCommit, TableName, TableRef
from headgate.transaction.changes import TableChange


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a version. `drafts` contains the results of earlier attempts, and is extended."""

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
    """A table after the commit: its part of the record, and the objects (by key) that it refers to."""

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
    if change.alters.dropped:
        assert change.base is not None
        return _dropped(change, attempt)
    ref, metadata = _before(loader, change, attempt)
    if change.alters.evolution is not None:
        metadata = change.alters.evolution.applied(metadata, attempt.now_ms)
    snapshot: Snapshot | None = None
    if change.alters.properties:
        set_, removed = change.alters.properties.set, change.alters.properties.removed
        metadata = with_properties(metadata, set_, removed, attempt.now_ms)
    dead = Dead()
    if change.changes_files:
        dead = count_dead(loader, change, metadata)
        snapshot = _with_files(loader, change, metadata, attempt, dead)
        metadata = snapshot.metadata
    key = attempt_metadata(ref.location, attempt.version, attempt.txid)
    if change.alters.expires is not None:
        # Without a reference to the previous metadata file, which would be the next to expire.
        metadata = _pruned(metadata, change.alters.expires, attempt)
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
    return pruned.changed(last_updated_ms=attempt.now_ms)


def _before(loader: TableLoader, change: TableChange, attempt: Attempt) -> tuple[TableRef, TableMetadata]:
    """The table before the change: that of the state, or an empty new one."""
    if change.new is None:
        # The rules have checked that the table of this name is still the one that the caller saw.
        ref = attempt.state.tables[change.name]
        return ref, not_after(loader.metadata(ref.metadata), attempt.now_ms)
    new = change.new
    location = table_location(TableName.parse(change.name_after), new.uuid, attempt.state)
    metadata = new_table(
        new.uuid, loader.uri(location), new.schema, new.spec, new.sort_order, new.properties, attempt.now_ms
    )
    return TableRef(new.uuid, location, ""), metadata


def table_location(name: TableName, uuid: str, state: LakeState) -> str:
    """The directory of a new table. Renamed tables keep theirs, so the plain directory can be in use."""
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
    # If files are removed, every entry must be checked.
    seen = [manifest for manifest in needed if removed_in(files, manifest.content)]
    unseen = [manifest for manifest in needed if manifest not in seen]
    listed = [Listed(entries) for entries in loader.entries(seen)]
    _require_present(change, listed)
    known = zip((*seen, *unseen), (*listed, *loader.read_listed(unseen, metadata)), strict=True)
    by_path = {manifest.path: found for manifest, found in known}
    return take_snapshot(metadata, current, by_path, files, occasion)


def _objects(loader: TableLoader, snapshot: Snapshot | None) -> dict[str, bytes]:
    return {} if snapshot is None else {loader.key(uri): data for uri, data in snapshot.objects.items()}


def _require_present(change: TableChange, listed: Sequence[Listed]) -> None:
    """Raises an error if a file to be removed is already gone: its rows would then exist twice.

    The conflict rules find this from the records; this is a final check of the files themselves.
    """
    live = {e.file.path for known in listed for e in known.entries if e.status is not Status.DELETED}
    gone = sorted(path for path in change.replaced or () if path not in live)
    if gone:
        raise ConflictError(
            f"{change.name}: {len(gone)} files that this commit removes are already gone, such as {gone[0]}"
        )


def _commit(change: TableChange, ref: TableRef, metadata: TableMetadata, txid: TxId) -> TableCommit:
    action = TableAction.CHANGE
    if change.new is not None:
        action = TableAction.CREATE
    elif change.alters.renamed_to is not None:
        action = TableAction.RENAME
    return TableCommit(
        name=change.name_after,
        action=action,
        table=ref,
        renamed_from=change.name if action is TableAction.RENAME else None,
        snapshot_id=snapshot_id(txid, metadata.uuid) if change.changes_files else None,
        operation=change.operation if change.changes_files else None,
        replaces_all=change.reach.replaces_all,
        property_names=change.alters.properties.names(),
        footprint=change.file_footprint(),
        structure=change.structure,
        dropped_fields=frozenset() if change.alters.evolution is None else change.alters.evolution.dropped,
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
    """The virtual path of a file, such as `/sales/orders/ts_day=2026-11-15/customer_bucket=3`."""
    spec = metadata.specs[file.spec_id]
    if not spec.fields:
        return str(PurePosixPath("/", *table.split(".")))
    partition = spec.partition_to_path(PartitionRecord(*file.partition), metadata.schema_of(spec))
    return str(PurePosixPath("/", *table.split("."), partition))


def count_dead(loader: TableLoader, change: TableChange, metadata: TableMetadata) -> Dead:
    """The rows deleted by position that a change of the table `metadata` removes or adds."""
    if not change.replaced and not change.deletes:
        return Dead()
    current = () if change.new is not None else loader.manifests(metadata)
    index = _index(loader, current)

    def dead_in(file: DataFile) -> Positions:
        return read_positions(loader.driver, loader, index.applying_to(file, 0), [file.path])

    removed = change.replaced or {}
    before = {path: len(dead_in(file)) for path, file in removed.items()}
    gone = {*removed, *_find_gone(loader, change, current)} if change.deletes else set()
    now: dict[str, int] = {}
    counted = Positions()
    for delete in change.deletes:
        listed = loader.positions(delete)
        alive = Positions({path: listed.by_file[path] for path in listed.by_file.keys() - gone})
        for path in alive.by_file:
            counted |= dead_in(replace(delete, path=path))
        now[delete.path] = len(alive - counted)
        counted |= alive
    return Dead(before, now)


def idle_deletes(loader: TableLoader, change: TableChange, current: Sequence[Manifest]) -> frozenset[str]:
    """The paths of position delete files that refer to no data file that is left after a change.

    Checks the delete files of removed data files, which were read to count their rows, and those whose
    manifest entry names a single data file, for which nothing has to be read.
    """
    if not change.replaced or not any(manifest.content is not Content.DATA for manifest in current):
        return frozenset()
    index = _index(loader, current)
    told = (file for gone in change.replaced.values() for file in index.applying_to(gone, 0))
    left = _live_paths(loader, current) - set(change.replaced)
    alone = (file for path, file in index.of_single_files() if path not in left)
    return frozenset(
        file.path
        for file in {file.path: file for file in (*alone, *told)}.values()
        if left.isdisjoint(loader.positions(file).by_file)
    )


def _index(loader: TableLoader, manifests: Iterable[Manifest]) -> DeleteIndex:
    deletes = [manifest for manifest in manifests if manifest.content is Content.POSITION_DELETES]
    entries = (entry for group in loader.entries(deletes) for entry in group)
    live = (entry for entry in entries if entry.status is not Status.DELETED)
    return DeleteIndex((entry.file, entry.sequence_number or 0) for entry in live)


def _find_gone(loader: TableLoader, change: TableChange, current: Iterable[Manifest]) -> set[str]:
    """The data files that the deletes refer to and that others have removed."""
    if change.base is None:
        return set()
    then, now = set(loader.manifests(loader.metadata(change.base.metadata))), set(current)
    made = _live_paths(loader, now - then)
    gone = _live_paths(loader, then - now) - made
    # Files that existed at the base are in one of these, or in manifests that have not changed. Only files
    # that a delete was rebased onto can have been added and removed since.
    told = {path for delete in change.deletes for path in loader.positions(delete).by_file}
    sought = {path for read in change.reach.sought for path in read.files.values()}
    unsure = told - sought - gone - made - {file.path for file in change.added}
    return gone | (unsure - _live_paths(loader, then & now) if unsure else set())


def _live_paths(loader: TableLoader, manifests: Iterable[Manifest]) -> set[str]:
    data = [manifest for manifest in manifests if manifest.content is Content.DATA]
    entries = (entry for group in loader.entries(data) for entry in group)
    return {entry.file.path for entry in entries if entry.status is not Status.DELETED}
