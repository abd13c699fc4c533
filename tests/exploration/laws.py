"""The contract of the commit log, as laws that the explorer checks in every world.

They speak of layouts, tasks and what clients are told, and know nothing of how a protocol decides; so they
hold for every strategy, and for a broken one they say which promise it breaks.

A law about the future ("ours never will be decided") needs no look ahead: what clients were told stays in
the world, and a later world that contradicts it is a violation there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from headgate.log.cleanup import CleanedUp
from headgate.log.filetracker import Scanning
from headgate.log.head import Hole, LostEnd, NotFound, Reached
from headgate.log.layout import TRACKER, Accept, RecordLayout
from headgate.log.machine import Committed, Lost, Rejected, Unknown
from headgate.model.identifiers import GENESIS, Version
from headgate.storage.requests import Request
from tests.exploration.explorer import Client, Laws, Objects

TWO_DECIDED = "two records are decided"
RECORD_CHANGED = "a decided record changed"
RECORD_GONE = "a decided record disappeared"
RECORD_INVENTED = "the record was never offered for this version"
NOT_READABLE = "was told of a decided record that is not readable"
TOLD_WRONGLY = "was told that its record is not decided, but it is"
MARKER_WENT_BACK = "the largest marker went back"
HEAD_WENT_BACK = "found a head below what it knew"
HEAD_NOT_READABLE = "found a head without a readable record"
FAILED_WON = "was decided only in sub-versions that are marked as failed"
FALSE_ALARM = "was told that records are lost, and none is"
LOSS_OVERLOOKED = "took a log that has lost its end for a whole one"
NO_ANSWER = "was left without an answer by a storage that never failed"

Results: TypeAlias = tuple[tuple[Any, ...], ...]
"""What each client was told so far, task by task."""


@runtime_checkable
class Publish(Protocol):
    """A protocol that claims one version for one record: what the laws need to know of it."""

    @property
    def version(self) -> Version: ...

    @property
    def record(self) -> bytes: ...

    @property
    def layout(self) -> RecordLayout: ...


@dataclass(frozen=True, slots=True)
class PersistentClient(Client):
    """Goes on to its next task only if it is told `Unknown`: publishes, then resolves until it knows."""

    def goes_on(self, result: object) -> bool:
        return isinstance(result, Unknown)


def rounds_up_to(limit: int) -> Callable[[Any], bool]:
    """Keeps FileTracker's clients from sub-versions above `limit`; for `Explorer.allow`.

    A client that needs a higher one is one that crashed there, as far as the exploration goes.
    """

    def allow(state: Any) -> bool:
        attempt = getattr(state.purpose if isinstance(state, Scanning) else state, "attempt", None)
        return attempt is None or attempt.round <= limit

    return allow


@dataclass(frozen=True, slots=True)
class Offer:
    """A record for a version."""

    version: Version
    record: bytes


@dataclass(frozen=True, slots=True)
class Said:
    """What `client` was told; `offer` is its own, if it made one."""

    client: str
    offer: Offer | None
    result: Any

    @property
    def decided(self) -> Offer | None:
        """What is decided according to this."""
        match self.offer, self.result:
            case Offer() as own, Committed():
                return own
            case Offer(version), Lost(record):
                return Offer(version, record)
            case _:
                return None

    @property
    def denied(self) -> Offer | None:
        """What is not decided, and never will be, according to this."""
        return self.offer if isinstance(self.result, Lost | Rejected) else None


@dataclass(frozen=True, slots=True)
class Scene:
    """What a world shows: readable records, all offers, and all that was said, in each client's order."""

    records: Mapping[Version, bytes]
    offered: frozenset[Offer]
    said: tuple[Said, ...]

    def decided(self) -> dict[Version, set[bytes]]:
        """What is decided, according to the store and to all that was said."""
        decided = {version: {record} for version, record in self.records.items()}
        for offer in (saying.decided for saying in self.said):
            if offer is not None:
                decided.setdefault(offer.version, set()).add(offer.record)
        return decided


SceneLaw: TypeAlias = Callable[[Scene], Iterator[str]]


def at_most_one_is_decided(scene: Scene) -> Iterator[str]:
    for version, records in scene.decided().items():
        if len(records) > 1:
            yield f"version {version}: {TWO_DECIDED}: {_quoted(records)}"


def only_offers_are_decided(scene: Scene) -> Iterator[str]:
    for version, records in scene.decided().items():
        for record in records:
            if Offer(version, record) not in scene.offered:
                yield f"version {version}: {RECORD_INVENTED}: {record!r}"


def the_told_is_readable(scene: Scene) -> Iterator[str]:
    for saying in scene.said:
        offer = saying.decided
        if offer is not None and scene.records.get(offer.version) != offer.record:
            yield f"version {offer.version}: {saying.client} {NOT_READABLE}: {offer.record!r}"


def the_denied_is_never_decided(scene: Scene) -> Iterator[str]:
    decided = scene.decided()
    for saying in scene.said:
        offer = saying.denied
        if offer is not None and offer.record in decided.get(offer.version, ()):
            yield f"version {offer.version}: {saying.client} {TOLD_WRONGLY}: {offer.record!r}"


def heads_never_go_back(scene: Scene) -> Iterator[str]:
    known: dict[str, Version] = {}
    for client, offer, result in ((said.client, said.decided, said.result) for said in scene.said):
        before = known.get(client, GENESIS)
        if isinstance(result, Reached):
            known[client] = result.state
            if result.state < before:
                yield f"{client} {HEAD_WENT_BACK}: {result.state} after {before}"
        elif offer is not None:
            known[client] = max(before, offer.version)


