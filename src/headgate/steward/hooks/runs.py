"""Runs the hooks of versions in order, and stores the results in control entries.

The writer of a version runs its hooks and writes the entry. If it has to leave a hook open, the hook is run
later by the writer that it waited for, by a writer at a boundary once it looks abandoned, or by recovery.
`HookOrder` says which earlier version a hook has to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeAlias

from headgate.core.history.commit_time import has_passed
from headgate.core.history.descriptor import commit_event
from headgate.core.plans.hooks import awaits_turn, failed_required
from headgate.log.log import CommitLog
from headgate.model.commit_event import CommitEvent
from headgate.model.control_entry import ControlEntry, HookRun, HookState
from headgate.model.identifiers import Version
from headgate.model.record import Record
from headgate.steward.control import ControlEntries, recovered_entry
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.nesting import is_inside, is_running
from headgate.steward.hooks.order import HookOrder, Standing
from headgate.steward.hooks.runner import HookRunner
from headgate.steward.hooks.running import HookTurn
from headgate.steward.ledger import Ledger

CATCH_UP = 64
"""For how many other versions a writer runs open hooks."""
ABANDONED_AFTER = timedelta(minutes=10)
"""How old the oldest version with open hooks must be before a writer at a boundary runs them."""

Keep: TypeAlias = Callable[[tuple[HookRun, ...]], None]
"""Stores the states of hooks before the remaining ones run."""


@dataclass(frozen=True, slots=True)
class HooksRun:
    """The results of running the hooks of some versions; each hook is named with its version."""

    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    def __add__(self, other: HooksRun) -> HooksRun:
        return HooksRun(self.done + other.done, self.open + other.open)


@dataclass
class HookRuns:
    """The hooks of one handle of a lake."""

    log: CommitLog
    entries: ControlEntries
    ledger: Ledger
    runner: HookRunner
    order: HookOrder = field(init=False)

    def __post_init__(self) -> None:
        self.order = HookOrder(self.log, self.entries)

    @property
    def registered(self) -> frozenset[str]:
        return frozenset(hook.name for hook in self.runner.hooks)

    def wanted_by(self, record: Record) -> tuple[str, ...]:
        """The hooks that a commit triggers. A commit that a hook makes does not trigger that hook."""
        lake_id = self.log.identity.lake_id
        return tuple(name for name in self.runner.due(record) if not is_running(lake_id, name))

    # --- of a version that this handle has committed --------------------------------------------------

    def enter(self, record: Record) -> HookTurn:
        """Announces to other threads, as early as possible, that the hooks of a version are about to run."""
        return self.order.turns.enter(record.version)

    def run_new(self, record: Record, turn: HookTurn, keep: Keep) -> tuple[HookRun, ...]:
        """Runs the hooks of a version that was just committed, as far as it is their turn."""
        # A hook around this commit waits for the commit to return: waiting for that hook would be a deadlock.
        is_patient = not is_inside(self.log.identity.lake_id)
        runs = [HookRun(name) for name in record.hooks]
        return self._run(record, runs, turn, keep, patient=is_patient)

    def leave(self, turn: HookTurn, runs: Sequence[HookRun]) -> None:
        """Lets waiting threads continue, after the control entry of a version was written."""
        self.order.turns.leave(turn, self._settled(runs))

    def pass_on(self, record: Record, runs: tuple[HookRun, ...]) -> tuple[HookRun, ...]:
        """Runs hooks that other versions left open because they waited for this one; returns its own runs.

        Called after the control entry of this version was written: a writer that stops waiting later than
        that reads this entry, and the hooks of a writer that stopped waiting earlier are found here.
        """
        ordered = {rule.name for rule in self.runner.rules if not rule.concurrent}
        if ordered.isdisjoint(run.name for run in runs):
            return runs
        runs = self._run_late(record.version, runs)
        if not any(awaits_turn(run.name, self.runner.rules, runs) for run in runs):
            self.run_following(record.version)
        return runs

    def _run_late(self, version: Version, runs: tuple[HookRun, ...]) -> tuple[HookRun, ...]:
        """Runs open hooks of this version if what they waited for ended while its entry was being written."""
        rules = self.runner.rules
        waiting = [run.name for run in runs if awaits_turn(run.name, rules, runs)]
        if any(self.order.standing(name, rules, version)[1] is Standing.SETTLED for name in waiting):
            self.run_open(version)
            entry = self.entries.read(version)
            return runs if entry is None else entry.hooks
        return runs

    def run_following(self, version: Version) -> HooksRun:
        """Runs the open hooks of the next versions, up to the first version without a control entry."""
        ran = HooksRun()
        for number in range(version.number + 1, version.number + 1 + CATCH_UP):
            entry = self.entries.read(Version(number))
            if entry is None:
                break
            if self._awaits(entry):
                ran += self.run_open(entry.version)
        return ran

    # --- of other versions --------------------------------------------------------------------------------

    def run_abandoned(self) -> None:
        """Runs the oldest open hooks in order, if they have been open for a long time.

        Clocks are not needed for correctness: a hook that is running elsewhere just runs once more.
        """
        if not self.runner.hooks:
            return
        entries = filter(None, self.entries.read_all(self.entries.outbox()[:CATCH_UP]))
        waiting = [entry.version for entry in entries if self._awaits(entry)]
        if waiting:
            since = self.log.record(waiting[0]).committed_at
            if has_passed(since, ABANDONED_AFTER, self.log.driver.host.now()):
                for version in waiting:
                    self.run_open(version)

    def run_open(self, version: Version, *, retry: bool = False) -> HooksRun:
        """Runs the hooks of a version that are pending and whose turn it is; with `retry` failed ones too."""
        record, digest = self.log.read_decided(version)
        before = self.entries.read(version) or recovered_entry(record, digest)
        turn, runs = self.order.turns.enter(version), before.hooks
        try:
            runs = self._run(
                record,
                before.hooks,
                turn,
                lambda marked: self.entries.write(replace(before, hooks=marked), was_open=True),
                retry=retry,
            )
            stored = self.entries.read(version)
            now = replace(before, hooks=_with_done(runs, stored))
            # Hooks that are not registered here stay as they are; an outbox whose hooks are all done is
            # emptied.
            if now != stored or not now.open_hooks:
                self.entries.write(now, was_open=True)
        finally:
            self.order.turns.leave(turn, self._settled(runs))
        were_open = {hook.name for hook in before.open_hooks}
        over = [_named(hook) for hook in runs if not hook.is_open and hook.name in were_open]
        return HooksRun(tuple(f"{version}: {name}" for name in over), self.open_in(now))

    def open_in(self, entry: ControlEntry) -> tuple[str, ...]:
        """The open hooks of a version, with the reasons."""
        return tuple(f"{entry.version}: {hook.name} ({self._why_open(hook)})" for hook in entry.open_hooks)

    def _run(
        self,
        record: Record,
        runs: Sequence[HookRun],
        turn: HookTurn,
        keep: Keep,
        *,
        retry: bool = False,
        patient: bool = False,
    ) -> tuple[HookRun, ...]:
        """Runs hooks, and undoes the ones that are done if a required one failed. `keep` stores states."""
        event = self._event(record)
        # Undo first: until that is finished, no hook can run again.
        after = self.runner.undo(event, runs, retry=retry)
        if not any(run.state.is_over and run.is_open for run in after):
            again = self._again(after) if retry else after
            obstacle = self._obstacle(turn, patient=patient)
            after = self.runner.run(event, again, retry=retry, obstacle=obstacle)
        marked = self.runner.to_undo(after)
        if marked != after:
            # Before the first undo: if this process dies in between, recovery finishes the rest.
            keep(marked)
            after = self.runner.undo(event, marked)
        self.ledger.count_hooks(runs, after)
        return after

    def _again(self, runs: Sequence[HookRun]) -> tuple[HookRun, ...]:
        """Marks undone hooks as pending again, if the required hook that failed is going to be retried."""
        if failed_required(self.runner.rules, runs) is None:
            return tuple(runs)
        return tuple(
            run if run.undo is None else replace(run, state=HookState.PENDING, undo=None) for run in runs
        )

    def _obstacle(self, turn: HookTurn, *, patient: bool) -> Callable[[Hook], str | None]:
        began, rules = self.log.driver.host.elapsed(), self.runner.rules

        def obstacle(hook: Hook) -> str | None:
            # All hooks of the version wait from the same start, so that their waits do not add up.
            until = began + hook.wait.total_seconds() if patient else began
            return self.order.obstacle(hook, rules, turn, until)

        return obstacle

    def _event(self, record: Record) -> CommitEvent:
        store = self.log.driver.store
        return commit_event(record, self.log.identity.lake_id, store.describe(), store.uri())

    def _awaits(self, entry: ControlEntry) -> bool:
        """Whether a hook that is registered here must still run for a version."""
        return any(awaits_turn(name, self.runner.rules, entry.hooks) for name in self.registered)

    def _settled(self, runs: Sequence[HookRun]) -> list[str]:
        rules = self.runner.rules
        mine = [rule.name for rule in rules if not rule.concurrent]
        return [run.name for run in runs if run.name in mine and not awaits_turn(run.name, rules, runs)]

    def _why_open(self, hook: HookRun) -> str:
        where = None if hook.name in self.registered else "not registered here"
        return "; ".join(filter(None, (hook.problem, where))) or "not tried yet"


def _with_done(runs: Sequence[HookRun], stored: ControlEntry | None) -> tuple[HookRun, ...]:
    """The results of hooks, combined with those that another process has stored as done meanwhile."""
    done = {hook.name: hook for hook in ([] if stored is None else stored.hooks) if hook.is_in_effect}
    return tuple(hook if hook.state.is_over else done.get(hook.name, hook) for hook in runs)


def _named(hook: HookRun) -> str:
    return hook.name if hook.undo is None else f"{hook.name} ({hook.shown_state})"
