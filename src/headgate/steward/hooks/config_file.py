"""headgate.toml: hooks that a person registered on this machine.

A file inside a lake is rejected: people with write access to a lake on shared storage must not be able to
make other machines run commands.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from headgate.core.conflict.retry import RetryPolicy
from headgate.core.input.arguments import nearest
from headgate.core.plans.hooks import When, in_order
from headgate.errors import InvalidInputError
from headgate.log.layout import IDENTITY, LOG
from headgate.steward.hooks.config_actions import Fields, ReadAction
from headgate.steward.hooks.hook import DEFAULT_RETRY, DEFAULT_WAIT, Action, Hook


def hooks_in(path: Path, actions: Mapping[str, ReadAction], root: Path | None = None) -> tuple[Hook, ...]:
    """The hooks of a file, in the order in which they run.

    `actions` are the actions that the file can name. Every mistake raises an `InvalidInputError` that names
    the file and the hook, and so does a file inside a lake, including the one at `root`.
    """
    try:
        real = trusted_file(path, root)
    except (OSError, UnicodeEncodeError) as error:  # an impossible name, or an unreadable directory
        raise _unreadable(path, error) from error
    fields = Fields(_content(real, path), str(path))
    fields.asked.add("hooks")
    fields.refuse_others()
    hooks = [
        _hook(number, values, path, real.parent, actions)
        for number, values in enumerate(_tables(fields, path), 1)
    ]
    order = fields.named(lambda: in_order([hook.rule for hook in hooks]))
    by_name = {hook.name: hook for hook in hooks}
    return tuple(by_name[rule.name] for rule in order)


def _content(real: Path, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(real.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{path} is not valid TOML: {error}", "correct the file") from error
    except (OSError, UnicodeEncodeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError | UnicodeEncodeError) -> InvalidInputError:
    reason = error.strerror if isinstance(error, OSError) else None
    return InvalidInputError(f"cannot read {path}: {reason or error}", "check the path given with --config")


def _tables(fields: Fields, path: Path) -> list[dict[str, Any]]:
    given = fields.values.get("hooks", [])
    if not isinstance(given, list) or not all(isinstance(values, dict) for values in given):
        raise InvalidInputError(f"{path}: hooks must be a list of tables", "begin each hook with [[hooks]]")
    return given


def _hook(
    number: int, values: dict[str, Any], path: Path, directory: Path, actions: Mapping[str, ReadAction]
) -> Hook:
    unnamed = Fields(values, f"{path}, hook number {number}")
    name = unnamed.text("name")
    fields = Fields(values, f"{path}, hook {name}", unnamed.asked)
    action = fields.named(lambda: _action(fields, directory, actions))
    undo = fields.named(lambda: _undo(fields, directory, actions))
    hook = fields.named(lambda: _registered(name, action, undo, fields))
    fields.refuse_others()
    fields.named(
        lambda: in_order([Hook(name, action).rule])
    )  # checks the name here, where the error can name the file
    return hook


def _registered(name: str, action: Action, undo: Action | None, fields: Fields) -> Hook:
    return Hook(
        name,
        action,
        fields.optional_texts("after"),
        _when(fields),
        _retry(fields),
        concurrent=fields.flag("concurrent"),
        wait=_time(fields, "wait_seconds", DEFAULT_WAIT),
        undo=undo,
        required=fields.flag("required"),
    )


def _undo(fields: Fields, directory: Path, actions: Mapping[str, ReadAction]) -> Action | None:
    """The action that undoes what a hook did, from a table with the same fields as a hook."""
    given = fields.table("undo")
    if not given.values:
        return None
    action = given.named(lambda: _action(given, directory, actions))
    given.refuse_others()
    return action


def _action(fields: Fields, directory: Path, actions: Mapping[str, ReadAction]) -> Action:
    given = fields.text("action")
    if given not in actions:
        step = nearest(given, actions) or f"actions: {', '.join(sorted(actions))}"
        raise InvalidInputError(f"unknown action {given!r}", step)
    return actions[given](fields, directory)


def _when(fields: Fields) -> When:
    given = fields.table("when")
    when = When(
        given.optional_texts("tables"),
        given.optional_texts("kinds"),
        given.number("min_rows", 0),
        given.optional_texts("paths"),
        given.optional_texts("users"),
        given.optional_texts("apps"),
    )
    given.refuse_others()
    return when


def _retry(fields: Fields) -> RetryPolicy:
    given, usual = fields.table("retry"), DEFAULT_RETRY
    policy = RetryPolicy(
        given.number("attempts", usual.attempts),
        _time(given, "base_seconds", usual.base),
        _time(given, "cap_seconds", usual.cap),
        _time(given, "total_seconds", usual.total),
    )
    given.refuse_others()
    return policy


def _time(fields: Fields, name: str, otherwise: timedelta) -> timedelta:
    seconds = fields.seconds(name, otherwise.total_seconds())
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise InvalidInputError(
            f"{name} must be a valid number of seconds, but is {seconds}", "give a number of seconds"
        ) from error


MAX_LINKS = 40


def trusted_file(path: Path, root: Path | None = None) -> Path:
    """The real path of a file, if neither the file nor a symbolic link that leads to it is inside a lake.

    A lake is any directory that looks like one, and `root`, the directory of the current lake. Hard links,
    and storage that is also mounted elsewhere, cannot be detected.
    """
    roots = () if root is None else (root.resolve(),)
    *links, real = _on_the_way(path)
    for place in (*links, real):
        lake = next((above for above in place.parents if above in roots or _is_lake(above)), None)
        if lake is not None:
            how = (
                f"{path} is inside the lake {lake}"
                if place == real
                else f"{path} leads through the lake {lake}"
            )
            raise InvalidInputError(
                f"{how}, and Headgate never reads hooks from a lake: people with write access to the lake "
                "could "
                "run commands here",
                "keep the file outside of the lake, and name it with --config or HEADGATE_CONFIG",
            )
    return real


def _is_lake(directory: Path) -> bool:
    return any(os.path.lexists(directory / sign) for sign in (IDENTITY, LOG.rstrip("/")))


def _on_the_way(path: Path) -> Iterator[Path]:
    """The real location of every symbolic link that is followed, and finally the real path of the file."""
    whole = Path.cwd() / path
    current, left, links = Path(whole.anchor), [*reversed(whole.parts[1:])], 0
    while left:
        part = left.pop()
        step = current.parent if part == ".." else current / part
        if not step.is_symlink():
            current = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise InvalidInputError(f"{path} leads through too many symbolic links", "name the file itself")
        yield step
        target = step.readlink()
        current = Path(target.anchor) if target.is_absolute() else current
        left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    yield current
