"""The waiting of writers: for other writers of their process, and for those of other processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.core.conflict.retry import RetryPolicy, contended_delay, read_ahead, silence_seconds
from headgate.errors import StorageError
from headgate.log.log import CommitLog

LONGEST_SHARED_WAIT_SECONDS = 1.0
"""How long a writer that lost makes the other writers of its process wait."""


@dataclass
class Waits:
    """The waits of one transaction. They affect only its duration, not its result.

    `catch_up` reads what others have committed, in batches of the given number of records, and returns
    whether there was anything new. `note_wait` receives the seconds that were slept.
    """

    log: CommitLog
    policy: RetryPolicy
    catch_up: Callable[[int], bool]
    note_wait: Callable[[float], None]

    def give_way(self, losses: int, until: float) -> None:
        """Waits after a loss. All writers of this process share the wait, up to a limit."""
        pressure, now = self.log.pressure, self.log.driver.host.elapsed()
        behind = max(losses, pressure.losses)
        delay = contended_delay(self.policy, behind, self.log.driver.host.chance(), pressure.attempt_seconds)
        pressure.calm_at = max(pressure.calm_at, now + min(delay, LONGEST_SHARED_WAIT_SECONDS))
        if delay > LONGEST_SHARED_WAIT_SECONDS:
            self._wait(now + delay, until)

    def let_others_pass(self, losses: int, until: float) -> None:
        """Waits as long as recent losers asked for, then reads what others have committed meanwhile.

        All writers of this process wait, because the next one would lose to the same competitors.
        """
        quiet = self._wait(self.log.pressure.calm_at, until)
        if losses and not quiet and (ahead := read_ahead(losses, self.log.identity.divisor)):
            self.catch_up(ahead)

    def _wait(self, end: float, until: float) -> bool:
        """Waits for other writers until `end` at most. Returns True if the log shows that they are done.

        Each check costs a request. Waiting after the last writer is done would cost more time, and a lost
        attempt costs several requests.
        """
        pressure = self.log.pressure
        while (left := end - self.log.driver.host.elapsed()) > 0:
            silence = silence_seconds(
                self.policy, pressure.losses, self.log.driver.host.chance(), pressure.attempt_seconds
            )
            if silence >= min(left, until - self.log.driver.host.elapsed()):
                self._sleep(left, until)
                return False
            self._sleep(silence, until)
            if self._is_quiet():
                pressure.calm_at = self.log.driver.host.elapsed()
                return True
        return False

    def _is_quiet(self) -> bool:
        try:
            return not self.catch_up(1)
        except StorageError:
            # The check is optional. If the storage really fails, a required request will report it.
            return False

    def _sleep(self, seconds: float, until: float) -> None:
        """Sleeps, but not beyond `until`."""
        seconds = min(seconds, until - self.log.driver.host.elapsed())
        if seconds > 0:
            self.log.driver.host.sleep(seconds)
            self.note_wait(seconds)
