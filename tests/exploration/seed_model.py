"""The original rules of FileTracker, as a model for the explorer: they look plausible and do not hold.

Written from the description of the strategy that Headgate's FileTracker replaces, phase by phase. A commit
discovers version and sub-version by listing, announces itself with PRE_COMMIT, checks for others, writes its
commit file, checks again, and overwrites COMMIT-HINT. A commit that meets others fails, and the application
tries again under a new name. Files that are older than a TTL may be judged abandoned; since nothing in the
storage decides what a clock says, the model explores both answers.

A record is named by the attempt and its sub-version, as the original hint names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, TypeAlias, cast

from headgate.log.machine import Ask, Finish
from headgate.model.identifiers import Version
from headgate.storage.capabilities import Page
from headgate.storage.requests import Delete, Found, Get, ListPage, Put, Request
from tests.exploration.explorer import Choose, Client, Explorer, Laws, Objects
from tests.exploration.laws import Offer, Results

Script: TypeAlias = Generator[Request | Choose, Any, Any]

TRACKER = "control/log/tracker/"
COMMIT = "control/log/commit/"
ARCHIVE = "control/log/archive/"
HINT = "sub-hint/COMMIT-HINT.txt"
EXPIRED = "EXPIRED-HINT.txt"
PRE = "PRE_COMMIT-"
HELPED_BY = b" helped by "

EMPTY_LAKE: Objects = {f"{TRACKER}0.txt": b"0", f"{COMMIT}0/{HINT}": b"nobody@0"}
"""Version 0 is complete, so the first commit is version 1."""


class HintRule(Enum):
    """How COMMIT-HINT is written."""

    OVERWRITE = auto()
    """As described: written, whatever is there."""

    CHECK_THEN_FAIL = auto()
    """The repair that suggests itself: fail if it is there, else write it."""

    CHECK_THEN_PUT = auto()
    """The way in which all other markers are written: if it is there, there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The commit returned. `recorded`: it wrote its hint."""

    offer: Offer
    recorded: bool


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The commit raised: the application will try again, or report a failure."""

    offer: Offer


@dataclass(frozen=True, slots=True)
class Phase:
    """Where a script is, and all that it remembers: a version and a sub-version, once they are known."""

    name: str
    version: int = 0
    sub: int = 0

    @property
    def place(self) -> str:
        return f"{COMMIT}{self.version}/{self.sub}/"

    @property
    def hint(self) -> str:
        return f"{COMMIT}{self.version}/{HINT}"


class Scripted(ABC):
    """A machine written as generators of requests, one for each phase, which end with the next or a result.

    Its state is the phase and the answers of that phase so far.
    """

    @abstractmethod
    def script(self, phase: Phase) -> Script: ...

    def begin(self) -> Ask | Finish[Any]:
        return self._run(Phase("begin"), ())

    def resume(self, state: tuple[Phase, tuple[Any, ...]], answers: tuple[Any, ...]) -> Ask | Finish[Any]:
        phase, earlier = state
        return self._run(phase, earlier + answers)

    def _run(self, phase: Phase, answers: tuple[Any, ...]) -> Ask | Finish[Any]:
        script = self.script(phase)
        try:
            request = next(script)
            for answer in answers:
                request = script.send(answer)
        except StopIteration as stop:
            return self._run(stop.value, ()) if isinstance(stop.value, Phase) else Finish(stop.value)
        # A choice is not for storage; the explorer answers it.
        return Ask((phase, answers), (cast("Request", request),))


@dataclass(frozen=True)
class SeedCommit(Scripted):
    """One attempt, under a name that no other attempt has. `clocks`: what the TTL test may answer."""

    name: str
    rule: HintRule = HintRule.OVERWRITE
    clocks: tuple[str, ...] = ("fresh", "stale")

    def script(self, phase: Phase) -> Script:
        match phase.name:
            case "begin":
                return _discover_version()
            case "sub-version":
                return _discover_sub_version(phase)
            case "enter":
                return self._enter(phase)
            case "announce":
                return self._write(phase, f"{PRE}{self.name}.txt", "commit")
            case "commit":
                return self._write(phase, f"{self.name}.txt", "publish")
            case _:
                return self._publish(phase)

    def _enter(self, phase: Phase) -> Script:
        """Phase 2: the directory must be empty; whoever finds files there may expire or complete them."""
        names = yield from _names(phase.place)
        if not names:
            return replace(phase, name="announce")
        files = [name.removesuffix(".txt") for name in names - {EXPIRED}]
        attempts = {file.removeprefix(PRE) for file in files}
        if len(attempts) > 1 and len(attempts) == len(files):
            yield Put(phase.place + EXPIRED, b"")
        elif (yield Choose("is it stale?", self.clocks)) == "stale":
            if len(attempts) == 1 and len(files) == 2:
                helped = f"{attempts.pop()}@{phase.sub}".encode()
                yield Put(phase.hint, helped + HELPED_BY + self.name.encode())
            else:
                yield Put(phase.place + EXPIRED, b"")
        return GaveUp(self._offer(phase))

    def _write(self, phase: Phase, own: str, following: str) -> Script:
        """Phases 1 and 3, each with the check after it: a file of our own, and nobody else's."""
        yield Put(phase.place + own, b"")
        others = (yield from _names(phase.place)) - {f"{PRE}{self.name}.txt", f"{self.name}.txt"}
        return GaveUp(self._offer(phase)) if others else replace(phase, name=following)

    def _publish(self, phase: Phase) -> Script:
        """Phases 5 and 6."""
        offer = self._offer(phase)
        if self.rule is not HintRule.OVERWRITE and (yield from _exists(phase.hint)):
            return Succeeded(offer, recorded=False) if self.rule is HintRule.CHECK_THEN_PUT else GaveUp(offer)
        yield Put(phase.hint, offer.record)
        yield Put(f"{TRACKER}{phase.version}.txt", b"")
        return Succeeded(offer, recorded=True)

    def _offer(self, phase: Phase) -> Offer:
        return Offer(Version(phase.version), f"{self.name}@{phase.sub}".encode())


