"""The actions that headgate.toml can name, and how each is read from its fields.

Another action joins by a line in the table. One that needs more than its fields, as the objects of the layers
above, is given to `config_file.hooks_in` by those.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from headgate.core.secrets import is_secret_name
from headgate.errors import InvalidInputError
from headgate.steward.hooks.audit import Audit
from headgate.steward.hooks.command import Command
from headgate.steward.hooks.config_fields import Fields
from headgate.steward.hooks.hook import Action
from headgate.steward.hooks.lines import lines_to
from headgate.steward.hooks.notify import Notify
from headgate.steward.hooks.python import Python
from headgate.steward.hooks.webhook import Webhook

ReadAction: TypeAlias = Callable[[Fields, Path], Action]
"""Makes an action from the fields of its hook; the path is the directory of the file."""


def _python(fields: Fields, _: Path) -> Action:
    return Python(_function(fields.text("function")), fields.seconds("timeout_seconds", 60.0))


def _command(fields: Fields, _: Path) -> Action:
    return Command(fields.texts("command"), fields.seconds("timeout_seconds", 60.0))


def _webhook(fields: Fields, _: Path) -> Action:
    return Webhook(
        fields.text("url"), fields.optional_text("key_env"), fields.seconds("timeout_seconds", 10.0)
    )


def _notify(fields: Fields, directory: Path) -> Action:
    return Notify(_file(fields, directory), fields.optional_text("stream"))


def _audit(fields: Fields, directory: Path) -> Action:
    return Audit(_file(fields, directory), fields.optional_text("stream"))


def _replicate(fields: Fields, directory: Path) -> Action:
    from headgate.steward.replica.action import Replicate  # loads pyiceberg, which other hooks do not need

    target, options = fields.text("target"), fields.text_by_name("options")
    for name in options:
        if is_secret_name(name):
            raise InvalidInputError(
                f"the option {name} says that its value is a credential", "keep it in the environment"
            )
    return Replicate(target if "://" in target else directory / target, options=options)


ACTIONS: Mapping[str, ReadAction] = MappingProxyType(
    {
        "audit": _audit,
        "command": _command,
        "notify": _notify,
        "python": _python,
        "replicate": _replicate,
        "webhook": _webhook,
    }
)


def _file(fields: Fields, directory: Path) -> Path | None:
    """Relative to the file that names it, so that it does not matter where the program was started."""
    given = fields.optional_text("file")
    if given is None:
        return None
    lines_to(given, None)  # before a path is made of it: what is wrong with it would not be seen any more
    return directory / given


def _function(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        raise InvalidInputError(f"{name!r} is not a function", 'write function = "package.module:name"')
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # code of others: whatever it raises while it is loaded
        told = f"{type(error).__name__}: {error}"
        raise InvalidInputError(f"{name} cannot be loaded: {told}", "check that it is installed") from error
