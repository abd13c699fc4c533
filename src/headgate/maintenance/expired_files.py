"""Deletes the files of expired versions, after the log says that they have expired.

What to delete follows from two retentions, the one before and the one after. Data files are deleted first,
then the manifests that name them, then manifest lists, then metadata. If the process dies in between, the
objects that name the remaining files still exist, and the next sweep continues. A file that has left a table
never comes back to it, so it is enough to compare an expired snapshot with the kept snapshots next to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from headgate.core.retention.kept_versions import kept_until
from headgate.errors import CorruptLakeError, HeadgateError, InternalError
from headgate.iceberg.format.directories import Role, role_of
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.table_objects import Contents, ContentsReader
from headgate.log.checkpoints import state_at
from headgate.log.layout import SWEPT
from headgate.maintenance.version_walk import Walk
from headgate.model.footprint import below_table
from headgate.model.identifiers import DATA, GENESIS, TABLES, Version, is_of_table
from headgate.model.json_object import JsonObject, encode
from headgate.model.record import Record
from headgate.model.retention import Retention
from headgate.model.state import LakeState
from headgate.model.table import TableAction, TableCommit, TableRef
from headgate.steward.follow_up import Steward
from headgate.steward.publishing import hint_key, version_of

DELETED_AT_ONCE = 64

OnProgress = Callable[[str, int, int], None]
"""Called with the kind of work, how much of it is done, and how much there is."""


@dataclass
class Doomed:
    """Objects that no kept version needs, by key with their sizes, in the order of deletion."""

    files: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, int] = field(default_factory=dict)
    lists: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, int] = field(default_factory=dict)
    left_alone: set[str] = field(default_factory=set)
    """Names in manifests that no file of their table can have. They are never deleted."""

    def phases(self) -> tuple[dict[str, int], ...]:
        return self.files, self.manifests, self.lists, self.metadata

    @property
    def objects(self) -> int:
        return sum(map(len, self.phases()))

    @property
    def bytes(self) -> int:
        return sum(sum(phase.values()) for phase in self.phases())


@dataclass
class _Seen:
    """The states of a table at the versions that expire, and around them."""

    refs: dict[str, TableRef] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    commits: list[tuple[Record, TableCommit]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Deletes expired files through one handle of a lake."""

    steward: Steward

    def run(self, progress: OnProgress) -> Doomed:
        """Deletes everything that the newest retention does not keep and that may still exist. Idempotent."""
        newest = self.steward.checkpoints.refresh()
        done = self._read_swept()
        if newest.retention.by <= done:
            return Doomed()
        doomed = self.find_doomed(self.since(newest, done), newest.retention, newest)
        self._publish(newest, doomed)
        self._delete(doomed, progress)
        self.steward.log.driver.put(SWEPT, encode({"version": newest.retention.by.number}))
        return doomed

    def read_unfinished(self, newest: LakeState) -> Retention:
        """The retention up to which everything is known to be deleted."""
        return self.since(newest, self._read_swept())

    def since(self, newest: LakeState, done: Version) -> Retention:
        """The retention after the expire of version `done`: what expired later may still exist."""
        kept = newest.retention
        while kept.by > done:
            before = Version(kept.by.number - 1)
            kept = state_at(self.steward.checkpoints, newest, before).retention
        return kept

    def _read_swept(self) -> Version:
        data = self.steward.log.driver.get(SWEPT)
        try:
            return GENESIS if data is None else JsonObject.parse(data, SWEPT).version("version")
        except CorruptLakeError:
            return GENESIS  # unreadable advice: check everything again

    # --- what to delete -------------------------------------------------------------------------------------

    def find_doomed(self, before: Retention, after: Retention, newest: LakeState) -> Doomed:
        """What `before` keeps and `after` does not need. Reads the metadata of the expiring versions."""
        walk = Walk(self.steward.checkpoints, newest)
        seen: dict[str, _Seen] = {}
        self._look_at_range(walk, before, after, seen)
        self._look_at_older(walk, before, after, seen)
        self._look_at_files(walk, before, after, seen)
        found = Doomed()
        for uuid, table in sorted(seen.items()):
            _TableSweep(self.steward.loader(), walk, after, uuid, table, found).run()
        return found

    def _look_at_range(self, walk: Walk, before: Retention, after: Retention, seen: dict[str, _Seen]) -> None:
        """Adds the range in which every version was kept, and no longer is."""
        if after.until <= before.until:
            return
        # The state of a table at the beginning of the range may be much older than the range.
        older = kept_until(before, before.until, self._divisor)
        kept = [version for version in older if after.keeps(version, self._divisor)]
        if kept:
            _keep(seen, walk.tables_at(kept[-1]))
        for record, tables in walk.between(before.until, after.until + 1):
            number = record.version.number
            for commit in record.tables:
                table = seen.setdefault(commit.table.uuid, _Seen())
                table.refs[commit.table.metadata] = commit.table
                if number <= after.until or commit.action is TableAction.DROP:
                    table.commits.append((record, commit))
            if number == before.until + 1:
                for uuid, ref in tables.items():
                    seen.setdefault(uuid, _Seen()).refs[ref.metadata] = ref
            if after.keeps(number, self._divisor):
                _keep(seen, tables)

    def _look_at_older(self, walk: Walk, before: Retention, after: Retention, seen: dict[str, _Seen]) -> None:
        """Adds expiring boundaries and tagged versions, and the kept ones next to them."""
        points = kept_until(before, before.until, self._divisor)
        gone = {version for version in points if not after.keeps(version, self._divisor)}
        near = {
            other
            for place, version in enumerate(points)
            if version in gone
            for other in points[max(0, place - 1) : place + 2]
        }
        for version in sorted(near):
            tables = walk.tables_at(version)
            for uuid, ref in tables.items():
                table = seen.setdefault(uuid, _Seen())
                if version in gone:
                    table.refs[ref.metadata] = ref
            if version not in gone:
                _keep(seen, tables)
        if gone:
            _keep(seen, walk.tables_at(after.until + 1))

    def _look_at_files(self, walk: Walk, before: Retention, after: Retention, seen: dict[str, _Seen]) -> None:
        """Adds snapshots whose files were kept until now, and are no longer needed."""
        points = kept_until(after, after.until + 1, self._divisor)
        for uuid, numbers in before.files.items():
            for number in set(numbers) - set(after.files.get(uuid, ())):
                ref = walk.tables_at(number).get(uuid)
                if ref is not None:
                    seen.setdefault(uuid, _Seen()).refs[ref.metadata] = ref
                    # The table may be unchanged until the next kept version, which then needs its metadata.
                    _keep(seen, walk.tables_at(points[bisect_left(points, number)]))

    @property
    def _divisor(self) -> int:
        return self.steward.log.identity.divisor

    # --- deleting -------------------------------------------------------------------------------------------

    def _publish(self, newest: LakeState, doomed: Doomed) -> None:
        """Publishes tables again whose hint names a file that is about to be deleted."""
        driver = self.steward.log.driver
        for ref in newest.tables.values():
            start = f"{ref.location}/metadata/v"
            if not any(key.startswith(start) for key in doomed.metadata):
                continue
            hint = driver.get(hint_key(ref.location))
            if hint is None or hint.decode("ascii", "replace").strip() != str(version_of(ref)):
                self.steward.publish(ref)

    def _delete(self, doomed: Doomed, progress: OnProgress) -> None:
        done = 0
        for phase in doomed.phases():
            delete_all(self.steward, phase, partial(_tell, progress, done, doomed.objects))
            done += len(phase)
        announce_again(self.steward, doomed.metadata)


