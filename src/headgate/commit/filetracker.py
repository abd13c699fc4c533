"""FileTracker: deciding a version with nothing but PUT, GET and LIST.

Each sub-version is a round of Disk Paxos on one disk (Gafni and Lamport). PRE_COMMIT announces a ballot,
the commit file proposes a record under it, and COMMIT-HINT keeps the decided record. A ballot is (round,
client), and every client writes only names that it alone owns, or names whose content is the same whoever
writes them; so no write can undo another, and late or repeated writes change nothing.

Why two clients cannot both decide: a client decides only after a scan that started after its proposal was
visible and that shows no higher ballot. A client with a higher ballot therefore announced itself later than
that scan, so its own scan sees the proposal and adopts it.

The scan reads `sub-hint/` last. Clean-up removes attempts only when COMMIT-HINT is there, so a scan that
misses removed attempts finds the hint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from headgate.commit.layout import TRACKER, Accept, Ballot, DecidedHint, GivenUp, Prepare, TrackerLayout
from headgate.commit.machine import Ask, Finish
from headgate.commit.outcome import Committed, ContestedError, Lost, Rejected, Unknown
from headgate.errors import NoAnswerError, StorageError, StorageRefusedError
from headgate.model.identifiers import TxId, Version
from headgate.storage.capabilities import Page
from headgate.storage.requests import Answer, Done, Failed, Found, Get, ListPage, Missing, Put

Step: TypeAlias = Ask | Finish[Committed | Lost | Unknown | Rejected]

MAX_ROUNDS = 200
"""How often a client gives way to higher ballots before it reports that it cannot get through."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where a client is: its round, how often it gave way, and whether its own record was ever proposed."""

    round: int = 1
    gave_way: int = 0
    proposed: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """What a listing of a version's attempts has shown so far."""

    hint: bool = False
    top: Ballot | None = None
    accepted: Ballot | None = None
    highest_round: int = 0

    def with_entry(self, entry: Prepare | Accept | DecidedHint | GivenUp | None) -> Scan:
        match entry:
            case DecidedHint():
                return replace(self, hint=True)
            case Prepare(ballot):
                return replace(self, top=_higher(self.top, ballot)).with_entry(GivenUp(ballot.round))
            case Accept(ballot):
                return replace(self, accepted=_higher(self.accepted, ballot)).with_entry(Prepare(ballot))
            case GivenUp(round_):
                return replace(self, highest_round=max(self.highest_round, round_))
            case None:
                return self


def _higher(one: Ballot | None, other: Ballot) -> Ballot:
    return other if one is None else max(one, other)


@dataclass(frozen=True, slots=True)
class Preparing:
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Prepared:
    """Why we scan: our ballot is announced; may we propose, and what?"""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Adopting:
    """An earlier proposal may already be decided, so it becomes ours to propose."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Accepting:
    """`value` is being proposed. A refusal proposes nothing; silence may have."""

    attempt: Attempt
    value: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """Why we scan: `value` is proposed; is it decided?"""

    attempt: Attempt
    value: bytes


@dataclass(frozen=True, slots=True)
class Yielding:
    """A higher ballot was seen; the advice for others is being written."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Yielded:
    """Why we scan: we gave way; is it decided by now, and if not, which round is free?"""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Marking:
    """`value` is decided, for ever; it is being made visible."""

    attempt: Attempt
    value: bytes


@dataclass(frozen=True, slots=True)
class FetchingHint:
    attempt: Attempt


Purpose: TypeAlias = Prepared | Accepted | Yielded


@dataclass(frozen=True, slots=True)
class Scanning:
    """A listing is under way. `hints_only`: the attempts are read, `sub-hint/` is read by itself."""

    purpose: Purpose
    seen: Scan
    hints_only: bool = False


State: TypeAlias = Preparing | Scanning | Adopting | Accepting | Yielding | Marking | FetchingHint


