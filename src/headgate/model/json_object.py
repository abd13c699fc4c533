"""Reading JSON objects that came from storage: every surprise is a `CorruptLakeError` that names the object.

Writing is canonical (sorted keys, no spaces), so that equal values are equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar

from headgate.errors import CorruptLakeError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
T = TypeVar("T")

MAX_NUMBER = 2**63 - 1


def encode(value: Json) -> bytes:
    """Canonical bytes of `value`."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data: bytes) -> str:
    """The fingerprint of an object's bytes, as written into the next record."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def timestamp(at: datetime) -> str:
    """A moment as text: UTC, microseconds, a fixed width."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object together with the name of the place it came from."""

    fields: Mapping[str, Json]
    origin: str

    @classmethod
    def parse(cls, data: bytes, origin: str) -> JsonObject:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CorruptLakeError(f"{origin} is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise CorruptLakeError(f"{origin} holds a JSON {type(value).__name__}, not an object")
        return cls(value, origin)

    def _typed(self, name: str, kind: type[T], value: Json) -> T:
        # bool is a subclass of int, and never what a number field means.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise CorruptLakeError(
                f"{self.origin}: field {name!r} should be a {kind.__name__}, but is {json.dumps(value)[:80]}"
            )
        return value

    def _value(self, name: str) -> Json:
        if name not in self.fields:
            raise CorruptLakeError(f"{self.origin}: field {name!r} is missing")
        return self.fields[name]

    def text(self, name: str) -> str:
        return self._typed(name, str, self._value(name))

    def number(self, name: str) -> int:
        number = self._typed(name, int, self._value(name))
        if number < 0:
            raise CorruptLakeError(f"{self.origin}: field {name!r} should not be negative, but is {number}")
        if number > MAX_NUMBER:
            raise CorruptLakeError(f"{self.origin}: field {name!r} is larger than any number we write")
        return number

    def moment(self, name: str) -> datetime:
        text = self.text(name)
        try:
            return datetime.fromisoformat(text)
        except ValueError as error:
            raise CorruptLakeError(f"{self.origin}: field {name!r} is not a time: {text[:80]!r}") from error

    def optional_text(self, name: str) -> str | None:
        return None if self.fields.get(name) is None else self.text(name)

    def optional_number(self, name: str) -> int | None:
        return None if self.fields.get(name) is None else self.number(name)

    def object(self, name: str) -> JsonObject:
        value: dict[str, Json] = self._typed(name, dict, self._value(name))
        return JsonObject(value, f"{self.origin}, field {name!r}")

    def optional_object(self, name: str) -> JsonObject | None:
        return None if self.fields.get(name) is None else self.object(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; an absent field is an empty one."""
        value: list[Json] = self._typed(name, list, self.fields.get(name, []))
        return tuple(self._typed(name, str, item) for item in value)

    def text_by_name(self, name: str) -> dict[str, str]:
        """An object of strings; an absent field is an empty one."""
        value: dict[str, Json] = self._typed(name, dict, self.fields.get(name, {}))
        return {key: self._typed(name, str, item) for key, item in value.items()}

    def unknown(self, *known: str) -> dict[str, Json]:
        """The fields that this release does not know, to be written back untouched."""
        return {name: value for name, value in self.fields.items() if name not in known}

    def objects(self, name: str) -> Iterator[JsonObject]:
        """A list of objects; an absent field is an empty one."""
        value: list[Json] = self._typed(name, list, self.fields.get(name, []))
        for position, item in enumerate(value):
            inside: dict[str, Json] = self._typed(name, dict, item)
            yield JsonObject(inside, f"{self.origin}, {name}[{position}]")

    def objects_by_name(self, name: str) -> Iterator[tuple[str, JsonObject]]:
        """The objects inside an object; an absent field is an empty one."""
        if name in self.fields:
            inside = self.object(name)
            for key in inside.fields:
                yield key, inside.object(key)
