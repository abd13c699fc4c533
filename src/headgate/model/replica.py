"""The mark of a replica, `control/replica.json`: which lake it copies, from where, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headgate.errors import UnsupportedError
from headgate.model.json_object import JsonObject, encode, timestamp

MARK_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ReplicaMark:
    """Marks a lake as a replica, to which only replication commits.

    `source` is the location that it was first copied from, for people and without credentials.
    """

    lake_id: str
    source: str
    since: datetime

    def encode(self) -> bytes:
        return encode(
            {
                "format": MARK_FORMAT,
                "lake_id": self.lake_id,
                "source": self.source,
                "since": timestamp(self.since),
            }
        )

    @classmethod
    def decode(cls, data: bytes, origin: str) -> ReplicaMark:
        source = JsonObject.parse(data, origin)
        if source.number("format") > MARK_FORMAT:
            raise UnsupportedError(
                f"{origin} has format {source.number('format')}; "
                f"this release reads formats up to {MARK_FORMAT}",
                "upgrade headgate",
            )
        return cls(source.text("lake_id"), source.text("source"), source.moment("since"))


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """The result of a replication: the replica was at version `since`, and is now at `until`.

    `created`: there was no lake before. `files` and `bytes` count the data and delete files that were copied.
    `expired` are objects of older versions that the source no longer has, and that its newest version does
    not need.
    """

    lake_id: str
    source: str
    target: str
    created: bool
    since: int
    until: int
    files: int = 0
    bytes: int = 0
    expired: tuple[str, ...] = ()

    @property
    def versions(self) -> int:
        """How many versions were copied."""
        return self.until - self.since
