"""Who competed for a version, collected from attempts and from later records."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.model.attempts import Bid, Bids, Claim, Fate, VersionAttempts
from headgate.model.record import Record

LOOK_AHEAD = 256
"""How many records after a version are searched for attempts at that version."""


def competition(record: Record, strategy: str, bids: Bids, later: Iterable[Record]) -> VersionAttempts:
    """`record` is the record of the version, `later` are those after it.

    A later record that names the version as lost counts as an attempt if there is no attempt object:
    strategies that claim a version in one step write none.
    """
    number, winner = record.version.number, record.txid.text
    losers = {each.txid.text: each.version.number for each in later if number in each.lost}
    claims = [_claim(bid, winner, losers) for bid in bids.bids]
    said = {claim.transaction for claim in claims}
    if winner not in said:
        claims.insert(0, Claim(transaction=winner, fate=Fate.WON))
    unsaid = ((txid, version) for txid, version in losers.items() if txid not in said)
    claims += [Claim(transaction=txid, fate=Fate.GAVE_WAY, committed_as=version) for txid, version in unsaid]
    return VersionAttempts(number, winner, strategy, tuple(claims), bids.failed, bids.omitted)


def _claim(bid: Bid, winner: str, losers: dict[str, int]) -> Claim:
    later = None if bid.transaction is None else losers.get(bid.transaction)
    return Claim(bid.sub_version, bid.client, bid.transaction, bid.proposed, _fate(bid, winner), later)


def _fate(bid: Bid, winner: str) -> Fate:
    if bid.transaction is None:
        return Fate.UNKNOWN
    if bid.transaction == winner:
        return Fate.WON
    return Fate.COMPLETED if bid.proposed == winner else Fate.GAVE_WAY
