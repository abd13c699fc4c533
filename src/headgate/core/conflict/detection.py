"""Whether a transaction can still be committed on top of what was committed since it began.

Applies the matrix. The outcome of a conflict is a value: `Rebasable`, `Retryable` or `Incompatible`.

Also selects the candidates: the completed instants that a transaction is checked against when it commits.
There are two ways to collect them, chosen by the lake property `conflict.candidates`, with the same result.
By `end`: all that completed after the transaction began, in the order of the log, which is the order of
completion. By `start`: those that were pending when the transaction began and have completed since, and those
that were not known to be pending then and have completed since. An instant that began before the transaction
without an announcement is of the second kind: it was not known, so it counts as one that began later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headgate.core.conflict.evidence import NO_EVIDENCE, Evidence
from headgate.core.conflict.footprint import Footprint
from headgate.core.conflict.isolation import Isolation
from headgate.core.conflict.matrix import MATRIX, OnHistory, OnRecord, OnTable, Row, Verdict
from headgate.core.conflict.meeting import Meeting
from headgate.core.conflict.overlooked import Earlier, Overlooked
from headgate.model.identifiers import TxId, Version
from headgate.model.record import Record


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why a transaction cannot be committed as it is.

    `rule` is the number of the row. `table` is the table that both touched, if the reason is about a table.
    `verbs` is what we did to it, `did` what the other transaction did. `reason` says in plain words where the
    two overlap. `give_up` is empty if a retry on the new head can succeed; otherwise it says what to do
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
            f"{'' if self.table is None else f'{self.table}: '}your {mine} conflicts with version "
            f"{other.version} ({self.did} by {other.command.user} on {other.command.host}, transaction "
            f"{other.txid}): "
            f"{self.reason} [rule {self.rule}: {self.name}]"
        )


@dataclass(frozen=True, slots=True)
class Rebasable:
    """The change can be committed on top. `carries` are rows whose positions must be rebased first."""

    carries: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class Retryable:
    """A retry of the same operation on the new head, in a new transaction, can succeed."""

    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class Incompatible:
    """A retry does not help: the caller must resolve it by hand."""

    conflicts: tuple[Conflict, ...]


Outcome: TypeAlias = Rebasable | Retryable | Incompatible


def find_conflicts(
    ours: Footprint,
    candidates: Iterable[Record],
    evidence: Evidence = NO_EVIDENCE,
    before: Iterable[Record] = (),
) -> tuple[Conflict, ...]:
    """Every reason why `ours` cannot be committed on top of `candidates` as it is, oldest first.

    `before` are commits between the base and the candidates that were judged earlier; only those of them that
    `Earlier` keeps are needed. If the result is empty, the transaction may be rebased. Each table is judged
    by its own isolation, and nothing is fetched for a row that allows everything at that isolation.
    """
    found: list[Conflict] = []
    earlier = Earlier.of(before)
    for other in candidates:
        found += _with(ours, other, evidence, earlier.records)
        earlier.note(other, ours)
    return tuple(found)


def _with(ours: Footprint, other: Record, evidence: Evidence, before: Sequence[Record]) -> Iterator[Conflict]:
    meetings = [
        Meeting(mine, theirs, other, evidence, ours.barred, ours.app)
        for mine in ours.tables
        for theirs in other.tables
        if theirs.table.uuid == mine.uuid
    ]
    overlooked = [Overlooked(mine, other, before, evidence, ours.barred) for mine in ours.tables if before]
    for row in MATRIX:
        yield from _in_row(row, ours, other, meetings, overlooked)


def _in_row(
    row: Row,
    ours: Footprint,
    other: Record,
    meetings: Sequence[Meeting],
    overlooked: Sequence[Overlooked],
) -> Iterator[Conflict]:
    for rule in row.rules:
        match rule:
            case OnRecord(meets):
                # Such rows have the same verdict at every isolation, because a lake has no isolation.
                reason = meets(ours, other)
                if reason is not None:
                    verdict = row.verdicts.at(Isolation.SNAPSHOT)
                    yield Conflict(row.number, row.name, verdict, other, reason, give_up=row.give_up)
            case OnTable():
                for meeting in meetings:
                    yield from _at_table(row, rule, meeting)
            case OnHistory():
                for table in overlooked:
                    yield from _in_history(row, rule, table)
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


def _in_history(row: Row, rule: OnHistory, at: Overlooked) -> Iterator[Conflict]:
    verdict = row.verdicts.at(at.mine.isolation)
    if verdict is Verdict.OK:
        return
    reason = rule.meets(at)
    if reason is not None:
        yield Conflict(
            row.number, row.name, verdict, at.other, reason, at.mine.name, at.mine.verbs, give_up=row.give_up
        )


def resolve(conflicts: Sequence[Conflict]) -> Outcome:
    """What can be done about the conflicts that `find_conflicts` found."""
    if all(conflict.verdict is Verdict.CARRY for conflict in conflicts):
        return Rebasable(tuple(conflicts))
    return refusal(conflicts)


def refusal(conflicts: Sequence[Conflict]) -> Retryable | Incompatible:
    """What a caller can do whose commit is rejected because of them."""
    give_up = any(conflict.give_up for conflict in conflicts)
    return Incompatible(tuple(conflicts)) if give_up else Retryable(tuple(conflicts))


def next_step(conflicts: Sequence[Conflict]) -> str:
    """What the caller should do about them."""
    decisive = next((conflict.give_up for conflict in conflicts if conflict.give_up), None)
    if decisive is not None:
        return decisive
    verb = next((verb for conflict in conflicts for verb in sorted(conflict.verbs)), "work")
    version = max(conflict.other.version for conflict in conflicts)
    return (
        f"retry the {verb} in a new transaction, on version {version} or later; an operation outside of "
        "a transaction is retried automatically"
    )


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a transaction knows of others when it begins: `pending` is None if it did not check (by `end`)."""

    base: Version
    pending: frozenset[TxId] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A completed instant to check against. `was_pending`: it was pending when the transaction began."""

    record: Record
    was_pending: bool = False


def candidates(beginning: Beginning, log: Iterable[Record]) -> tuple[Candidate, ...]:
    """The candidates among the records of `log`, in order."""
    if beginning.pending is None:
        return by_end(beginning.base, log)
    return by_start(beginning.base, beginning.pending, log)


def by_end(base: Version, log: Iterable[Record]) -> tuple[Candidate, ...]:
    """Every instant that ended after that at `base`."""
    return tuple(Candidate(record) for record in log if record.version > base)


def by_start(base: Version, pending: frozenset[TxId], log: Iterable[Record]) -> tuple[Candidate, ...]:
    """Every instant that was pending at the beginning and has completed, and every one that began later."""
    return tuple(
        Candidate(record, was_pending=bool(_instants(record) & pending))
        for record in log
        if record.version > base  # one that left its announcement behind only looks pending
    )


def _instants(record: Record) -> frozenset[TxId]:
    """The instants that a record ends: its own transaction, and the plans that it completes."""
    return frozenset((record.txid, *record.completes))
