"""How commands print warnings after a commit, hooks and their state, and the result of recovery."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from headgate.cli.output import command_line, visible

if TYPE_CHECKING:
    from headgate.hooks import Hook, When
    from headgate.lake.lake import Lake
    from headgate.model.reports import RecoveryReport
    from headgate.steward.recovery import OpenHook

HOOK_COLUMNS = ("hook", "does", "when", "after", "attempts", "versions", "undo")
OPEN_COLUMNS = ("version", "hook", "state", "attempts", "registered", "why")


class Done(Protocol):
    """What the results of all committing commands have in common."""

    @property
    def version(self) -> int: ...
    @property
    def hook_failures(self) -> tuple[str, ...]: ...
    @property
    def clock_warning(self) -> str | None: ...


def tell_warnings(lake: Lake, done: Done) -> None:
    """Prints warnings of a successful commit on standard error: a wrong clock, hooks that are not done."""
    if done.clock_warning is not None:
        sys.stderr.write(f"headgate: version {done.version} is committed; {done.clock_warning}\n")
    tell_hook_failures(lake, done.version, done.hook_failures)


def tell_hook_failures(lake: Lake, version: int, failures: Sequence[str]) -> None:
    """Prints on standard error which hooks of a commit are not done. The commit itself succeeded."""
    for failure in failures:
        sys.stderr.write(
            f"headgate: version {version} is committed, but a hook is not done: {visible(failure)}\n"
        )
    if failures:
        sys.stderr.write(f"  next: {visible(command_line('hooks', 'retry', lake.place))}\n")


def hook_row(hook: Hook) -> tuple[str, ...]:
    """A line of `headgate hooks list`."""
    return (
        hook.name,
        hook.action.describe(),
        _when_text(hook.when),
        ", ".join(hook.after),
        str(hook.retry.attempts),
        "concurrent" if hook.concurrent else "in order",
        _undo_text(hook),
    )


def _undo_text(hook: Hook) -> str:
    parts = ["required"] if hook.required else []
    return "; ".join(parts if hook.undo is None else [*parts, hook.undo.describe()])


def _when_text(when: When) -> str:
    parts = [" or ".join(when.kinds)] if when.kinds else []
    parts += [f"of {' or '.join(when.tables)}"] if when.tables else []
    parts += [f"at {' or '.join(when.paths)}"] if when.paths else []
    parts += [f"by {' or '.join(when.users)}"] if when.users else []
    parts += [f"for {' or '.join(when.apps)}"] if when.apps else []
    parts += [f"with {when.min_rows:,} rows or more"] if when.min_rows else []
    return " ".join(parts) or "any commit"


def hook_json(hook: Hook) -> dict[str, Any]:
    return {
        "name": hook.name,
        "action": type(hook.action).__name__.lower(),
        "does": hook.action.describe(),
        "when": asdict(hook.when),
        "after": list(hook.after),
        "attempts": hook.retry.attempts,
        "concurrent": hook.concurrent,
        "wait_seconds": hook.wait.total_seconds(),
        "required": hook.required,
        "undo": None if hook.undo is None else hook.undo.describe(),
    }


def open_row(hook: OpenHook) -> tuple[str, ...]:
    """A line of `headgate hooks status`: a hook that is not done."""
    return (
        str(hook.version),
        hook.run.name,
        hook.run.shown_state,
        str(hook.run.attempts),
        "yes" if hook.registered else "no",
        _why(hook),
    )


def _why(hook: OpenHook) -> str:
    if not hook.recorded:
        return "its writer is still running, or died: run headgate recover"
    return hook.run.problem or "not tried yet"


def open_json(hook: OpenHook) -> dict[str, Any]:
    return {
        "version": hook.version,
        "name": hook.run.name,
        "state": hook.run.state.value,
        "attempts": hook.run.attempts,
        "seconds": hook.run.seconds,
        "error": hook.run.error,
        "undo": None if hook.run.undo is None else hook.run.undo.to_json(),
        "registered": hook.registered,
        "recorded": hook.recorded,
    }


def recovery_lines(report: RecoveryReport) -> list[str]:
    """What recovery did, for people."""
    lines = [f"checked versions {report.looked_from + 1} to {report.until}"]
    if report.until <= report.looked_from:
        lines = [f"no new versions: everything up to version {report.until} is already recovered"]
    if report.entries:
        made = ", ".join(map(str, report.entries))
        lines.append(f"wrote the missing control entries of versions {made}")
    if report.published:
        lines.append(f"published {', '.join(report.published)}")
    lines += [f"not published: {problem}" for problem in report.not_published]
    if report.checkpoints:
        lines.append(f"wrote the checkpoints of {', '.join(map(str, report.checkpoints))}")
    if report.cancelled_plans:
        plans = ", ".join(report.cancelled_plans)
        lines.append(f"version {report.cancelled_by}: cancelled abandoned plans: {plans}")
    lines += [f"hook done: version {hook}" for hook in report.hooks_done]
    lines += [f"hook open: version {hook}" for hook in report.hooks_open]
    return lines if report.changed or report.hooks_open else [*lines, "nothing to do"]


def recovery_json(report: RecoveryReport) -> dict[str, Any]:
    return {**asdict(report), "changed": report.changed}
