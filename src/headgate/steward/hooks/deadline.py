"""Gives up the work of a hook after a timeout."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue

from headgate.errors import HookFailedError, InvalidInputError, shown
from headgate.system.host import SYSTEM

MAX_SECONDS = 86_400.0


def checked_seconds(seconds: float) -> float:
    """A timeout from a caller, checked."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= MAX_SECONDS:
        raise InvalidInputError(
            f"timeout_seconds must be above 0 and at most 86400 (a day), but is {shown(seconds)}"
        )
    return float(seconds)


def _leave() -> str:
    return "it may still be running"


def within(seconds: float, work: Callable[[], object], on_late: Callable[[], str] = _leave) -> None:
    """Runs `work` in a thread of its own, and raises what it raised. Gives up after `seconds`.

    Then, and when the caller is interrupted, it calls `on_late`, which returns what happened to the work. The
    thread is a daemon: after a timeout it may keep running, and ends with the process at the latest. A Ctrl-C
    interrupts the caller, never the work.
    """
    ended: SimpleQueue[BaseException | None] = SimpleQueue()
    context = copy_context()
    try:
        if not SYSTEM.background(lambda: ended.put(context.run(_raised_by, work)), "hook"):
            raise HookFailedError("cannot start a thread for the hook")
        raised = ended.get(timeout=seconds)
    except Empty:
        raise HookFailedError(f"gave up after {seconds:g} s; {on_late()}") from None
    except BaseException:
        on_late()
        raise
    if isinstance(raised, Exception):
        raise raised
    if raised is not None:
        # SystemExit and the like should end the thread, not the process that commits.
        raise HookFailedError(f"ended with {type(raised).__name__}: {raised}") from raised


def _raised_by(work: Callable[[], object]) -> BaseException | None:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 — the waiting thread raises it again
        return error
    return None
