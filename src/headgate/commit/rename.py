"""Rename: the record is written under a temporary name, then moved to its own, which refuses to replace.

For HDFS and other file systems whose rename is one step. Object storage is never asked: its rename copies
and deletes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.commit.layout import PLAIN, PlainLayout
from headgate.commit.machine import Ask, Finish
from headgate.commit.outcome import Committed, Lost, Rejected, Unknown
from headgate.errors import NoAnswerError, StorageError, StorageRefusedError
from headgate.model.identifiers import TxId, Version
from headgate.storage.requests import Answer, Delete, Done, Failed, Found, Get, Missing, Put, Rename

Step: TypeAlias = Ask | Finish[Committed | Lost | Unknown | Rejected]

MAX_TRIES = 4
"""How often the record is moved while reading back finds nothing."""


@dataclass(frozen=True, slots=True)
class Staging:
    """The temporary object is being written. `doubt`: an earlier move may have landed, or may yet."""

    tries: int
    doubt: bool


@dataclass(frozen=True, slots=True)
class Moving:
    tries: int
    doubt: bool


@dataclass(frozen=True, slots=True)
class ReadingBack:
    """Whose record is there? `error`: why the last move got no clear answer, unless it was refused."""

    tries: int
    error: StorageError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Leaving:
    """We lost; our temporary object goes. If that fails it stays, named by its transaction, for vacuum."""

    outcome: Lost


@dataclass(frozen=True, slots=True)
class RenamePublish:
    """Claims `version` for `record`.

    `doubt`: an earlier claim for the same record, in another name, was left without answer.
    """

    version: Version
    record: bytes
    claimant: TxId
    doubt: bool = False
    layout: PlainLayout = PLAIN

    def begin(self) -> Step:
        return self._stage(tries=1, doubt=self.doubt)

    def resume(self, state: Staging | Moving | ReadingBack | Leaving, answers: tuple[Answer, ...]) -> Step:
        (answer,) = answers
        match state, answer:
            case Staging(tries, doubt), Done():
                move = Rename(self._temporary(), self.layout.record_key(self.version))
                return Ask(Moving(tries, doubt), (move,))
            case Staging(doubt=False), Failed(error):
                return Finish(Rejected(error))
            case Moving(), Done():
                return Finish(Committed())
            case Moving(doubt=False), Failed(StorageRefusedError() as error):
                return Finish(Rejected(error))
            case ((Staging(tries) | Moving(tries)), _):
                error = answer.error if isinstance(answer, Failed) else None
                return Ask(ReadingBack(tries, error), (Get(self.layout.record_key(self.version)),))
            case ReadingBack(), Found(data) if data == self.record:
                return Finish(Committed())
            case ReadingBack(), Found(data):
                return Ask(Leaving(Lost(data)), (Delete(self._temporary()),))
            case ReadingBack(tries), Missing() if tries < MAX_TRIES:
                return self._stage(tries + 1, doubt=True)
            case Leaving(outcome), _:
                return Finish(outcome)
            case ReadingBack(error=error), _:
                return Finish(Unknown(self.version, self.claimant, error or self._not_read(answer)))
            case _:
                raise AssertionError((state, answer))

    def _stage(self, tries: int, doubt: bool) -> Step:
        return Ask(Staging(tries, doubt), (Put(self._temporary(), self.record),), pauses=tries - 1)

    def _not_read(self, answer: Answer) -> StorageError:
        if isinstance(answer, Failed):
            return answer.error
        key = self.layout.record_key(self.version)
        return NoAnswerError(f"nothing can be moved to {key}, and it cannot be read")

    def _temporary(self) -> str:
        return self.layout.temporary_key(self.version, self.claimant)
