"""Which hooks run around this code, so that no hook is asked for by a commit that it makes itself.

Without this a hook that commits to its own lake would never come to an end. What is known of a process goes
with the threads and programs that actions start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

VARIABLE = "HEADGATE_INSIDE_HOOKS"
"""Of the environment: the hooks around a program that a hook started, as `<lake id>/<name>`, with commas."""

_AROUND: ContextVar[frozenset[str]] = ContextVar("headgate-hooks", default=frozenset())


@contextmanager
def running(lake_id: str, name: str) -> Iterator[None]:
    """The block is the work of a hook."""
    token = _AROUND.set(_around() | {f"{lake_id}/{name}"})
    try:
        yield
    finally:
        _AROUND.reset(token)


def is_running(lake_id: str, name: str) -> bool:
    """Whether this code is part of what that hook does."""
    return f"{lake_id}/{name}" in _around()


def environment() -> dict[str, str]:
    """The environment for a program that a hook starts."""
    return {**os.environ, VARIABLE: ",".join(sorted(_around()))}


def _around() -> frozenset[str]:
    inherited = os.environ.get(VARIABLE, "")
    return _AROUND.get() | frozenset(filter(None, inherited.split(",")))
