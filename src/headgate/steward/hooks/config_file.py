"""headgate.toml: hooks that a person registered on this machine."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from headgate.core.hook_rules import When, in_order
from headgate.core.lookup import nearest
from headgate.core.retry import RetryPolicy
from headgate.errors import InvalidInputError
from headgate.steward.hooks.config_actions import ReadAction
from headgate.steward.hooks.config_fields import Fields
from headgate.steward.hooks.config_place import trusted_file
from headgate.steward.hooks.hook import DEFAULT_RETRY, Action, Hook


def hooks_in(path: Path, actions: Mapping[str, ReadAction], root: Path | None = None) -> tuple[Hook, ...]:
    """The hooks of a file, in the order in which they run.

    `actions` are those that it can name. Every mistake is an `InvalidInputError` that names the file and the
    hook; so is a file that lies in a lake, also in the one at `root`.
    """
    real = trusted_file(path, root)
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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} is not TOML: {error}", "correct the file") from error
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error.strerror or error}", "check the path given with --config"
        ) from error


def _tables(fields: Fields, path: Path) -> list[dict[str, Any]]:
    given = fields.values.get("hooks", [])
    if not isinstance(given, list) or not all(isinstance(values, dict) for values in given):
        raise InvalidInputError(f"{path}: hooks is not a list of tables", "begin each hook with [[hooks]]")
    return given


def _hook(
    number: int, values: dict[str, Any], path: Path, directory: Path, actions: Mapping[str, ReadAction]
) -> Hook:
    unnamed = Fields(values, f"{path}, hook number {number}")
    name = unnamed.text("name")
    fields = Fields(values, f"{path}, hook {name}", unnamed.asked)
    action = fields.named(lambda: _action(fields, directory, actions))
    hook = fields.named(
        lambda: Hook(name, action, fields.optional_texts("after"), _when(fields), _retry(fields))
    )
    fields.refuse_others()
    fields.named(lambda: in_order([Hook(name, action).rule]))  # the name itself, while the place is known
    return hook


def _action(fields: Fields, directory: Path, actions: Mapping[str, ReadAction]) -> Action:
    given = fields.text("action")
    if given not in actions:
        step = nearest(given, actions) or f"actions: {', '.join(sorted(actions))}"
        raise InvalidInputError(f"there is no action {given!r}", step)
    return actions[given](fields, directory)


def _when(fields: Fields) -> When:
    given = fields.table("when")
    when = When(given.optional_texts("tables"), given.optional_texts("kinds"))
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
        raise InvalidInputError(f"{name} cannot be {seconds}", "give a number of seconds") from error
