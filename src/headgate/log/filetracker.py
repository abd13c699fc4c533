"""FileTracker: deciding a version with nothing but PUT, GET and LIST.

Each sub-version is a round of Disk Paxos on one disk (Gafni and Lamport). A ballot is (round, client). For
one version, a client does this:

1. PUT PRE_COMMIT: announce a ballot.
2. LIST the attempts (first scan). If the decided record (COMMIT-HINT) is there, the version is decided. If a
   higher ballot is there, give way: pause, LIST, go to 1 in a round above all others.
3. PUT the commit file: propose a record under the ballot. The record is that of the highest proposal in the
   scan, or the client's own if the scan shows no proposal.
4. LIST the attempts (second scan), and react as in 2. If no higher ballot is there, the proposed record is
   decided, forever.
5. PUT COMMIT-HINT and the marker in `tracker/`: make the decision visible. Only then return it.

Without rivals: four PUTs and two LISTs in five round trips.

Why two clients cannot both decide: a client decides only after a scan that started after its proposal was
visible and that shows no higher ballot. A client with a higher ballot therefore announced itself later than
that scan, so its own scan sees the proposal and adopts it.

Every client writes only names that it alone owns, or names whose content is the same for every writer. So no
write can undo another, and late or repeated writes change nothing.

The scan reads `sub-hint/` after all ballots. Clean-up removes attempts only when COMMIT-HINT is there, so a
scan that misses removed attempts finds the hint.

What a crash leaves:

- After 1: an announcement, which costs clients with lower ballots one round.
- After 3: a proposal. It may be decided already, so the next client that claims the version adopts and
  completes it, unless there is a higher one. The transaction is committed then, although its writer is dead.
- Between the two PUTs of 5: the record without its marker is a committed version as any other, since readers
  follow records (see `head`); clean-up does not find it, and its attempts stay. The marker without the record
  is a proposal that the next client completes.

Clean-up (see `cleanup`) removes what is left once newer versions are decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from headgate.errors import NoAnswerError, StorageError, StorageRefusedError
from headgate.log.attempts import announcement
from headgate.log.layout import TRACKER, Accept, Ballot, DecidedHint, GivenUp, Prepare, TrackerLayout
from headgate.log.machine import Ask, Committed, ContestedError, Finish, Lost, Rejected, Unknown
from headgate.model.identifiers import TxId, Version
from headgate.storage.capabilities import Page
from headgate.storage.requests import Answer, Done, Failed, Found, Get, ListPage, Missing, Put

Step: TypeAlias = Ask | Finish[Committed | Lost | Unknown | Rejected]

MAX_MARKED = 8
"""How many failed sub-versions below its own a client marks at once."""
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
            # A proposal counts as an announcement of its ballot, and both as an attempt at their round.
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
    """A proposal of the sub-version `source` may already be decided, so we must propose it."""

    attempt: Attempt
    source: int


@dataclass(frozen=True, slots=True)
class Accepting:
    """`value` is being proposed.

    If the request is refused, it is not proposed; without an answer, it may be.
    """

    attempt: Attempt
    value: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """Why we scan: `value` is proposed; is it decided?"""

    attempt: Attempt
    value: bytes


@dataclass(frozen=True, slots=True)
class Yielding:
    """A higher ballot was seen; the hint for others is being written."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Yielded:
    """Why we scan: we gave way; is it decided by now, and if not, which round is free?"""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Marking:
    """`value` is decided forever; it is being made visible."""

    attempt: Attempt
    value: bytes


@dataclass(frozen=True, slots=True)
class FetchingHint:
    attempt: Attempt


Purpose: TypeAlias = Prepared | Accepted | Yielded


@dataclass(frozen=True, slots=True)
class Scanning:
    """A listing is running. `hints_only`: the attempts are read, and `sub-hint/` is listed by itself."""

    purpose: Purpose
    seen: Scan
    hints_only: bool = False


State: TypeAlias = Preparing | Scanning | Adopting | Accepting | Yielding | Marking | FetchingHint


