"""Running hooks: one after the other, each tried again, none in the way of those that do not need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headgate.core.hook_rules import due, held_up_by, in_order
from headgate.core.retry import delay_seconds
from headgate.core.secrets import clean_text
from headgate.errors import HeadgateError, HookFailedError, InvalidInputError
from headgate.host import Host
from headgate.model.commit_event import CommitEvent
from headgate.model.control_entry import HookRun, HookState
from headgate.model.record import Record
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.nesting import running

MAX_ERROR = 1000
"""How many characters of an error are kept."""
MAX_SEARCHED = 65_536


class HookRunner:
    """The hooks that this process has registered."""

    def __init__(self, host: Host, hooks: Sequence[Hook] = ()) -> None:
        for hook in hooks:
            if not isinstance(hook, Hook):
                raise InvalidInputError(f"a {type(hook).__name__} is not a hook", "use Hook(name, action)")
        self._host = host
        self._rules = {rule.name: rule for rule in in_order([hook.rule for hook in hooks])}
        self._hooks = {hook.name: hook for hook in hooks}

    def with_hook(self, hook: Hook) -> HookRunner:
        """These and one more; refused if they then wait for each other."""
        return HookRunner(self._host, (*self._hooks.values(), hook))

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All hooks, in the order in which they run."""
        return tuple(self._hooks[name] for name in self._rules)

    def due(self, record: Record) -> tuple[str, ...]:
        """The hooks that a commit asks for, in order."""
        return due(tuple(self._rules.values()), record)

    def run(self, event: CommitEvent, runs: Sequence[HookRun], *, retry: bool = False) -> tuple[HookRun, ...]:
        """Runs those of `runs` that are pending, and with `retry` those that have failed, if registered here.

        Never raises for a failure of a hook: what became of each is in the result, in the same order.
        """
        known = {run.name: run for run in runs}
        wanted = {HookState.PENDING, HookState.FAILED} if retry else {HookState.PENDING}
        for name in [name for name in self._rules if name in known and known[name].state in wanted]:
            waits_for = held_up_by(self._rules[name], known)
            if waits_for:
                told = f"waits for {', '.join(waits_for)}"
                known[name] = replace(known[name], state=HookState.PENDING, error=told)
            else:
                known[name] = self._tried(self._hooks[name], event, known[name])
        return tuple(known[run.name] for run in runs)

    def _tried(self, hook: Hook, event: CommitEvent, before: HookRun) -> HookRun:
        started = self._host.elapsed()
        run = before
        for attempt in range(1, hook.retry.attempts + 1):
            error = _failure(hook, event)
            seconds = before.seconds + self._host.elapsed() - started
            attempts = before.attempts + attempt
            if error is None:
                return HookRun(hook.name, HookState.DONE, attempts, seconds)
            run = HookRun(hook.name, HookState.FAILED, attempts, seconds, error)
            left = hook.retry.total.total_seconds() - (self._host.elapsed() - started)
            if left <= 0 or attempt == hook.retry.attempts:
                break
            # The policy lets the first repetition go at once, which a hook's cause seldom forgives.
            self._host.sleep(min(left, delay_seconds(hook.retry, attempt + 1, self._host.chance())))
        return run


def _failure(hook: Hook, event: CommitEvent) -> str | None:
    """Runs the action once; what it said if it failed. Only a Ctrl-C gets through."""
    try:
        with running(event.lake_id, hook.name):
            hook.action.run(event)
    except (Exception, SystemExit) as error:  # noqa: BLE001 — code of others: all it raises is its failure
        return _told(error)
    return None


def _told(error: BaseException) -> str:
    """An error as it can be kept on storage: bounded, without secrets, valid Unicode."""
    try:
        text = error.problem if isinstance(error, HeadgateError) else str(error)
    except Exception:  # noqa: BLE001 — code of others: an error may fail to say what it is
        text = ""
    name = "" if isinstance(error, HookFailedError) and text else type(error).__name__
    # Cut twice: what is enormous is not worth searching, and half of a secret would not be recognised.
    cleaned = clean_text(": ".join(part for part in (name, text[:MAX_SEARCHED]) if part))
    return cleaned.encode(errors="backslashreplace").decode()[:MAX_ERROR]
