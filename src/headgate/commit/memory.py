"""What a process has learnt of one log, and whose turn it is to claim its next version.

The handles of a process on one lake share a memory: they would only race each other for versions, and read
from storage what the other has just written. Nothing but time depends on it; other processes have their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from headgate.core.windows import boundary_at_or_before
from headgate.forks import renew_after_fork
from headgate.model.identifiers import Version
from headgate.model.record import Record
from headgate.model.state import LakeState

T = TypeVar("T")

RECENT_RECORDS = 256
"""How many records are kept, so that transactions do not fetch the same record again."""
RECENT_BOUNDARIES = 16
"""How many boundary states are kept, until their checkpoints are written."""
MAX_PRESSURE = 6
"""How many losses in a row are remembered."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A decided record with its bytes, and the state after it."""

    record: Record
    data: bytes
    state: LakeState


class LogMemory:
    """Safe to share between threads. Knows nothing but decided records, and the states after them."""

    def __init__(self, genesis: LakeState, divisor: int) -> None:
        self.lock = threading.Lock()
        self.turn = threading.RLock()
        """Lets one thread at a time claim a version. Of the kind that knows its owner, so that whoever may
        have taken it can try to give it back."""
        self.newest = genesis
        self.boundaries: dict[Version, LakeState] = {genesis.version: genesis}
        self.recent: dict[Version, Entry] = {}
        self.pressure = Pressure()
        self._divisor = divisor
        self._companions: dict[str, Any] = {}
        renew_after_fork(self)

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        self.turn = threading.RLock()

    def remember(self, entry: Entry) -> None:
        with self.lock:
            self._see(entry.state)
            self.recent[entry.record.version] = entry
            while len(self.recent) > RECENT_RECORDS:
                del self.recent[next(iter(self.recent))]

    def see(self, state: LakeState) -> None:
        """Takes `state` for the newest one, if it is newer than what is known."""
        with self.lock:
            self._see(state)

    def companion(self, name: str, make: Callable[[], T]) -> T:
        """What others keep beside the log for as long as it is remembered; made when first asked for."""
        with self.lock:
            if name not in self._companions:
                self._companions[name] = make()
            found: T = self._companions[name]
            return found

    def _see(self, state: LakeState) -> None:
        if state.version > self.newest.version:
            self.newest = state
        if state.version == boundary_at_or_before(state.version, self._divisor):
            self.boundaries[state.version] = state
            while len(self.boundaries) > RECENT_BOUNDARIES:
                del self.boundaries[min(self.boundaries)]


@dataclass(slots=True)
class Pressure:
    """How hard other processes press: they do not go away with the transaction that lost to them.

    Changed by whoever has the turn, or has waited for it in vain: then it is wrong by a little, which costs a
    wait that is too long or too short.
    """

    losses: int = 0
    """How many there were of late. Each win halves them."""
    calm_at: float = -inf
    """When to try again, on the clock of the host."""
    attempt_seconds: float = 0.0
    """How long the last attempt took."""

    def lost(self) -> None:
        self.losses = min(MAX_PRESSURE, self.losses + 1)

    def won(self) -> None:
        self.losses //= 2
