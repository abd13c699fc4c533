"""Hooks: actions that run after a commit, registered by the process that runs them.

`Lake.open(…, hooks=[Hook("tell", Command(["notify-send", "new data"]))])`, or in a file that `load` reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headgate.compact_hook import Compact
from headgate.core.hook_rules import When
from headgate.errors import InvalidInputError
from headgate.lake import Lake
from headgate.model.commit_event import CommitEvent
from headgate.steward.hooks.audit import Audit
from headgate.steward.hooks.command import Command
from headgate.steward.hooks.config_actions import ACTIONS, ReadAction
from headgate.steward.hooks.config_fields import Fields
from headgate.steward.hooks.config_file import hooks_in
from headgate.steward.hooks.hook import Action, Hook
from headgate.steward.hooks.notify import Notify
from headgate.steward.hooks.python import Python
from headgate.steward.hooks.webhook import Webhook

if TYPE_CHECKING:
    from headgate.steward.replica.action import Replicate

__all__ = [
    "Action",
    "Audit",
    "Command",
    "CommitEvent",
    "Compact",
    "Hook",
    "Notify",
    "Python",
    "Replicate",
    "Webhook",
    "When",
    "load",
    "register",
]


def __getattr__(name: str) -> Any:
    if name == "Replicate":
        from headgate.steward.replica.action import Replicate  # loads pyiceberg, which few programs need

        return Replicate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _compact(fields: Fields, _: Path) -> Action:
    return Compact(fields.optional_texts("tables"))


KNOWN_ACTIONS: Mapping[str, ReadAction] = MappingProxyType({**ACTIONS, "compact": _compact})
"""The actions that a headgate.toml can name: those of the steward, and those that need a lake."""


def load(path: str | os.PathLike[str]) -> tuple[Hook, ...]:
    """The hooks of a `headgate.toml`, in the order in which they run, for `Lake.open(…, hooks=…)`.

    `InvalidInputError` names the file, the hook and the mistake. A file that lies in a lake is refused, also
    behind a symbolic link: a lake must not make other people's machines run commands.
    """
    return hooks_in(_path(path), KNOWN_ACTIONS)


def register(lake: Lake, path: str | os.PathLike[str]) -> None:
    """Registers the hooks of a `headgate.toml` with a lake, in which the file must not lie."""
    place = lake.place
    root = Path(place) if Path(place).is_absolute() else None
    for hook in hooks_in(_path(path), KNOWN_ACTIONS, root):
        lake.add_hook(hook)


def _path(path: str | os.PathLike[str]) -> Path:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if not text or "\0" in text:
        raise InvalidInputError(f"{path!r} is not the name of a file", "give a path, as headgate.toml")
    return Path(text)
