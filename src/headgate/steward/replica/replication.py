"""Replication: a replica follows its source version by version, and is a complete lake at any time.

For each version, replication copies the files first, then the record, and then does the work after a commit.
If the process dies in between, the replica is at the version before or after, and the next replication
continues from there. Any number of replications may run at once, because they write the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.core.history.fold import follow
from headgate.errors import StorageError
from headgate.iceberg.format.relocation import Relocation
from headgate.log.driver import Driver
from headgate.log.machine import Committed, Lost, Unknown
from headgate.log.strategy import copying_strategy
from headgate.model.identifiers import GENESIS
from headgate.model.record import Record
from headgate.model.replica import ReplicaReport
from headgate.model.state import LakeState
from headgate.model.table import TableAction
from headgate.steward.follow_up import Steward
from headgate.steward.replica.copying import Copied, Expired, TableCopy
from headgate.steward.replica.mark import promote, read_mark
from headgate.steward.replica.target import (
    DivergedError,
    Fence,
    diverged,
    finish_target,
    make_target,
    open_target,
    refuse_divergence,
    require_mark,
    require_strategy,
)

Progress = Callable[[int, int], None]
"""Called with the number of copied versions, and the total."""


class Replicator:
    """Keeps one replica up to date. Keeps both lakes open, so that following one commit is cheap."""

    def __init__(self, source: Steward, driver: Driver) -> None:
        self._source = source
        self._driver = driver
        self._target: Steward | None = None

    def run(self, progress: Progress = lambda _done, _all: None, adopt: Fence | None = None) -> ReplicaReport:
        """Brings the replica to the newest version of the source; creates it if there is none. Idempotent.

        Rejects a target that is not a replica of this lake, without changing it. `adopt`, which commits a
        fence to the source, accepts a promoted replica. If storage fails, the replica stays complete at the
        version that it has reached.
        """
        try:
            known = self._target is not None
            target, created = self._open_target(adopt)
            return self._bring_up_to_date(_Run(self._source, target, progress, known), created, adopt)
        except StorageError as error:
            whole = (
                ""
                if self._target is None
                else f"; it stays complete at version {self._target.log.newest.version}"
            )
            self._target = None  # the open target itself may be what fails
            told = f"the replica at {self._driver.store.describe()}: {error.problem}{whole}"
            raise type(error)(told, error.next_step) from error

    def _bring_up_to_date(self, run: _Run, created: bool, adopt: Fence | None) -> ReplicaReport:
        try:
            return run.report(created)
        except DivergedError:
            # A writer committed to the target before the fence was decided there: the target stays an
            # independent lake, with that commit.
            if adopt is not None and read_mark(self._driver) is not None:
                promote(run.target.checkpoints)
            raise

    def _open_target(self, adopt: Fence | None) -> tuple[Steward, bool]:
        if self._target is not None:
            require_mark(self._source, self._driver)
            return self._target, False
        self._source.checkpoints.refresh()
        found = open_target(self._source, self._driver, adopt)
        self._target = found or make_target(self._source, self._driver)
        return self._target, found is None


@dataclass(frozen=True, slots=True)
class _Run:
    """One replication, from a source to a target that is its replica. `known`: not the first one."""

    source: Steward
    target: Steward
    progress: Progress
    known: bool

    def report(self, created: bool) -> ReplicaReport:
        # In this order, so that the target is not ahead unless it has versions of its own.
        state = self.target.checkpoints.refresh()
        newest = self.source.checkpoints.refresh()
        refuse_divergence(self.source, self.target)
        require_strategy(self.source, self.target.log.driver)
        if not self.known:
            finish_target(self.target)
        self._make_up_for(state)
        since, copied = state.version.number, Copied()
        expired = Expired(self.source.loader(), newest, self.source.checkpoints.refresh)
        while state.version < newest.version:
            resumes = state.version.number == since
            state, added = self._follow(state, expired, resumes)
            copied += added
            self.progress(state.version.number - since, newest.version.number - since)
        return ReplicaReport(
            lake_id=self.source.log.identity.lake_id,
            source=self.source.log.driver.store.describe(),
            target=self.target.log.driver.store.describe(),
            created=created,
            since=since,
            until=state.version.number,
            files=copied.files,
            bytes=copied.bytes,
            expired=tuple(expired.keys),
        )

    def _make_up_for(self, state: LakeState) -> None:
        """Finishes the work of a replication that died after it wrote the record of the newest version."""
        version = state.version
        if version != GENESIS and self.target.entries.read(version) is None:
            self.target.after_copy(state, self.target.log.record(version))

    def _follow(self, state: LakeState, expired: Expired, resumes: bool) -> tuple[LakeState, Copied]:
        """Copies the version after `state`."""
        version = state.version.next()
        data = self.source.log.data(version)
        record, _ = follow(state, data, f"version {version} of {self.source.log.driver.store.describe()}")
        copied = self._copy_tables(record, state, expired, resumes)
        self._publish(record, data, state)
        after = self.target.log.absorb(state, data).state
        self.target.after_copy(after, record)
        return after, copied

    def _copy_tables(self, record: Record, state: LakeState, expired: Expired, resumes: bool) -> Copied:
        source, target = self.source.log.driver.store, self.target.log.driver.store
        move = Relocation(source.uri(), target.uri())
        tables = TableCopy(self.source.loader(), self.target.loader(), move, expired, resumes)
        before = {ref.uuid: ref for ref in state.tables.values()}
        copied = Copied()
        for commit in record.tables:
            if commit.action is not TableAction.DROP:
                copied += tables.copy(commit, before.get(commit.table.uuid))
        return copied

    def _publish(self, record: Record, data: bytes, state: LakeState) -> None:
        """Commits the record as its version in the replica, or raises if another record has that version."""
        log = self.target.log
        strategy = copying_strategy(
            state.next_strategy, log.driver, ordered_listing=log.identity.ordered_listing
        )
        match strategy.publish(record.version, data, log.driver.host.new_txid()):
            case Committed():
                return
            case Lost(other) if other == data:
                return
            case Lost():
                raise diverged(self.source, self.target, record.version)
            case Unknown(_, _, error):
                raise StorageError(
                    f"cannot determine yet whether version {record.version} was replicated: {error.problem}",
                    "run the replication again; it continues in either case",
                ) from error
