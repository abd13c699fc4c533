"""Broken variants of the shipped protocols, each a rule left out or turned around.

The explorer must catch every one of them by a law. Otherwise that it finds nothing in the shipped protocols
would prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from headgate.errors import NoAnswerError, StorageError, StorageRefusedError
from headgate.log import cleanup, conditional, filetracker, rename
from headgate.log.cleanup import CleanUp
from headgate.log.conditional import ConditionalPublish
from headgate.log.filetracker import (
    Accepted,
    Accepting,
    Adopting,
    Attempt,
    FileTrackerPublish,
    Marking,
    Prepared,
    Purpose,
    Scan,
    Scanning,
    Yielded,
)
from headgate.log.head import (
    Course,
    Doubting,
    FollowLog,
    Hole,
    LookingForSigns,
    LostEnd,
    Reached,
    Step,
)
from headgate.log.layout import (
    LOG,
    PLAIN,
    TRACKER,
    Accept,
    Ballot,
    DecidedHint,
    GivenUp,
    PlainLayout,
    Prepare,
    entry_key,
)
from headgate.log.machine import Ask, Committed, Finish, Lost, Rejected
from headgate.log.rename import RenamePublish
from headgate.log.strategy import versions_in
from headgate.model.identifiers import GENESIS, TxId, Version
from headgate.storage.requests import (
    Answer,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    ListPage,
    Put,
    Request,
)
from tests.exploration.explorer import Client, Explorer, Faults, Objects
from tests.exploration.laws import (
    FAILED_WON,
    FALSE_ALARM,
    HEAD_NOT_READABLE,
    HEAD_WENT_BACK,
    LOSS_OVERLOOKED,
    MARKER_WENT_BACK,
    NO_ANSWER,
    NOT_READABLE,
    RECORD_CHANGED,
    RECORD_GONE,
    RECORD_INVENTED,
    TOLD_WRONGLY,
    TWO_DECIDED,
    PersistentClient,
    ProtocolLaws,
    at_most_one_is_decided,
)
from tests.exploration.report import (
    CLEAN,
    WINDOW,
    Configuration,
    WithReceipt,
    claim,
    claimant,
    hints_first,
    lost_end,
    record_of,
    resolving,
    rivals,
    writer,
)

DOES_NOT_FINISH = "left alone, does not finish"


class DecisionLaws(ProtocolLaws):
    """Looks only at what is decided, so that it shows what a change of objects leads to."""

    def __init__(self, clients: tuple[Client, ...]) -> None:
        super().__init__(clients, storage_fails=True)
        self.scene_laws = (at_most_one_is_decided,)

    def on_change(self, before: Objects, request: Request, after: Objects) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Variant:
    """A broken protocol in a configuration that shows it, and the law that must catch it."""

    configuration: Configuration
    law: str
    only_decisions: bool = False

    @property
    def name(self) -> str:
        return self.configuration.name

    def explorer(self) -> Explorer:
        explorer = self.configuration.explorer()
        if self.only_decisions:
            return replace(explorer, laws=DecisionLaws(self.configuration.clients), check_progress=False)
        return explorer


# --- FileTracker: deciding -----------------------------------------------------------------------------


class NoSecondScan(FileTrackerPublish):
    """Decides as soon as its proposal is written."""

    def scan(self, purpose: Purpose, pauses: int = 0) -> filetracker.Step:
        if isinstance(purpose, Accepted):
            return self.mark(purpose.attempt, purpose.value)
        return super().scan(purpose, pauses)


class HintBeforeSecondScan(FileTrackerPublish):
    """Makes its proposal visible to readers first and looks for rivals afterwards."""

    def scan(self, purpose: Purpose, pauses: int = 0) -> filetracker.Step:
        if isinstance(purpose, Accepted):
            return Ask(HintWritten(purpose), (Put(self.layout.record_key(self.version), purpose.value),))
        return super().scan(purpose, pauses)

    def resume(self, state: Any, answers: tuple[Answer, ...]) -> filetracker.Step:
        if isinstance(state, HintWritten):
            return super().scan(state.purpose)
        return super().resume(state, answers)


@dataclass(frozen=True, slots=True)
class HintWritten:
    purpose: Accepted


class DecidesOnFirstScan(FileTrackerPublish):
    """Takes a first scan that shows nobody for a decision."""

    def choose(self, attempt: Attempt, seen: Scan) -> filetracker.Step:
        if seen.accepted is None:
            return self.mark(attempt, self.record)
        return super().choose(attempt, seen)


class ScansBeforePrepare(FileTrackerPublish):
    """Looks around before it announces itself."""

    def prepare(self, attempt: Attempt) -> filetracker.Step:
        return self.scan(Prepared(attempt))

    def choose(self, attempt: Attempt, seen: Scan) -> filetracker.Step:
        key = self.layout.prepare_key(self.version, Ballot(attempt.round, self.claimant))
        return Ask(PreparedLate(attempt, seen), (Put(key, b""),))

    def resume(self, state: Any, answers: tuple[Answer, ...]) -> filetracker.Step:
        if isinstance(state, PreparedLate):
            return super().choose(state.attempt, state.seen)
        return super().resume(state, answers)


@dataclass(frozen=True, slots=True)
class PreparedLate:
    attempt: Attempt
    seen: Scan


class OwnValue(FileTrackerPublish):
    """Proposes its own record whatever others have proposed."""

    def choose(self, attempt: Attempt, seen: Scan) -> filetracker.Step:
        return self.accept(attempt, self.record, above=attempt.round)


class AdoptsLowest(FileTrackerPublish):
    """Adopts a proposal, but the oldest instead of the newest."""

    def scan(self, purpose: Purpose, pauses: int = 0) -> filetracker.Step:
        return Ask(Scanning(purpose, LowestScan()), (ListPage(self.layout.attempts(self.version)),), pauses)


class LowestScan(Scan):
    def with_entry(self, entry: Prepare | Accept | DecidedHint | GivenUp | None) -> Scan:
        if isinstance(entry, Accept) and self.accepted is not None and self.accepted < entry.ballot:
            return super().with_entry(Prepare(entry.ballot))
        return super().with_entry(entry)


class AdoptsAnnouncements(FileTrackerPublish):
    """Takes what was announced for what was proposed."""

    def choose(self, attempt: Attempt, seen: Scan) -> filetracker.Step:
        if seen.accepted is None:
            return super().choose(attempt, seen)
        announced = self.layout.prepare_key(self.version, seen.accepted)
        return Ask(Adopting(attempt, seen.accepted.round), (Get(announced),))


class MarksItsOwnAsFailed(FileTrackerPublish):
    """Marks the sub-version in which it gave way as failed, although another client may win it."""

    def give_way(self, attempt: Attempt) -> filetracker.Step:
        step = super().give_way(attempt)
        assert isinstance(step, Ask)
        failed = Put(self.layout.expired_key(self.version, attempt.round), b"EXPIRED")
        return replace(step, requests=(*step.requests, failed))


class MarksAllAsFailed(FileTrackerPublish):
    """Marks every sub-version below its own as failed, although one of them may have decided already."""

    def accept(self, attempt: Attempt, value: bytes, *, above: int) -> filetracker.Step:
        return super().accept(attempt, value, above=0)


class IgnoresHigherBallots(FileTrackerPublish):
    """Never gives way."""

    def outranked(self, attempt: Attempt, seen: Scan) -> bool:
        return False


class OverlooksHint(FileTrackerPublish):
    """Does not look for the decided record when it has proposed."""

    def scanned(self, purpose: Purpose, seen: Scan) -> filetracker.Step:
        return super().scanned(purpose, replace(seen, hint=seen.hint and not isinstance(purpose, Accepted)))


class StaysInItsRound(FileTrackerPublish):
    """Gives way, and comes back with the ballot that was outranked."""

    def scanned(self, purpose: Purpose, seen: Scan) -> filetracker.Step:
        if isinstance(purpose, Yielded) and not seen.hint:
            return self.prepare(purpose.attempt)
        return super().scanned(purpose, seen)


class GivesUp(FileTrackerPublish):
    """Leaves instead of giving way."""

    def give_way(self, attempt: Attempt) -> filetracker.Step:
        return self.stop(attempt, NoAnswerError("a higher ballot is there"))


# --- FileTracker: telling ------------------------------------------------------------------------------


class TellsBeforeMarking(FileTrackerPublish):
    """Reports a decision before readers can see it."""

    def mark(self, attempt: Attempt, value: bytes) -> filetracker.Step:
        return Finish(Committed() if value == self.record else Lost(value))


class MarksCarelessly(FileTrackerPublish):
    """Does not look whether the decided record was written."""

    def resume(self, state: Any, answers: tuple[Answer, ...]) -> filetracker.Step:
        if isinstance(state, Marking):
            return super().resume(state, (Done(), Done()))
        return super().resume(state, answers)


class RejectedAfterProposing(FileTrackerPublish):
    """Takes a storage error for a failure, although others may complete what was proposed."""

    def stop(self, attempt: Attempt, error: StorageError) -> filetracker.Step:
        return Finish(Rejected(error))


class TakesSilenceForRefusal(FileTrackerPublish):
    """Believes that nothing was proposed when the proposal got no answer."""

    def resume(self, state: filetracker.State, answers: tuple[Answer, ...]) -> filetracker.Step:
        if isinstance(state, Accepting) and isinstance(answers[0], Failed):
            return self.stop(state.attempt, answers[0].error)
        return super().resume(state, answers)


class ResolvesWithoutDoubt(FileTrackerPublish):
    """Forgets, when it resolves, that the record may have been proposed before."""

    def begin(self) -> filetracker.Step:
        return self.prepare(Attempt())


# --- FileTracker: cleaning up and reading --------------------------------------------------------------


class DeletesHints(CleanUp):
    """Takes decided records for attempts."""

    def _is_attempt(self, version: Version, key: str) -> bool:
        return True


class TrustsUnseenVersion(CleanUp):
    """Takes a version for the newest because its record is there, without having seen its marker."""

    def _check_newest(self, markers: tuple[Version, ...]) -> cleanup.Step:
        return super()._check_newest((*markers, markers[-1].next()))


class TrustsSigns(FollowLog[Version]):
    """Takes a marker for a version, although its record may not be there yet."""

    def _ask(self, doubt: Doubting[Version]) -> Step[Version]:
        return Finish(Reached(doubt.version, ended=True))


class DoesNotLookAgain(FollowLog[Version]):
    """Takes a version that was decided after its look at the records for one that is lost."""

    def _ask(self, doubt: Doubting[Version]) -> Step[Version]:
        return Finish(LostEnd(doubt.course.state, doubt.version, doubt.sign))


class TakesMarkersForReceipts(FollowLog[Version]):
    """Takes the marker of the next version for a proof, although it is written with the record."""

    def _ask(self, doubt: Doubting[Version]) -> Step[Version]:
        return super()._ask(replace(doubt, proven=True))


class LooksOnlyAtMarkers(FollowLog[Version]):
    """Opens a log that has lost its end together with its markers, although the receipts are there."""

    def _signs(self, course: Course[Version], window: int) -> tuple[Get | ListPage, ...]:
        return super()._signs(course, window)[:1]


class TakesHolesForLost(FollowLog[Version]):
    """Does not read a missing record again, although it may have been decided before the one behind it."""

    def _missing(self, course: Course[Version], rest: tuple[Answer, ...]) -> Step[Version]:
        if any(isinstance(answer, Found) for answer in rest):
            return Finish(Hole(course.state.next(), self._next_key(course)))
        return super()._missing(course, rest)


class ForgetsProposals(FollowLog[Version]):
    """Takes a marker without a record for a loss, although its writer may have died between the two."""

    def _doubt(self, course: Course[Version], doubt: Doubting[Version]) -> Step[Version]:
        return Finish(LostEnd(course.state, doubt.version, doubt.sign))


class ReadsReceiptLast(FollowLog[Version]):
    """Reads the control entry of a version after its record, although both may have come in between."""

    def _signs(self, course: Course[Version], window: int) -> tuple[Get | ListPage, ...]:
        return super()._signs(course, window)[:1]

    def _doubt(self, course: Course[Version], doubt: Doubting[Version]) -> Step[Version]:
        return Ask(ReadingReceipt(doubt), (Get(entry_key(doubt.version)),))

    def resume(self, state: Any, answers: tuple[Answer, ...]) -> Step[Version]:
        match state, answers:
            case ReadingReceipt(doubt), (Found(),):
                return Finish(LostEnd(doubt.course.state, doubt.version, doubt.sign))
            case ReadingReceipt(doubt), _:
                return Finish(Reached(doubt.course.state, ended=True))
            case _:
                return super().resume(state, answers)


@dataclass(frozen=True, slots=True)
class ReadingReceipt:
    doubt: Doubting[Version]


class IgnoresUnmarked(FollowLog[Version]):
    """Reads only what is marked, although a marker may come late, or never."""

    def begin(self) -> Step[Version]:
        markers = (ListPage(TRACKER.index),)
        return Ask(LookingForSigns(Course(self.start, 0, 1), markers), markers)

    def _ask(self, doubt: Doubting[Version]) -> Step[Version]:
        return Finish(Reached(doubt.version, ended=True))


# --- conditional write and rename ----------------------------------------------------------------------


class NeverRecognisesItself(ConditionalPublish):
    """Takes whatever it finds for somebody else's record."""

    def resume(self, state: Any, answers: tuple[Answer, ...]) -> conditional.Step:
        if isinstance(state, conditional.ReadingBack) and isinstance(answers[0], Found):
            return Finish(Lost(answers[0].data))
        return super().resume(state, answers)


