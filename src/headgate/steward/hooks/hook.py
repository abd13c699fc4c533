"""Hooks as they are registered: a name, an action, and when, in which order and how often it is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from headgate.core.conflict.retry import MAX_WAIT, RetryPolicy
from headgate.core.input.arguments import of_kind, texts
from headgate.core.plans.hooks import ANY_COMMIT, HookRule, When
from headgate.errors import InvalidInputError
from headgate.model.commit_event import CommitEvent

DEFAULT_RETRY = RetryPolicy(
    attempts=3, base=timedelta(milliseconds=200), cap=timedelta(seconds=5), total=timedelta(minutes=2)
)

DEFAULT_WAIT = timedelta(seconds=30)
"""How long a hook waits for earlier versions whose writers are still running."""


@runtime_checkable
class Action(Protocol):
    """What a hook does. It runs at least once for each commit that triggers it, and possibly more often."""

    def run(self, event: CommitEvent) -> None:
        """Runs the action; any exception is a failure.

        Must end by itself: an action that can hang needs a timeout.
        """
        ...

    def describe(self) -> str:
        """A description of what it does, for people, without credentials."""
        ...


@dataclass(frozen=True, slots=True)
class Hook:
    """An action that runs after a commit.

    `when` selects the commits that trigger it. `after` names hooks that must be done first, if the same
    commit triggers them. A failed action is retried with growing waits, up to `retry.attempts` attempts,
    until `retry.total` is over.

    A hook runs in the order of versions, one version at a time. For each version it waits until it has run
    for the earlier versions, at most for `wait`; after that it is left to recovery. A `concurrent` hook does
    not wait.

    If a `required` hook fails after all retries, the hooks that are already done for the same commit are
    undone, the last one first: the `undo` action of each, if it has one, runs with the same event and the
    same retry policy. The commit itself is not affected.
    """

    name: str
    action: Action
    after: Sequence[str] = ()
    when: When = ANY_COMMIT
    retry: RetryPolicy = DEFAULT_RETRY
    concurrent: bool = False
    wait: timedelta = DEFAULT_WAIT
    undo: Action | None = None
    required: bool = False

    def __post_init__(self) -> None:
        of_kind("the name of a hook", self.name, str)
        for action in (self.action, *(() if self.undo is None else (self.undo,))):
            if isinstance(action, type) or not isinstance(action, Action):
                raise InvalidInputError(
                    f"hook {self.name}: {_shown(action)} is not an action",
                    "use one of headgate.hooks, such as hooks.Command([…]) or hooks.Python(function)",
                )
        object.__setattr__(self, "after", texts(f"hook {self.name}: after", self.after))
        if not isinstance(self.when, When) or not isinstance(self.retry, RetryPolicy):
            raise InvalidInputError(f"hook {self.name}: when must be a When, and retry a RetryPolicy")
        if not isinstance(self.concurrent, bool) or not isinstance(self.required, bool):
            raise InvalidInputError(f"hook {self.name}: concurrent and required must be True or False")
        if not isinstance(self.wait, timedelta) or not timedelta(0) <= self.wait <= MAX_WAIT:
            raise InvalidInputError(
                f"hook {self.name}: wait must be a timedelta from 0 to one day",
                "write wait=timedelta(seconds=…)",
            )

    @property
    def rule(self) -> HookRule:
        return HookRule(self.name, tuple(self.after), self.when, self.concurrent, self.required)


def _shown(action: object) -> str:
    return f"the class {action.__name__}" if isinstance(action, type) else f"a {type(action).__name__}"
