"""Reads JSON objects from storage: anything unexpected is a `CorruptLakeError` that names the object.

Writing is canonical (sorted keys, no spaces), so that equal values have equal bytes.

Why no codec library: a reader has one line per field, and a library would not make it shorter. msgspec 0.21,
for example, writes some floats and timestamps as other bytes (1e-05 as 0.00001), and drops the fields of
later releases, which control entries keep. A value whose stored form differs from its fields (ids, fields
that may be wrong without harm) needs a second class with all fields once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from headgate.errors import CorruptLakeError
from headgate.model.identifiers import MAX_NUMBER, Version
from headgate.model.limits import JSON_LISTS, JSON_VALUES

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
T = TypeVar("T")

MAX_DEPTH = 100
"""How deep lists and objects may be nested. What is read must also be possible to write and print."""


def encode(value: Json) -> bytes:
    """Canonical bytes of `value`."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data: bytes) -> str:
    """The fingerprint of an object's bytes, as it is written into the next record."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def timestamp(at: datetime) -> str:
    """A timestamp as text: UTC, microseconds, a fixed width."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def is_deep(value: dict[str, Json], most: int) -> bool:
    """Whether lists and objects are nested more than `most` deep."""
    layer: list[Any] = [value]
    for _ in range(most):
        # Compares exact types, which are what JSON yields: a record of many partitions has thousands of
        # these.
        layer = [
            item
            for outer in layer
            for item in (outer.values() if type(outer) is dict else outer)
            if type(item) is dict or type(item) is list
        ]
        if not layer:
            return False
    return True


_NAMES: Mapping[type, str] = MappingProxyType(
    {
        bool: "true or false",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
)
"""What errors call the types of JSON values."""


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object together with the name of the object that it came from."""

    fields: Mapping[str, Json]
    origin: str

    @classmethod
    def parse(cls, data: bytes, origin: str) -> JsonObject:
        _require_few_values(origin, data)
        try:
            value = json.loads(data.decode())  # given bytes, it would accept other encodings than UTF-8 too
            if b"\\ud" in data or b"\\uD" in data:
                encode(value)  # half of a surrogate pair can be written as an escape, but cannot be encoded
        except (ValueError, RecursionError) as error:
            raise CorruptLakeError(f"{origin} is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise CorruptLakeError(f"{origin} must contain an object, not {_NAMES[type(value)]}")
        if data.count(b"[") + data.count(b"{") > MAX_DEPTH and is_deep(value, MAX_DEPTH):
            raise CorruptLakeError(f"{origin} has lists or objects nested more than {MAX_DEPTH} deep")
        return cls(value, origin)

    def _typed(self, name: str, kind: type[T], value: Json) -> T:
        if type(value) is kind:  # nearly always
            return value
        # bool is a subclass of int, and never what a number field means.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise CorruptLakeError(
                f"{self.origin}: field {name!r} must be {_NAMES[kind]}, not {json.dumps(value)[:80]}"
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
            raise CorruptLakeError(f"{self.origin}: field {name!r} must not be negative, but is {number}")
        if number > MAX_NUMBER:
            raise CorruptLakeError(
                f"{self.origin}: field {name!r} is larger than any number that Headgate writes"
            )
        return number

    def version(self, name: str) -> Version:
        return Version(self.number(name))

    def moment(self, name: str) -> datetime:
        text = self.text(name)
        try:
            # To UTC immediately: a timestamp at the edge of the calendar has no other form.
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise CorruptLakeError(
                f"{self.origin}: field {name!r} is not a timestamp: {text[:80]!r}"
            ) from error

    def milliseconds(self, name: str) -> datetime:
        """A timestamp that is stored as milliseconds since 1970."""
        number = self.number(name)
        try:
            return datetime.fromtimestamp(number / 1000, UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise CorruptLakeError(f"{self.origin}: field {name!r} is not a timestamp: {number}") from error

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
        """A list of strings; a missing field is an empty list."""
        value: list[Json] = self._typed(name, list, self.fields.get(name, []))
        return tuple(self._typed(name, str, item) for item in value)

    def numbers(self, name: str) -> tuple[int, ...]:
        """A list of numbers; a missing field is an empty list."""
        value: list[Json] = self._typed(name, list, self.fields.get(name, []))
        return tuple(self._typed(name, int, item) for item in value)

    def text_by_name(self, name: str) -> dict[str, str]:
        """An object with string values; a missing field is an empty object."""
        value: dict[str, Json] = self._typed(name, dict, self.fields.get(name, {}))
        return {key: self._typed(name, str, item) for key, item in value.items()}

    def unknown(self, *known: str) -> dict[str, Json]:
        """The fields that this release does not know, to be written back unchanged."""
        names = frozenset(known)
        return {name: value for name, value in self.fields.items() if name not in names}

    def objects(self, name: str) -> Iterator[JsonObject]:
        """A list of objects; a missing field is an empty list."""
        value: list[Json] = self._typed(name, list, self.fields.get(name, []))
        for position, item in enumerate(value):
            inside: dict[str, Json] = self._typed(name, dict, item)
            yield JsonObject(inside, f"{self.origin}, {name}[{position}]")

    def objects_by_name(self, name: str) -> Iterator[tuple[str, JsonObject]]:
        """The objects inside an object; a missing field is an empty object."""
        if name in self.fields:
            inside = self.object(name)
            for key in inside.fields:
                yield key, inside.object(key)


def _require_few_values(key: str, data: bytes) -> None:
    """Raises `CorruptLakeError` if JSON has more values than allowed; called before it is parsed."""
    # Those in strings count as well: honest objects are far below these limits.
    lists, values = data.count(b"{") + data.count(b"["), data.count(b",")
    if lists > JSON_LISTS or values > JSON_VALUES:
        raise CorruptLakeError(
            f"{key} has {lists:,} lists and objects, and {values:,} values; the limits are {JSON_LISTS:,} "
            f"and {JSON_VALUES:,}"
        )
