"""The handle of an open lake, below the public interface. All reads and changes go through it.

It retries operations that can be repeated as a whole after a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from headgate.core.conflict.detection import Incompatible
from headgate.core.conflict.isolation import isolation_named
from headgate.core.conflict.retry import Effort, RetryPolicy, checked_policy, delay_seconds
from headgate.core.input.arguments import version_number, whole_number
from headgate.core.input.settings import CANDIDATES
from headgate.core.plans.recovery import dead_plans
from headgate.core.sql.query import Travel
from headgate.errors import AlreadyExistsError, InvalidInputError, NotFoundError, shown
from headgate.log.announcements import Announcements
from headgate.log.checkpoints import Checkpoints, state_at
from headgate.log.driver import Driver
from headgate.log.log import CommitLog
from headgate.model.identifiers import TxId
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.steward.follow_up import Steward
from headgate.steward.hooks.runner import HookRunner
from headgate.steward.replica.mark import read_mark, refuse_replica
from headgate.storage.mount_roots import MountRoots
from headgate.transaction.builder import make_envelope
from headgate.transaction.conflicts import (
    ExpiredBaseError,
    OutdatedBaseError,
    TransactionConflictError,
    gave_up,
)
from headgate.transaction.result import CommitResult
from headgate.transaction.transaction import Start, Transaction

if TYPE_CHECKING:
    from headgate.iceberg.format.loader import TableLoader
    from headgate.lake.lake_view import LakeView


class LakeHandle:
    """The state that all operations on one open lake share. Threads can share it.

    `lake_at` returns the lake at a version that a query in a transaction names; tags are looked up in the
    given state.
    """

    def __init__(
        self,
        log: CommitLog,
        checkpoints: Checkpoints,
        retry: RetryPolicy,
        announcements: Announcements,
        hooks: HookRunner,
        mounts: MountRoots,
        lake_at: Callable[[LakeState, Travel], LakeView],
        follow_up: str | None = None,
    ) -> None:
        self.log = log
        self.checkpoints = checkpoints
        self.retry = retry
        self.announcements = announcements
        self.mounts = mounts
        self.lake_at = lake_at
        self.steward = Steward(log, checkpoints, self.loader, hooks, follow_up)
        self._loader: TableLoader | None = None

    @property
    def driver(self) -> Driver:
        """The driver that performs requests on the storage of this lake."""
        return self.log.driver

    @property
    def divisor(self) -> int:
        return self.log.identity.divisor

    def loader(self) -> TableLoader:
        """Reads the metadata of tables, each object once."""
        # Created at the first use: loading pyiceberg takes longer than most commands that need no table.
        if self._loader is None:
            from headgate.iceberg.format.loader import TableLoader, TableMemory

            self._loader = TableLoader(self.driver, self.log.companion("tables", TableMemory))
        return self._loader

    def idle_steward(self) -> Steward:
        """The steward, once nothing is left to do after the commits of this process."""
        self.steward.backlog.drain()
        return self.steward

    # --- reading ------------------------------------------------------------------------------------------

    def refresh(self) -> LakeState:
        """The newest state. Reads the storage: one GET if nothing is new."""
        return self.checkpoints.refresh()

    def state_at(self, version: int) -> LakeState:
        """The state at a version. Reads the storage only for what this handle has not seen."""
        wanted = version_number(version)
        newest = self.log.newest
        if wanted > newest.version:
            newest = self.refresh()
        return state_at(self.checkpoints, newest, wanted)

    def records_between(self, since: int, until: int | None) -> tuple[LakeState, LakeState, list[Record]]:
        """The states at two versions, and the records after the first up to the second, oldest first."""
        first = whole_number("since", since)
        after = self.refresh() if until is None else self.state_at(until)
        last = after.version.number
        if not 0 <= first <= last:
            raise InvalidInputError(
                f"there are no changes from version {shown(first)} to version {last}",
                f"set since to a version from 0 to {last}",
            )
        return self.state_at(first), after, [*self.log.records_down(after, last - first)][::-1]

    def dead_plans(self, patience: timedelta) -> tuple[LakeState, tuple[TxId, ...]]:
        """The newest state, and its pending plans that are abandoned."""
        newest = self.refresh()
        if not newest.plans or read_mark(self.driver) is not None:
            return newest, ()
        scheduled = [self.log.record(plan.version) for plan in newest.plans.values()]
        running = self.announcements.running(is_over=newest.cancelled.__contains__)
        return newest, dead_plans(newest.plans, scheduled, running, self.driver.host.now(), patience)

    # --- writing ------------------------------------------------------------------------------------------

    def transaction(
        self,
        args: Sequence[str] = (),
        *,
        app: tuple[str, int] | None = None,
        properties: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        isolation: str | None = None,
    ) -> Transaction:
        """Begins a transaction on the newest version; see `Lake.transaction`."""
        chosen = None if isolation is None else isolation_named(isolation)
        envelope = make_envelope(self.driver.host, args, app, properties)
        policy = checked_policy(retry, self.retry)
        return self.begin(Start(envelope, policy, self.refresh(), isolation=chosen))

    def begin(self, start: Start) -> Transaction:
        base = start.base
        if self.checkpoints.may_be_replica(base):
            refuse_replica(self.checkpoints, base)
        if CANDIDATES.of(base.properties) == "start":
            start = replace(start, pending=self.announcements.txids() | frozenset(base.plans))
        return Transaction(self, start)

    def run(
        self,
        args: Sequence[str],
        change: Callable[[Transaction], object],
        base: LakeState | None = None,
        *,
        blind: bool = False,
    ) -> CommitResult:
        """Runs `change` in its own transaction, and retries it after a conflict until it is committed.

        For operations that can be repeated as a whole. All runs share the budget of one retry policy. The
        first run begins on `base`, which the caller has just read, or on the newest version; each later one
        on the state that the previous run has seen. A `blind` change reads no rows and no schema that others
        could have changed, so it saves a request and begins on the state that this handle saw last.
        """
        envelope = make_envelope(self.driver.host, args, None, None)
        may_be_old = blind and base is None
        base = base or (self.log.newest if blind else self.refresh())
        effort = Effort()
        for run in range(1, self.retry.attempts + 1):
            tx = self.begin(Start(envelope, self.retry, base, effort, may_be_old=may_be_old))
            try:
                with tx:
                    change(tx)
                    assert not may_be_old or tx._is_blind, f"{args}: what it saw may be gone"
            except (
                InvalidInputError,
                NotFoundError,
                AlreadyExistsError,
                ExpiredBaseError,
                OutdatedBaseError,
            ):
                # The base may be older than the newest version: a missing table or column can exist by now,
                # and the files of the base can have expired.
                newest = self.refresh()
                if run == self.retry.attempts or newest.version <= base.version:
                    raise
                base = newest
            except TransactionConflictError as error:
                # A version from before the call is no conflict: the name may belong to another table now.
                if isinstance(error.outcome, Incompatible) and not may_be_old:
                    raise
                # Read everything first: the name may have changed owners several times before the call.
                base, effort = self.refresh() if may_be_old else tx.reached, tx.effort
                if run == self.retry.attempts or not effort.left_seconds(self.retry):
                    raise gave_up(error, run, effort) from error
                effort = self._wait_for_run(run, effort)
            else:
                return tx.result
            may_be_old = False
        raise AssertionError("the last run returns or raises")

    def _wait_for_run(self, runs: int, effort: Effort) -> Effort:
        host = self.driver.host
        delay = delay_seconds(self.retry, runs, host.chance())
        seconds = min(delay, effort.left_seconds(self.retry))
        host.sleep(seconds)
        return effort.waited(seconds).spent(seconds)