@dataclass(frozen=True, slots=True)
class FileTrackerPublish:
    """Claims `version` for `record` in the name of `claimant`, which nobody else may use for this version.

    `doubt`: an earlier claim for the same record, by another claimant, got no answer, so the record may have
    been proposed already. `ordered_listing`: the storage lists in key order, so one listing reads `sub-hint/`
    last; otherwise it is listed by itself afterwards.
    """

    version: Version
    record: bytes
    claimant: TxId
    doubt: bool = False
    ordered_listing: bool = True
    layout: TrackerLayout = TRACKER

    def begin(self) -> Step:
        # In doubt, the record counts as proposed from the start: another client may complete the proposal of
        # the earlier claim, whatever happens to our own requests.
        return self.prepare(Attempt(proposed=self.doubt))

    def resume(self, state: State, answers: tuple[Answer, ...]) -> Step:
        match state, answers:
            # Advice that could not be written costs another client a round, no more.
            case Yielding(attempt), _:
                return self.scan(Yielded(attempt), pauses=attempt.gave_way)
            case Marking(attempt, value), (Done(), Done()):
                # Ballots do not say whose record was decided: another client may have completed ours, and we
                # may have completed another's. The bytes do; a record contains the id of its transaction.
                return Finish(Committed() if value == self.record else Lost(value))
            case Marking(attempt, value), _:
                # No outcome before readers can see the version: the caller would claim the next one on top of
                # a record that others cannot read. If `value` is another's, ours can never be decided, even
                # if we proposed it in an earlier round.
                return self.stop(replace(attempt, proposed=value == self.record), _first_error(answers))
            case Scanning(purpose), (Failed(error),):
                return self.stop(purpose.attempt, error)
            # Without an answer, the proposal may be there or arrive later, and another client may complete
            # it. Only the first answer counts: the other requests of this step are advice, and may fail.
            case Accepting(attempt, value), (Failed(error), *_) if not isinstance(error, StorageRefusedError):
                return self.stop(self.proposing(attempt, value), error)
            # An announcement proposes nothing, and neither does a proposal that was refused.
            case ((Preparing() | Adopting() | Accepting() | FetchingHint()), (Failed(error), *_)):
                return self.stop(state.attempt, error)
            case Preparing(attempt), (Done(),):
                # The scan starts only now that our ballot is visible. If two clients looked around first,
                # neither would see the other, and both would propose their own record.
                return self.scan(Prepared(attempt))
            case Scanning(), (Page() as page,):
                return self.scanned_page(state, page)
            case Adopting(attempt, source), (Found(value),):
                return self.accept(attempt, value, above=source)
            case Adopting(attempt), (Missing(),):
                # Clean-up removed the proposal between our scan and this GET, so the hint is there by now.
                return Ask(FetchingHint(attempt), (Get(self.layout.record_key(self.version)),))
            case Accepting(attempt, value), (Done(), *_):
                # The second scan starts only now that the proposal is visible. It is what decides: a rival
                # whose higher ballot it does not show will see our proposal in its own first scan.
                return self.scan(Accepted(self.proposing(attempt, value), value))
            case FetchingHint(), (Found(value),):
                return Finish(Committed() if value == self.record else Lost(value))
            case FetchingHint(attempt), (Missing(),):
                # COMMIT-HINT is never deleted: the storage listed an object that it does not return.
                listed = self.layout.record_key(self.version)
                return self.stop(attempt, NoAnswerError(f"{listed} should exist, but cannot be read"))
            case _:
                raise AssertionError((state, answers))

    def prepare(self, attempt: Attempt) -> Step:
        """Announces our ballot: from now on, a client with a lower one gives way at its next scan.

        If we die here, others start in a higher round. The content is for people who ask who competed.
        """
        key = self.layout.prepare_key(self.version, Ballot(attempt.round, self.claimant))
        return Ask(Preparing(attempt), (Put(key, announcement(attempt.round, self.record)),))

    def scan(self, purpose: Purpose, pauses: int = 0) -> Step:
        """Lists the attempts from the first page on. A scan that began earlier proves nothing."""
        return Ask(Scanning(purpose, Scan()), (ListPage(self.layout.attempts(self.version)),), pauses)

    def scanned_page(self, state: Scanning, page: Page) -> Step:
        seen = state.seen
        for key in page.keys:
            seen = seen.with_entry(self.layout.entry(self.version, key))
        prefix = self.layout.hints(self.version) if state.hints_only else self.layout.attempts(self.version)
        if not page.complete:
            return Ask(replace(state, seen=seen), (ListPage(prefix, page.keys[-1]),))
        if not self.ordered_listing and not state.hints_only and not seen.hint:
            # Such a listing may have read `sub-hint/` first and missed a hint that was written before
            # clean-up removed the attempts: it would show an untouched version. So the hint is read again
            # after the attempts.
            hints = ListPage(self.layout.hints(self.version))
            return Ask(Scanning(state.purpose, seen, hints_only=True), (hints,))
        return self.scanned(state.purpose, seen)

    def scanned(self, purpose: Purpose, seen: Scan) -> Step:
        attempt = purpose.attempt
        # First of all, and in every scan: once there is a hint, the attempts may be gone, and a client that
        # ignores it decides the version a second time.
        if seen.hint:
            return Ask(FetchingHint(attempt), (Get(self.layout.record_key(self.version)),))
        if isinstance(purpose, Yielded):
            # A new round: the old ballot stays outranked forever.
            return self.prepare(replace(attempt, round=seen.highest_round + 1))
        # The client with the higher ballot may have made its first scan before our proposal was visible. Then
        # it proposes its own record, and it decides.
        if self.outranked(attempt, seen):
            return self.give_way(attempt)
        if isinstance(purpose, Accepted):
            return self.mark(attempt, purpose.value)
        return self.choose(attempt, seen)

    def outranked(self, attempt: Attempt, seen: Scan) -> bool:
        return seen.top is not None and seen.top > Ballot(attempt.round, self.claimant)

    def choose(self, attempt: Attempt, seen: Scan) -> Step:
        if seen.accepted is None:
            return self.accept(attempt, self.record, above=0)
        # A proposal may be decided already, and its client may be dead. Of several, the highest: a client
        # that proposes above a decided record has adopted it, so the highest proposal holds the decided
        # record if there is one. What was only announced has no record to adopt.
        source = self.layout.accept_key(self.version, seen.accepted)
        return Ask(Adopting(attempt, seen.accepted.round), (Get(source),))

    def accept(self, attempt: Attempt, value: bytes, *, above: int) -> Step:
        """Proposes `value`, and marks the sub-versions between `above` and ours as failed.

        Our ballot is announced, and our scan has seen no proposal there. A client that proposes in one of
        them from now on scans after that, finds our ballot above its own, and gives way: nothing can be
        decided there. That does not hold for the sub-versions up to `above`: one of them may have decided.

        If we die here, the proposal stays, and the next client that claims the version completes it, unless
        it finds a higher one.
        """
        key = self.layout.accept_key(self.version, Ballot(attempt.round, self.claimant))
        failed = range(max(above + 1, attempt.round - MAX_MARKED), attempt.round)
        marks = (Put(self.layout.expired_key(self.version, round_), b"EXPIRED") for round_ in failed)
        return Ask(Accepting(attempt, value), (Put(key, value), *marks))

    def proposing(self, attempt: Attempt, value: bytes) -> Attempt:
        """The attempt once `value` may have been proposed."""
        return replace(attempt, proposed=attempt.proposed or value == self.record)

    def mark(self, attempt: Attempt, value: bytes) -> Step:
        """Makes the decided record visible: the record for readers, the marker for clean-up and listings.

        Both at once: every client that completes the version writes the same bytes under both names, so the
        order does not matter, and a crash between them is repaired or harmless (see above).
        """
        hint = Put(self.layout.record_key(self.version), value)
        marker = Put(self.layout.index_key(self.version), str(self.version).encode())
        return Ask(Marking(attempt, value), (hint, marker))

    def give_way(self, attempt: Attempt) -> Step:
        given_up = replace(attempt, gave_way=attempt.gave_way + 1)
        if given_up.gave_way > MAX_ROUNDS:
            busy = ContestedError(
                f"other writers still compete for version {self.version} after {MAX_ROUNDS} rounds"
            )
            return self.stop(attempt, busy)
        # Not EXPIRED-HINT: we gave way, but another client may win this very sub-version.
        tried = Put(self.layout.sub_tracker_key(self.version, attempt.round), str(attempt.round).encode())
        return Ask(Yielding(given_up), (tried,))

    def stop(self, attempt: Attempt, error: StorageError) -> Step:
        """Ends after a storage error. A record that was never proposed can never be decided.

        One that was proposed may be decided by any client that adopts it, now or later: the outcome is
        unknown, and what the transaction wrote must stay.
        """
        if not attempt.proposed:
            return Finish(Rejected(error))
        return Finish(Unknown(self.version, self.claimant, error))


def _first_error(answers: tuple[Answer, ...]) -> StorageError:
    return next(answer.error for answer in answers if isinstance(answer, Failed))
