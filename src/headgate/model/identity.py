"""What a lake is from its first moment on: the content of `headgate.json`, which is record 0 of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.json_object import Json, JsonObject, encode, timestamp

LAKE_FORMAT = 1
DEFAULT_DIVISOR = 10
MIN_DIVISOR, MAX_DIVISOR = 2, 1000
"""A window is read at once, so its size is bounded."""


@dataclass(frozen=True, slots=True)
class LakeIdentity:
    """Decided once by init and never changed.

    `first_strategy` is kept as text: a lake that names a strategy this release does not know can still
    be recognised and refused by name. `ordered_listing` is what the probe found: whether a listing
    observes keys in their order.
    """

    lake_id: str
    divisor: int
    first_strategy: str
    ordered_listing: bool
    created_at: datetime
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def encode(self) -> bytes:
        return encode(
            {
                **self.unknown,
                "format": LAKE_FORMAT,
                "lake_id": self.lake_id,
                "divisor": self.divisor,
                "first_strategy": self.first_strategy,
                "ordered_listing": self.ordered_listing,
                "created_at": timestamp(self.created_at),
            }
        )

    @classmethod
    def decode(cls, data: bytes, origin: str) -> LakeIdentity:
        source = JsonObject.parse(data, origin)
        lake_format = source.number("format")
        if lake_format > LAKE_FORMAT:
            raise UnsupportedError(
                f"{origin} is of lake format {lake_format}; this release reads formats up to {LAKE_FORMAT}",
                "upgrade headgate",
            )
        divisor = source.number("divisor")
        if not MIN_DIVISOR <= divisor <= MAX_DIVISOR:
            raise CorruptLakeError(
                f"{origin}: the divisor is {divisor}, but must be from {MIN_DIVISOR} to {MAX_DIVISOR}"
            )
        ordered = source.fields.get("ordered_listing")
        if not isinstance(ordered, bool):
            raise CorruptLakeError(f"{origin}: field 'ordered_listing' should be true or false")
        return cls(
            lake_id=source.text("lake_id"),
            divisor=divisor,
            first_strategy=source.text("first_strategy"),
            ordered_listing=ordered,
            created_at=source.moment("created_at"),
            unknown=source.unknown(
                "format", "lake_id", "divisor", "first_strategy", "ordered_listing", "created_at"
            ),
        )
