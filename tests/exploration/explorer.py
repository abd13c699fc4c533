"""Every order in which clients can reach storage, run on the shipped protocol code.

A world is the content of the store and the state of each client. From each world, every client may take its
next request; the explorer visits every world that can be reached. A crash needs no step of its own: a
client that crashed is one that is never chosen again, and all worlds it can leave behind are visited.

Faults are steps too, as many as the budget allows: an answer that is lost, a request that is lost, a request
that arrives a second time, late, and one that is refused. A listing can be split into pages of one key, each
observed at its own moment, in key order or in another one.

Stores and client states are numbered as they are found, and what a client in a given state does to a given
store is computed once; so a world costs a few dictionary look-ups.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from headgate.errors import NoAnswerError, StorageRefusedError
from headgate.log.machine import Ask, Finish, Machine, Rejected, Unknown
from headgate.storage.capabilities import Page, SizedPage, Stored, TimedPage
from headgate.storage.requests import (
    Answer,
    Create,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    ListPage,
    ListSizesPage,
    ListTimesPage,
    Missing,
    Put,
    Refused,
    Rename,
    Request,
)
from headgate.testing.request_text import describe

Objects: TypeAlias = Mapping[str, bytes]

SOLO_STEPS = 500
"""How many requests a client that is left alone may need before we say that it does not finish."""

_NO_ANSWER = Failed(NoAnswerError("no answer (explored)"))
_REFUSED = Failed(StorageRefusedError("refused (explored)"))


@dataclass(frozen=True, slots=True)
class Choose:
    """A step whose outcome nothing in the world decides, such as a clock: each answer is explored.

    Shipped protocols never ask it; models of other protocols do.
    """

    question: str
    answers: tuple[Any, ...]

    def __str__(self) -> str:
        return self.question


@dataclass(frozen=True, slots=True)
class Client:
    """What one client does: machines, one after the other. It stops at a result that forbids going on."""

    name: str
    tasks: tuple[Machine[Any], ...]

    def goes_on(self, result: object) -> bool:
        return not isinstance(result, Unknown | Rejected)


@dataclass(frozen=True, slots=True)
class Running:
    """Where a client is: the results of finished tasks, and the requests it waits for."""

    results: tuple[Any, ...]
    state: Any = None
    requests: tuple[Any, ...] = ()
    answers: tuple[Any, ...] = ()

    @property
    def finished(self) -> bool:
        return not self.requests


@dataclass(frozen=True, slots=True)
class Faults:
    """What may go wrong, and how often in one run.

    `refuse`: a request is turned down and certainly changed nothing. Off unless asked for, because only
    protocols that tell a refusal from silence can be upset by it.
    """

    budget: int = 0
    lose_answers: bool = True
    lose_requests: bool = True
    repeat_late: bool = True
    refuse: bool = False


class Laws:
    """What must hold. Override; return a sentence to report a violation."""

    def on_change(self, before: Objects, request: Request, after: Objects) -> str | None:
        """Called once for every change that a request makes to a store."""
        return None

    def on_world(self, objects: Objects, results: tuple[tuple[Any, ...], ...]) -> str | None:
        """Called for every combination of a store and the results that clients have been told."""
        return None


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken law and the schedule that leads to it: who did what, in order."""

    law: str
    schedule: tuple[tuple[str, str], ...]

    def turns(self) -> tuple[str, ...]:
        """The names of the clients in the order of their steps."""
        return tuple(name for name, _ in self.schedule)

    def __str__(self) -> str:
        steps = "\n".join(f"  {name:<8} {what}" for name, what in self.schedule)
        return f"{self.law}\n{steps}"


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result: how much was visited, and what was found. `complete`: nothing was left out."""

    worlds: int
    steps: int
    violation: Violation | None
    complete: bool


T = TypeVar("T", bound=Hashable)


class _Numbered(Generic[T]):
    """Gives each distinct value a small number."""

    def __init__(self) -> None:
        self.numbers: dict[T, int] = {}
        self.values: list[T] = []

    def number(self, value: T) -> int:
        known = self.numbers.get(value)
        if known is None:
            known = self.numbers[value] = len(self.values)
            self.values.append(value)
        return known


FrozenStore: TypeAlias = tuple[tuple[str, bytes], ...]
World: TypeAlias = tuple[int, ...]
"""Store, faults left, ghosts (requests that may still arrive), then one number per client."""
Label: TypeAlias = tuple[str, str]
"""Who did what, in a schedule."""


class _Turn(NamedTuple):
    """What a step of one client makes of the store and of the client, whatever the others do meanwhile."""

    store: int
    client: int
    cost: int
    ghost: int | None
    problem: str | None
    request: int
    remark: str


class _Outlook(NamedTuple):
    """What a client in some state can do to some store: its turns without faults, all its turns.

    `problem`: it would not finish if it were left alone.
    """

    calm: tuple[_Turn, ...]
    every: tuple[_Turn, ...]
    problem: str | None


@dataclass
class Explorer:
    """Explores `clients` on a store that holds `objects`.

    `allow` can keep a client from a step (for example to bound the number of rounds); worlds are then
    complete within that bound. `max_worlds` stops a search that got out of hand and says so.

    `listed_by` orders the keys of a listing, for storages that do not list in key order; a listing goes on
    behind its last key in that order.

    `turns`: the clients named there take one step each, in that order, before the exploration starts; turns
    of clients that have finished are skipped.
    """

    clients: tuple[Client, ...]
    laws: Laws
    objects: Objects = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    keys_per_page: int | None = None
    listed_by: Callable[[str], Any] = str
    turns: tuple[str, ...] = ()
    allow: Callable[[Any], bool] = lambda _: True
    check_progress: bool = True
    max_worlds: int = 20_000_000

    def __post_init__(self) -> None:
        self._stores: _Numbered[FrozenStore] = _Numbered()
        self._running: tuple[_Numbered[Running], ...] = tuple(_Numbered() for _ in self.clients)
        self._ghosts: _Numbered[tuple[int, ...]] = _Numbered()
        self._requests: _Numbered[Request | Choose] = _Numbered()
        self._performed: dict[tuple[int, int], tuple[int, Answer, str | None]] = {}
        self._answered: tuple[dict[tuple[int, int, Answer], int], ...] = tuple({} for _ in self.clients)
        self._judged: dict[tuple[int, ...], str | None] = {}
        self._alone: dict[tuple[int, int, int], str | None] = {}
        self._outlooks: dict[tuple[int, int, int], _Outlook] = {}
        self._results: tuple[_Numbered[tuple[Any, ...]], ...] = tuple(_Numbered() for _ in self.clients)
        self._told: tuple[list[int], ...] = tuple([] for _ in self.clients)

    # --- visiting ---------------------------------------------------------------------------------

    def explore(self) -> Exploration:
        """Visits every world. On a violation, looks for the shortest schedule that leads to one."""
        found, worlds, steps = self._search(shortest=False)
        if found is None:
            return Exploration(worlds, steps, None, complete=worlds < self.max_worlds)
        shortest, _, _ = self._search(shortest=True)
        return Exploration(worlds, steps, shortest or found, complete=False)

    def _search(self, *, shortest: bool) -> tuple[Violation | None, int, int]:
        start, replayed, problem = self._replay(self._start())
        if problem is not None:
            return Violation(problem, replayed), 0, len(replayed)
        waiting: deque[World] = deque([start])
        parents: dict[World, tuple[World, Label]] = {}
        visited = {start}
        steps = 0
        while waiting and len(visited) < self.max_worlds:
            world = waiting.popleft() if shortest else waiting.pop()
            outlooks = self._outlooks_in(world)
            problem = self._problem_in(world, outlooks)
            if problem is not None:
                return Violation(problem, replayed + _schedule(parents, world)), len(visited), steps
            for after, turn, index in self._steps(world, outlooks):
                steps += 1
                if turn.problem is not None:
                    schedule = (*replayed, *_schedule(parents, world), self._label(turn, index))
                    return Violation(turn.problem, schedule), len(visited), steps
                if after not in visited:
                    visited.add(after)
                    waiting.append(after)
                    if shortest:
                        parents[after] = (world, self._label(turn, index))
        return None, len(visited), steps

    def _start(self) -> World:
        store = self._stores.number(tuple(sorted(self.objects.items())))
        running = tuple(
            self._enrolled(index, self._begin(client, ())) for index, client in enumerate(self.clients)
        )
        return (store, self.faults.budget, self._ghosts.number(()), *running)

    def _replay(self, world: World) -> tuple[World, tuple[Label, ...], str | None]:
        """The world after `turns`, or after the first of them that breaks a law."""
        indexes = {client.name: index for index, client in enumerate(self.clients)}
        schedule: tuple[Label, ...] = ()
        for name in self.turns:
            index = indexes[name]
            for turn in self._outlook(world[0], index, world[3 + index]).calm[:1]:
                world = self._after(world, turn, index)
                schedule = (*schedule, self._label(turn, index))
                problem = turn.problem or self._problem_in(world, self._outlooks_in(world))
                if problem is not None:
                    return world, schedule, problem
        return world, schedule, None

    def _steps(self, world: World, outlooks: list[_Outlook]) -> Iterator[tuple[World, _Turn, int]]:
        """Every next world, the turn that leads to it, and whose turn it was: a client's, or -1 for none."""
        store, budget, ghosts = world[:3]
        for index, outlook in enumerate(outlooks):
            for turn in outlook.every if budget else outlook.calm:
                yield self._after(world, turn, index), turn, index
        haunting = self._ghosts.values[ghosts]
        for position, late in enumerate(haunting):
            after, _, problem = self._perform(store, late)
            rest = self._ghosts.number((*haunting[:position], *haunting[position + 1 :]))
            turn = _Turn(after, -1, 0, None, problem, late, "")
            yield (after, budget, rest, *world[3:]), turn, -1

    def _after(self, world: World, turn: _Turn, index: int) -> World:
        ghosts = world[2]
        if turn.ghost is not None:
            # Sorted, since it makes no difference which of them was sent first.
            ghosts = self._ghosts.number(tuple(sorted((*self._ghosts.values[ghosts], turn.ghost))))
        at = 3 + index
        return (turn.store, world[1] - turn.cost, ghosts, *world[3:at], turn.client, *world[at + 1 :])

    def _label(self, turn: _Turn, index: int) -> Label:
        who = "late" if index < 0 else self.clients[index].name
        return who, describe(self._requests.values[turn.request]) + turn.remark

    # --- one transition, computed once --------------------------------------------------------------

    def _outlooks_in(self, world: World) -> list[_Outlook]:
        return [self._outlook(world[0], index, number) for index, number in enumerate(world[3:])]

    def _outlook(self, store: int, index: int, number: int) -> _Outlook:
        key = (store, index, number)
        known = self._outlooks.get(key)
        if known is None:
            every = tuple(self._turns_of(store, index, number))
            problem = self._problem_alone(store, index, number) if self.check_progress else None
            known = _Outlook(tuple(turn for turn in every if turn.cost == 0), every, problem)
            self._outlooks[key] = known
        return known

    def _turns_of(self, store: int, index: int, number: int) -> Iterator[_Turn]:
        """Everything that can become of the requests that a client waits for."""
        running = self._running[index].values[number]
        if running.finished or not self.allow(running.state):
            return
        for position, answer in enumerate(running.answers):
            if answer is None:
                yield from self._turns_with(store, index, number, position)

    def _turns_with(self, store: int, index: int, number: int, position: int) -> Iterator[_Turn]:
        request = self._running[index].values[number].requests[position]
        asked = self._requests.number(request)

        def turn(
            after: int, answer: Any, problem: str | None, remark: str, *, cost: int, late: bool
        ) -> _Turn:
            client = self._answer(index, number, position, answer)
            return _Turn(after, client, cost, asked if late else None, problem, asked, remark)

        if isinstance(request, Choose):
            for choice in request.answers:
                yield turn(store, choice, None, f" -> {choice}", cost=0, late=False)
            return
        after, answer, problem = self._perform(store, asked)
        yield turn(after, answer, problem, "", cost=0, late=False)
        faults = self.faults
        if faults.budget and faults.lose_answers:
            yield turn(after, _NO_ANSWER, problem, " (answer lost)", cost=1, late=False)
        if faults.budget and faults.lose_requests:
            yield turn(store, _NO_ANSWER, None, " (request lost)", cost=1, late=False)
        if faults.budget and faults.refuse:
            yield turn(store, _REFUSED, None, " (refused)", cost=1, late=False)
        if faults.budget and faults.repeat_late and isinstance(request, Put | Create | Rename | Delete):
            yield turn(after, answer, problem, " (and again later)", cost=1, late=True)
            yield turn(store, _NO_ANSWER, None, " (arrives later)", cost=1, late=True)

    def _perform(self, store: int, number: int) -> tuple[int, Answer, str | None]:
        known = self._performed.get((store, number))
        if known is None:
            before = self._stores.values[store]
            request = self._requests.values[number]
            assert not isinstance(request, Choose), "nothing in the store can answer it"
            objects, answer = perform_on(dict(before), request, self.keys_per_page, self.listed_by)
            after = self._stores.number(tuple(sorted(objects.items())))
            problem = None if after == store else self.laws.on_change(dict(before), request, objects)
            known = self._performed[(store, number)] = (after, answer, problem)
        return known

    def _answer(self, index: int, number: int, position: int, answer: Answer) -> int:
        known = self._answered[index].get((number, position, answer))
        if known is None:
            running = self._running[index].values[number]
            answers = (*running.answers[:position], answer, *running.answers[position + 1 :])
            if None in answers:
                after = Running(running.results, running.state, running.requests, answers)
            else:
                client = self.clients[index]
                step = client.tasks[len(running.results)].resume(running.state, answers)
                after = self._advance(client, running.results, step)
            known = self._answered[index][(number, position, answer)] = self._enrolled(index, after)
        return known

    def _enrolled(self, index: int, running: Running) -> int:
        """The number of a client's state; the number of what it was told by then is kept beside it."""
        number = self._running[index].number(running)
        if number == len(self._told[index]):
            self._told[index].append(self._results[index].number(running.results))
        return number

    def _begin(self, client: Client, results: tuple[Any, ...]) -> Running:
        if len(results) == len(client.tasks):
            return Running(results)
        return self._advance(client, results, client.tasks[len(results)].begin())

    def _advance(self, client: Client, results: tuple[Any, ...], step: Ask | Finish[Any]) -> Running:
        if isinstance(step, Finish):
            told = (*results, step.result)
            return self._begin(client, told) if client.goes_on(step.result) else Running(told)
        return Running(results, step.state, step.requests, (None,) * len(step.requests))

    # --- laws -----------------------------------------------------------------------------------------

    def _problem_in(self, world: World, outlooks: list[_Outlook]) -> str | None:
        told = [numbers[number] for numbers, number in zip(self._told, world[3:], strict=True)]
        key = (world[0], *told)
        if key not in self._judged:
            objects = dict(self._stores.values[world[0]])
            results = tuple(known.values[number] for known, number in zip(self._results, told, strict=True))
            self._judged[key] = self.laws.on_world(objects, results)
        problem = self._judged[key]
        if problem is None:
            problem = next((outlook.problem for outlook in outlooks if outlook.problem is not None), None)
        return problem

    def _problem_alone(self, store: int, index: int, number: int) -> str | None:
        """Whether the client, left alone in this world, fails to finish."""
        key = (store, index, number)
        if key in self._alone:
            return self._alone[key]
        visited = [key]
        problem: str | None = f"{self.clients[index].name}, left alone, does not finish in {SOLO_STEPS} steps"
        for _ in range(SOLO_STEPS):
            running = self._running[index].values[number]
            if running.finished:
                problem = None
                break
            position = running.answers.index(None)
            request = running.requests[position]
            if isinstance(request, Choose):
                answer: Any = request.answers[0]
            else:
                store, answer, _ = self._perform(store, self._requests.number(request))
            number = self._answer(index, number, position, answer)
            if (store, index, number) in self._alone:
                problem = self._alone[(store, index, number)]
                break
            visited.append((store, index, number))
        for passed in visited:
            self._alone[passed] = problem
        return problem