def announce_again(steward: Steward, deleted: Collection[str]) -> None:
    """Publishes tables at locations whose hint was deleted, because a new table may have been created there.

    A writer that creates a table there after this check publishes it itself, after the deletion.
    """
    if any(key.endswith("/version-hint.text") for key in deleted):
        for ref in steward.checkpoints.refresh().tables.values():
            if hint_key(ref.location) in deleted:
                steward.publish(ref)


def _tell(progress: OnProgress, before: int, of: int, gone: int) -> None:
    progress("objects", before + gone, of)


def delete_all(steward: Steward, keys: Iterable[str], on_gone: Callable[[int], None]) -> None:
    """Deletes objects of tables, several at once. Idempotent. An error says how many were deleted."""
    driver, wanted = steward.log.driver, list(keys)
    if not all(key.startswith(TABLES) for key in wanted):
        raise InternalError(
            "an object that is not a file of a table was selected for deletion; nothing was deleted"
        )
    for start in range(0, len(wanted), DELETED_AT_ONCE):
        batch = wanted[start : start + DELETED_AT_ONCE]
        try:
            driver.host.together([partial(driver.delete, key) for key in batch])
        except HeadgateError as error:
            raise error.after(f"at least {start} of {len(wanted)} objects were deleted before") from error
        on_gone(start + len(batch))


def _keep(seen: dict[str, _Seen], tables: Mapping[str, TableRef]) -> None:
    for uuid, ref in tables.items():
        seen.setdefault(uuid, _Seen()).kept.add(ref.metadata)