@dataclass(frozen=True)
class SeedCleanUp(Scripted):
    """Phase 7: versions that are `keep` behind the newest are archived, and their directories deleted."""

    keep: int = 1

    def script(self, phase: Phase) -> Script:
        versions = sorted(int(name.removesuffix(".txt")) for name in (yield from _names(TRACKER)))
        for version in versions:
            if version <= versions[-1] - self.keep:
                yield Put(f"{ARCHIVE}{version}.txt", b"")
                yield Delete(f"{TRACKER}{version}.txt")
                for name in (yield from _names(f"{COMMIT}{version}/")):
                    yield Delete(f"{COMMIT}{version}/{name}")


def _discover_version() -> Script:
    """Phases 0 and 0.25."""
    newest = max((int(name.removesuffix(".txt")) for name in (yield from _names(TRACKER))), default=0)
    complete = yield from _exists(f"{COMMIT}{newest}/{HINT}")
    version = newest + 1 if complete else newest
    yield from _create(f"{TRACKER}{version}.txt")
    return Phase("sub-version", version)


def _discover_sub_version(phase: Phase) -> Script:
    """Phase 0.5."""
    names = yield from _names(f"{COMMIT}{phase.version}/sub-tracker/")
    sub = max((int(name.removesuffix(".txt")) for name in names), default=1)
    if (yield from _exists(f"{COMMIT}{phase.version}/{sub}/{EXPIRED}")):
        sub += 1
    yield from _create(f"{COMMIT}{phase.version}/sub-tracker/{sub}.txt")
    return Phase("enter", phase.version, sub)


def _create(key: str) -> Script:
    if not (yield from _exists(key)):
        yield Put(key, b"")


def _exists(key: str) -> Script:
    return isinstance((yield Get(key)), Found)


def _names(place: str) -> Script:
    page = yield ListPage(place)
    assert isinstance(page, Page)
    return dict.fromkeys(key.removeprefix(place) for key in page.keys).keys()


# --- what goes wrong -------------------------------------------------------------------------------------

TWO_WINNERS = "two commits were told that they are the version"
OVERWRITTEN = "a helper overwrote a commit that was told success"
COMPLETED = "a commit that was told failure was completed by a helper"
DOUBLED = "a client's work is in two versions"
UNRECORDED = "a commit was told success and is recorded nowhere"


@dataclass(frozen=True, slots=True)
class Hint:
    """The content of COMMIT-HINT. It says who helped, so that laws can tell a helper from an owner."""

    record: bytes
    helper: bytes

    @staticmethod
    def parse(content: bytes) -> Hint:
        record, _, helper = content.partition(HELPED_BY)
        return Hint(record, helper)


@dataclass(frozen=True, slots=True)
class SeedScene:
    """What a world shows: the hint of each version, and what each client was told."""

    hints: Mapping[Version, Hint]
    told: tuple[tuple[str, Succeeded | GaveUp], ...]

    def succeeded(self) -> tuple[Succeeded, ...]:
        return tuple(result for _, result in self.told if isinstance(result, Succeeded))


SeedLaw: TypeAlias = Callable[[SeedScene], Iterator[str]]


