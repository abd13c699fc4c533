"""Conditional write: the record is created under its final name, and storage refuses all but the first.

One request decides. A refusal or a lost answer is settled by reading the object back: a retry below us can
be refused by the very object that it wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.commit.layout import PLAIN, PlainLayout
from headgate.commit.machine import Ask, Finish
from headgate.commit.outcome import Committed, Lost, Rejected, Unknown
from headgate.errors import NoAnswerError, StorageError, StorageRefusedError
from headgate.model.identifiers import TxId, Version
from headgate.storage.requests import Answer, Create, Done, Failed, Found, Get, Missing

Step: TypeAlias = Ask | Finish[Committed | Lost | Unknown | Rejected]

MAX_TRIES = 4
"""How often the record is offered while reading back finds nothing."""


@dataclass(frozen=True, slots=True)
class Claiming:
    """The record is offered for the `tries`-th time. `doubt`: an earlier offer may land, or has landed."""

    tries: int
    doubt: bool


@dataclass(frozen=True, slots=True)
class ReadingBack:
    """Whose record is there? `error`: why the last offer got no clear answer, unless it was refused."""

    tries: int
    error: StorageError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ConditionalPublish:
    """Claims `version` for `record`.

    `doubt`: an earlier claim for the same record, in another name, was left without answer.
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
            case Claiming(doubt=False), Failed(StorageRefusedError() as error):
                return Finish(Rejected(error))
            case Claiming(tries), _:
                error = answer.error if isinstance(answer, Failed) else None
                return Ask(ReadingBack(tries, error), (Get(self.layout.record_key(self.version)),))
            case ReadingBack(), Found(data):
                return Finish(Committed() if data == self.record else Lost(data))
            case ReadingBack(tries), Missing() if tries < MAX_TRIES:
                # The offer may still be on its way. Offering the same bytes again is harmless: whichever
                # arrives first, the record is ours.
                return self._claim(tries + 1, doubt=True)
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
        return NoAnswerError(f"{key} is refused because it exists, and cannot be read")
