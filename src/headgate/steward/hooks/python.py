"""The action `python`: calls a function with the event."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headgate.errors import InvalidInputError
from headgate.model.commit_event import CommitEvent
from headgate.steward.hooks.deadline import checked_seconds, within


@dataclass(frozen=True, slots=True)
class Python:
    """Calls `function` with the `CommitEvent`, in a thread of its own. The hook fails if the function raises.

    The hook also fails if the function has not returned after `timeout_seconds`. Its thread cannot be
    stopped: it may still be running while the hook is retried.
    """

    function: Callable[[CommitEvent], object]
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        checked_seconds(self.timeout_seconds)
        if not callable(self.function):
            raise InvalidInputError(
                f"function must be callable, but is a {type(self.function).__name__}",
                "give a function that takes the event",
            )
        if inspect.iscoroutinefunction(self.function):
            raise InvalidInputError(
                f"{_name(self.function)} is asynchronous, and the hook would not wait for it",
                "give a plain function, which may call asyncio.run",
            )

    def run(self, event: CommitEvent) -> None:
        within(self.timeout_seconds, partial(self.function, event))

    def describe(self) -> str:
        return f"calls {_name(self.function)}"


def _name(function: Callable[[CommitEvent], object]) -> str:
    # For a callable object, the name of its type: its repr may reveal what it contains.
    named = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None)
    return named.__qualname__ if module is None else f"{module}.{named.__qualname__}"
