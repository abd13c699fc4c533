"""Clean-up of FileTracker's attempts: what is left of decided versions besides their records.

Runs after a commit was acknowledged. Any number of clients may do it at once; each step is idempotent, and
one that dies in between leaves the rest to the next. Decided records are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from headgate.commit.layout import TRACKER, TrackerLayout
from headgate.commit.machine import Ask, Finish
from headgate.errors import StorageError
from headgate.model.identifiers import Version
from headgate.storage.capabilities import Page
from headgate.storage.requests import Answer, Delete, Done, Failed, Found, Get, ListPage, Missing, Put

KEEP = 2
"""How many of the newest versions keep their attempts and markers."""


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """The versions whose attempts are gone; `error` if storage stopped us before the end."""

    versions: tuple[Version, ...]
    error: StorageError | None = None


@dataclass(frozen=True, slots=True)
class ListingMarkers:
    markers: tuple[Version, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckingNewest:
    markers: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Versions still to clean, and those done."""

    due: tuple[Version, ...]
    done: tuple[Version, ...] = ()

    def advanced(self) -> Work:
        return Work(self.due[1:], (*self.done, self.due[0]))


@dataclass(frozen=True, slots=True)
class CheckingRecord:
    work: Work


@dataclass(frozen=True, slots=True)
class Archiving:
    work: Work


@dataclass(frozen=True, slots=True)
class ListingAttempts:
    work: Work
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletingAttempts:
    work: Work


@dataclass(frozen=True, slots=True)
class DeletingMarker:
    work: Work


Step: TypeAlias = Ask | Finish[CleanedUp]
State: TypeAlias = (
    ListingMarkers
    | CheckingNewest
    | CheckingRecord
    | Archiving
    | ListingAttempts
    | DeletingAttempts
    | DeletingMarker
)


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Removes the attempts of all marked versions but the newest `keep`."""

    keep: int = KEEP
    layout: TrackerLayout = TRACKER

    def __post_init__(self) -> None:
        assert self.keep >= 1, "the newest marker is how the head is found"

    def begin(self) -> Step:
        return Ask(ListingMarkers(), (ListPage(self.layout.index),))

    def resume(self, state: State, answers: tuple[Answer, ...]) -> Step:
        failed = next((answer for answer in answers if isinstance(answer, Failed)), None)
        if failed is not None:
            done = () if isinstance(state, ListingMarkers | CheckingNewest) else state.work.done
            return Finish(CleanedUp(done, failed.error))
        match state, answers:
            case ListingMarkers(markers), (Page() as page,):
                return self._listed_markers(markers, page)
            case CheckingNewest(markers), (Found(),):
                newest = markers[-1].number
                due = tuple(version for version in markers if version.number <= newest - self.keep)
                return self._next(Work(due))
            case CheckingNewest(), (Missing(),):
                return Finish(CleanedUp(()))
            case CheckingRecord(work), (Found(),):
                version = work.due[0]
                return Ask(Archiving(work), (Put(self.layout.archive_key(version), str(version).encode()),))
            case CheckingRecord(work), (Missing(),):
                return self._next(replace(work, due=work.due[1:]))
            case Archiving(work), (Done(),):
                return Ask(ListingAttempts(work), (ListPage(self.layout.attempts(work.due[0])),))
            case ListingAttempts(), (Page() as page,):
                return self._listed_attempts(state, page)
            case DeletingAttempts(work), _:
                return self._delete_marker(work)
            case DeletingMarker(work), _:
                return self._next(work.advanced())
            case _:
                raise AssertionError((state, answers))

    def _listed_markers(self, before: tuple[Version, ...], page: Page) -> Step:
        found = (self.layout.indexed_version(key) for key in page.keys)
        markers = (*before, *(version for version in found if version is not None))
        if not page.complete:
            return Ask(ListingMarkers(markers), (ListPage(self.layout.index, page.keys[-1]),))
        if not markers:
            return Finish(CleanedUp(()))
        return self._check_newest(tuple(sorted(markers)))

    def _check_newest(self, markers: tuple[Version, ...]) -> Step:
        # Only a version seen in tracker/ counts as the newest. One known from elsewhere may have no marker
        # yet, and without the older markers readers would go back.
        return Ask(CheckingNewest(markers), (Get(self.layout.record_key(markers[-1])),))

    def _next(self, work: Work) -> Step:
        if not work.due:
            return Finish(CleanedUp(work.done))
        return Ask(CheckingRecord(work), (Get(self.layout.record_key(work.due[0])),))

    def _listed_attempts(self, state: ListingAttempts, page: Page) -> Step:
        version = state.work.due[0]
        keys = (*state.keys, *(key for key in page.keys if self._is_attempt(version, key)))
        if not page.complete:
            more = ListPage(self.layout.attempts(version), page.keys[-1])
            return Ask(ListingAttempts(state.work, keys), (more,))
        if not keys:
            return self._delete_marker(state.work)
        return Ask(DeletingAttempts(state.work), tuple(Delete(key) for key in keys))

    def _is_attempt(self, version: Version, key: str) -> bool:
        return not key.startswith(self.layout.hints(version))

    def _delete_marker(self, work: Work) -> Step:
        return Ask(DeletingMarker(work), (Delete(self.layout.index_key(work.due[0])),))