@dataclass
class _TableSweep:
    """Finds the objects of one table that can be deleted."""

    loader: TableLoader
    walk: Walk
    after: Retention
    uuid: str
    seen: _Seen
    found: Doomed

    def run(self) -> None:
        driver = self.loader.driver
        refs = list(self.seen.refs.values())
        read = driver.host.together([partial(self.loader.find_metadata, ref.metadata) for ref in refs])
        there = [(ref, metadata) for ref, metadata in zip(refs, read, strict=True) if metadata is not None]
        gone = {s: metadata for _, metadata in there if (s := _snapshot(metadata)) and not self._is_kept(s)}
        reader = ContentsReader(self.loader, self._location)
        needed = {key for number in self._beside(gone) for key in self._contents(reader, number).every_key()}
        for metadata in gone.values():
            self._take(reader.contents(metadata), needed)
        self._take_positions(needed)
        self._take_metadata(there)

    @property
    def _location(self) -> str:
        """The directory of the table, which does not change when the table is renamed."""
        refs = (*self.seen.refs.values(), *(commit.table for _, commit in self.seen.commits))
        return next((ref.location for ref in refs), "")

    def _is_kept(self, snapshot: int) -> bool:
        return snapshot > self.after.until or snapshot in self._files

    @property
    def _files(self) -> Sequence[int]:
        return self.after.files.get(self.uuid, ())

    def _beside(self, gone: Iterable[int]) -> set[int]:
        """The kept snapshots next to the expiring ones: no other kept snapshot can need their files."""
        top = self.walk.tables_at(self.after.until + 1).get(self.uuid)
        kept = [*self._files, *(() if top is None else (self.after.until + 1,))]
        found = set()
        for number in gone:
            found.add(max((one for one in kept if one < number), default=0))
            found.add(min((one for one in kept if one > number), default=0))
        return found - {0}

    def _contents(self, reader: ContentsReader, version: int) -> Contents:
        """The objects of the table at a version that is kept with its files."""
        ref = self.walk.tables_at(version)[self.uuid]
        found = reader.contents(self.loader.metadata(ref.metadata))
        if not found.whole:
            raise CorruptLakeError(
                f"version {version} names files that do not exist or do not belong to {ref.location}; "
                "nothing was deleted",
                "run headgate fsck",
            )
        return found

    def _take(self, contents: Contents, needed: set[str]) -> None:
        into = zip(
            (self.found.files, self.found.manifests, self.found.lists),
            (contents.files, contents.manifests, contents.lists),
            strict=True,
        )
        for found, keys in into:
            found.update({key: size for key, size in keys.items() if key not in needed})
        self.found.left_alone |= contents.elsewhere

    def _take_positions(self, needed: set[str]) -> None:
        """Adds position files that are in no manifest, because only the change feed reads them."""
        for record, commit in self.seen.commits:
            for key in self._positions(record, commit):
                if key not in needed and is_of_table(key, commit.table.location, DATA):
                    self.found.files.setdefault(key, 0)

    def _positions(self, record: Record, commit: TableCommit) -> Iterator[str]:
        footprint, location = commit.footprint, commit.table.location
        if footprint is None:
            return
        if footprint.positions is not None:
            yield from (f"{location}/{below_table(path)}" for path in footprint.positions)
        elif not self._is_kept(record.version.number):
            keys = self.loader.driver.keys(f"{location}/data/L0-{record.txid}/")
            yield from (key for key in keys if role_of(f"/{key}") in _OF_POSITIONS)

    def _take_metadata(self, there: Iterable[tuple[TableRef, TableMetadata]]) -> None:
        at_head = {ref.metadata for ref in self.walk.newest.tables.values()}
        sizes = {ref.metadata: len(metadata.data) for ref, metadata in there}
        # Whether or not the metadata itself exists: an earlier sweep may have deleted it already.
        for ref in (commit.table for _, commit in self.seen.commits):
            if ref.metadata not in at_head:
                published = f"{ref.location}/metadata/v{version_of(ref)}.metadata.json"
                self.found.metadata[published] = sizes.get(ref.metadata, 0)
        for ref, _ in there:
            if ref.metadata not in self.seen.kept and version_of(ref).number not in self._files:
                self.found.metadata[ref.metadata] = sizes[ref.metadata]
        self._take_hint()

    def _take_hint(self) -> None:
        """Adds the hint of a table that is gone, unless another table uses its location."""
        if self._files or self.uuid in self.walk.tables_at(self.after.until + 1):
            return
        taken = {ref.location for ref in self.walk.newest.tables.values()}
        for _, commit in self.seen.commits:
            if commit.action is TableAction.DROP and commit.table.location not in taken:
                self.found.metadata[hint_key(commit.table.location)] = 0


_OF_POSITIONS = (Role.POSITIONS_DELETED, Role.POSITIONS_UPDATED)


def _snapshot(metadata: TableMetadata) -> int | None:
    """The version of the current snapshot."""
    current = metadata.snapshot
    return None if current is None else int(current["sequence-number"])
