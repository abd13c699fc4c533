"""Hooks: actions that run after a commit, registered by the process that runs them.

Pass them to `Lake.open(…, hooks=[Hook("notify", Command(["notify-send", "new data"]))])`, or register them in
a file that `load` reads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headgate.core.input.arguments import of_kind, texts
from headgate.core.plans.hooks import When
from headgate.errors import HeadgateError, InvalidInputError, shown
from headgate.lake.lake import Lake
from headgate.model.commit_event import CommitEvent
from headgate.steward.hooks.command import Command
from headgate.steward.hooks.config_actions import ACTIONS, Fields, ReadAction
from headgate.steward.hooks.config_file import hooks_in
from headgate.steward.hooks.hook import Action, Hook
from headgate.steward.hooks.lines import Audit, Notify
from headgate.steward.hooks.python import Python
from headgate.steward.hooks.webhook import Webhook
from headgate.storage.capabilities import Store
from headgate.storage.location import Options
from headgate.system.host import renew_after_fork

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

    Raises `InvalidInputError`, which names the file, the hook and the mistake. A file inside a lake is
    rejected, also behind a symbolic link: a lake must not make other people's machines run commands.
    """
    return hooks_in(_path(path), KNOWN_ACTIONS)


def register(lake: Lake, path: str | os.PathLike[str]) -> None:
    """Registers the hooks of a `headgate.toml` with a lake. The file must not be inside that lake."""
    place = of_kind("the lake", lake, Lake).place
    root = Path(place) if Path(place).is_absolute() else None
    for hook in hooks_in(_path(path), KNOWN_ACTIONS, root):
        lake.add_hook(hook)


def _path(path: str | os.PathLike[str]) -> Path:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if not text or "\0" in text:
        raise InvalidInputError(f"{shown(path)} is not a file name", "give a path, such as headgate.toml")
    return Path(text)


class Compact:
    """Compacts what is ready in the lake of the commit: in all of its tables, or in `tables`.

    The lake is opened at the location in the event, with credentials from the environment, unless you give
    `place` and `options`. It stays open from one commit to the next, so that a commit that completes no
    window costs only a read of the log. Commits of the compaction trigger no hooks, neither this one nor
    others.
    """

    def __init__(
        self,
        tables: tuple[str, ...] = (),
        *,
        place: str | os.PathLike[str] | Store | None = None,
        options: Options | None = None,
    ) -> None:
        self._tables = texts("tables", tables)
        self._place = place
        self._options = options
        self._lake: Lake | None = None
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._lake = None

    def run(self, event: CommitEvent) -> None:
        # One at a time: a thread that waited finds the work already done.
        with self._lock:
            try:
                lake = self._open(event)
                for table in self._tables or (None,):
                    lake.compact(table=table)
            except HeadgateError:
                # The open lake itself may be what fails; the next try opens it again.
                self._lake = None
                raise

    def describe(self) -> str:
        return f"compact {', '.join(self._tables) or 'all tables'}"

    def _open(self, event: CommitEvent) -> Lake:
        if self._lake is None or self._lake.id != event.lake_id:
            lake = Lake.open(self._place or event.place, options=self._options)
            if lake.id != event.lake_id:
                raise InvalidInputError(
                    f"the commit belongs to the lake {event.lake_id}, but the lake at {lake.place} is "
                    f"{lake.id}",
                    "check the location that the hook opens",
                )
            self._lake = lake
        return self._lake
