"""Runs hooks one after the other with retries; a failed hook stops only the hooks that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headgate.core.conflict.retry import delay_seconds
from headgate.core.input.secrets import clean_text
from headgate.core.plans.hooks import HookRule, due, failed_required, held_up_by, in_order
from headgate.errors import HeadgateError, HookFailedError, InvalidInputError
from headgate.model.commit_event import CommitEvent
from headgate.model.control_entry import HookRun, HookState, UndoRun
from headgate.model.record import Record
from headgate.steward.hooks.hook import Action, Hook
from headgate.steward.hooks.nesting import running
from headgate.system.host import Host

MAX_ERROR = 1000
"""How many characters of an error are stored."""
MAX_SEARCHED = 65_536


def _unobstructed(_: Hook) -> None:
    return None


class HookRunner:
    """The hooks that this process has registered."""

    def __init__(self, host: Host, hooks: Sequence[Hook] = ()) -> None:
        for hook in hooks:
            if not isinstance(hook, Hook):
                raise InvalidInputError(
                    f"hooks must be Hook objects, but one is a {type(hook).__name__}",
                    "use Hook(name, action)",
                )
        self._host = host
        self._rules = {rule.name: rule for rule in in_order([hook.rule for hook in hooks])}
        self._hooks = {hook.name: hook for hook in hooks}
        self.rules: tuple[HookRule, ...] = tuple(self._rules.values())
        """What decides about the turns of hooks, in the order in which they run."""
        self.hooks: tuple[Hook, ...] = tuple(self._hooks[name] for name in self._rules)
        """All hooks, in the order in which they run."""

    def with_hook(self, hook: Hook) -> HookRunner:
        """These hooks and one more. Raises `InvalidInputError` if they would wait for each other."""
        return HookRunner(self._host, (*self._hooks.values(), hook))

    def due(self, record: Record) -> tuple[str, ...]:
        """The hooks that a commit triggers, in order."""
        return due(self.rules, record)

    def run(
        self,
        event: CommitEvent,
        runs: Sequence[HookRun],
        *,
        retry: bool = False,
        obstacle: Callable[[Hook], str | None] = _unobstructed,
    ) -> tuple[HookRun, ...]:
        """Runs the pending hooks of `runs` that are registered here; with `retry` failed ones too.

        Before each hook, `obstacle` returns why it cannot run, or None. The failure of a hook does not raise:
        the result contains the state of each hook, in the same order.
        """
        known = {run.name: run for run in runs}
        wanted = {HookState.PENDING, HookState.FAILED} if retry else {HookState.PENDING}
        for name in [name for name in self._rules if name in known and known[name].state in wanted]:
            waits_for = held_up_by(self._rules[name], known)
            reason = f"waits for {', '.join(waits_for)}" if waits_for else None
            reason = reason or self._given_up(name, known, retry) or obstacle(self._hooks[name])
            if reason is None:
                known[name] = self._try_hook(self._hooks[name], event, known[name])
            elif known[name].state is HookState.PENDING or waits_for:
                known[name] = replace(known[name], state=HookState.PENDING, error=reason)
        return tuple(known[run.name] for run in runs)

    def _given_up(self, name: str, known: Mapping[str, HookRun], retry: bool) -> str | None:
        """Why a required hook prevents this one; None if no required one failed, or it will be retried."""
        # With `retry`, a required hook later in the order is retried later; earlier ones were already
        # retried.
        rules = self.rules[: list(self._rules).index(name)] if retry else self.rules
        failed = failed_required(rules, known.values())
        return None if failed is None else f"not run: the required hook {failed} failed"

    def undo(
        self, event: CommitEvent, runs: Sequence[HookRun], *, retry: bool = False
    ) -> tuple[HookRun, ...]:
        """Undoes the hooks that are marked for it and registered here, in reverse order.

        With `retry`, also those whose undo has failed. A failure does not stop the others.
        """
        known = {run.name: run for run in runs}
        wanted = {HookState.PENDING, HookState.FAILED} if retry else {HookState.PENDING}
        for name in reversed(self._rules):
            run, hook = known.get(name), self._hooks[name]
            if (
                run is not None
                and run.undo is not None
                and run.undo.state in wanted
                and hook.undo is not None
            ):
                attempts, error, _ = self._attempt(hook, hook.undo, event)
                state = HookState.DONE if error is None else HookState.FAILED
                known[name] = replace(run, undo=UndoRun(state, run.undo.attempts + attempts, error))
        return tuple(known[run.name] for run in runs)

    def to_undo(self, runs: Sequence[HookRun]) -> tuple[HookRun, ...]:
        """The same runs, with marks on those that must be undone because a required hook has failed."""
        if failed_required(self.rules, runs) is None:
            return tuple(runs)
        with_undo = {hook.name for hook in self._hooks.values() if hook.undo is not None}
        return tuple(
            replace(run, undo=UndoRun())
            if run.state is HookState.DONE and run.undo is None and run.name in with_undo
            else run
            for run in runs
        )

    def _try_hook(self, hook: Hook, event: CommitEvent, before: HookRun) -> HookRun:
        attempts, error, seconds = self._attempt(hook, hook.action, event)
        return replace(
            before,
            state=HookState.DONE if error is None else HookState.FAILED,
            attempts=before.attempts + attempts,
            seconds=before.seconds + seconds,
            error=error,
        )

    def _attempt(self, hook: Hook, action: Action, event: CommitEvent) -> tuple[int, str | None, float]:
        """Runs an action with retries.

        Returns the number of attempts, the error if it failed, and the seconds.
        """
        started, attempt = self._host.elapsed(), 0
        while True:
            attempt += 1
            error = _failure(hook, action, event)
            seconds = self._host.elapsed() - started
            left = hook.retry.total.total_seconds() - seconds
            if error is None or left <= 0 or attempt == hook.retry.attempts:
                return attempt, error, seconds
            # `attempt + 1` skips the immediate first retry of the policy, which rarely helps a hook.
            self._host.sleep(min(left, delay_seconds(hook.retry, attempt + 1, self._host.chance())))


def _failure(hook: Hook, action: Action, event: CommitEvent) -> str | None:
    """Runs the action once, and returns its error if it failed. Only a Ctrl-C is raised."""
    try:
        with running(event.lake_id, hook.name):
            action.run(event)
    except (Exception, SystemExit) as error:  # noqa: BLE001 — code of others: all it raises is its failure
        return _error_text(error)
    return None


def _error_text(error: BaseException) -> str:
    """The text of an error that can be stored: bounded, without secrets, valid Unicode."""
    try:
        text = error.problem if isinstance(error, HeadgateError) else str(error)
    except Exception:  # noqa: BLE001 — user code: even `str` of the error may fail
        text = ""
    name = "" if isinstance(error, HookFailedError) and text else type(error).__name__
    # Cut twice: searching huge texts is too expensive, and half of a secret would not be recognised.
    cleaned = clean_text(": ".join(part for part in (name, text[:MAX_SEARCHED]) if part))
    return cleaned.encode(errors="backslashreplace").decode()[:MAX_ERROR]
