"""Rebuilds what is derived from the log, whatever is there.

That is: control entries, the outbox, checkpoints, `last.json`, the mark of recovery, and what is published of
tables. Everything else in `control/` stays as it is, such as the timeline and the mark of a replica.

Replaces existing objects, and then removes those that do not belong there. Readers and writers may keep
running. Only control entries contain the states of hooks, so the states in an entry that matches its record
are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headgate.core.compaction.windows import boundary_at_or_before
from headgate.errors import CorruptLakeError
from headgate.log.head import RECORDS_AT_ONCE
from headgate.log.layout import (
    CHECKPOINTS,
    ENTRIES,
    LAST_CHECKPOINT,
    OUTBOX,
    RECOVERED,
    REPLICA,
    checkpoint_key,
    checkpoint_version,
    entry_key,
    entry_version,
    outbox_key,
    outbox_version,
)
from headgate.model.control_entry import ControlEntry
from headgate.model.identifiers import GENESIS, Version
from headgate.model.state import LakeState
from headgate.steward.control import recovered_entry
from headgate.steward.follow_up import Steward


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What was rebuilt, up to version `until`, and which unreferenced objects were removed.

    `not_published` are the tables whose metadata cannot be read, with the reasons.
    """

    until: int
    entries: int = 0
    checkpoints: int = 0
    published: int = 0
    removed: tuple[str, ...] = ()
    not_published: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """Rebuilds through one handle of a lake. `progress` gets the number of versions done, and the total."""

    steward: Steward
    progress: Callable[[int, int], None]

    def run(self) -> RebuildReport:
        newest = self.steward.checkpoints.refresh()
        # Listed before anything is written, so that new objects are not treated as strays.
        strays = self._list_derived(newest.version)
        report = self._versions(newest, strays)
        self._point_to_last(newest.version, strays)
        problems = [self.steward.publish_unless_broken(name, table) for name, table in newest.tables.items()]
        failed = tuple(problem for problem in problems if problem is not None)
        self.steward.entries.set_recovered(newest.version)
        for key in sorted(strays):
            self.steward.log.driver.delete(key)
        return replace(
            report,
            published=len(newest.tables) - len(failed),
            removed=tuple(sorted(strays)),
            not_published=failed,
        )

    def _point_to_last(self, newest: Version, strays: set[str]) -> None:
        """Rewrites `last.json`, which may name anything; without a boundary it must not exist."""
        checkpoints, driver = self.steward.checkpoints, self.steward.log.driver
        boundary = boundary_at_or_before(newest, self.steward.log.identity.divisor)
        # It also shows writers that the lake is a replica, to which they must not commit.
        checkpoints.replica = checkpoints.replica or driver.get(REPLICA) is not None
        if boundary != GENESIS or checkpoints.replica:
            checkpoints.point_to(boundary)
        elif driver.get(LAST_CHECKPOINT) is not None:
            strays.add(LAST_CHECKPOINT)

    def _list_derived(self, until: Version) -> set[str]:
        """The derived objects that exist now, except those of later versions."""
        driver = self.steward.log.driver
        keys = {key for prefix in (ENTRIES, OUTBOX, CHECKPOINTS) for key in driver.keys(prefix)}
        return {key for key in keys - {RECOVERED, LAST_CHECKPOINT} if not _is_later(key, until)}

    def _versions(self, newest: LakeState, strays: set[str]) -> RebuildReport:
        """Writes the entries and checkpoints of all versions, and removes them from `strays`."""
        report = RebuildReport(newest.version.number)
        state, divisor = self.steward.checkpoints.genesis, self.steward.log.identity.divisor
        while state.version < newest.version:
            # Up to the next boundary at most, so that its state is available for the checkpoint.
            to_boundary = divisor - state.version.number % divisor
            left = newest.version.number - state.version.number
            progress = self.steward.log.advance(state, min(left, to_boundary, RECORDS_AT_ONCE))
            if progress.ended:
                raise CorruptLakeError(
                    f"the record of version {progress.state.version.next()} is missing; derived objects were "
                    "rebuilt up to the version before, and nothing was removed",
                    "stop writing to this lake; run headgate fsck",
                )
            state = progress.state
            for record in progress.records:
                self._write(record.version, strays)
            if state.version == boundary_at_or_before(state.version, divisor):
                self.steward.checkpoints.write(state)
                strays.discard(checkpoint_key(state.version))
                report = replace(report, checkpoints=report.checkpoints + 1)
            report = replace(report, entries=state.version.number)
            self.progress(state.version.number, newest.version.number)
        return report

    def _write(self, version: Version, strays: set[str]) -> None:
        entry = self._entry(version)
        self.steward.entries.write(entry)
        strays.discard(entry_key(version))
        if entry.open_hooks:
            strays.discard(outbox_key(version))

    def _entry(self, version: Version) -> ControlEntry:
        record, digest = self.steward.log.read_decided(version)
        made = recovered_entry(record, digest)
        before = self.steward.entries.read(version)
        if before is None or (before.record, before.txid) != (digest, record.txid):
            return made
        known = {hook.name: hook for hook in before.hooks}
        hooks = tuple(known.get(hook.name, hook) for hook in made.hooks)
        return replace(before, descriptor=made.descriptor, copy=made.copy, hooks=hooks)


def _is_later(key: str, until: Version) -> bool:
    version = entry_version(key) or outbox_version(key) or checkpoint_version(key)
    return version is not None and version > until
