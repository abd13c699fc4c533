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
from headgate.model.control_entry import HookRun
from headgate.model.identifiers import Version
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
    """A hook that is due for a version and not done."""

    version: int
    run: HookRun
    registered: bool


@dataclass(frozen=True, slots=True)
class Recovery:
    """Recovery through one handle of a lake."""

    steward: Steward

    def run(self) -> RecoveryReport:
        """Finishes what is unfinished, up to the newest version. Idempotent.

        Reads what the versions above the last recovered one need, and nothing else. The hooks that are still
        due are run if they are registered here; a writer that is alive may be running them too.
        """
        newest = self.steward.checkpoints.refresh()
        seen = self._look(newest)
        plan = plan_recovery(seen)
        records = self._records(plan.entries)
        tables = self._publish(records, newest)
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
            checkpoints=tuple(version.number for version in plan.checkpoints),
            hooks_done=hooks.done,
            hooks_open=hooks.open,
        )

    def _look(self, newest: LakeState) -> Seen:
        entries, log = self.steward.entries, self.steward.log
        recovered = min(entries.recovered(), newest.version)
        return Seen(
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

    def _publish(self, records: Sequence[tuple[Record, str]], newest: LakeState) -> tuple[str, ...]:
        """Announces the tables that versions without an entry changed, as they are now."""
        changed = {table.table.uuid for record, _ in records for table in published(record)}
        due = {name: ref for name, ref in newest.tables.items() if ref.uuid in changed}
        for name, ref in due.items():
            self.steward.publish(name, ref)
        return tuple(sorted(due))

    # --- hooks --------------------------------------------------------------------------------------------

    def run_hooks(self, versions: Sequence[Version], *, retry: bool) -> HooksRun:
        """Runs the pending hooks of versions, one version after the other; with `retry` failed ones too."""
        ran = HooksRun()
        for version in versions:
            ran += self._run_hooks_of(version, retry)
        return ran

    def open_hooks(self) -> tuple[OpenHook, ...]:
        """What the outbox tells of, oldest version first. Changes nothing."""
        registered = {hook.name for hook in self.steward.runner.hooks}
        entries = self.steward.entries.read_all(self.steward.entries.outbox())
        return tuple(
            OpenHook(entry.version.number, run, run.name in registered)
            for entry in entries
            if entry is not None
            for run in entry.open_hooks
        )

    def _run_hooks_of(self, version: Version, retry: bool) -> HooksRun:
        entries = self.steward.entries
        record, digest = self.steward.log.decided(version)
        before = entries.read(version) or recovered_entry(record, digest)
        runs = self.steward.run_hooks(record, before.hooks, retry=retry)
        now = replace(before, hooks=runs)
        entries.write(now, was_open=True)
        were_open = {hook.name for hook in before.open_hooks}
        return HooksRun(
            tuple(
                f"{version}: {hook.name}" for hook in runs if hook.state.is_over and hook.name in were_open
            ),
            tuple(f"{version}: {_told(hook)}" for hook in now.open_hooks),
        )


def _told(hook: HookRun) -> str:
    return f"{hook.name} ({hook.error or 'not registered here'})"
