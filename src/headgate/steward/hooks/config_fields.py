"""Reading the fields of a table in headgate.toml: every mistake is an error that names file and hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headgate.core.lookup import nearest
from headgate.errors import InvalidInputError, UnsupportedError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fields:
    """A table of the file. `where` names it in errors; `asked` are the fields that somebody wanted."""

    values: Mapping[str, Any]
    where: str
    asked: set[str] = field(default_factory=set)

    def text(self, name: str) -> str:
        return str(self._found(name, "a text", lambda value: isinstance(value, str) and bool(value)))

    def optional_text(self, name: str) -> str | None:
        return None if self._is_absent(name) else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; one that must be there."""
        return tuple(self._found(name, 'a list of texts, as ["…", "…"]', _are_texts))

    def optional_texts(self, name: str) -> tuple[str, ...]:
        return () if self._is_absent(name) else self.texts(name)

    def text_by_name(self, name: str) -> dict[str, str]:
        """A table of texts; an empty one if it is not there."""
        inside = self.table(name)
        return {key: inside.text(key) for key in inside.values}

    def number(self, name: str, otherwise: int) -> int:
        return otherwise if self._is_absent(name) else int(self._found(name, "a whole number", _is_whole))

    def seconds(self, name: str, otherwise: float) -> float:
        return otherwise if self._is_absent(name) else float(self._found(name, "a number", _is_number))

    def table(self, name: str) -> Fields:
        """A table inside; an empty one if it is not there."""
        if self._is_absent(name):
            return Fields({}, self.where)
        inside = self._found(name, f"a table, as {name}.… = …", lambda value: isinstance(value, dict))
        return Fields(inside, f"{self.where}, {name}")

    def refuse_others(self) -> None:
        """Refuses fields that nobody has asked for. Last, when everything that is known was."""
        for name in self.values:
            if name not in self.asked:
                step = nearest(name, self.asked) or f"known: {', '.join(sorted(self.asked))}"
                raise InvalidInputError(f"{self.where}: there is no field {name!r}", step)

    def named(self, make: Callable[[], T]) -> T:
        """What `make` returns; what it refuses is said to be wrong here, unless it says so itself."""
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
            raise InvalidInputError(f"{self.where}: {name} is missing", f"give it {kind}")
        value = self.values[name]
        if not fits(value):
            # The value is not shown: it may be a credential in the wrong place.
            told = "empty" if value == "" else f"a {_KINDS.get(type(value).__name__, type(value).__name__)}"
            raise InvalidInputError(f"{self.where}: {name} must be {kind}, but is {told}", "correct the file")
        return value


_KINDS = {"str": "text", "dict": "table", "int": "number", "float": "number", "bool": "truth value"}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
