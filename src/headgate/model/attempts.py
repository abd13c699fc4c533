"""Who competed for a version: what FileTracker's clients recorded, and the result of `Lake.attempts`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headgate.errors import CorruptLakeError
from headgate.model.identifiers import Version, is_txid
from headgate.model.json_object import Json, JsonObject, encode


@dataclass(frozen=True, slots=True)
class Bid:
    """One client in one sub-version. Strategies that claim a version in one step have no sub-versions.

    `transaction` is the transaction that the client wanted to commit. `proposed` is the transaction whose
    record the client proposed, if it got that far.
    """

    sub_version: int | None = None
    client: str | None = None
    transaction: str | None = None
    proposed: str | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "sub_version": self.sub_version,
            "client": self.client,
            "transaction": self.transaction,
            "proposed": self.proposed,
        }

    @classmethod
    def from_json(cls, source: JsonObject) -> Bid:
        client = source.text("client")
        if not is_txid(client):
            raise CorruptLakeError(f"{source.origin}: {client[:80]!r} is not the id of a client")
        named = (
            checked_txid(source.optional_text("transaction")),
            checked_txid(source.optional_text("proposed")),
        )
        return cls(source.number("sub_version"), client, *named)


@dataclass(frozen=True, slots=True)
class Bids:
    """What is known about a version: `failed` are the sub-versions that are marked as failed."""

    bids: tuple[Bid, ...] = ()
    failed: tuple[int, ...] = ()
    omitted: int = 0

    def encode(self, version: Version) -> bytes:
        return encode(
            {
                "version": version.number,
                "bids": [bid.to_json() for bid in self.bids],
                "failed": [*self.failed],
                "omitted": self.omitted,
            }
        )

    @classmethod
    def decode(cls, data: bytes, version: Version, origin: str) -> Bids:
        """What clean-up kept; nothing if there was only one client."""
        if data.strip() == str(version).encode():
            return cls()
        source = JsonObject.parse(data, origin)
        failed = source.numbers("failed")
        return cls(tuple(map(Bid.from_json, source.objects("bids"))), failed, source.number("omitted"))


class Fate(Enum):
    """The outcome of a claim."""

    WON = "won"
    """Its record was committed."""
    COMPLETED = "completed another"
    """It proposed the committed record, which is that of another transaction: the other may have died."""
    GAVE_WAY = "gave way"
    """Another record was committed, and this client did not propose it."""
    UNKNOWN = "unknown"
    """The client is of a release that does not record its transaction."""


@dataclass(frozen=True, slots=True)
class Claim(Bid):
    """A bid and its outcome.

    `committed_as` is the version that the operation got later, if it gave way and a later record says so.
    """

    fate: Fate = Fate.UNKNOWN
    committed_as: int | None = None

    def to_json(self) -> dict[str, Json]:
        return {**Bid.to_json(self), "fate": self.fate.value, "committed_as": self.committed_as}


@dataclass(frozen=True, slots=True)
class VersionAttempts:
    """All that is known about the competition for a version.

    `winner` is the transaction that committed it. `claims` are in the order of sub-versions; `failed` are the
    sub-versions in which no record can be committed any more. `omitted` claims were too many to keep.
    """

    version: int
    winner: str
    strategy: str
    claims: tuple[Claim, ...]
    failed: tuple[int, ...] = ()
    omitted: int = 0

    @property
    def contested(self) -> bool:
        """Whether more than one transaction wanted the version."""
        return any(claim.transaction != self.winner for claim in self.claims)

    def to_json(self) -> dict[str, Json]:
        return {
            "version": self.version,
            "winner": self.winner,
            "strategy": self.strategy,
            "contested": self.contested,
            "claims": [claim.to_json() for claim in self.claims],
            "failed_sub_versions": [*self.failed],
            "omitted": self.omitted,
        }


def checked_txid(text: str | None) -> str | None:
    """`text`, read from outside, if it has the form of a transaction id."""
    return text if text is not None and is_txid(text) else None
