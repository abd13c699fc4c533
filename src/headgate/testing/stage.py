"""A stage on which whole clients run one at a time, in an order and with faults that one seed decides.

Each actor is a thread, but only one runs at any time: an actor runs until it sends a request to storage or
sleeps, and the stage then chooses which one continues. Time is a number that the stage advances. So a run is
a function of its seed, and a failure can be replayed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from headgate.errors import NoAnswerError, StorageRefusedError
from headgate.model.identifiers import TxId
from headgate.storage.capabilities import Page, Store
from headgate.storage.requests import (
    Answer,
    Create,
    Delete,
    Failed,
    ListPage,
    Put,
    Rename,
    Request,
    perform,
)
from headgate.testing.intercept import Proceed, intercepted
from headgate.testing.request_text import describe

T = TypeVar("T")

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely each fault is, per request."""

    lose_answer: float = 0.0
    lose_request: float = 0.0
    arrive_late: float = 0.0
    repeat_late: float = 0.0
    refuse: float = 0.0
    crash: float = 0.0
    split_listing: float = 0.0
    mean_delay: float = 0.02


CALM = Weather()
ROUGH = Weather(
    lose_answer=0.03,
    lose_request=0.03,
    arrive_late=0.5,
    repeat_late=0.03,
    refuse=0.01,
    crash=0.01,
    split_listing=0.3,
)


class Crashed(BaseException):
    """The process of an actor died at this request. Not an `Exception`, so that no handler survives it."""


class StageOverrunError(AssertionError):
    """The actors did not finish within the allowed number of steps."""


class Actor:
    """One client process on the stage, or a thread of one.

    A process can crash, with all its threads; another one can then replace it.
    """

    def __init__(
        self, stage: Stage, name: str, play: Callable[[Actor], None], process: Actor | None = None
    ) -> None:
        self.stage = stage
        self.name = name
        self.process = process or self
        self.wake_at = stage.time
        self.crashed = False
        self.finished = False
        self.failure: BaseException | None = None
        self._play = play
        self._turn = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_process(self) -> bool:
        return self.process is self

    @property
    def dead(self) -> bool:
        """Whether it must stop: its process crashed, or ended."""
        return self.process.crashed or (self.process.finished and not self.is_process)

    def _run(self) -> None:
        self._turn.acquire()
        self.stage.here.actor = self
        try:
            self._play(self)
        except Crashed:
            self.stage.note(self, "crashed" if self.process.crashed else "ended with its process")
        except BaseException as error:  # noqa: BLE001 — kept, and raised again by the stage
            self.failure = error
        self.finished = True
        self.stage.turn_over.release()

    def give_turn(self) -> None:
        """Lets the actor run until it gives the turn back."""
        self._turn.release()
        self.stage.turn_over.acquire()
        if self.finished:
            self._thread.join()
        if self.failure is not None:
            raise self.failure

    def wait(self, seconds: float) -> None:
        """Called by the actor: gives the turn back, to be woken after `seconds`."""
        self.wake_at = self.stage.time + seconds
        self.stage.turn_over.release()
        self._turn.acquire()


