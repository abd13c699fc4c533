"""Conditional write: the record is created under its final name, and storage refuses all but the first.

1. CREATE the record, if there is none of this version. Success: the version is ours. One request decides.
2. After a refusal or a lost answer: GET the record. Its bytes say who won.
3. If there is none: go to 1 with the same bytes, a few times, with pauses.

A crash in 1 leaves the version decided for us, or open; a search for the transaction in the log shows which.
Nothing else is left: no temporary object, no lock. (On a disk, a half-written file with a hidden name can
stay, which no listing shows.)

A record is never deleted, however old: a client that was suspended at 1 would create it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.errors import NoAnswerError, StorageError, StorageRefusedError
from headgate.log.layout import PLAIN, PlainLayout
from headgate.log.machine import Ask, Committed, Finish, Lost, Rejected, Unknown
from headgate.model.identifiers import TxId, Version
from headgate.storage.requests import Answer, Create, Done, Failed, Found, Get, Missing

Step: TypeAlias = Ask | Finish[Committed | Lost | Unknown | Rejected]

MAX_TRIES = 4
"""How often the record is offered while reading back finds nothing."""


@dataclass(frozen=True, slots=True)
class Claiming:
    """The record is offered for the `tries`-th time.

    `doubt`: an earlier offer may have landed, or may yet.
    """

    tries: int
    doubt: bool


@dataclass(frozen=True, slots=True)
class ReadingBack:
    """Whose record is there? `error`: why the last offer got no clear answer, unless it was rejected."""

    tries: int
    error: StorageError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ConditionalPublish:
    """Claims `version` for `record`.

    `doubt`: an earlier claim for the same record, by another claimant, got no answer.
    """

    version: Version
    record: bytes
    claimant: TxId
    doubt: bool = False
    layout: PlainLayout = PLAIN

    def begin(self) -> Step:
        return self._claim(tries=1, doubt=self.doubt)

    def resume(self, state: Claiming | ReadingBack, answers: tuple[Answer, ...]) -> Step:
        (answer,) = answers
        match state, answer:
            case Claiming(), Done():
                return Finish(Committed())
            # The storage refused the request itself, such as for lack of permission, and changed nothing.
            # That settles only a first offer: an earlier one without answer may still arrive and win.
            case Claiming(doubt=False), Failed(StorageRefusedError() as error):
                return Finish(Rejected(error))
            # "It exists" does not mean that we lost: the storage client repeats a request that got no answer,
            # and the repeated one can be refused by the object that the first one wrote.
            case Claiming(tries), _:
                error = answer.error if isinstance(answer, Failed) else None
                return Ask(ReadingBack(tries, error), (Get(self.layout.record_key(self.version)),))
            case ReadingBack(), Found(data):
                return Finish(Committed() if data == self.record else Lost(data))
            case ReadingBack(tries), Missing() if tries < MAX_TRIES:
                # The offer may still be under way, so this is no loss. To offer the same bytes again is
                # harmless: whichever arrives first, the record is ours.
                return self._claim(tries + 1, doubt=True)
            # No answer again, or still nothing to read: an offer of ours may win later.
            case ReadingBack(error=error), _:
                return Finish(Unknown(self.version, self.claimant, error or self._not_read(answer)))
            case _:
                raise AssertionError((state, answer))

    def _claim(self, tries: int, doubt: bool) -> Step:
        offer = Create(self.layout.record_key(self.version), self.record)
        return Ask(Claiming(tries, doubt), (offer,), pauses=tries - 1)

    def _not_read(self, answer: Answer) -> StorageError:
        if isinstance(answer, Failed):
            return answer.error
        key = self.layout.record_key(self.version)
        return NoAnswerError(f"the storage says that {key} exists, but does not return it")
