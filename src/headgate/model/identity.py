"""The identity of a lake, set at its creation: the content of `headgate.json`, which is record 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.errors import CorruptLakeError, InvalidInputError, UnsupportedError, shown
from headgate.model.json_object import Json, JsonObject, encode, timestamp
from headgate.model.record import Command

LAKE_FORMAT = 1
KNOWN_FIELDS = (
    "format",
    "lake_id",
    "divisor",
    "first_strategy",
    "ordered_listing",
    "created_at",
    "command",
)
DEFAULT_DIVISOR = 10
MIN_DIVISOR, MAX_DIVISOR = 2, 1000
"""A window is read as a whole, so its size is bounded."""


@dataclass(frozen=True, slots=True)
class LakeIdentity:
    """Set once by init and never changed.

    `first_strategy` is stored as a string: a lake that names a strategy this release does not know can still
    be recognised, and rejected with its name. `ordered_listing` is what the probe found: whether a listing
    observes keys in their order. `command` is who created the lake; lakes of earlier releases do not say.
    """

    lake_id: str
    divisor: int
    first_strategy: str
    ordered_listing: bool
    created_at: datetime
    command: Command | None = None
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            **self.unknown,
            "format": LAKE_FORMAT,
            "lake_id": self.lake_id,
            "divisor": self.divisor,
            "first_strategy": self.first_strategy,
            "ordered_listing": self.ordered_listing,
            "created_at": timestamp(self.created_at),
        }
        return fields if self.command is None else {**fields, "command": self.command.to_json()}

    def encode(self) -> bytes:
        return encode(self.to_json())

    @classmethod
    def decode(cls, data: bytes, origin: str) -> LakeIdentity:
        source = JsonObject.parse(data, origin)
        lake_format = source.number("format")
        if lake_format > LAKE_FORMAT:
            raise UnsupportedError(
                f"{origin} has lake format {lake_format}; this release reads formats up to {LAKE_FORMAT}",
                "upgrade headgate",
            )
        divisor = source.number("divisor")
        if not MIN_DIVISOR <= divisor <= MAX_DIVISOR:
            raise CorruptLakeError(
                f"{origin}: the divisor must be from {MIN_DIVISOR} to {MAX_DIVISOR}, not {divisor}"
            )
        ordered = source.fields.get("ordered_listing")
        if not isinstance(ordered, bool):
            raise CorruptLakeError(f"{origin}: field 'ordered_listing' must be true or false")
        command = source.optional_object("command")
        return cls(
            lake_id=source.text("lake_id"),
            divisor=divisor,
            first_strategy=source.text("first_strategy"),
            ordered_listing=ordered,
            created_at=source.moment("created_at"),
            command=None if command is None else Command.from_json(command),
            unknown=source.unknown(*KNOWN_FIELDS),
        )


def check_divisor(divisor: int) -> None:
    number = isinstance(divisor, int) and not isinstance(divisor, bool)
    if not number or not MIN_DIVISOR <= divisor <= MAX_DIVISOR:
        raise InvalidInputError(
            f"the divisor must be a number from {MIN_DIVISOR} to {MAX_DIVISOR}, but is {shown(divisor)}"
        )