class NeverDoubts(ConditionalPublish):
    """Takes the refusal of a repeated offer for the end of it, although the first may still arrive."""

    def resume(self, state: Any, answers: tuple[Answer, ...]) -> conditional.Step:
        match state, answers:
            case conditional.Claiming(), (Failed(StorageRefusedError() as error),):
                return Finish(Rejected(error))
            case _:
                return super().resume(state, answers)


@dataclass(frozen=True, slots=True)
class DeleteOldRecord:
    """Deletes the record of version 1 once version 2 is there: old log files look like rubbish."""

    def begin(self) -> Ask:
        return Ask("looking", (Get(PLAIN.record_key(Version(2))),))

    def resume(self, state: str, answers: tuple[Answer, ...]) -> Ask | Finish[None]:
        if state == "looking" and isinstance(answers[0], Found):
            return Ask("deleting", (Delete(PLAIN.record_key(Version(1))),))
        return Finish(None)


class RenameReplaces(RenamePublish):
    """Uses a rename that replaces what is there."""

    def resume(self, state: Any, answers: tuple[Answer, ...]) -> rename.Step:
        match state, answers:
            case rename.Staging(tries, doubt), (Done(),):
                put = Put(self.layout.record_key(self.version), self.record)
                return Ask(rename.Moving(tries, doubt), (put,))
            case _:
                return super().resume(state, answers)


