"""Rename: the record is written under a temporary name, then moved to its own, which refuses to replace.

For HDFS and other file systems whose rename is one step. Object storage is never asked: its rename copies
and deletes.

1. PUT the record under a temporary name, which no reader looks at.
2. RENAME it to its final name, if nothing is there. Success: the version is ours. This request decides.
3. After a refusal or a lost answer: GET the record. Its bytes say who won.
4. If it is another's: DELETE the temporary object. If there is none: go to 1, a few times, with pauses.

A crash in 1, or between 1 and 2, leaves a temporary object, and the version open. A crash in 2 leaves the
version decided for us, or open. A crash in 4 leaves a temporary object, and we have lost. Nothing reads or
deletes temporary objects that were left behind; `headgate fsck` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.errors import NoAnswerError, StorageError, StorageRefusedError
from headgate.log.layout import PLAIN, PlainLayout
from headgate.log.machine import Ask, Committed, Finish, Lost, Rejected, Unknown
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
    """Whose record is there? `error`: why the last move got no clear answer, unless it was rejected."""

    tries: int
    error: StorageError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Leaving:
    """We lost; our temporary object goes. If that fails it stays, and `headgate fsck` lists it."""

    outcome: Lost


@dataclass(frozen=True, slots=True)
class RenamePublish:
    """Claims `version` for `record`.

    `doubt`: an earlier claim for the same record, by another claimant, got no answer.
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
            # Whatever is under the temporary name now, we never asked to move it: it cannot be decided. In
            # doubt, an earlier move may have landed, so the record is read back first (below).
            case Staging(doubt=False), Failed(error):
                return Finish(Rejected(error))
            case Moving(), Done():
                return Finish(Committed())
            # The storage refused the request itself, such as for lack of permission: nothing was moved, and
            # no earlier move is under way. The temporary object stays.
            case Moving(doubt=False), Failed(StorageRefusedError() as error):
                return Finish(Rejected(error))
            # "It exists" does not mean that we lost: the storage client repeats a move that got no answer,
            # and the repeated one can be refused because of what the first one moved.
            case ((Staging(tries) | Moving(tries)), _):
                error = answer.error if isinstance(answer, Failed) else None
                return Ask(ReadingBack(tries, error), (Get(self.layout.record_key(self.version)),))
            case ReadingBack(), Found(data) if data == self.record:
                return Finish(Committed())
            case ReadingBack(), Found(data):
                # Only now can the temporary object go: the final name is taken, so a late move of ours is
                # refused. Before, it could still have decided the version.
                return Ask(Leaving(Lost(data)), (Delete(self._temporary()),))
            case ReadingBack(tries), Missing() if tries < MAX_TRIES:
                # The move may still be under way, and then there is nothing left to move: so the record is
                # written again. Both moves offer the same bytes; whichever arrives first, the record is ours.
                return self._stage(tries + 1, doubt=True)
            # Whether or not it could be deleted: the outcome is known.
            case Leaving(outcome), _:
                return Finish(outcome)
            # No answer again, or still nothing to read: a move of ours may win later. The temporary object
            # stays, since that move needs it.
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
        return NoAnswerError(f"the storage refuses to move an object to {key}, but does not return {key}")

    def _temporary(self) -> str:
        # The claimant is part of the name: two clients with one name could each move what the other wrote.
        # So is the version: a late write for a version that we lost must not be moved to the next one.
        return self.layout.temporary_key(self.version, self.claimant)
