"""Which tables a handle has to look at again: those that something was done to, as the log tells.

Kept in memory, and nothing depends on it: who remembers nothing looks at every table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headgate.core.compaction.intents import Intents, intents_in, intents_of
from headgate.core.windows import complete_windows
from headgate.model.record import Record
from headgate.model.window import Window

MAX_RECORDS = 1000
"""How many records are read to pass over tables; beyond that, looking at all of them is cheaper."""


@dataclass
class Looks:
    """What is remembered: the version at which nothing was due anywhere, and the intents of windows."""

    version: int | None = None
    known: dict[Window, Intents] = field(default_factory=dict)

    def remember(self, version: int) -> None:
        """Nothing was due at a version, in any table, and no plan was pending."""
        self.version = max(version, self.version or 0)

    def forget(self) -> None:
        self.version = None

    def concerning(
        self, newest: int, divisor: int, read: Callable[[Sequence[int]], Sequence[Record]]
    ) -> Intents:
        """Where something can have become due since. `read` gives the records of versions."""
        if self.version is None or newest < self.version:
            return Intents(everything=True)
        since = range(self.version + 1, newest + 1)
        before = set(complete_windows(self.version, divisor))
        new = [w for w in complete_windows(newest, divisor) if w.level and w not in before]
        unknown = sum(window.last - window.first + 1 for window in new) - sum(
            window.last - window.first + 1
            for window in self.known
            if any(larger.holds(window) for larger in new)
        )
        if len(since) + unknown > MAX_RECORDS:
            return Intents(everything=True)
        recent = intents_of(read(since))
        found = Intents(settings=recent.settings, everything=recent.everything)
        for window in new:
            self.known[window] = intents_in(window, divisor, self.known, lambda w: read(_versions(w)))
            found |= self.known[window]
        self._forget_smaller(newest, divisor)
        return found

    def _forget_smaller(self, newest: int, divisor: int) -> None:
        """Only the largest complete windows are needed for larger ones."""
        kept = set(complete_windows(newest, divisor))
        self.known = {window: found for window, found in self.known.items() if window in kept}


def _versions(window: Window) -> range:
    return range(window.first, window.last + 1)