def heads_are_readable(scene: Scene) -> Iterator[str]:
    for saying in scene.said:
        head = saying.result.state if isinstance(saying.result, Reached) else GENESIS
        if head != GENESIS and head not in scene.records:
            yield f"{saying.client} {HEAD_NOT_READABLE}: {head}"


def nothing_is_lost(scene: Scene) -> Iterator[str]:
    for saying in scene.said:
        if isinstance(saying.result, Hole | LostEnd):
            yield f"{saying.client} {FALSE_ALARM}: {saying.result}"


def everybody_gets_an_answer(scene: Scene) -> Iterator[str]:
    for saying in scene.said:
        stopped = isinstance(saying.result, CleanedUp) and saying.result.error is not None
        if stopped or isinstance(saying.result, Unknown | Rejected | NotFound):
            yield f"{saying.client} {NO_ANSWER}: {saying.result}"


def the_loss_is_noticed(scene: Scene) -> Iterator[str]:
    for saying in scene.said:
        if isinstance(saying.result, Reached):
            yield f"{saying.client} {LOSS_OVERLOOKED}: {saying.result.state}"


SCENE_LAWS: tuple[SceneLaw, ...] = (
    at_most_one_is_decided,
    only_offers_are_decided,
    the_told_is_readable,
    the_denied_is_never_decided,
    heads_never_go_back,
    heads_are_readable,
    nothing_is_lost,
)
"""What must hold in every world."""


class ProtocolLaws(Laws):
    """What must hold for `clients`, whose tasks publish, clean up and follow the log to its end.

    - For one version at most one record is decided, over all that clients were told and the store holds,
      and it was offered for that version.
    - A record in the store never changes and never disappears.
    - `Committed` and `Lost` are told only when the decided record is readable.
    - Whoever is told `Lost` or `Rejected` never finds its record decided.
    - The largest marker never goes back, and neither does the head that a client finds: not below one that
      it found before, nor below a version of which it was told.
    - Nobody who follows the log takes a record for lost: in these worlds none is.
    - A sub-version that is marked as failed is not the only one that a decided record was proposed in.
    - If `storage_fails` is false, everybody gets an answer.
    """

    def __init__(self, clients: tuple[Client, ...], *, storage_fails: bool) -> None:
        claims = [task for client in clients for task in client.tasks if isinstance(task, Publish)]
        self._names = tuple(client.name for client in clients)
        self._offers = tuple(tuple(_offer(task) for task in client.tasks) for client in clients)
        self._offered = frozenset(Offer(claim.version, claim.record) for claim in claims)
        self._layouts = frozenset(claim.layout for claim in claims)
        self._record_keys = {claim.layout.record_key(claim.version): claim.version for claim in claims}
        self.scene_laws = SCENE_LAWS if storage_fails else (*SCENE_LAWS, everybody_gets_an_answer)

    def on_change(self, before: Objects, request: Request, after: Objects) -> str | None:
        return _first(
            (
                *self._record_breaches(before, after),
                *self._marker_breaches(before, after),
                *self._failure_breaches(before, after),
            )
        )

    def on_world(self, objects: Objects, results: Results) -> str | None:
        scene = Scene(self._records(objects), self._offered, tuple(self._said(results)))
        return _first(breach for law in self.scene_laws for breach in law(scene))

    def _record_breaches(self, before: Objects, after: Objects) -> Iterator[str]:
        old, new = self._records(before), self._records(after)
        for version, record in old.items():
            if version not in new:
                yield f"version {version}: {RECORD_GONE}"
            elif new[version] != record:
                yield f"version {version}: {RECORD_CHANGED}: {_quoted((record, new[version]))}"

    def _marker_breaches(self, before: Objects, after: Objects) -> Iterator[str]:
        for layout in self._layouts:
            old, new = _largest_marker(layout, before), _largest_marker(layout, after)
            if new < old:
                yield f"{MARKER_WENT_BACK} from {old} to {new}"

    def _failure_breaches(self, before: Objects, after: Objects) -> Iterator[str]:
        """Looks when a record appears: its attempts are all there then."""
        for key, version in self._record_keys.items():
            if key in before or key not in after or key != TRACKER.record_key(version):
                continue
            entries = ((TRACKER.entry(version, each), data) for each, data in after.items())
            proposed_in = {
                entry.ballot.round
                for entry, data in entries
                if isinstance(entry, Accept) and data == after[key]
            }
            if proposed_in and all(TRACKER.expired_key(version, round_) in after for round_ in proposed_in):
                yield f"version {version} {FAILED_WON}"

    def _said(self, results: Results) -> Iterator[Said]:
        for name, offers, told in zip(self._names, self._offers, results, strict=True):
            for offer, result in zip(offers, told, strict=False):
                yield Said(name, offer, result)

    def _records(self, objects: Objects) -> dict[Version, bytes]:
        keys = self._record_keys
        return {keys[key]: data for key, data in objects.items() if key in keys}


class LossLaws(ProtocolLaws):
    """What must hold where a log has lost its end: nobody who opens it takes it for a whole one.

    Writers that have not looked may still decide versions, so nothing is said about those.
    """

    def __init__(self, clients: tuple[Client, ...], *, storage_fails: bool) -> None:
        super().__init__(clients, storage_fails=storage_fails)
        self.scene_laws = (the_loss_is_noticed,)


def _offer(task: object) -> Offer | None:
    return Offer(task.version, task.record) if isinstance(task, Publish) else None


def _largest_marker(layout: RecordLayout, objects: Objects) -> Version:
    markers = (layout.indexed_version(key) for key in objects)
    return max((version for version in markers if version is not None), default=GENESIS)


def _quoted(records: Iterable[bytes]) -> str:
    return ", ".join(repr(record) for record in sorted(records))


def _first(breaches: Iterable[str]) -> str | None:
    return next(iter(breaches), None)
