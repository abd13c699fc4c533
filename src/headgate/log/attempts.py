"""What FileTracker's objects say about the clients that competed for a version.

An announcement (PRE_COMMIT) holds its sub-version and the transaction in whose name the client claims the
version; a client takes a new id for each claim. A proposal holds the record. Clean-up keeps what they say in
the marker of the version in `archive/`, if there was more than one client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.errors import CorruptLakeError
from headgate.log.layout import TRACKER, Accept, Ballot, GivenUp, Prepare
from headgate.model.attempts import Bid, Bids, checked_txid
from headgate.model.identifiers import Version, is_txid
from headgate.model.json_object import JsonObject

MAX_KEPT = 100
"""How many announcements and proposals of a version are read and kept: those of the last sub-versions."""


def announcement(round_: int, record: bytes) -> bytes:
    """The content of PRE_COMMIT: the sub-version, and the transaction that wants the version."""
    transaction = transaction_in(record)
    return f"{round_} {transaction}".encode() if transaction else str(round_).encode()


def transaction_in(record: bytes) -> str | None:
    """The transaction of a record; None if `record` is not one, such as the identity of a lake."""
    try:
        txid = JsonObject.parse(record, "the record").fields.get("txid")
    except CorruptLakeError:
        return None
    return txid if isinstance(txid, str) and is_txid(txid) else None


def telling(version: Version, keys: Iterable[str]) -> tuple[str, ...]:
    """Those of the keys whose objects say who competed, in the order of sub-versions."""
    entries = ((key, TRACKER.entry(version, key)) for key in keys)
    return tuple(sorted(key for key, entry in entries if isinstance(entry, Prepare | Accept)))


def has_rivals(version: Version, keys: Iterable[str]) -> bool:
    """Whether the keys belong to more than one client."""
    return len({ballot.client for key in keys for ballot in _ballots(version, key)}) > 1


def bids_in(version: Version, keys: Iterable[str], said: Mapping[str, bytes]) -> Bids:
    """What the attempts at a version say: all `keys`, and the content of those that were read."""
    listed = tuple(keys)
    bids: dict[Ballot, Bid] = {}
    for key in telling(version, listed):
        if key not in said:
            continue
        (ballot,) = _ballots(version, key)
        bid = bids.get(ballot, Bid(ballot.round, ballot.client.text))
        if key == TRACKER.prepare_key(version, ballot):
            bids[ballot] = Bid(bid.sub_version, bid.client, _announced(said[key]), bid.proposed)
        else:
            bids[ballot] = Bid(bid.sub_version, bid.client, bid.transaction, transaction_in(said[key]))
    omitted = {ballot for key in listed for ballot in _ballots(version, key)} - bids.keys()
    return Bids(tuple(bids[ballot] for ballot in sorted(bids)), _failed(version, listed), len(omitted))


def _failed(version: Version, keys: Iterable[str]) -> tuple[int, ...]:
    """The sub-versions with EXPIRED-HINT; the hints in `sub-tracker/` say less."""
    entries = ((key, TRACKER.entry(version, key)) for key in keys)
    given_up = ((key, entry.round) for key, entry in entries if isinstance(entry, GivenUp))
    return tuple(sorted(round_ for key, round_ in given_up if key == TRACKER.expired_key(version, round_)))


def _ballots(version: Version, key: str) -> tuple[Ballot, ...]:
    entry = TRACKER.entry(version, key)
    return (entry.ballot,) if isinstance(entry, Prepare | Accept) else ()


def _announced(data: bytes) -> str | None:
    return checked_txid(data.decode(errors="replace").partition(" ")[2])
