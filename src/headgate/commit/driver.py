"""Running a machine on a store: requests at once where the protocol allows, patience where it is harmless."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from headgate.commit.machine import Ask, Finish, Machine
from headgate.errors import InternalError, NoAnswerError
from headgate.host import Host
from headgate.storage.capabilities import Store
from headgate.storage.requests import Answer, Create, Failed, Found, Get, Put, Rename, Request, perform

R = TypeVar("R")

MAX_STEPS = 100_000
REPEATS = 3
"""How often a request that may be repeated without harm is repeated when no answer comes."""
FIRST_REPEAT_SECONDS = 0.05
PAUSE_FLOOR_SECONDS = 0.001
PAUSE_CAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Driver:
    """Performs the requests of machines on one store."""

    store: Store
    host: Host

    def run(self, machine: Machine[R]) -> R:
        step = machine.begin()
        slowest = PAUSE_FLOOR_SECONDS
        for _ in range(MAX_STEPS):
            if isinstance(step, Finish):
                return step.result
            if step.pauses:
                self.host.sleep(pause_seconds(slowest, step.pauses, self.host.chance()))
            started = self.host.elapsed()
            answers = self._ask(step)
            slowest = max(slowest, self.host.elapsed() - started)
            step = machine.resume(step.state, answers)
        raise InternalError(f"{type(machine).__name__} did not end within {MAX_STEPS} steps")

    def _ask(self, step: Ask) -> tuple[Answer, ...]:
        return tuple(self.host.together([partial(self.perform, request) for request in step.requests]))

    def perform(self, request: Request) -> Answer:
        """Carries out `request`, again if no answer comes and repeating it changes nothing."""
        answer = perform(self.store, request)
        if isinstance(request, Create | Rename):
            return answer
        for repeat in range(REPEATS):
            if not (isinstance(answer, Failed) and isinstance(answer.error, NoAnswerError)):
                break
            self.host.sleep(FIRST_REPEAT_SECONDS * 2**repeat * self.host.chance())
            answer = perform(self.store, request)
        return answer

    def get(self, key: str) -> bytes | None:
        """The object, or None. Raises a `StorageError` when patience did not help."""
        answer = self.perform(Get(key))
        if isinstance(answer, Failed):
            raise answer.error
        return answer.data if isinstance(answer, Found) else None

    def put(self, key: str, data: bytes) -> None:
        """Writes the object. Raises a `StorageError` when patience did not help."""
        answer = self.perform(Put(key, data))
        if isinstance(answer, Failed):
            raise answer.error


def pause_seconds(slowest_step: float, pauses: int, chance: float) -> float:
    """How long to give way: at least the three steps that the client ahead of us needs to finish.

    Measured in our own steps, because nothing else tells how fast the storage is. Grows with each time we
    gave way, and is drawn at random so that two clients do not keep stepping on each other's toes.
    """
    return min(PAUSE_CAP_SECONDS, slowest_step * (3.0 + chance * 2.0 ** min(pauses, 10)))
