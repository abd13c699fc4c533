"""Commit protocols as pure machines: from a state and the answers to the next requests, or to a result.

A machine never touches storage. The driver runs it on a store; the explorer in `headgate.testing` runs the
same machine through every order of everybody's requests. States are frozen and hashable for its sake.

What can become of an attempt to commit. A loss is an answer, not an exception.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from headgate.errors import NoAnswerError, StorageError
from headgate.model.identifiers import TxId, Version
from headgate.storage.requests import Answer, Request

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Ask:
    """Carry out `requests`, in parallel or in any order, and resume with the answers in the same order.

    `pauses` counts how often the protocol has given way; before the requests of a step that gives way, the
    driver waits. Waiting serves progress, never safety.
    """

    state: Any
    requests: tuple[Request, ...]
    pauses: int = 0


@dataclass(frozen=True, slots=True)
class Finish(Generic[R_co]):
    result: R_co


class Machine(Protocol[R_co]):
    """A protocol run by one client. Implementations are frozen values."""

    def begin(self) -> Ask | Finish[R_co]: ...

    def resume(self, state: Any, answers: tuple[Answer, ...]) -> Ask | Finish[R_co]: ...


class ContestedError(NoAnswerError):
    """Other clients keep claiming the same version, and we do not get through."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Our record is the decided one of the version, forever, and readers see it."""


@dataclass(frozen=True, slots=True)
class Lost:
    """`record` is the decided one of the version; ours is not and never will be."""

    record: bytes


@dataclass(frozen=True, slots=True)
class Unknown:
    """The storage failed, as `error` says, and our record may be decided now or later.

    Nothing that the transaction wrote may be deleted. Publishing the same record again for the same version,
    with a fresh claimant, gives the answer at any later time.
    """

    version: Version
    claimant: TxId
    error: StorageError = field(compare=False)


@dataclass(frozen=True, slots=True)
class Rejected:
    """The storage refused a request before our record could be decided: it is not, and never will be.

    Nobody's record is known either. Protocols end with it; `publish` raises its error.
    """

    error: StorageError


Outcome: TypeAlias = Committed | Lost | Unknown
