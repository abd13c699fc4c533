"""The order of versions for hooks: which earlier version a hook has to wait for, and for how long.

A hook runs for a version after it has run for all earlier versions that trigger it. The records of these
versions name their hooks, and their control entries contain the results. It is enough to check the nearest of
them: the hook ran there after it had run for all versions before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import TypeAlias

from headgate.core.conflict.retry import RetryPolicy, delay_seconds
from headgate.core.plans.hooks import HookRule, awaits_turn
from headgate.log.log import CommitLog
from headgate.model.identifiers import GENESIS, Version
from headgate.steward.control import ControlEntries
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.nesting import is_running
from headgate.steward.hooks.running import HookTurn, HookTurns

POLLING = RetryPolicy(base=timedelta(milliseconds=10), cap=timedelta(seconds=1))
"""How often to check for the control entry of another process, while a hook waits for it."""
AT_ONCE = 16
"""How many records are read at once in the search for an earlier version that triggers a hook."""
OUTBOX_LOOK = 64
"""How many open versions below the mark of recovery are checked, newest first."""


Rules: TypeAlias = Sequence[HookRule]


class Standing(Enum):
    """The state of a hook in an earlier version."""

    SETTLED = "it ran, or was given up"
    OPEN = "its control entry leaves it to recovery"
    AT_WORK = "there is no control entry: its writer is still running, or died"


@dataclass(frozen=True, slots=True)
class HookOrder:
    """The order of the hooks of one lake, for one handle."""

    log: CommitLog
    entries: ControlEntries
    turns: HookTurns = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns", self.log.companion("hook turns", HookTurns))

    def obstacle(self, hook: Hook, rules: Rules, turn: HookTurn, until: float) -> str | None:
        """Why a hook cannot run for a version; None if it can, and is then reserved until `turn` leaves.

        Waits for versions whose writers are running, but not beyond `until` on the clock of the host. Does
        not wait for hooks that were left to recovery, because perhaps no process is working on them.
        """
        if is_running(self.log.identity.lake_id, hook.name):
            return "this commit was made inside the hook itself"
        if hook.concurrent:
            return None
        host, attempt = self.log.driver.host, 0
        while True:
            attempt += 1
            before, standing = self.standing(hook.name, rules, turn.version)
            if standing is Standing.OPEN:
                return f"waits for version {before}"
            if standing is Standing.SETTLED:
                before = self.turns.hold(hook.name, turn)
                if before is None:
                    return None
            left = until - host.elapsed()
            if left <= 0:
                return (
                    f"waits for version {before}, whose writer is still running or died: run headgate recover"
                )
            assert before is not None
            self._pause(before, left, attempt)

    def standing(self, name: str, rules: Rules, version: Version) -> tuple[Version | None, Standing]:
        """The version that a hook has to wait for, and the state of the hook there."""
        before = self._predecessor(name, rules, version)
        if before is not None:
            standing = self._at(name, rules, before)
            if standing is not Standing.SETTLED:
                return before, standing
        self.turns.settle(name, Version(version.number - 1))
        return None, Standing.SETTLED

    def _at(self, name: str, rules: Rules, version: Version) -> Standing:
        if self.turns.is_at_work(version):
            return Standing.AT_WORK
        entry = self.entries.read(version)
        # Checked after reading the entry: a thread that left meanwhile, without writing one, has recorded it
        # here.
        if self.turns.settled(name) >= version:
            return Standing.SETTLED
        if entry is None:
            return Standing.AT_WORK
        return Standing.OPEN if awaits_turn(name, rules, entry.hooks) else Standing.SETTLED

    def _predecessor(self, name: str, rules: Rules, version: Version) -> Version | None:
        """The newest version below `version` that triggers a hook and is not known to be settled."""
        below = Version(version.number - 1)
        floor = self.turns.settled(name)
        if floor > GENESIS or below == GENESIS:
            return self._asking(name, below, floor)
        # All versions up to the mark have control entries, and the outbox names those with open hooks.
        mark = min(self.entries.read_recovered(), below)
        return self._asking(name, below, mark) or self._find_open(name, rules, mark)

    def _asking(self, name: str, newest: Version, floor: Version) -> Version | None:
        """The newest version above `floor` and up to `newest` whose record names a hook."""
        numbers = range(newest.number, floor.number, -1)
        # The first one by itself: usually it is the right one, and this process has already read its record.
        for batch in (numbers[:1], *(numbers[at : at + AT_ONCE] for at in range(1, len(numbers), AT_ONCE))):
            tasks = [partial(self.log.record, Version(number)) for number in batch]
            for record in self.log.driver.host.together(tasks):
                if name in record.hooks:
                    return record.version
        return None

    def _find_open(self, name: str, rules: Rules, until: Version) -> Version | None:
        """The newest version up to `until` whose control entry leaves a hook to recovery."""
        old = [version for version in self.entries.outbox() if version <= until]
        entries = filter(None, self.entries.read_all(old[-OUTBOX_LOOK:]))
        found = [entry.version for entry in entries if awaits_turn(name, rules, entry.hooks)]
        return max(found, default=None)

    def _pause(self, before: Version, left: float, attempt: int) -> None:
        host = self.log.driver.host
        if self.turns.is_at_work(before):
            self.turns.wait(left, lambda: not self.turns.is_at_work(before))
        else:
            # In another process, or not started yet: only its control entry shows when it has ended.
            host.sleep(min(left, delay_seconds(POLLING, attempt + 1, host.chance())))
