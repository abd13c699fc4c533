"""Looking at a lake while others expire its versions: files can go that were still needed a moment ago."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headgate.commit.checkpoints import Checkpoints
from headgate.errors import CorruptLakeError

T = TypeVar("T")

TRIES = 5
"""How often something is looked at anew because an expire came between."""


def undisturbed(checkpoints: Checkpoints, look: Callable[[], T]) -> T:
    """What `look` finds, which begins with the newest version each time; again if an expire disturbed it.

    What is missing although nothing was expired meanwhile is damage.
    """
    for _ in range(TRIES - 1):
        known = checkpoints.log.newest.retention.by
        try:
            return look()
        except CorruptLakeError:
            if checkpoints.refresh().retention.by == known:
                raise
    return look()