@dataclass(frozen=True, slots=True)
class FileTrackerPublish:
    """Claims `version` for `record` in the name of `claimant`, which nobody else may use for this version.

    `doubt`: an earlier claim for the same record, in another name, was left without answer; so the record
    may have been proposed already. `ordered_listing`: the storage lists in key order, so one listing reads
    `sub-hint/` last; otherwise it is listed by itself afterwards.
    """

    version: Version
    record: bytes
    claimant: TxId
    doubt: bool = False
    ordered_listing: bool = True
    layout: TrackerLayout = TRACKER

    def begin(self) -> Step:
        return self.prepare(Attempt(proposed=self.doubt))

    def resume(self, state: State, answers: tuple[Answer, ...]) -> Step:
        match state, answers:
            # Advice that could not be written costs somebody a round, no more.
            case Yielding(attempt), _:
                return self.scan(Yielded(attempt), pauses=attempt.gave_way)
            case Marking(attempt, value), (Done(), Done()):
                return Finish(Committed() if value == self.record else Lost(value))
            case Marking(attempt, value), _:
                # A version that readers cannot see must not be built upon, whoever won it.
                return self.stop(replace(attempt, proposed=value == self.record), _first_error(answers))
            case Scanning(purpose), (Failed(error),):
                return self.stop(purpose.attempt, error)
            case Accepting(attempt, value), (Failed(error),) if not isinstance(error, StorageRefusedError):
                return self.stop(self.proposing(attempt, value), error)
            case ((Preparing() | Adopting() | Accepting() | FetchingHint()), (Failed(error),)):
                return self.stop(state.attempt, error)
            case Preparing(attempt), (Done(),):
                return self.scan(Prepared(attempt))
            case Scanning(), (Page() as page,):
                return self.scanned_page(state, page)
            case Adopting(attempt), (Found(value),):
                return self.accept(attempt, value)
            case Adopting(attempt), (Missing(),):
                # Clean-up was faster, so the hint is there by now.
                return Ask(FetchingHint(attempt), (Get(self.layout.record_key(self.version)),))
            case Accepting(attempt, value), (Done(),):
                return self.scan(Accepted(self.proposing(attempt, value), value))
            case FetchingHint(), (Found(value),):
                return Finish(Committed() if value == self.record else Lost(value))
            case FetchingHint(attempt), (Missing(),):
                listed = self.layout.record_key(self.version)
                return self.stop(attempt, NoAnswerError(f"{listed} should be there and cannot be read"))
            case _:
                raise AssertionError((state, answers))

    def prepare(self, attempt: Attempt) -> Step:
        key = self.layout.prepare_key(self.version, Ballot(attempt.round, self.claimant))
        return Ask(Preparing(attempt), (Put(key, str(attempt.round).encode()),))

    def scan(self, purpose: Purpose, pauses: int = 0) -> Step:
        return Ask(Scanning(purpose, Scan()), (ListPage(self.layout.attempts(self.version)),), pauses)

    def scanned_page(self, state: Scanning, page: Page) -> Step:
        seen = state.seen
        for key in page.keys:
            seen = seen.with_entry(self.layout.entry(self.version, key))
        prefix = self.layout.hints(self.version) if state.hints_only else self.layout.attempts(self.version)
        if not page.complete:
            return Ask(replace(state, seen=seen), (ListPage(prefix, page.keys[-1]),))
        if not self.ordered_listing and not state.hints_only and not seen.hint:
            hints = ListPage(self.layout.hints(self.version))
            return Ask(Scanning(state.purpose, seen, hints_only=True), (hints,))
        return self.scanned(state.purpose, seen)

    def scanned(self, purpose: Purpose, seen: Scan) -> Step:
        attempt = purpose.attempt
        if seen.hint:
            return Ask(FetchingHint(attempt), (Get(self.layout.record_key(self.version)),))
        if isinstance(purpose, Yielded):
            return self.prepare(replace(attempt, round=seen.highest_round + 1))
        if self.outranked(attempt, seen):
            return self.give_way(attempt)
        if isinstance(purpose, Accepted):
            return self.mark(attempt, purpose.value)
        return self.choose(attempt, seen)

    def outranked(self, attempt: Attempt, seen: Scan) -> bool:
        return seen.top is not None and seen.top > Ballot(attempt.round, self.claimant)

    def choose(self, attempt: Attempt, seen: Scan) -> Step:
        if seen.accepted is None:
            return self.accept(attempt, self.record)
        return Ask(Adopting(attempt), (Get(self.layout.accept_key(self.version, seen.accepted)),))

    def accept(self, attempt: Attempt, value: bytes) -> Step:
        key = self.layout.accept_key(self.version, Ballot(attempt.round, self.claimant))
        return Ask(Accepting(attempt, value), (Put(key, value),))

    def proposing(self, attempt: Attempt, value: bytes) -> Attempt:
        """The attempt once `value` may have been proposed."""
        return replace(attempt, proposed=attempt.proposed or value == self.record)

    def mark(self, attempt: Attempt, value: bytes) -> Step:
        hint = Put(self.layout.record_key(self.version), value)
        marker = Put(self.layout.index_key(self.version), str(self.version).encode())
        return Ask(Marking(attempt, value), (hint, marker))

    def give_way(self, attempt: Attempt) -> Step:
        given_up = replace(attempt, gave_way=attempt.gave_way + 1)
        if given_up.gave_way > MAX_ROUNDS:
            busy = ContestedError(f"version {self.version} was contested for {MAX_ROUNDS} rounds")
            return self.stop(attempt, busy)
        expired = Put(self.layout.expired_key(self.version, attempt.round), b"EXPIRED")
        tried = Put(self.layout.sub_tracker_key(self.version, attempt.round), str(attempt.round).encode())
        return Ask(Yielding(given_up), (expired, tried))

    def stop(self, attempt: Attempt, error: StorageError) -> Step:
        """Storage failed us. If our record was never proposed, it can never be decided."""
        if not attempt.proposed:
            return Finish(Rejected(error))
        return Finish(Unknown(self.version, self.claimant, error))


def _first_error(answers: tuple[Answer, ...]) -> StorageError:
    return next(answer.error for answer in answers if isinstance(answer, Failed))
