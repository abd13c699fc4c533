"""Commit protocols as pure machines: from a state and the answers to the next requests, or to a result.

A machine never touches storage. The driver runs it on a store; the explorer in `headgate.testing` runs the
same machine through every order of everybody's requests. States are frozen and hashable for its sake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from headgate.storage.requests import Answer, Request

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Ask:
    """Carry out `requests`, all at once or in any order, and resume with the answers in the same order.

    `pauses` counts how often the protocol has given way; before the requests of a step that gives way,
    the driver waits. Waiting serves progress, never safety.
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
