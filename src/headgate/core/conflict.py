"""Whether a transaction still holds on top of what was committed since it began.

Applies the matrix; what can be done about a conflict is a value: `Rebasable`, `Retryable` or `Incompatible`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headgate.core.evidence import NO_EVIDENCE, Evidence
from headgate.core.footprint import Footprint
from headgate.core.isolation import Isolation
from headgate.core.matrix import MATRIX, OnRecord, OnTable, Row, Verdict
from headgate.core.meeting import Meeting
from headgate.model.record import Record


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why a transaction cannot be committed as it is.

    `rule` is the number of the row, `table` the table that both touched, if it is about one; `verbs` is what
    we did to it, `did` what the other one did. `reason` says in plain words what both have in common.
    `give_up` is empty if running the operation again on the new head can succeed; else it says what to do
    instead.
    """

    rule: int
    name: str
    verdict: Verdict
    other: Record
    reason: str
    table: str | None = None
    verbs: frozenset[str] = frozenset()
    did: str = "commit"
    give_up: str = ""

    def __str__(self) -> str:
        other, mine = self.other, " and ".join(sorted(self.verbs)) or "change"
        return (
            f"{'' if self.table is None else f'{self.table}: '}your {mine} and version {other.version} "
            f"({self.did} by {other.command.user} on {other.command.host}, transaction {other.txid}): "
            f"{self.reason} [rule {self.rule}: {self.name}]"
        )


@dataclass(frozen=True, slots=True)
class Rebasable:
    """The change holds: commit it on top. `carries` are rows whose positions must be carried over first."""

    carries: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class Retryable:
    """The same operation, run again on the new head by a new transaction, can succeed."""

    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class Incompatible:
    """Running it again does not help: the caller must decide."""

    conflicts: tuple[Conflict, ...]


Outcome: TypeAlias = Rebasable | Retryable | Incompatible


def find_conflicts(
    ours: Footprint, candidates: Iterable[Record], evidence: Evidence = NO_EVIDENCE
) -> tuple[Conflict, ...]:
    """Every reason why `ours` cannot be committed on top of `candidates` as it is, oldest first.

    An empty result is permission to rebase. Each table is judged by its own isolation, and nothing is fetched
    for a row that allows everything there.
    """
    return tuple(conflict for other in candidates for conflict in _with(ours, other, evidence))


def _with(ours: Footprint, other: Record, evidence: Evidence) -> Iterator[Conflict]:
    meetings = [
        Meeting(mine, theirs, other, evidence)
        for mine in ours.tables
        for theirs in other.tables
        if theirs.table.uuid == mine.uuid
    ]
    for row in MATRIX:
        yield from _in_row(row, ours, other, meetings)


def _in_row(row: Row, ours: Footprint, other: Record, meetings: Sequence[Meeting]) -> Iterator[Conflict]:
    for rule in row.rules:
        match rule:
            case OnRecord(meets):
                # Verdicts of such rows are the same at every isolation: a lake has none.
                reason = meets(ours, other)
                if reason is not None:
                    verdict = row.verdicts.at(Isolation.SNAPSHOT)
                    yield Conflict(row.number, row.name, verdict, other, reason, give_up=row.give_up)
            case OnTable():
                for meeting in meetings:
                    yield from _at_table(row, rule, meeting)
            case _:
                continue


def _at_table(row: Row, rule: OnTable, at: Meeting) -> Iterator[Conflict]:
    verdict = row.verdicts.at(at.mine.isolation)
    if verdict is Verdict.OK:
        return
    reason = rule.meets(at)
    if reason is not None:
        yield Conflict(
            rule=row.number,
            name=row.name,
            verdict=verdict,
            other=at.other,
            reason=reason,
            table=at.mine.name,
            verbs=at.mine.verbs,
            did=at.did,
            give_up=row.give_up,
        )


def resolve(conflicts: Sequence[Conflict]) -> Outcome:
    """What can be done about conflicts: those that `find_conflicts` found."""
    if all(conflict.verdict is Verdict.CARRY for conflict in conflicts):
        return Rebasable(tuple(conflicts))
    return refusal(conflicts)


def refusal(conflicts: Sequence[Conflict]) -> Retryable | Incompatible:
    """What a caller can do who is refused because of them."""
    give_up = any(conflict.give_up for conflict in conflicts)
    return Incompatible(tuple(conflicts)) if give_up else Retryable(tuple(conflicts))


def next_step(conflicts: Sequence[Conflict]) -> str:
    """What a caller does about them."""
    decisive = next((conflict.give_up for conflict in conflicts if conflict.give_up), None)
    if decisive is not None:
        return decisive
    verb = next((verb for conflict in conflicts for verb in sorted(conflict.verbs)), "work")
    version = max(conflict.other.version for conflict in conflicts)
    return (
        f"run the {verb} again in a new transaction, on version {version} or later; an operation outside of "
        "a transaction does so by itself"
    )
