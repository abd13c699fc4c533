"""A table at one version, and the files that tell it: those of its own snapshot, or those of a later one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyiceberg.schema import Schema

from headgate.commit.checkpoints import Checkpoints, state_at
from headgate.commit.log import CommitLog
from headgate.core.arguments import version_number
from headgate.core.retention import is_expired, nearest_kept
from headgate.errors import CorruptLakeError, HeadgateError, NotFoundError
from headgate.iceberg.bound import Bound
from headgate.iceberg.boundaries import plan_as_of, with_files_of
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import Plan, PlannedFile, plan
from headgate.model.retention import Retention
from headgate.model.state import LakeState
from headgate.model.table import TableRef


@dataclass(frozen=True, slots=True)
class ToldBy:
    """A later version of a table whose files tell what it was at `version`."""

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
        """What the table was: its structure, its properties, what its snapshot said."""
        return self.loader.metadata(self.ref.metadata)

    @property
    def layout(self) -> TableMetadata:
        """The same with the files to read."""
        if self.told_by is None:
            return self.metadata
        return with_files_of(self.metadata, self.loader.metadata(self.told_by.source.metadata))

    @property
    def schema(self) -> Schema:
        return self.metadata.schema

    def plan(self, only: Bound | None = None) -> Plan:
        """The files that can hold rows that `only` selects; all of them without it."""
        if self.told_by is None:
            return plan(self.loader, self.metadata, only)
        return plan_as_of(self.loader, self.layout, self.told_by.version, only)

    def files(self, only: Bound | None = None) -> tuple[PlannedFile, ...]:
        """The data files, oldest first; with `only`, those that can hold rows that it selects."""
        return self.plan(only).files


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """Tables of a lake as they were, as far as that is kept."""

    checkpoints: Checkpoints
    loader: Callable[[], TableLoader]

    def table(self, name: str, ref: TableRef, version: int | None) -> TableView:
        """The table `ref`, which had this name at `version`; None: at the newest that the handle knows.

        From the files of its snapshot while these are kept, else from those of the next one that are.
        `NotFoundError` for an expired version. Of an earlier version asks whether it is still kept: one GET.
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
        """Refuses to tell changes since a version after which something is expired."""
        kept = self._log.newest.retention
        if kept.until and since <= kept.until:
            raise NotFoundError(
                f"{name}: the changes since version {since} are expired: version {kept.by} has let go of "
                f"versions up to {kept.until}",
                f"ask for those since version {kept.until + 1} or later, and read the table as it was then",
            )

    def expired(self, name: str, version: int, newest: LakeState, uuid: str) -> NotFoundError:
        """The error for a version that is not kept, with the nearest that have the table."""
        near = [one for one in nearest_kept(newest.retention, version, self._divisor) if one is not None]
        there = [one for one in near if self._find(one, uuid, newest) is not None]
        return is_expired(name, version, newest.retention, there)

    def _why_missing(self, name: str, version: int, known: Retention, key: str) -> HeadgateError:
        """Why an object is gone that `version` needed by what was `known` when it was looked at."""
        newest = self.checkpoints.refresh()
        uri = self.loader().uri(key)
        if not newest.retention.keeps(version, self._divisor):
            return NotFoundError(
                f"{name}: version {version} was expired while it was read, by version {newest.retention.by}",
                "read the table anew",
            )
        if newest.retention.by > known.by and version <= newest.retention.until:
            return NotFoundError(
                f"{name}: files of version {version} were let go while they were read: {uri}",
                "read it again: later files tell the same",
            )
        return CorruptLakeError(f"{uri} is named by the lake, but is not there")

    def _ref_at(self, version: int, uuid: str, newest: LakeState) -> TableRef:
        found = self._find(version, uuid, newest)
        if found is None:
            raise CorruptLakeError(f"version {version} should tell of the table {uuid}, but does not have it")
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
