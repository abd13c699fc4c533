"""Recovery: makes up for what writers that died had still to do after their commits.

Every step can be repeated, and the mark up to which all is well is moved last: a recovery that dies inside is
recovered by the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from headgate.commit.checkpoints import listed_checkpoints, state_at
from headgate.core.recovery_plan import Seen, plan_recovery
from headgate.model.control_entry import ControlEntry, HookRun, HookState
from headgate.model.identifiers import GENESIS, Version
from headgate.model.record import Record
from headgate.model.recovery import RecoveryReport
from headgate.model.state import LakeState
from headgate.steward.steward import Steward, published, recovered_entry


@dataclass(frozen=True, slots=True)
class HooksRun:
    """What came of running the hooks of some versions; each is named with its version."""

    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    def __add__(self, other: HooksRun) -> HooksRun:
        return HooksRun(self.done + other.done, self.open + other.open)


@dataclass(frozen=True, slots=True)
class OpenHook:
    """A hook that is due for a version and not done. `registered`: this process could run it.

    `recorded`: the control entry of the version says so. If not, there is none yet: its writer is still at
    work, or died.
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
        """Finishes what is unfinished, up to the newest version. Idempotent.

        Reads what the versions above the last recovered one need, and nothing else. The hooks that are still
        due are run if they are registered here; a writer that is alive may be running them too.
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
        self.steward.ledger.recovered(len(records))
        unrun = [record.version for record, _ in records if record.hooks]
        hooks = self.run_hooks(sorted({*plan.hooks, *unrun}), retry=False)
        return RecoveryReport(
            looked_from=seen.recovered.number,
            until=seen.head.number,
            entries=tuple(version.number for version in plan.entries),
            published=tables,
            not_published=broken,
            checkpoints=tuple(version.number for version in plan.checkpoints),
            hooks_done=hooks.done,
            hooks_open=hooks.open,
        )

    def _look(self) -> tuple[LakeState, Seen]:
        """The newest state, and what is missing of what follows from it."""
        entries, log = self.steward.entries, self.steward.log
        # Before the log: a mark above the newest version then cannot be right.
        mark = entries.recovered()
        newest = self.steward.checkpoints.refresh()
        recovered = mark if mark <= newest.version else GENESIS
        return newest, Seen(
            head=newest.version,
            divisor=log.identity.divisor,
            recovered=recovered,
            written=entries.written_above(recovered),
            checkpoints=frozenset(listed_checkpoints(log.driver, above=recovered)),
            outbox=entries.outbox(),
        )

    def _records(self, versions: Sequence[Version]) -> list[tuple[Record, str]]:
        log = self.steward.log
        return log.driver.host.together([partial(log.decided, version) for version in versions])

    def _publish(
        self, records: Sequence[tuple[Record, str]], newest: LakeState
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Announces the tables that versions without an entry changed, as they are now.

        Returns which, and those that cannot be, with why.
        """
        changed = {table.table.uuid for record, _ in records for table in published(record)}
        due = sorted((name, ref) for name, ref in newest.tables.items() if ref.uuid in changed)
        told = {name: self.steward.publish_unless_broken(name, ref) for name, ref in due}
        done = tuple(name for name, problem in told.items() if problem is None)
        return done, tuple(problem for problem in told.values() if problem is not None)

    # --- hooks --------------------------------------------------------------------------------------------

    def run_open_hooks(self, *, retry: bool) -> HooksRun:
        """Runs the hooks of all versions that the outbox tells of."""
        head = self.steward.checkpoints.refresh().version
        versions = [version for version in self.steward.entries.outbox() if version <= head]
        return self.run_hooks(versions, retry=retry)

    def run_hooks(self, versions: Sequence[Version], *, retry: bool) -> HooksRun:
        """Runs the pending hooks of versions, one version after the other; with `retry` failed ones too."""
        ran = HooksRun()
        for version, stored in zip(versions, self.steward.entries.read_all(versions), strict=True):
            if stored is not None and self._nothing_to_run(stored, retry):
                ran += HooksRun(open=self._open(stored))
            else:
                ran += self._run_hooks_of(version, retry)
        return ran

    def skip_hooks(self, name: str) -> tuple[int, ...]:
        """Gives up a hook wherever an entry says that it is not done; returns of which versions. Idempotent.

        Not of versions without an entry: one would say that all that is due after the commit was done.
        """
        given_up = []
        for entry in filter(None, self.steward.entries.read_all(self.steward.entries.outbox())):
            if name in {hook.name for hook in entry.open_hooks}:
                hooks = tuple(_given_up(hook) if hook.name == name else hook for hook in entry.hooks)
                self.steward.entries.write(replace(entry, hooks=hooks), was_open=True)
                given_up.append(entry.version.number)
        return tuple(given_up)

    def open_hooks(self) -> tuple[OpenHook, ...]:
        """What is not done, oldest version first. Changes nothing, and reads what `run` would read."""
        _, seen = self._look()
        plan = plan_recovery(seen)
        entries = self.steward.entries.read_all(plan.hooks)
        recorded = [(entry.version, run, True) for entry in entries if entry for run in entry.open_hooks]
        left = [
            (record.version, HookRun(name), False)
            for record, _ in self._records(plan.entries)
            for name in record.hooks
        ]
        return tuple(
            OpenHook(version.number, run, run.name in self._registered, is_recorded)
            for version, run, is_recorded in sorted(recorded + left, key=lambda each: each[0])
        )

    def _nothing_to_run(self, entry: ControlEntry, retry: bool) -> bool:
        """Whether some hooks of a version are open, and none of them can be run here."""
        wanted = {HookState.PENDING, HookState.FAILED} if retry else {HookState.PENDING}
        states = [hook.state for hook in entry.open_hooks if hook.name in self._registered]
        return bool(entry.open_hooks) and wanted.isdisjoint(states)

    @property
    def _registered(self) -> frozenset[str]:
        return frozenset(hook.name for hook in self.steward.runner.hooks)

    def _run_hooks_of(self, version: Version, retry: bool) -> HooksRun:
        entries = self.steward.entries
        record, digest = self.steward.log.decided(version)
        stored = entries.read(version)
        before = stored or recovered_entry(record, digest)
        runs = self.steward.run_hooks(record, before.hooks, retry=retry)
        stored = entries.read(version)
        now = replace(before, hooks=_with_done(runs, stored))
        # What nobody here can run is left as it is; an outbox whose hooks are all done is emptied.
        if now != stored or not now.open_hooks:
            entries.write(now, was_open=True)
        were_open = {hook.name for hook in before.open_hooks}
        return HooksRun(
            tuple(
                f"{version}: {hook.name}" for hook in runs if hook.state.is_over and hook.name in were_open
            ),
            self._open(now),
        )

    def _open(self, entry: ControlEntry) -> tuple[str, ...]:
        return tuple(f"{entry.version}: {hook.name} ({self._why_open(hook)})" for hook in entry.open_hooks)

    def _why_open(self, hook: HookRun) -> str:
        where = None if hook.name in self._registered else "not registered here"
        return "; ".join(filter(None, (hook.error, where))) or "not tried yet"


def _with_done(runs: Sequence[HookRun], stored: ControlEntry | None) -> tuple[HookRun, ...]:
    """What became of hooks, with those that somebody else has done meanwhile: done is done."""
    done = {hook.name: hook for hook in ([] if stored is None else stored.hooks) if hook.state.is_over}
    return tuple(hook if hook.state.is_over else done.get(hook.name, hook) for hook in runs)


def _given_up(hook: HookRun) -> HookRun:
    return hook if hook.state.is_over else replace(hook, state=HookState.SKIPPED)