class SeedLaws(Laws):
    """Looks for one kind of harm, so that the shortest schedule of that kind is found."""

    def __init__(self, clients: tuple[Client, ...], law: SeedLaw) -> None:
        self._names = tuple(client.name for client in clients)
        self._law = law

    def on_world(self, objects: Objects, results: Results) -> str | None:
        hints = {
            Version(int(key.removeprefix(COMMIT).partition("/")[0])): Hint.parse(content)
            for key, content in objects.items()
            if key.startswith(COMMIT) and key.endswith(HINT)
        }
        told = (
            (name, result)
            for name, all_told in zip(self._names, results, strict=True)
            for result in all_told
            if isinstance(result, Succeeded | GaveUp)
        )
        return next(self._law(SeedScene(hints, tuple(told))), None)


def two_winners(scene: SeedScene) -> Iterator[str]:
    winners = {success.offer for success in scene.succeeded()}
    for version in {offer.version for offer in winners}:
        records = sorted(offer.record for offer in winners if offer.version == version)
        if len(records) > 1:
            yield f"{TWO_WINNERS} {version}: {records}"


def helper_overwrites(scene: SeedScene) -> Iterator[str]:
    for offer in (success.offer for success in scene.succeeded()):
        hint = scene.hints.get(offer.version)
        if hint is not None and hint.helper and hint.record != offer.record:
            yield f"{OVERWRITTEN}: {offer.record!r} is {hint.record!r} now"


def failure_is_completed(scene: SeedScene) -> Iterator[str]:
    for client, result in scene.told:
        if isinstance(result, GaveUp) and _is_recorded(scene, result.offer):
            yield f"{COMPLETED}: {result.offer.record!r} of {client}"


def work_is_doubled(scene: SeedScene) -> Iterator[str]:
    for client in {client for client, _ in scene.told}:
        offers = [result.offer for name, result in scene.told if name == client]
        recorded = [offer.record for offer in offers if _is_recorded(scene, offer)]
        if len(recorded) > 1:
            yield f"{DOUBLED}: {recorded}"


def success_is_unrecorded(scene: SeedScene) -> Iterator[str]:
    for success in scene.succeeded():
        if not success.recorded and not _is_recorded(scene, success.offer):
            yield f"{UNRECORDED}: {success.offer.record!r}"


def _is_recorded(scene: SeedScene, offer: Offer) -> bool:
    hint = scene.hints.get(offer.version)
    return hint is not None and hint.record == offer.record


# --- who meets whom --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Application(Client):
    """Tries again for as long as it is told that its commit failed."""

    def goes_on(self, result: object) -> bool:
        return isinstance(result, GaveUp)


def application(number: int, attempts: int = 1, rule: HintRule = HintRule.OVERWRITE) -> Application:
    """Client `number`, whose attempts are called c1a, c1b, …"""
    tasks = (SeedCommit(f"c{number}{letter}", rule) for letter in "abcdef"[:attempts])
    return Application(f"c{number}", tuple(tasks))


@dataclass(frozen=True, slots=True)
class Harm:
    """A kind of harm that the rules allow, and the clients to whom it happens."""

    name: str
    clients: tuple[Client, ...]
    law: SeedLaw
    text: str

    def explorer(self) -> Explorer:
        return Explorer(
            self.clients, SeedLaws(self.clients, self.law), objects=EMPTY_LAKE, check_progress=False
        )


_NO_CLOCK = ("fresh",)
_STEADY = tuple(SeedCommit(f"c1{letter}", clocks=_NO_CLOCK) for letter in "abc")
_STEADY_AND_CLEANING = (
    Client("c1", (_STEADY[0], SeedCleanUp(), _STEADY[1], SeedCleanUp(), _STEADY[2])),
    Client("c2", (SeedCommit("c2a", clocks=_NO_CLOCK),)),
)

HARMS: tuple[Harm, ...] = (
    Harm("two winners", (application(1), application(2, attempts=2)), two_winners, TWO_WINNERS),
    Harm(
        "two winners in spite of one more check",
        (
            application(1, rule=HintRule.CHECK_THEN_FAIL),
            application(2, attempts=2, rule=HintRule.CHECK_THEN_FAIL),
        ),
        two_winners,
        TWO_WINNERS,
    ),
    Harm(
        "a helper overwrites an acknowledged commit",
        (application(1), application(2, attempts=2), application(3)),
        helper_overwrites,
        OVERWRITTEN,
    ),
    Harm(
        "a failed commit is completed later",
        (application(1), application(2), application(3)),
        failure_is_completed,
        COMPLETED,
    ),
    Harm(
        "the retry of a failed commit doubles the data",
        (application(1, attempts=2), application(2), application(3)),
        work_is_doubled,
        DOUBLED,
    ),
    Harm(
        "success without a record",
        (
            application(1, rule=HintRule.CHECK_THEN_PUT),
            application(2, attempts=2, rule=HintRule.CHECK_THEN_PUT),
        ),
        success_is_unrecorded,
        UNRECORDED,
    ),
    Harm("a version is cleaned up and committed again", _STEADY_AND_CLEANING, two_winners, TWO_WINNERS),
)
