"""Deleting the files of expired versions, after the log says that they are expired.

What is to be deleted follows from two retentions, the one before and the one after. Files come first, then
the manifests that name them, then lists, then metadata: whoever dies inside leaves everything that names what
is left, and the next sweep goes on. A file that has left a table never comes back to it, so what the kept
snapshots next to an expired one need is all that any kept one needs of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from headgate.commit.checkpoints import state_at
from headgate.commit.layout import SWEPT
from headgate.core.retention import kept_until
from headgate.errors import CorruptLakeError
from headgate.iceberg.contents import Contents, ContentsReader
from headgate.iceberg.directories import Role, role_of
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.model.footprint import below_table
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import JsonObject, encode
from headgate.model.record import Record
from headgate.model.retention import Retention
from headgate.model.state import LakeState
from headgate.model.table import TableAction, TableCommit, TableRef
from headgate.publishing import hint_key, version_of
from headgate.services.walk import Walk
from headgate.steward.steward import Steward

DELETED_AT_ONCE = 64

OnProgress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@dataclass
class Doomed:
    """Objects that no kept version needs, by key with their bytes, in the order in which they go."""

    files: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, int] = field(default_factory=dict)
    lists: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, int] = field(default_factory=dict)

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
    """What a table was at the versions that are let go, and around them."""

    refs: dict[str, TableRef] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    commits: list[tuple[Record, TableCommit]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Through one handle of a lake."""

    steward: Steward

    def run(self, progress: OnProgress) -> Doomed:
        """Deletes what the newest retention does not keep and is not known to be deleted. Idempotent."""
        newest = self.steward.checkpoints.refresh()
        done = self._swept()
        if newest.retention.by <= done:
            return Doomed()
        doomed = self.doomed(self.since(newest, done), newest.retention, newest)
        self._publish(newest, doomed)
        self._delete(doomed, progress)
        self.steward.log.driver.put(SWEPT, encode({"version": newest.retention.by.number}))
        return doomed

    def unfinished(self, newest: LakeState) -> Retention:
        """The retention up to which everything is known to be deleted."""
        return self.since(newest, self._swept())

    def since(self, newest: LakeState, done: Version) -> Retention:
        """What was kept after the expire of version `done`: from there on something may be left."""
        kept = newest.retention
        while kept.by > done:
            before = Version(kept.by.number - 1)
            kept = state_at(self.steward.checkpoints, newest, before).retention
        return kept

    def _swept(self) -> Version:
        data = self.steward.log.driver.get(SWEPT)
        try:
            return GENESIS if data is None else JsonObject.parse(data, SWEPT).version("version")
        except CorruptLakeError:
            return GENESIS  # advice that cannot be read: everything is looked at once more

    # --- what goes ------------------------------------------------------------------------------------------

    def doomed(self, before: Retention, after: Retention, newest: LakeState) -> Doomed:
        """What `after` does not need of what `before` has kept. Reads what dropped versions consist of."""
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
        """The versions that were all kept, and are no more."""
        if after.until <= before.until:
            return
        # What a table was at the beginning of the range, it may have been for long.
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
        """Boundaries and tagged versions that are let go, and the kept ones next to them."""
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
        """Snapshots whose files have stayed until now, and are needed no more."""
        points = kept_until(after, after.until + 1, self._divisor)
        for uuid, numbers in before.files.items():
            for number in set(numbers) - set(after.files.get(uuid, ())):
                ref = walk.tables_at(number).get(uuid)
                if ref is not None:
                    seen.setdefault(uuid, _Seen()).refs[ref.metadata] = ref
                    # The table may be the same until the next kept version, which then needs its metadata.
                    _keep(seen, walk.tables_at(points[bisect_left(points, number)]))

    @property
    def _divisor(self) -> int:
        return self.steward.log.identity.divisor

    # --- and how --------------------------------------------------------------------------------------------

    def _publish(self, newest: LakeState, doomed: Doomed) -> None:
        """Announces tables whose announcement is about to lose the file that it names."""
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
    """Announces tables at places whose announcement was deleted: somebody may have made one there meanwhile.

    Who does so after this look announces the table itself, after the deletion.
    """
    if any(key.endswith("/version-hint.text") for key in deleted):
        for ref in steward.checkpoints.refresh().tables.values():
            if hint_key(ref.location) in deleted:
                steward.publish(ref)


def _tell(progress: OnProgress, before: int, of: int, gone: int) -> None:
    progress("objects", before + gone, of)


def delete_all(steward: Steward, keys: Iterable[str], on_gone: Callable[[int], None]) -> None:
    """Deletes objects, some at once. Idempotent."""
    driver, wanted = steward.log.driver, list(keys)
    for start in range(0, len(wanted), DELETED_AT_ONCE):
        batch = wanted[start : start + DELETED_AT_ONCE]
        driver.host.together([partial(driver.delete, key) for key in batch])
        on_gone(start + len(batch))


def _keep(seen: dict[str, _Seen], tables: Mapping[str, TableRef]) -> None:
    for uuid, ref in tables.items():
        seen.setdefault(uuid, _Seen()).kept.add(ref.metadata)


@dataclass
class _TableSweep:
    """What is let go of one table."""

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
        reader = ContentsReader(self.loader)
        needed = {key for number in self._beside(gone) for key in self._contents(reader, number).every_key()}
        for metadata in gone.values():
            self._take(reader.contents(metadata), needed)
        self._take_positions(needed)
        self._take_metadata(there)

    def _is_kept(self, snapshot: int) -> bool:
        return snapshot > self.after.until or snapshot in self._files

    @property
    def _files(self) -> Sequence[int]:
        return self.after.files.get(self.uuid, ())

    def _beside(self, gone: Iterable[int]) -> set[int]:
        """The kept snapshots next to those that go: of any file of these, they are the ones to need it."""
        top = self.walk.tables_at(self.after.until + 1).get(self.uuid)
        kept = [*self._files, *(() if top is None else (self.after.until + 1,))]
        found = set()
        for number in gone:
            found.add(max((one for one in kept if one < number), default=0))
            found.add(min((one for one in kept if one > number), default=0))
        return found - {0}

    def _contents(self, reader: ContentsReader, version: int) -> Contents:
        """What the table consists of at a version that is kept with its files."""
        ref = self.walk.tables_at(version)[self.uuid]
        found = reader.contents(self.loader.metadata(ref.metadata))
        if not found.whole:
            raise CorruptLakeError(
                f"version {version} needs files of {ref.location} that are not there; nothing was deleted",
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

    def _take_positions(self, needed: set[str]) -> None:
        """Position files that are in no manifest: only the feed of changes read them."""
        for record, commit in self.seen.commits:
            for key in self._positions(record, commit):
                if key not in needed:
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
        # Whether or not the metadata itself is there: an earlier sweep may have got that far.
        for ref in (commit.table for _, commit in self.seen.commits):
            if ref.metadata not in at_head:
                published = f"{ref.location}/metadata/v{version_of(ref)}.metadata.json"
                self.found.metadata[published] = sizes.get(ref.metadata, 0)
        for ref, _ in there:
            if ref.metadata not in self.seen.kept and version_of(ref).number not in self._files:
                self.found.metadata[ref.metadata] = sizes[ref.metadata]
        self._take_hint()

    def _take_hint(self) -> None:
        """The announcement of a table that is gone, unless another one has its place."""
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
