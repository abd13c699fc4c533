"""Which completed instants a committing transaction is checked against.

Two ways to collect them, chosen by the lake property `conflict.candidates`, with the same result. By `end`:
all that completed after the transaction began, in the order of the log, which is the order of completion. By
`start`: those that were pending when it began and have completed since, and those that are not known to have
been pending then, and have completed since. An instant that began before the transaction without announcing
itself is among the second kind: it was not known, so it counts as one that began later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.model.identifiers import TxId, Version
from headgate.model.record import Record


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a transaction knows of others when it begins: `pending` is None if it did not look (by `end`)."""

    base: Version
    pending: frozenset[TxId] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A completed instant that the rules must look at. `was_pending`: it was, when the transaction began."""

    record: Record
    was_pending: bool = False


def candidates(beginning: Beginning, log: Iterable[Record]) -> tuple[Candidate, ...]:
    """The candidates among the records of `log`, in their order."""
    if beginning.pending is None:
        return by_end(beginning.base, log)
    return by_start(beginning.base, beginning.pending, log)


def by_end(base: Version, log: Iterable[Record]) -> tuple[Candidate, ...]:
    """Every instant that ended after the one at `base` did."""
    return tuple(Candidate(record) for record in log if record.version > base)


def by_start(base: Version, pending: frozenset[TxId], log: Iterable[Record]) -> tuple[Candidate, ...]:
    """Every instant that was pending at the beginning and has completed, and every one that began later."""
    return tuple(
        Candidate(record, was_pending=bool(_instants(record) & pending))
        for record in log
        if record.version > base  # one that left its announcement behind is pending to the eye only
    )


def _instants(record: Record) -> frozenset[TxId]:
    """The instants that a record ends: its own transaction, and the plans that it completes."""
    return frozenset((record.txid, *record.completes))
