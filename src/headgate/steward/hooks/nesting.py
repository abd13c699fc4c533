"""Which hooks run around this code, so that a commit that a hook makes does not trigger that hook again.

Without this, a hook that commits to its own lake would run forever. The information is passed on to the
threads and programs that actions start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

VARIABLE = "HEADGATE_INSIDE_HOOKS"
"""The environment variable with the hooks around a program that a hook started: `<lake id>/<name>,…`."""

_AROUND: ContextVar[frozenset[str]] = ContextVar("headgate-hooks", default=frozenset())


@contextmanager
def running(lake_id: str, name: str) -> Iterator[None]:
    """Marks the block as the work of a hook."""
    token = _AROUND.set(_around() | {f"{lake_id}/{name}"})
    try:
        yield
    finally:
        _AROUND.reset(token)


def is_running(lake_id: str, name: str) -> bool:
    """Whether this code runs inside that hook."""
    return f"{lake_id}/{name}" in _around()


def is_inside(lake_id: str) -> bool:
    """Whether this code runs inside any hook of a lake."""
    return any(hook.startswith(f"{lake_id}/") for hook in _around())


def environment() -> dict[str, str]:
    """The environment for a program that a hook starts."""
    return {**os.environ, VARIABLE: ",".join(sorted(_around()))}


def _around() -> frozenset[str]:
    inherited = os.environ.get(VARIABLE, "")
    return _AROUND.get() | frozenset(filter(None, inherited.split(",")))