class Stage:
    """The world of one run: a store, a clock, randomness, and the actors."""

    def __init__(self, seed: int, store: Store) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.time = 0.0
        self.store = store
        self.weather = CALM
        self.actors: list[Actor] = []
        self.trace: list[str] = []
        self.turn_over = threading.Semaphore(0)
        self.here = threading.local()
        """The actor of this thread: a store and a host belong to a process, which may have many threads."""
        self._late: list[tuple[float, Request]] = []

    def note(self, actor: Actor | None, what: str) -> None:
        """A line of the trace: the same seed writes the same lines."""
        self.trace.append(f"{self.time:9.4f} {actor.name if actor else 'storage':<8} {what}")

    def add(self, name: str, play: Callable[[Actor], None], process: Actor | None = None) -> Actor:
        actor = Actor(self, name, play, process)
        self.actors.append(actor)
        return actor

    def run(self, max_steps: int, weather: Callable[[int], Weather]) -> None:
        """Runs until all actors are finished; `weather` returns the faults at each step."""
        for step in range(max_steps):
            self.weather = weather(step)
            waiting = [actor for actor in self.actors if not actor.finished]
            if not waiting:
                return
            self._next(waiting)
        raise StageOverrunError(f"not finished after {max_steps} steps: {[a.name for a in waiting]}")

    def _next(self, waiting: list[Actor]) -> None:
        ready = [actor for actor in waiting if actor.wake_at <= self.time]
        late = [index for index, (due, _) in enumerate(self._late) if due <= self.time]
        if not ready and not late:
            dues = [due for due, _ in self._late]
            self.time = min([actor.wake_at for actor in waiting] + dues)
            return
        choice = self.dice.randrange(len(ready) + len(late))
        if choice < len(ready):
            ready[choice].give_turn()
        else:
            _, request = self._late.pop(late[choice - len(ready)])
            self.note(None, f"late {describe(request)}")
            perform(self.store, request)

    def store_for(self, actor: Actor) -> Store:
        """The store as `actor` sees it, with the faults of the weather."""
        return intercepted(self.store, lambda request, proceed: self._intercept(actor, request, proceed))

    def thread_of(self, process: Actor) -> Actor:
        """The actor whose turn it is, which belongs to `process`."""
        actor: Actor = getattr(self.here, "actor", process)
        assert actor.process is process, (actor.name, process.name)
        return actor

    def _intercept(self, process: Actor, request: Request, proceed: Proceed) -> Answer:
        actor = self.thread_of(process)
        if actor.dead:
            raise Crashed
        actor.wait(self.dice.expovariate(1.0 / self.weather.mean_delay))
        if actor.dead:
            raise Crashed  # another thread of its process crashed it
        answer = self._fate(actor, request, proceed)
        self.note(actor, f"{describe(request)}: {_answer_text(answer)}")
        return answer

    def _fate(self, actor: Actor, request: Request, proceed: Proceed) -> Answer:
        weather, dice = self.weather, self.dice
        if dice.random() < weather.crash:
            # Half of the crashes come after the request arrived, half before.
            if dice.random() < 0.5:
                proceed(request)
            actor.process.crashed = True
            self.note(actor, f"{describe(request)}: crash")
            raise Crashed
        if dice.random() < weather.refuse:
            return Failed(StorageRefusedError("refused (simulated)"))
        changes = isinstance(request, Put | Create | Rename | Delete)
        if dice.random() < weather.lose_request:
            if changes and dice.random() < weather.arrive_late:
                self._arrives_later(request)
            return Failed(NoAnswerError("no answer (simulated)"))
        answer = proceed(request)
        if changes and dice.random() < weather.repeat_late:
            self._arrives_later(request)
        if dice.random() < weather.lose_answer:
            return Failed(NoAnswerError("no answer (simulated)"))
        if isinstance(request, ListPage) and isinstance(answer, Page):
            return self._split(answer)
        return answer

    def _arrives_later(self, request: Request) -> None:
        self._late.append((self.time + self.dice.expovariate(1.0), request))

    def _split(self, page: Page) -> Page:
        if len(page.keys) < 2 or self.dice.random() >= self.weather.split_listing:
            return page
        return Page(page.keys[: self.dice.randrange(1, len(page.keys))], complete=False)


def _answer_text(answer: Answer) -> str:
    match answer:
        case Failed(error):
            return error.problem
        case Page(keys, complete):
            return f"{len(keys)} keys{'' if complete else ' and more'}"
        case _:
            return type(answer).__name__.lower()


@dataclass(frozen=True, slots=True)
class StageHost:
    """The environment of an actor: the stage's clock and randomness."""

    actor: Actor

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.elapsed())

    def elapsed(self) -> float:
        return self.actor.stage.time

    def sleep(self, seconds: float) -> None:
        actor = self.actor.stage.thread_of(self.actor)
        if actor.dead:
            raise Crashed
        actor.wait(seconds)
        if actor.dead:
            raise Crashed

    def background(self, work: Callable[[], None], name: str, *, awaited: bool = False) -> bool:  # noqa: ARG002
        self.actor.stage.add(f"{self.actor.name}/{name}", lambda _: work(), process=self.actor)
        return True

    def wait_until(self, changed: threading.Condition, is_so: Callable[[], bool]) -> None:
        while not is_so():
            changed.release()  # the actor that changes it is another thread of the stage
            try:
                self.sleep(0.01)
            finally:
                changed.acquire()

    def chance(self) -> float:
        return self.actor.stage.dice.random()

    def new_txid(self) -> TxId:
        return TxId(f"{self.actor.stage.dice.getrandbits(128):032x}")

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """One after the other, in a random order: any order is allowed."""
        order = list(range(len(tasks)))
        self.actor.stage.dice.shuffle(order)
        results: dict[int, T] = {}
        errors: dict[int, Exception] = {}
        for index in order:
            try:
                results[index] = tasks[index]()
            except Exception as error:  # noqa: BLE001 — kept, and raised again below
                errors[index] = error
        if errors:
            raise errors[min(errors)]
        return [results[index] for index in range(len(tasks))]

    def user(self) -> str:
        return "simulated"

    def name(self) -> str:
        return self.actor.name

    def process(self) -> int:
        return 1

    def common(self) -> MutableMapping[Hashable, Any]:
        """Shares nothing: every handle is a process."""
        return {}
