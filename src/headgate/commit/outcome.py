"""What can become of an attempt to commit. A loss is an answer, not an exception."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.errors import NoAnswerError, StorageError
from headgate.model.identifiers import TxId, Version


class ContestedError(NoAnswerError):
    """Other clients claim the same version again and again, and we do not get through."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Our record is the decided one of the version, for ever, and readers see it."""


@dataclass(frozen=True, slots=True)
class Lost:
    """`record` is the decided one of the version; ours is not and never will be."""

    record: bytes


@dataclass(frozen=True, slots=True)
class Unknown:
    """Storage failed us, as `error` says, and ours may be decided now or later.

    Nothing that the transaction wrote may be deleted. Publishing the same record again for the same
    version, in the name of a fresh claimant, gives the answer at any later time.
    """

    version: Version
    claimant: TxId
    error: StorageError = field(compare=False)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Storage refused before anything of ours could be decided: ours is not and never will be.

    Nobody's record is known either. Protocols end with it; `publish` raises its error.
    """

    error: StorageError


Outcome: TypeAlias = Committed | Lost | Unknown
