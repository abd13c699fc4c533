"""Whether a transaction still holds on top of what was committed since it began.

The rules are a table. Each looks at the transaction and at one committed record and answers with a reason
or with None; the numbers are those of the conflict matrix in the design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headgate.model.identifiers import TxId
from headgate.model.record import PropertyChange, Record


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a transaction read and changes, as far as the rules need to know."""

    txid: TxId
    properties: PropertyChange
    strategy_change: bool = False
    cancels: frozenset[TxId] = frozenset()


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why a transaction cannot be committed.

    `rerun_helps` says whether the same operation, run again on the new head by a fresh transaction, can
    succeed.
    """

    rule: int
    name: str
    other: Record
    reason: str
    rerun_helps: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the matrix: `check` returns the reason in plain words, or None."""

    number: int
    name: str
    check: Callable[[Footprint, Record], str | None]
    rerun_helps: bool = True


def _same_property(ours: Footprint, other: Record) -> str | None:
    names = sorted(ours.properties.names() & other.lake_properties.names())
    return f"both change the lake properties {', '.join(names)}" if names else None


def _cancelled(ours: Footprint, other: Record) -> str | None:
    return "it cancels this transaction" if ours.txid in other.cancels else None


def _both_switch(ours: Footprint, other: Record) -> str | None:
    return "both choose the commit strategy" if ours.strategy_change and other.kind == "switch" else None


def _too_late_to_cancel(ours: Footprint, other: Record) -> str | None:
    return "it is the transaction to be cancelled" if other.txid in ours.cancels else None


MATRIX: tuple[Rule, ...] = (
    Rule(31, "property change against property change", _same_property),
    Rule(31, "strategy change against strategy change", _both_switch),
    Rule(36, "cancelled by a record", _cancelled, rerun_helps=False),
    Rule(36, "cancelling a committed transaction", _too_late_to_cancel, rerun_helps=False),
)


def find_conflicts(ours: Footprint, candidates: Iterable[Record]) -> tuple[Conflict, ...]:
    """Every reason why `ours` cannot be committed on top of `candidates`, oldest first.

    An empty result is permission to rebase.
    """
    return tuple(
        Conflict(rule.number, rule.name, other, reason, rule.rerun_helps)
        for other in candidates
        for rule in MATRIX
        if (reason := rule.check(ours, other)) is not None
    )