class OneTemporaryName(PlainLayout):
    """Names the temporary object by the transaction alone."""

    def temporary_key(self, version: Version, claimant: TxId) -> str:
        return f"{LOG}.{claimant}.tmp"


# --- the table -----------------------------------------------------------------------------------------


_LATE = writer(1, 1)
"""A client that may still be busy with version 1 when the others are done with it."""


def _race(name: str, kind: type[FileTrackerPublish], law: str, faults: int = 0, rounds: int = 2) -> Variant:
    return Variant(Configuration(name, rivals(kind, 2), 0, Faults(faults), rounds), law)


def _log(name: str, clients: tuple[Client, ...], law: str, *, only_decisions: bool = False) -> Variant:
    return Variant(Configuration(name, clients, 0, rounds=1), law, only_decisions)


def _single_step(
    name: str, clients: tuple[Client, ...], law: str, faults: int = 0, *, only_decisions: bool = False
) -> Variant:
    return Variant(Configuration(name, clients, 0, Faults(faults, refuse=True)), law, only_decisions)


def _claims(
    kind: type[FileTrackerPublish], number: int, versions: tuple[int, ...]
) -> tuple[FileTrackerPublish, ...]:
    return tuple(kind(Version(version), record_of(number, version), claimant(number)) for version in versions)


