"""The rule that compaction by intents was first written with: only the last `divisor` commits are read.

Kept as a test of the tests: above the first level it loses paths, and they must notice.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.model.identifiers import Window


def touched_in(history: Sequence[frozenset[str]], window: Window) -> frozenset[str]:
    """The paths that the commits of a window touched; the first commit is version 1."""
    return frozenset[str]().union(*history[window.first - 1 : window.last])


def touched_by_seed_rule(history: Sequence[frozenset[str]], window: Window, divisor: int) -> frozenset[str]:
    """The paths that the seed's rule finds at the end of a window."""
    return frozenset[str]().union(*history[max(0, window.last - divisor) : window.last])
