"""What follows commits, as methods of a lake: hooks, recovery, replicas, and looking for damage."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from headgate.commit.announcements import Announcements
from headgate.commit.checkpoints import Checkpoints
from headgate.commit.driver import Driver
from headgate.commit.log import CommitLog
from headgate.core.arguments import texts
from headgate.core.recovery_plan import dead_plans
from headgate.core.retry import RetryPolicy
from headgate.errors import ConflictError
from headgate.examination import examined
from headgate.model.control_entry import ControlEntry
from headgate.model.fsck import FsckReport
from headgate.model.identifiers import TxId
from headgate.model.metrics import Metrics
from headgate.model.recovery import RecoveryReport
from headgate.model.replica import ReplicaMark, ReplicaReport
from headgate.model.state import LakeState
from headgate.opening import check_callable, opened_store
from headgate.result import CommitResult
from headgate.steward.hooks.hook import Hook
from headgate.steward.rebuilding import Rebuilding, RebuildReport
from headgate.steward.recovery import HooksRun, OpenHook, Recovery
from headgate.steward.replica.mark import promote, read_mark
from headgate.steward.steward import Steward
from headgate.storage.capabilities import Store
from headgate.storage.location import Options
from headgate.transaction import Transaction

DEAD_AFTER = timedelta(minutes=10)
"""How old a plan must be, and with nobody at work on it, before recovery gives it up."""


class LakeStewardship:
    """The part of a lake that looks after what was committed."""

    _log: CommitLog
    _checkpoints: Checkpoints
    _retry: RetryPolicy
    _announcements: Announcements
    _steward: Steward

    @property
    @abstractmethod
    def _driver(self) -> Driver: ...

    @abstractmethod
    def _run(
        self, args: Sequence[str], change: Callable[[Transaction], object], base: LakeState | None = None
    ) -> CommitResult: ...

    @abstractmethod
    def _refreshed(self) -> LakeState: ...

    @abstractmethod
    def _state_at(self, version: int) -> LakeState: ...

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that run after commits of this handle, in their order."""
        return self._steward.runner.hooks

    def add_hook(self, hook: Hook) -> None:
        """Runs `hook` after every later commit of this handle that it is for.

        `InvalidInputError` if its name is taken, or hooks would wait for each other.
        """
        self._steward.register(hook)

    def run_hooks(self, *, retry: bool = False) -> HooksRun:
        """Runs hooks that are due for earlier versions, if they are registered here.

        Pending ones, and with `retry` failed ones too. Those of writers that died are run by `recover`.
        """
        return Recovery(self._steward).run_open_hooks(retry=retry)

    def skip_hooks(self, name: str) -> tuple[int, ...]:
        """Gives up a hook for every version that it is due for and not done, and returns these versions.

        For one that is not wanted any more: what is open stays so for ever, until somebody runs it or says
        this. What comes after it does not wait for it any longer. Hooks of writers that died are known once
        somebody has called `recover`.
        """
        (checked,) = texts("hook names", (name,))
        return Recovery(self._steward).skip_hooks(checked)

    def open_hooks(self) -> tuple[OpenHook, ...]:
        """The hooks that are not done, oldest version first, whoever registered them. Changes nothing."""
        return Recovery(self._steward).open_hooks()

    def control(self, version: int) -> ControlEntry | None:
        """What the steward keeps of a version: hooks, timings; None if it was never written, or is lost."""
        return self._steward.entries.read(self._state_at(version).version)

    def recover(self, *, patience: timedelta = DEAD_AFTER) -> RecoveryReport:
        """Makes up for what writers that died had still to do, and says what that was. Idempotent.

        Costs what the versions since the last recovery need. Plans that nobody carries out, and that are
        older than `patience`, are cancelled. Hooks that are due are run if they are registered here.
        """
        dead, cancelled = self._give_up_dead_plans(patience)
        report = Recovery(self._steward).run()
        if cancelled is None:
            return report
        return replace(
            report, cancelled_plans=tuple(txid.text for txid in dead), cancelled_by=cancelled.version
        )

    def _give_up_dead_plans(self, patience: timedelta) -> tuple[tuple[TxId, ...], CommitResult | None]:
        """Cancels plans that nobody carries out. Whoever else ends one meanwhile does not stop recovery."""
        for _ in range(self._retry.attempts):
            seen, dead = self._dead_plans(patience)
            if not dead:
                break
            try:
                # On what was seen: who ended one of them since then is noticed.
                return dead, self._run(("recover",), partial(_cancel_all, plans=dead), seen)
            except ConflictError:
                continue  # completed or cancelled by another one: look again
        return (), None

    def _dead_plans(self, patience: timedelta) -> tuple[LakeState, tuple[TxId, ...]]:
        """The newest version, and the plans that were pending then and that nobody carries out."""
        newest = self._refreshed()
        if not newest.plans or self.replica_of is not None:
            return newest, ()
        scheduled = [self._log.record(plan.version) for plan in newest.plans.values()]
        running = self._announcements.running(is_over=newest.cancelled.__contains__)
        return newest, dead_plans(newest.plans, scheduled, running, self._driver.host.now(), patience)

    def metrics(self) -> Metrics:
        """What this handle has done since it was opened: commits, conflicts, hooks, requests, bytes."""
        return self._steward.ledger.metrics(self._driver.meter.counts())

    def replicate(
        self,
        target: str | os.PathLike[str] | Store,
        *,
        options: Options | None = None,
        adopt: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ReplicaReport:
        """Brings the replica of this lake at `target` to the newest version; makes it if nothing is there.

        Can be interrupted and run again. `AlreadyExistsError`, with nothing changed, if anything but a
        replica of this lake is there; `adopt` takes one that was promoted. `progress` is told how many
        versions are copied, of how many.
        """
        from headgate.steward.replica.replication import Replicator  # loads pyiceberg

        check_callable("progress", progress)
        driver = Driver(opened_store(target, options), self._driver.host)
        return Replicator(self._steward, driver).run(progress or (lambda _done, _all: None), adopt=adopt)

    @property
    def replica_of(self) -> ReplicaMark | None:
        """What this lake is a replica of; None if it is none. Asks storage."""
        return read_mark(self._driver)

    def promote(self) -> ReplicaMark:
        """Makes a replica a lake of its own, which takes commits and is not replicated to any more."""
        return promote(self._checkpoints)

    def rebuild_control(self, *, progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Makes everything anew that is derived from the log, and removes what belongs to no version.

        Reads the whole log. `progress` is told how many versions are done, of how many.
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
        """Looks for damage, and changes nothing: see `headgate.fsck`, which needs no lake that opens."""
        return examined(self._driver, all_versions, deep, progress)


def _cancel_all(tx: Transaction, plans: Sequence[TxId]) -> None:
    for txid in plans:
        tx.cancel(txid)
