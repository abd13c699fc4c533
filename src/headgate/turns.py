"""How writers wait: those of a process for each other, and all of them for the writers of other processes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headgate.commit.log import CommitLog
from headgate.core.retry import RetryPolicy, contended_delay, read_ahead, silence_seconds
from headgate.errors import StorageError

LONGEST_SHARED_WAIT_SECONDS = 1.0
"""How long a writer that lost makes the other writers of its process wait."""


class Turns:
    """The waits of one transaction. Nothing but time depends on them.

    `catch_up` reads what others have committed, so many records at once, and tells whether that is anything;
    `note_wait` is told how many seconds were slept.
    """

    def __init__(
        self,
        log: CommitLog,
        policy: RetryPolicy,
        catch_up: Callable[[int], bool],
        note_wait: Callable[[float], None],
    ) -> None:
        self._log, self._policy = log, policy
        self._host = log.driver.host
        self._catch_up, self._note_wait = catch_up, note_wait

    def in_turn(self, losses: int, until: float, attempt: Callable[[], None]) -> None:
        """Makes an attempt while the other threads of this process wait.

        If the turn does not come in time, it is made without.
        """
        turn = self._log.turn
        left = max(0.0, until - self._host.elapsed())
        try:
            turn.acquire(timeout=min(left, threading.TIMEOUT_MAX))
            self._let_others_pass(losses, until)
            started = self._host.elapsed()
            attempt()
            self._log.pressure.attempt_seconds = self._host.elapsed() - started
        finally:
            # Asked of the lock itself: a Ctrl-C can come between having taken the turn and knowing it.
            try:  # noqa: SIM105 — a call of anything else before this one could be interrupted
                turn.release()
            except RuntimeError:
                pass

    def give_way(self, losses: int, until: float) -> None:
        """After a loss: all writers of this process let others pass; the rest of a long wait is its own."""
        pressure, now = self._log.pressure, self._host.elapsed()
        behind = max(losses, pressure.losses)
        delay = contended_delay(self._policy, behind, self._host.chance(), pressure.attempt_seconds)
        pressure.calm_at = max(pressure.calm_at, now + min(delay, LONGEST_SHARED_WAIT_SECONDS))
        if delay > LONGEST_SHARED_WAIT_SECONDS:
            self._wait(now + delay, until)

    def _let_others_pass(self, losses: int, until: float) -> None:
        """Waits as long as those who lost of late asked for, then reads what others did meanwhile.

        All writers of this process wait: whoever comes next would lose to the same others.
        """
        quiet = self._wait(self._log.pressure.calm_at, until)
        if losses and not quiet and (ahead := read_ahead(losses, self._log.identity.divisor)):
            self._catch_up(ahead)

    def _wait(self, end: float, until: float) -> bool:
        """Waits for the others, until `end` at most. True if they have gone, as far as the log tells.

        A look costs a request. To wait when the last one has gone would cost more, and an attempt that meets
        another one costs several.
        """
        pressure = self._log.pressure
        while (left := end - self._host.elapsed()) > 0:
            silence = silence_seconds(
                self._policy, pressure.losses, self._host.chance(), pressure.attempt_seconds
            )
            if silence >= min(left, until - self._host.elapsed()):
                self._sleep(left, until)
                return False
            self._sleep(silence, until)
            if self._is_quiet():
                pressure.calm_at = self._host.elapsed()
                return True
        return False

    def _is_quiet(self) -> bool:
        try:
            return not self._catch_up(1)
        except StorageError:
            # Nobody needs the answer: whatever the storage has will be said of a request that is needed.
            return False

    def _sleep(self, seconds: float, until: float) -> None:
        """Sleeps, but not beyond `until`."""
        seconds = min(seconds, until - self._host.elapsed())
        if seconds > 0:
            self._host.sleep(seconds)
            self._note_wait(seconds)
