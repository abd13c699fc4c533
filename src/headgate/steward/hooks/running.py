"""Which hooks of a lake the threads of this process are running, and up to which version each hook has run.

The handles of a process on one lake share it. It affects only waiting and the order within this process; the
control entries show what other processes did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from headgate.model.identifiers import GENESIS, Version
from headgate.system.host import renew_after_fork


@dataclass(eq=False, slots=True)
class HookTurn:
    """One thread that runs hooks of a version, and the hooks that it has reserved."""

    version: Version


class HookTurns:
    """Safe to share between threads.

    Uses a plain lock and a queue for each waiting thread, because a Ctrl-C inside a condition variable can
    leave its lock acquired forever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_work: list[HookTurn] = []
        self._holders: dict[str, HookTurn] = {}
        self._settled: dict[str, Version] = {}
        self._waiting: list[SimpleQueue[None]] = []
        renew_after_fork(self)

    def after_fork(self) -> None:
        # The parent finishes what its own threads are running.
        self._lock = threading.Lock()
        self._at_work, self._holders, self._waiting = [], {}, []

    def enter(self, version: Version) -> HookTurn:
        """Records that this thread is about to run hooks of a version."""
        turn = HookTurn(version)
        with self._lock:
            self._at_work.append(turn)
        return turn

    def leave(self, turn: HookTurn, settled: Iterable[str] = ()) -> None:
        """Records that a thread has run its hooks; other threads need not wait for those in `settled`."""
        with self._lock:
            self._at_work = [other for other in self._at_work if other is not turn]
            self._holders = {name: holder for name, holder in self._holders.items() if holder is not turn}
            for name in settled:
                self._settle(name, turn.version)
            waiting = tuple(self._waiting)
        for bell in waiting:
            bell.put(None)

    def hold(self, name: str, turn: HookTurn) -> Version | None:
        """Reserves a hook until `turn` leaves.

        If another thread has it, returns the version it runs it for.
        """
        with self._lock:
            holder = self._holders.setdefault(name, turn)
            return None if holder is turn else holder.version

    def settle(self, name: str, version: Version) -> None:
        """Records that no thread needs to wait for a hook in any version up to this one."""
        with self._lock:
            self._settle(name, version)

    def settled(self, name: str) -> Version:
        """The version up to which no thread needs to wait for a hook, as far as this process knows."""
        with self._lock:
            return self._settled.get(name, GENESIS)

    def is_at_work(self, version: Version) -> bool:
        with self._lock:
            return any(turn.version == version for turn in self._at_work)

    def wait(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Returns when a thread has left a version, at once if `is_over`, or after `seconds`."""
        bell: SimpleQueue[None] = SimpleQueue()
        with self._lock:
            self._waiting.append(bell)
        try:
            # Checked after the bell is registered: every thread that leaves from now on rings it.
            if not is_over():
                with suppress(Empty):
                    bell.get(timeout=seconds)
        finally:
            with self._lock, suppress(ValueError):
                self._waiting.remove(bell)

    def _settle(self, name: str, version: Version) -> None:
        self._settled[name] = max(version, self._settled.get(name, GENESIS))
