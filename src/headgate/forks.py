"""Locks and forks: what a forked child must replace before it can work.

A fork copies locks as they are at that moment, but of the threads only the one that forked; so a lock that
another thread held stays taken in the child for ever. Owners of locks register here and get new ones.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class AfterFork(Protocol):
    """Something that must be renewed in a forked child."""

    def after_fork(self) -> None:
        """Replaces the locks, and mends what another thread may have left half done.

        Called in the child, before anything else runs there. Must not take a lock.
        """
        ...


_registered: WeakSet[AfterFork] = WeakSet()


def renew_after_fork(owner: AfterFork) -> None:
    """Has `after_fork` of `owner` called in every child that is forked while `owner` is in use."""
    _registered.add(owner)


def _renew_all() -> None:
    for owner in tuple(_registered):
        owner.after_fork()


os.register_at_fork(after_in_child=_renew_all)
