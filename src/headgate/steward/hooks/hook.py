"""Hooks as they are registered: a name, an action, and when, in which order and how patiently to run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from headgate.core.arguments import texts
from headgate.core.hook_rules import ANY_COMMIT, HookRule, When
from headgate.core.retry import RetryPolicy
from headgate.errors import InvalidInputError
from headgate.model.commit_event import CommitEvent

DEFAULT_RETRY = RetryPolicy(
    attempts=3, base=timedelta(milliseconds=200), cap=timedelta(seconds=5), total=timedelta(minutes=2)
)


@runtime_checkable
class Action(Protocol):
    """What a hook does. Run at least once for each commit that it is due for, and perhaps again."""

    def run(self, event: CommitEvent) -> None:
        """Does it; whatever it raises is a failure. Ends by itself: an action that can hang has a timeout."""
        ...

    def describe(self) -> str:
        """What it does, for people, without credentials."""
        ...


@dataclass(frozen=True, slots=True)
class Hook:
    """An action that runs after a commit.

    `after` names hooks that must be done first, where they are due for the same commit; `when` says for which
    commits it is due. It is tried `retry.attempts` times, with a wait that grows in between, and not again
    once `retry.total` is over.
    """

    name: str
    action: Action
    after: Sequence[str] = ()
    when: When = ANY_COMMIT
    retry: RetryPolicy = DEFAULT_RETRY

    def __post_init__(self) -> None:
        if isinstance(self.action, type) or not isinstance(self.action, Action):
            raise InvalidInputError(
                f"hook {self.name}: {_shown(self.action)} is not an action",
                "use one of headgate.hooks, such as hooks.Command([…]) or hooks.Python(function)",
            )
        object.__setattr__(self, "after", texts(f"hook {self.name}: after", self.after))
        if not isinstance(self.when, When) or not isinstance(self.retry, RetryPolicy):
            raise InvalidInputError(f"hook {self.name}: when takes a When, and retry a RetryPolicy")

    @property
    def rule(self) -> HookRule:
        return HookRule(self.name, tuple(self.after), self.when)


def _shown(action: object) -> str:
    return f"the class {action.__name__}" if isinstance(action, type) else f"a {type(action).__name__}"
