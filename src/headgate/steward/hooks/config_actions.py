"""The actions that headgate.toml can name, and how to read each from its fields.

To add an action, add a line to the table. An action that needs more than its fields (objects of higher
layers, for example) is passed to `config_file.hooks_in` by those layers.

Every mistake in the fields of a table raises an error that names the file and the hook.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from headgate.core.input.arguments import nearest
from headgate.core.input.secrets import is_secret_name
from headgate.errors import InvalidInputError, UnsupportedError
from headgate.steward.hooks.command import Command
from headgate.steward.hooks.hook import Action
from headgate.steward.hooks.lines import Audit, Notify, lines_to
from headgate.steward.hooks.python import Python
from headgate.steward.hooks.webhook import Webhook

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fields:
    """A table of the file. `where` names it in errors; `asked` are the fields that were read."""

    values: Mapping[str, Any]
    where: str
    asked: set[str] = field(default_factory=set)

    def text(self, name: str) -> str:
        return str(
            self._found(name, "a non-empty string", lambda value: isinstance(value, str) and bool(value))
        )

    def optional_text(self, name: str) -> str | None:
        return None if self._is_absent(name) else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, which is required."""
        return tuple(self._found(name, 'a list of strings, such as ["…", "…"]', _are_texts))

    def optional_texts(self, name: str) -> tuple[str, ...]:
        return () if self._is_absent(name) else self.texts(name)

    def text_by_name(self, name: str) -> dict[str, str]:
        """A table of strings; an empty one if the field is missing."""
        inside = self.table(name)
        return {key: inside.text(key) for key in inside.values}

    def number(self, name: str, otherwise: int) -> int:
        return otherwise if self._is_absent(name) else int(self._found(name, "an integer", _is_whole))

    def seconds(self, name: str, otherwise: float) -> float:
        return otherwise if self._is_absent(name) else float(self._found(name, "a number", _is_number))

    def flag(self, name: str) -> bool:
        """The value of a boolean field; false if it is missing."""
        return not self._is_absent(name) and bool(
            self._found(name, "true or false", lambda value: isinstance(value, bool))
        )

    def table(self, name: str) -> Fields:
        """A nested table; an empty one if the field is missing."""
        if self._is_absent(name):
            return Fields({}, self.where)
        inside = self._found(name, f"a table, such as {name}.… = …", lambda value: isinstance(value, dict))
        return Fields(inside, f"{self.where}, {name}")

    def refuse_others(self) -> None:
        """Rejects fields that were not read. Call it last, after all known fields were read."""
        for name in self.values:
            if name not in self.asked:
                step = nearest(name, self.asked) or f"known: {', '.join(sorted(self.asked))}"
                raise InvalidInputError(f"{self.where}: unknown field {name!r}", step)

    def named(self, make: Callable[[], T]) -> T:
        """The result of `make`. Its errors get `where` in front, unless they already name it."""
        try:
            return make()
        except (InvalidInputError, UnsupportedError) as error:
            if error.problem.startswith(self.where):
                raise
            raise InvalidInputError(f"{self.where}: {error.problem}", error.next_step) from error

    def _is_absent(self, name: str) -> bool:
        self.asked.add(name)
        return name not in self.values

    def _found(self, name: str, kind: str, fits: Callable[[Any], bool]) -> Any:
        if self._is_absent(name):
            raise InvalidInputError(f"{self.where}: {name} is missing", f"set it to {kind}")
        value = self.values[name]
        if not fits(value):
            # The value is not shown: it may be a credential in the wrong field.
            told = "empty" if value == "" else f"a {_KINDS.get(type(value).__name__, type(value).__name__)}"
            raise InvalidInputError(f"{self.where}: {name} must be {kind}, but is {told}", "correct the file")
        return value


_KINDS = {"str": "string", "dict": "table", "int": "number", "float": "number", "bool": "boolean"}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


ReadAction: TypeAlias = Callable[[Fields, Path], Action]
"""Creates an action from the fields of its hook; the path is the directory of the file."""


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
                f"the option {name} looks like a credential", "keep it in the environment instead"
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
    """A path relative to the file that names it, so that the working directory does not matter."""
    given = fields.optional_text("file")
    if given is None:
        return None
    lines_to(given, None)  # before it becomes a path, which would hide a wrong value
    return directory / given


def _function(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        raise InvalidInputError(
            f"{name!r} does not name a function", 'write function = "package.module:name"'
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # user code can raise anything while it is imported
        told = f"{type(error).__name__}: {error}"
        raise InvalidInputError(f"cannot load {name}: {told}", "check that it is installed") from error