def _follower(kind: type[FollowLog[Version]]) -> FollowLog[Version]:
    return kind(GENESIS, versions_in(TRACKER), at_once=2, window=WINDOW)


def _reading(kind: type[FollowLog[Version]]) -> Client:
    return Client("reader", (_follower(kind),))


def _with_one_id(kind: type[FileTrackerPublish | RenamePublish]) -> tuple[Client, ...]:
    return tuple(
        Client(f"c{number}", (kind(Version(1), record_of(number, 1), claimant(7)),)) for number in (1, 2)
    )


def _resolving_under_its_old_id() -> tuple[Client, ...]:
    publish = FileTrackerPublish(Version(1), record_of(2, 1), claimant(2))
    return PersistentClient("c2", (publish, replace(publish, doubt=True))), _LATE


def _with_one_temporary_name() -> tuple[Client, ...]:
    layout = OneTemporaryName()
    tasks = (
        RenamePublish(Version(version), record_of(1, version), claimant(1), layout=layout)
        for version in (1, 2)
    )
    return (Client("c1", tuple(tasks)),)


_DELETED_HINTS = (writer(2, 1, 2, DeletesHints(keep=1)), _LATE)
_DELETED_RECORDS = (*rivals(ConditionalPublish, 2, (1, 2)), Client("cleaner", (DeleteOldRecord(),)))

