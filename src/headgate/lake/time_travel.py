"""A table at one version, read from the files of its own snapshot or from those of a later one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyiceberg.schema import Schema

from headgate.core.input.arguments import version_number
from headgate.core.retention.kept_versions import is_expired, nearest_kept
from headgate.errors import CorruptLakeError, HeadgateError, NotFoundError
from headgate.iceberg.format.boundaries import plan_as_of, with_files_of
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.scan.planning import Plan, PlannedFile, plan
from headgate.log.checkpoints import Checkpoints, state_at
from headgate.log.log import CommitLog
from headgate.model.retention import Retention
from headgate.model.state import LakeState
from headgate.model.table import TableRef


@dataclass(frozen=True, slots=True)
class ToldBy:
    """A later version of a table, whose files contain its rows as of `version`."""

    version: int
    source: TableRef


@dataclass(frozen=True, slots=True)
class TableView:
    """A table at one version."""

    loader: TableLoader
    ref: TableRef
    told_by: ToldBy | None = None

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table at its version: schema, properties and snapshot."""
        return self.loader.metadata(self.ref.metadata)

    @property
    def layout(self) -> TableMetadata:
        """The same metadata, with the files to read."""
        if self.told_by is None:
            return self.metadata
        return with_files_of(self.metadata, self.loader.metadata(self.told_by.source.metadata))

    @property
    def schema(self) -> Schema:
        return self.metadata.schema

    def plan(self, only: Bound | None = None) -> Plan:
        """The files that can contain rows that `only` selects; all of them without it."""
        if self.told_by is None:
            return plan(self.loader, self.metadata, only)
        return plan_as_of(self.loader, self.layout, self.told_by.version, only)

    def files(self, only: Bound | None = None) -> tuple[PlannedFile, ...]:
        """The data files, oldest first; with `only`, those that can contain rows that it selects."""
        return self.plan(only).files


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """The tables of a lake at the versions that are kept."""

    checkpoints: Checkpoints
    loader: Callable[[], TableLoader]

    def table(self, name: str, ref: TableRef, version: int | None) -> TableView:
        """The table `ref`, which had this name at `version` (None: the newest one that the handle knows).

        Read from the files of its snapshot if they are kept, otherwise from those of the next snapshot whose
        files are kept. Raises `NotFoundError` for an expired version. For an earlier version, one GET checks
        whether it is still kept.
        """
        newest = self._log.newest if version is None else self.checkpoints.refresh()
        at = newest.version.number if version is None else version
        loader = self.loader().explained(partial(self._why_missing, name, at, newest.retention))
        view = TableView(loader, ref)
        kept = newest.retention
        if at > kept.until:
            return view
        if not kept.keeps(at, self._divisor):
            raise self.expired(name, at, newest, ref.uuid)
        snapshot = view.metadata.snapshot
        own = None if snapshot is None else int(snapshot["sequence-number"])
        files = kept.files.get(ref.uuid, ())
        if own is None or own in files:
            return view
        source = min((number for number in files if number > own), default=kept.until + 1)
        return TableView(loader, ref, ToldBy(at, self._ref_at(source, ref.uuid, newest)))

    def require_changes(self, name: str, since: int) -> None:
        """Raises an error if versions after `since` have expired, so that the changes are incomplete."""
        kept = self._log.newest.retention
        if kept.until and since <= kept.until:
            raise NotFoundError(
                f"{name}: the changes since version {since} are no longer available: version {kept.by} "
                f"expired all versions up to {kept.until}",
                f"read the table at version {kept.until + 1} or later, and the changes since that version",
            )

    def expired(self, name: str, version: int, newest: LakeState, uuid: str) -> NotFoundError:
        """The error for a version that is not kept. It suggests the nearest ones that have the table."""
        near = [one for one in nearest_kept(newest.retention, version, self._divisor) if one is not None]
        there = [one for one in near if self._find(one, uuid, newest) is not None]
        return is_expired(name, version, newest.retention, there)

    def _why_missing(self, name: str, version: int, known: Retention, key: str) -> HeadgateError:
        """Why an object that `version` needs is missing; `known` is the retention when the read began."""
        newest = self.checkpoints.refresh()
        uri = self.loader().uri(key)
        if not newest.retention.keeps(version, self._divisor):
            return NotFoundError(
                f"{name}: version {version} was expired while it was read, by version {newest.retention.by}",
                "read the table again",
            )
        if newest.retention.by > known.by and version <= newest.retention.until:
            return NotFoundError(
                f"{name}: a file of version {version} was expired while it was read: {uri}",
                "read it again: later files contain the same rows",
            )
        return CorruptLakeError(f"{uri} is missing, but the lake refers to it")

    def _ref_at(self, version: int, uuid: str, newest: LakeState) -> TableRef:
        found = self._find(version, uuid, newest)
        if found is None:
            raise CorruptLakeError(f"version {version} should contain the table {uuid}, but does not")
        return found

    def _find(self, version: int, uuid: str, newest: LakeState) -> TableRef | None:
        then = state_at(self.checkpoints, newest, version_number(version))
        return next((ref for ref in then.tables.values() if ref.uuid == uuid), None)

    @property
    def _divisor(self) -> int:
        return self._log.identity.divisor

    @property
    def _log(self) -> CommitLog:
        return self.checkpoints.log