def _schedule(parents: Mapping[World, tuple[World, Label]], world: World) -> tuple[Label, ...]:
    steps: list[Label] = []
    while world in parents:
        world, label = parents[world]
        steps.append(label)
    return tuple(reversed(steps))


def perform_on(
    objects: dict[str, bytes],
    request: Request,
    keys_per_page: int | None = None,
    listed_by: Callable[[str], Any] = str,
) -> tuple[dict[str, bytes], Answer]:
    """Carries out `request` on a plain dictionary: the storage that the explorer believes in."""
    match request:
        case Get(key):
            return objects, Found(objects[key]) if key in objects else Missing()
        case Put(key, data):
            return {**objects, key: data}, Done()
        case Create(key, data):
            return (objects, Refused()) if key in objects else ({**objects, key: data}, Done())
        case Rename(source, target):
            if target in objects or source not in objects:
                return objects, Refused()
            moved = {key: data for key, data in objects.items() if key != source}
            return {**moved, target: objects[source]}, Done()
        case Delete(key):
            return {name: data for name, data in objects.items() if name != key}, Done()
        case ListPage(prefix, after):
            return objects, _page(_listed(objects, prefix, after, listed_by), keys_per_page)
        case ListSizesPage(prefix, after):
            keys = _listed(objects, prefix, after, listed_by)
            return objects, SizedPage(tuple((key, len(objects[key])) for key in keys), complete=True)
        case ListTimesPage(prefix, after):
            keys = _listed(objects, prefix, after, listed_by)
            # No protocol reads a clock, so there is one moment only.
            stored = (Stored(key, len(objects[key]), datetime.min.replace(tzinfo=UTC)) for key in keys)
            return objects, TimedPage(tuple(stored), complete=True)


def _listed(objects: Objects, prefix: str, after: str | None, listed_by: Callable[[str], Any]) -> list[str]:
    below = sorted((key for key in objects if key.startswith(prefix)), key=listed_by)
    return below if after is None else [key for key in below if listed_by(key) > listed_by(after)]


def _page(keys: list[str], keys_per_page: int | None) -> Page:
    if keys_per_page is None:
        return Page(tuple(keys), complete=True)
    # The last key cannot be known to be the last without one more look, so the final page is empty.
    return Page(tuple(keys[:keys_per_page]), complete=not keys)
