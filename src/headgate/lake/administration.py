"""Methods of a lake for its maintenance: hooks, recovery, replicas, fsck, compaction, expire, vacuum."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

from headgate.core.history.metrics import activity, lake_metrics
from headgate.core.input.arguments import check_callable, texts, whole_number
from headgate.core.retention.expire_policy import DEFAULT_POLICY, ExpirePolicy, parse_age
from headgate.core.sql.query import Travel
from headgate.errors import ConflictError, InvalidInputError, shown
from headgate.lake.fsck import examine
from headgate.log.driver import Driver
from headgate.model.control_entry import ControlEntry
from headgate.model.fsck import FsckReport
from headgate.model.identifiers import TxId, Version
from headgate.model.metrics import LakeMetrics, Metrics
from headgate.model.replica import ReplicaMark, ReplicaReport
from headgate.model.reports import (
    CompactionProgress,
    CompactionReport,
    ExpireReport,
    RecoveryNeed,
    RecoveryReport,
    VacuumReport,
)
from headgate.spark.store.open import opened_store
from headgate.steward.follow_up import Steward
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.runs import HooksRun
from headgate.steward.rebuilding import Rebuilding, RebuildReport
from headgate.steward.recovery import OpenHook, Recovery
from headgate.steward.replica.mark import promote, read_mark, refuse_replica
from headgate.storage.capabilities import Store
from headgate.storage.location import Options
from headgate.transaction.handle import LakeHandle
from headgate.transaction.result import CommitResult
from headgate.transaction.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.core.compaction.outlook import TableOutlook
    from headgate.maintenance.compaction import Looks
    from headgate.maintenance.expired_files import OnProgress


DEFAULT_AGE = timedelta(days=1)
"""The minimum age of the files that vacuum deletes, unless the caller passes another one."""
DEAD_AFTER = timedelta(minutes=10)
"""The minimum age of an abandoned plan before recovery cancels it."""


class LakeAdministration:
    """The maintenance methods of a lake. They need only its handle."""

    _handle: LakeHandle

    @property
    def _steward(self) -> Steward:
        """The steward, when nothing is left to do after the commits of this process."""
        steward = self._handle.steward
        steward.backlog.drain()
        return steward

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that run after commits of this handle, in the order in which they run."""
        return self._handle.steward.hooks.runner.hooks

    def add_hook(self, hook: Hook) -> None:
        """Registers a hook. It runs after each later commit of this handle that it applies to.

        Raises `InvalidInputError` if the name is already registered, or if hooks would wait for each other.
        """
        self._handle.steward.register(hook)

    def run_hooks(self, *, retry: bool = False) -> HooksRun:
        """Runs pending hooks of earlier versions that are registered here; with `retry`, failed ones too.

        `recover` runs the hooks of writers that died.
        """
        return Recovery(self._steward).run_open_hooks(retry=retry)

    def skip_hooks(self, name: str) -> tuple[int, ...]:
        """Skips a hook for every version for which it is not done, and returns these versions.

        Use this for a hook that you no longer need. Otherwise it stays open until somebody runs it. Hooks
        after it stop waiting for it. Hooks of writers that died are included only after a call of `recover`.
        """
        (checked,) = texts("hook names", (name,))
        return Recovery(self._steward).skip_hooks(checked)

    def open_hooks(self) -> tuple[OpenHook, ...]:
        """All writers' hooks that are not done, or were undone, oldest version first. Changes nothing."""
        return Recovery(self._steward).open_hooks()

    def control(self, version: int) -> ControlEntry | None:
        """The control entry of a version, with its hooks and timings; None if there is none."""
        return self._steward.entries.read(self._handle.state_at(version).version)

    def recover(self, *, patience: timedelta = DEAD_AFTER) -> RecoveryReport:
        """Completes the work that dead writers left undone, and reports it. Idempotent.

        The cost depends on the versions since the last recovery. Cancels abandoned plans that are older than
        `patience`. Runs pending hooks that are registered here.
        """
        if not isinstance(patience, timedelta):
            raise InvalidInputError(f"patience must be a timedelta, not a {type(patience).__name__}")
        dead, cancelled = give_up_dead_plans(self._handle, patience)
        report = Recovery(self._steward).run()
        if cancelled is None:
            return report
        return replace(
            report, cancelled_plans=tuple(txid.text for txid in dead), cancelled_by=cancelled.version
        )

    def recovery_needed(self, *, patience: timedelta = DEAD_AFTER) -> RecoveryNeed:
        """Reports what `recover` would do, without doing it.

        Costs three reads and three listings, however long the log is, and one read for each pending plan and
        each version with open hooks. If there are plans, it also reads the running transactions. A writer
        that is still running may be about to do the missing work itself.
        """
        _, dead = self._handle.dead_plans(patience)
        return replace(Recovery(self._steward).needed(), plans=tuple(txid.text for txid in dead))

    def metrics(self) -> Metrics:
        """Counts for this handle since it was opened: commits, conflicts, hooks, requests and bytes."""
        return self._steward.ledger.metrics(self._handle.driver.meter.counts())

    def measure(self, *, versions: int | None = 1000) -> LakeMetrics:
        """The size of the lake, its history and its tables, and the activity in its newest versions.

        Lists all objects of the lake, and reads the metadata of each table and the control entries of the
        newest `versions` (all of them if it is None). Rows and bytes of tables are those of the newest
        version.
        """
        if versions is not None and whole_number("versions", versions) < 0:
            raise InvalidInputError(f"versions must not be negative, but is {versions}")
        newest = self._handle.refresh()
        view = self._handle.lake_at(newest, Travel(version=newest.version.number))
        first = 1 if versions is None else max(1, view.version - versions + 1)
        wanted = [Version(number) for number in range(first, view.version + 1)]
        return lake_metrics(
            view.version,
            activity(self._steward.entries.read_all(wanted)),
            {name: view.table(name).size for name in view.tables()},
            self._handle.driver.sizes(""),
        )

    def replicate(
        self,
        target: str | os.PathLike[str] | Store,
        *,
        options: Options | None = None,
        adopt: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ReplicaReport:
        """Updates the replica of this lake at `target` to the newest version, or creates it.

        You can interrupt it and run it again. If the location contains anything other than a replica of this
        lake, this raises `AlreadyExistsError` and changes nothing. `adopt` also accepts a replica that was
        promoted and has no versions of its own. It commits a version to this lake, after which processes
        that still have the promoted lake open can no longer commit to it. `progress` receives the number of
        versions copied and the total.
        """
        from headgate.steward.replica.replication import Replicator  # loads pyiceberg

        check_callable("progress", progress)
        driver = Driver(opened_store(target, options), self._handle.driver.host)
        fence = partial(self._handle.run, ("replicate", "--adopt"), lambda tx: tx.fence()) if adopt else None
        return Replicator(self._steward, driver).run(progress or (lambda _done, _all: None), fence)

    @property
    def replica_of(self) -> ReplicaMark | None:
        """The lake that this one is a replica of; None if it is not a replica. Reads the storage."""
        return read_mark(self._handle.driver)

    def promote(self) -> ReplicaMark:
        """Turns a replica into an independent lake, which accepts commits and is no longer replicated to."""
        return promote(self._handle.checkpoints)

    def rebuild_control(self, *, progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Rebuilds control entries, the outbox, checkpoints and published metadata from the log.

        Removes control entries, outbox objects and checkpoints that belong to no version.
        Reads the whole log. `progress` receives the number of versions done and the total.
        """
        check_callable("progress", progress)
        return Rebuilding(self._steward, progress or (lambda _done, _all: None)).run()

    def fsck(
        self,
        *,
        all_versions: bool = False,
        deep: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> FsckReport:
        """Checks for damage, and changes nothing. For a lake that does not open, use `headgate.fsck`."""
        check_callable("progress", progress)
        return examine(self._handle.driver, all_versions, deep, progress)

    @cached_property
    def _looks(self) -> Looks:
        from headgate.maintenance.compaction import Looks

        return Looks()

    def compact(
        self,
        spark: SparkSession | None = None,
        *,
        table: str | None = None,
        progress: Callable[[CompactionProgress], None] | None = None,
        patience: timedelta | None = None,
    ) -> CompactionReport:
        """Merges small files and applies row deletes where a table is ready for it; in all tables or in one.

        docs/compaction.md explains which files are ready. Uses Spark if a session is given or active,
        otherwise Arrow in this process. Other writers can keep running; their row changes are rebased onto
        the new files. Several compactions can run at the same time and share the work. They take over the
        work of one that died once it is older than `patience` (2 minutes by default). `progress` is called
        for each group of files that was written. An interrupted compaction keeps only the work that it has
        completed.
        """
        from headgate.maintenance.compaction import TAKE_OVER_AFTER, Compactor  # loads pyiceberg

        compactor = Compactor(
            self._handle,
            self._looks,
            spark,
            progress or (lambda _: None),
            TAKE_OVER_AFTER if patience is None else patience,
        )
        return compactor.run(table)

    def compaction_outlook(self, table: str | None = None) -> tuple[TableOutlook, ...]:
        """For each table, the segments of each path by level, and those ready to compact. Changes nothing."""
        from headgate.maintenance.compaction import Compactor

        return Compactor(self._handle).outlook(table)

    def expire(
        self,
        policy: ExpirePolicy | Sequence[str] = DEFAULT_POLICY,
        *,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> ExpireReport:
        """Expires versions that a policy does not keep, and deletes the files that only they needed.

        A policy is a list of tiers: `["all:1d", "1:30d", "2:forever"]` keeps all versions for a day,
        boundaries of level 1 for 30 days, and boundaries of level 2 forever. Headgate also keeps the newest
        version, tagged versions, and everything that pending plans, running transactions and materialized
        views still need. A kept version returns the same rows as before. Reading an expired one raises
        `NotFoundError`. You can repeat the call, and several processes can run it at the same time; the next
        call finishes one that died. With `dry_run`, it changes nothing.
        """
        from headgate.maintenance.expire import Expiring  # loads pyiceberg

        check_callable("progress", progress)
        refuse_replica(self._steward.checkpoints, self._steward.checkpoints.refresh())
        chosen = policy if isinstance(policy, ExpirePolicy) else ExpirePolicy.parse(*_tiers(policy))
        expiring = Expiring(self._steward, self._handle.announcements, self._handle.run)
        return expiring.expire(chosen, progress or (lambda _what, _done, _all: None), dry_run=dry_run)

    def vacuum(
        self,
        *,
        older_than: timedelta | str = DEFAULT_AGE,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> VacuumReport:
        """Deletes files of transactions that never committed, and files left by lost attempts and crashes.

        Deletes only in the directories of tables, and nothing that a kept version needs. If a transaction
        left files but is not in the log, this first commits a record that cancels it, so that the
        transaction cannot commit later. `older_than` (a timedelta, or a string such as `1d`) protects
        running transactions. You can repeat the call. With `dry_run`, it changes nothing.
        """
        from headgate.maintenance.vacuum import Vacuum  # loads pyiceberg

        check_callable("progress", progress)
        age = parse_age(older_than) if isinstance(older_than, str) else older_than
        if not isinstance(age, timedelta) or age < timedelta(0):
            raise InvalidInputError(f"older_than must be a non-negative duration, not {shown(older_than)}")
        refuse_replica(self._steward.checkpoints, self._steward.checkpoints.refresh())
        vacuum = Vacuum(self._steward, self._handle.announcements, self._handle.run)
        return vacuum.vacuum(age, progress or (lambda _what, _done, _all: None), dry_run=dry_run)


def _tiers(given: Sequence[str]) -> Sequence[str]:
    if isinstance(given, str):
        raise InvalidInputError(
            f"a policy must be a list of tiers, not the string {given!r}", f"write [{given!r}]"
        )
    if not isinstance(given, Sequence):
        raise InvalidInputError(
            f"a policy must be a list of tiers, not a {type(given).__name__}",
            "write it as ['all:1d', '1:30d']",
        )
    return given


def give_up_dead_plans(lake: LakeHandle, patience: timedelta) -> tuple[tuple[TxId, ...], CommitResult | None]:
    """Cancels abandoned plans. If another process ends one of them meanwhile, recovery continues."""
    for _ in range(lake.retry.attempts):
        seen, dead = lake.dead_plans(patience)
        if not dead:
            break
        try:
            # Based on the state that was read, so that a plan that has ended since then is a conflict.
            return dead, lake.run(("recover",), partial(_cancel_all, plans=dead), seen)
        except ConflictError:
            continue  # another process completed or cancelled one of them: read the plans again
    return (), None


def _cancel_all(tx: Transaction, plans: Sequence[TxId]) -> None:
    for txid in plans:
        tx.cancel(txid)
