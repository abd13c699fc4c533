"""Work of a hook that is given up when its time is over."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue

from headgate.errors import HookFailedError, InvalidInputError
from headgate.host import SYSTEM

MAX_SECONDS = 86_400.0


def checked_seconds(seconds: float) -> float:
    """A time-out that a caller gave."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= MAX_SECONDS:
        raise InvalidInputError(
            f"timeout_seconds must be a number above 0 and at most a day, but is {seconds!r}"
        )
    return float(seconds)


def _leave() -> str:
    return "it may still be at work"


def within(seconds: float, work: Callable[[], object], on_late: Callable[[], str] = _leave) -> None:
    """Does `work` in a thread of its own, and raises what it raised; after `seconds` it is given up.

    `on_late` is called then, and when the caller is interrupted; it returns what became of the work. The
    thread of what was given up is a daemon: it may go on, and ends with the process at the latest. A Ctrl-C
    comes to the caller, never to the work.
    """
    ended: SimpleQueue[BaseException | None] = SimpleQueue()
    context = copy_context()
    try:
        if not SYSTEM.background(lambda: ended.put(context.run(_raised_by, work)), "hook"):
            raise HookFailedError("no thread can be started for it")
        raised = ended.get(timeout=seconds)
    except Empty:
        raise HookFailedError(f"gave up after {seconds:g} s; {on_late()}") from None
    except BaseException:
        on_late()
        raise
    if isinstance(raised, Exception):
        raise raised
    if raised is not None:
        # SystemExit and the like are meant for the thread, and must not end the process that commits.
        raise HookFailedError(f"ended with {type(raised).__name__}: {raised}") from raised


def _raised_by(work: Callable[[], object]) -> BaseException | None:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 — raised again by whoever waits
        return error
    return None