VARIANTS: tuple[Variant, ...] = (
    _race("FileTracker without the second scan", NoSecondScan, RECORD_CHANGED),
    _race("FileTracker with the hint before the second scan", HintBeforeSecondScan, RECORD_CHANGED),
    _race("FileTracker that decides on the first scan", DecidesOnFirstScan, RECORD_CHANGED),
    _race("FileTracker that scans before PRE_COMMIT", ScansBeforePrepare, RECORD_CHANGED),
    _race("FileTracker that proposes its own value always", OwnValue, RECORD_CHANGED),
    _race("FileTracker that adopts the lowest accept", AdoptsLowest, RECORD_CHANGED),
    _race("FileTracker that adopts announcements", AdoptsAnnouncements, RECORD_INVENTED),
    _race("FileTracker that marks its own sub-version as failed", MarksItsOwnAsFailed, FAILED_WON),
    _race("FileTracker that marks all sub-versions as failed", MarksAllAsFailed, FAILED_WON),
    _race("FileTracker that ignores higher ballots", IgnoresHigherBallots, RECORD_CHANGED),
    _race("FileTracker that stays in its round", StaysInItsRound, DOES_NOT_FINISH),
    _race("FileTracker that gives up instead of giving way", GivesUp, NO_ANSWER),
    _race("FileTracker that tells before marking", TellsBeforeMarking, NOT_READABLE),
    _race("FileTracker that marks carelessly", MarksCarelessly, NOT_READABLE, faults=1),
    _race("FileTracker that is rejected after proposing", RejectedAfterProposing, TOLD_WRONGLY, faults=1),
    _race("FileTracker that takes silence for refusal", TakesSilenceForRefusal, TOLD_WRONGLY, faults=1),
    Variant(
        Configuration(
            "FileTracker with one id for two clients", _with_one_id(FileTrackerPublish), 0, rounds=2
        ),
        RECORD_CHANGED,
    ),
    Variant(
        Configuration(
            "FileTracker that resolves under its old id",
            _resolving_under_its_old_id(),
            0,
            Faults(1),
            rounds=2,
        ),
        RECORD_CHANGED,
    ),
    Variant(
        Configuration(
            "FileTracker that resolves without doubt",
            (resolving(ResolvesWithoutDoubt, 1), writer(2, 1)),
            0,
            Faults(2),
            rounds=2,
        ),
        TOLD_WRONGLY,
    ),
    Variant(
        Configuration(
            "FileTracker that trusts the order of a listing without order",
            (writer(2, 1, 2, CLEAN), _LATE),
            0,
            rounds=1,
            keys_per_page=1,
            listed_by=hints_first,
        ),
        RECORD_CHANGED,
    ),
    _log(
        "FileTracker that overlooks the hint when it has proposed",
        (
            Client("c2", (*_claims(OverlooksHint, 2, (1, 2)), CLEAN)),
            Client("c1", _claims(OverlooksHint, 1, (1,))),
        ),
        RECORD_CHANGED,
    ),
    _log("clean-up that deletes hints", _DELETED_HINTS, RECORD_GONE),
    _log("clean-up that deletes hints: what follows", _DELETED_HINTS, TWO_DECIDED, only_decisions=True),
    _log(
        "clean-up that trusts a version it did not see in tracker/",
        (writer(1, 1, 2), Client("cleaner", (TrustsUnseenVersion(keep=1),))),
        MARKER_WENT_BACK,
    ),
    _log("reader that trusts markers", (writer(1, 1, 2), _reading(TrustsSigns)), HEAD_NOT_READABLE),
    _log("reader that does not look again", (writer(1, 1, 2), _reading(DoesNotLookAgain)), FALSE_ALARM),
    _log("reader that takes holes for lost", (writer(1, 1, 2), _reading(TakesHolesForLost)), FALSE_ALARM),
    _log(
        "reader that takes markers for receipts",
        (writer(1, 1, 2), _reading(TakesMarkersForReceipts)),
        FALSE_ALARM,
    ),
    Variant(
        lost_end(FileTrackerPublish, LooksOnlyAtMarkers(GENESIS, versions_in(TRACKER), window=WINDOW)),
        LOSS_OVERLOOKED,
    ),
    _log("reader that forgets proposals", (writer(1, 1, 2), _reading(ForgetsProposals)), FALSE_ALARM),
    _log(
        "reader that reads receipts last",
        (writer(1, WithReceipt(claim(FileTrackerPublish, 1))), _reading(ReadsReceiptLast)),
        FALSE_ALARM,
    ),
    _log(
        "reader that does not look above the markers",
        (writer(1, 1, 2), writer(2, 1, 2, _follower(IgnoresUnmarked))),
        HEAD_WENT_BACK,
    ),
    _single_step("conditional write with deleted records", _DELETED_RECORDS, RECORD_GONE),
    _single_step(
        "conditional write with deleted records: what follows",
        _DELETED_RECORDS,
        TWO_DECIDED,
        only_decisions=True,
    ),
    _single_step(
        "conditional write that never recognises itself", rivals(NeverRecognisesItself, 2), TOLD_WRONGLY, 1
    ),
    _single_step("conditional write that never doubts", rivals(NeverDoubts, 2), TOLD_WRONGLY, 2),
    _single_step("rename with one id for two clients", _with_one_id(RenamePublish), TWO_DECIDED),
    _single_step("rename that replaces", rivals(RenameReplaces, 2), RECORD_CHANGED),
    _single_step(
        "rename with one temporary name for all versions", _with_one_temporary_name(), TWO_DECIDED, 1
    ),
)
