"""How commands print hooks, what became of them, and what recovery did."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headgate.cli.output import command_line, visible

if TYPE_CHECKING:
    from headgate.hooks import Hook, When
    from headgate.lake import Lake
    from headgate.model.recovery import RecoveryReport
    from headgate.steward.recovery import OpenHook

HOOK_COLUMNS = ("hook", "does", "when", "after", "attempts")
OPEN_COLUMNS = ("version", "hook", "state", "attempts", "registered", "why")


def tell_hook_failures(lake: Lake, version: int, failures: Sequence[str]) -> None:
    """Says on standard error which hooks of a commit are not done. The commit itself stands."""
    for failure in failures:
        sys.stderr.write(
            f"headgate: version {version} is committed; a hook is not done: {visible(failure)}\n"
        )
    if failures:
        sys.stderr.write(f"  next: {visible(command_line('hooks', 'retry', lake.place))}\n")


def hook_row(hook: Hook) -> tuple[str, ...]:
    """A hook as a line of `headgate hooks list`."""
    return (
        hook.name,
        hook.action.describe(),
        _when_text(hook.when),
        ", ".join(hook.after),
        str(hook.retry.attempts),
    )


def _when_text(when: When) -> str:
    parts = [" or ".join(when.kinds)] if when.kinds else []
    parts += [f"of {' or '.join(when.tables)}"] if when.tables else []
    return " ".join(parts) or "any commit"


def hook_json(hook: Hook) -> dict[str, Any]:
    return {
        "name": hook.name,
        "action": type(hook.action).__name__.lower(),
        "does": hook.action.describe(),
        "when": {"tables": list(hook.when.tables), "kinds": list(hook.when.kinds)},
        "after": list(hook.after),
        "attempts": hook.retry.attempts,
    }


def open_row(hook: OpenHook) -> tuple[str, ...]:
    """A hook that is not done as a line of `headgate hooks status`."""
    return (
        str(hook.version),
        hook.run.name,
        hook.run.state.value,
        str(hook.run.attempts),
        "yes" if hook.registered else "no",
        _why(hook),
    )


def _why(hook: OpenHook) -> str:
    if not hook.recorded:
        return "its writer is at work, or died: headgate recover"
    return hook.run.error or "not tried yet"


def open_json(hook: OpenHook) -> dict[str, Any]:
    return {
        "version": hook.version,
        "name": hook.run.name,
        "state": hook.run.state.value,
        "attempts": hook.run.attempts,
        "seconds": hook.run.seconds,
        "error": hook.run.error,
        "registered": hook.registered,
        "recorded": hook.recorded,
    }


def recovery_lines(report: RecoveryReport) -> list[str]:
    """What recovery did, in plain words."""
    lines = [f"looked at versions {report.looked_from + 1} to {report.until}"]
    if report.until <= report.looked_from:
        lines = [f"nothing is new since version {report.until}, up to which all is well"]
    if report.entries:
        made = ", ".join(map(str, report.entries))
        lines.append(f"made the control entries that were missing, of versions {made}")
    if report.published:
        lines.append(f"published {', '.join(report.published)}")
    lines += [f"not published: {problem}" for problem in report.not_published]
    if report.checkpoints:
        lines.append(f"wrote the checkpoints of {', '.join(map(str, report.checkpoints))}")
    if report.cancelled_plans:
        plans = ", ".join(report.cancelled_plans)
        lines.append(f"version {report.cancelled_by}: gave up plans that nobody carries out: {plans}")
    lines += [f"hook done: version {hook}" for hook in report.hooks_done]
    lines += [f"hook open: version {hook}" for hook in report.hooks_open]
    return lines if report.changed or report.hooks_open else [*lines, "nothing was left to do"]


def recovery_json(report: RecoveryReport) -> dict[str, Any]:
    return {**asdict(report), "changed": report.changed}
