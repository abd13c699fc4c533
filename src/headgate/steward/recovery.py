"""Recovery: finishes the work that dead writers left undone after their commits.

Every step is idempotent, and the mark of recovery moves last. If a recovery dies, the next one finishes its
work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from headgate.core.plans.hooks import awaits_turn
from headgate.core.plans.recovery import Seen, plan_recovery
from headgate.log.checkpoints import list_checkpoints, state_at
from headgate.model.control_entry import ControlEntry, HookRun, HookState, UndoRun
from headgate.model.identifiers import GENESIS, Version
from headgate.model.record import Record
from headgate.model.reports import RecoveryNeed, RecoveryReport
from headgate.model.state import LakeState
from headgate.steward.control import recovered_entry
from headgate.steward.follow_up import Steward, published
from headgate.steward.hooks.runs import HooksRun


@dataclass(frozen=True, slots=True)
class OpenHook:
    """A hook of a version that is not done, or was undone. `registered`: this process can run it.

    `recorded`: the control entry of the version says so. If false, there is no entry yet: the writer of the
    version is still running, or died.
    """

    version: int
    run: HookRun
    registered: bool
    recorded: bool = True


@dataclass(frozen=True, slots=True)
class Recovery:
    """Recovery through one handle of a lake."""

    steward: Steward

    def run(self) -> RecoveryReport:
        """Finishes all unfinished work up to the newest version. Idempotent.

        Reads only what the versions above the last recovered one need. Runs the open hooks that are
        registered here; a writer that is still alive may be running them too.
        """
        newest, seen = self._look()
        plan = plan_recovery(seen)
        records = self._records(plan.entries)
        tables, broken = self._publish(records, newest)
        for boundary in plan.checkpoints:
            self.steward.checkpoints.write(state_at(self.steward.checkpoints, newest, boundary))
        for record, digest in records:
            self.steward.entries.write(recovered_entry(record, digest))
        if seen.head > seen.recovered:
            self.steward.entries.set_recovered(seen.head)
        self.steward.ledger.count_recovery(len(records))
        unrun = [record.version for record, _ in records if record.hooks]
        hooks = self.run_hooks(sorted({*plan.hooks, *unrun}), retry=False)
        return RecoveryReport(
            looked_from=seen.recovered.number,
            until=seen.head.number,
            entries=_numbers(plan.entries),
            published=tables,
            not_published=broken,
            checkpoints=_numbers(plan.checkpoints),
            hooks_done=hooks.done,
            hooks_open=hooks.open,
        )

    def needed(self) -> RecoveryNeed:
        """The work that `run` would find. Changes nothing.

        Costs two reads and three listings, and a read for each version with open hooks.
        """
        newest, seen = self._look()
        plan = plan_recovery(seen)
        hooks = dict(zip(plan.hooks, self.steward.entries.read_all(plan.hooks), strict=True))
        awaiting = [version for version, entry in hooks.items() if self._awaits_recovery(entry)]
        return RecoveryNeed(
            until=newest.version.number,
            entries=_numbers(plan.entries),
            checkpoints=_numbers(plan.checkpoints),
            hooks=_numbers(awaiting),
            failed_hooks=_numbers(version for version in hooks if version not in awaiting),
        )

    def _awaits_recovery(self, entry: ControlEntry | None) -> bool:
        """Whether recovery has work to do for a version in the outbox."""
        if entry is None or not entry.open_hooks:
            return True  # an entry to write, or an outbox to empty
        rules = self.steward.hooks.runner.rules
        return any(
            awaits_turn(hook.name, rules, entry.hooks) if hook.undo is None else _is_pending(hook.undo)
            for hook in entry.open_hooks
        )

    def _look(self) -> tuple[LakeState, Seen]:
        """The newest state, and what is missing of the objects derived from it."""
        entries, log = self.steward.entries, self.steward.log
        # Read before the log, so that a mark above the newest version is certainly wrong.
        mark = entries.read_recovered()
        newest = self.steward.checkpoints.refresh()
        recovered = mark if mark <= newest.version else GENESIS
        return newest, Seen(
            head=newest.version,
            divisor=log.identity.divisor,
            recovered=recovered,
            written=entries.list_above(recovered),
            checkpoints=frozenset(list_checkpoints(log.driver, above=recovered)),
            outbox=entries.outbox(),
        )

    def _records(self, versions: Sequence[Version]) -> list[tuple[Record, str]]:
        log = self.steward.log
        return log.driver.host.together([partial(log.read_decided, version) for version in versions])

    def _publish(
        self, records: Sequence[tuple[Record, str]], newest: LakeState
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Publishes the current state of the tables that versions without an entry changed.

        Returns the published tables, and those that cannot be published, with the reasons.
        """
        changed = {table.table.uuid for record, _ in records for table in published(record)}
        due = sorted((name, ref) for name, ref in newest.tables.items() if ref.uuid in changed)
        told = {name: self.steward.publish_unless_broken(name, ref) for name, ref in due}
        done = tuple(name for name, problem in told.items() if problem is None)
        return done, tuple(problem for problem in told.values() if problem is not None)

    # --- hooks --------------------------------------------------------------------------------------------

    def run_open_hooks(self, *, retry: bool) -> HooksRun:
        """Runs the hooks of all versions in the outbox."""
        head = self.steward.checkpoints.refresh().version
        versions = [version for version in self.steward.entries.outbox() if version <= head]
        return self.run_hooks(versions, retry=retry)

    def run_hooks(self, versions: Sequence[Version], *, retry: bool) -> HooksRun:
        """Runs the pending hooks of versions, one version after the other; with `retry` failed ones too."""
        ran, hooks, last = HooksRun(), self.steward.hooks, None
        for version, stored in zip(versions, self.steward.entries.read_all(versions), strict=True):
            if stored is not None and self._nothing_to_run(stored, retry):
                ran += HooksRun(open=hooks.open_in(stored))
            else:
                ran += hooks.run_open(version, retry=retry)
                last = version
        # A writer may have stopped waiting while this process ran the hooks that it waited for.
        return ran if last is None else ran + hooks.run_following(last)

    def skip_hooks(self, name: str) -> tuple[int, ...]:
        """Gives up a hook in all versions whose entry says that it is not done; returns them. Idempotent.

        Skips versions without an entry: writing one would claim that all work after the commit is done.
        """
        given_up = []
        for entry in filter(None, self.steward.entries.read_all(self.steward.entries.outbox())):
            if name in {hook.name for hook in entry.open_hooks}:
                hooks = tuple(_given_up(hook) if hook.name == name else hook for hook in entry.hooks)
                self.steward.entries.write(replace(entry, hooks=hooks), was_open=True)
                given_up.append(entry.version.number)
        return tuple(given_up)

    def open_hooks(self) -> tuple[OpenHook, ...]:
        """The hooks that are not done, oldest version first.

        Changes nothing, and reads what `run` would read.
        """
        _, seen = self._look()
        plan = plan_recovery(seen)
        entries = self.steward.entries.read_all(plan.hooks)
        recorded = [
            (entry.version, run, True)
            for entry in entries
            if entry
            for run in entry.hooks
            if run.is_open or run.undo is not None
        ]
        left = [
            (record.version, HookRun(name), False)
            for record, _ in self._records(plan.entries)
            for name in record.hooks
        ]
        return tuple(
            OpenHook(version.number, run, run.name in self.steward.hooks.registered, is_recorded)
            for version, run, is_recorded in sorted(recorded + left, key=lambda each: each[0])
        )

    def _nothing_to_run(self, entry: ControlEntry, retry: bool) -> bool:
        """Whether some hooks of a version are open, and this process can run none of them."""
        wanted = {HookState.PENDING, HookState.FAILED} if retry else {HookState.PENDING}
        open_here = [hook for hook in entry.open_hooks if hook.name in self.steward.hooks.registered]
        states = {hook.state if hook.undo is None else hook.undo.state for hook in open_here}
        return bool(entry.open_hooks) and wanted.isdisjoint(states)


def _numbers(versions: Iterable[Version]) -> tuple[int, ...]:
    return tuple(version.number for version in versions)


def _is_pending(undo: UndoRun) -> bool:
    return undo.state is HookState.PENDING


def _given_up(hook: HookRun) -> HookRun:
    if not hook.state.is_over:
        return replace(hook, state=HookState.SKIPPED)
    if hook.undo is not None and not hook.undo.state.is_over:
        return replace(hook, undo=replace(hook.undo, state=HookState.SKIPPED))
    return hook
