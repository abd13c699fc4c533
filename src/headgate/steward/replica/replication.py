"""Replication: a replica follows its source, version by version, and is a whole lake at every moment.

Of each version, the files come first, then the record, then what is due after a commit. So whoever dies
inside leaves a replica at the version before or after, and the next one goes on from there. Any number of
replications may run at once: they write the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.commit.driver import Driver
from headgate.commit.outcome import Committed, Lost, Unknown
from headgate.commit.strategy import copying_strategy
from headgate.core.chain import follow
from headgate.errors import StorageError
from headgate.iceberg.relocation import Relocation
from headgate.model.identifiers import GENESIS
from headgate.model.record import Record
from headgate.model.replica import ReplicaReport
from headgate.model.state import LakeState
from headgate.model.table import TableAction
from headgate.steward.replica.copying import Copied, TableCopy
from headgate.steward.replica.divergence import diverged, refuse_divergence
from headgate.steward.replica.expired import Expired
from headgate.steward.replica.target import (
    finish_target,
    make_target,
    open_target,
    require_mark,
    require_strategy,
)
from headgate.steward.steward import Steward

Progress = Callable[[int, int], None]
"""Told how many versions are copied, of how many."""


class Replicator:
    """Follows one lake at one place. Keeps what it has opened, so that following one commit costs little."""

    def __init__(self, source: Steward, driver: Driver) -> None:
        self._source = source
        self._driver = driver
        self._target: Steward | None = None

    def run(self, progress: Progress = lambda _done, _all: None, *, adopt: bool = False) -> ReplicaReport:
        """Brings the replica to the newest version of the source; makes it if there is none. Idempotent.

        Refuses, with nothing changed, whatever is not a replica of this lake. If storage fails, the replica
        stays whole at the version that it had reached, and the source is not touched.
        """
        try:
            known = self._target is not None
            target, created = self._opened(adopt)
            return _Run(self._source, target, progress, known).report(created)
        except StorageError as error:
            whole = (
                ""
                if self._target is None
                else f"; it stays whole at version {self._target.log.newest.version}"
            )
            self._target = None  # what was opened may be what fails
            told = f"the replica at {self._driver.store.describe()}: {error.problem}{whole}"
            raise type(error)(told, error.next_step) from error

    def _opened(self, adopt: bool) -> tuple[Steward, bool]:
        if self._target is not None:
            require_mark(self._source, self._driver)
            return self._target, False
        self._source.checkpoints.refresh()
        found = open_target(self._source, self._driver, adopt=adopt)
        self._target = found or make_target(self._source, self._driver)
        return self._target, found is None


@dataclass(frozen=True, slots=True)
class _Run:
    """One replication, from a source to a target that is its replica. `known`: not its first one."""

    source: Steward
    target: Steward
    progress: Progress
    known: bool

    def report(self, created: bool) -> ReplicaReport:
        # In this order: the target is then not ahead, unless it has versions of its own.
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
        """Does what a replication that died after the record of the newest version had still to do."""
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
        """Makes the record that of its version in the replica: it is the same there, or never will be."""
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
                    f"whether version {record.version} has arrived cannot be told: {error.problem}",
                    "replicate again: it goes on, whatever happened",
                ) from error
