"""Clean-up of FileTracker's attempts: what is left of decided versions besides their records.

1. LIST the markers in `tracker/`. They are the list of what is to be done.
2. GET the record of the newest marker. If it is not there, stop.
3. For each marked version but the newest `keep`, the oldest first:
   a. LIST its attempts. If its record is not among them, leave the version alone.
   b. GET its object in `archive/`. If there is none: GET the attempts, and PUT into `archive/` what they say
      about who competed.
   c. DELETE the attempts.
   d. DELETE the marker.

Runs after a commit was acknowledged. Any number of clients may do it at once. Each step is idempotent, and
the marker goes last: a clean-up that dies, or meets a storage error, leaves the rest to the next one. Decided
records are never touched.

Who competed for a version is kept in `archive/` before the first attempt goes. The archive is read after the
listing: attempts that the listing does not show any more were deleted by a clean-up that had written the
archive before. So if the archive is missing, the listing was complete; and if an attempt of such a listing is
gone when it is read, another clean-up has written the archive in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from headgate.errors import StorageError
from headgate.log.attempts import MAX_KEPT, bids_in, has_rivals, telling
from headgate.log.layout import TRACKER, TrackerLayout
from headgate.log.machine import Ask, Finish
from headgate.model.identifiers import Version
from headgate.storage.capabilities import Page
from headgate.storage.requests import Answer, Delete, Done, Failed, Found, Get, ListPage, Missing, Put

KEEP = 2
"""How many of the newest versions keep their attempts and markers."""


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """The versions whose attempts are gone; `error` if a failure of the storage stopped the clean-up."""

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
class ListingAttempts:
    work: Work
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckingArchive:
    """The version is decided. Is it stored already who competed for it?"""

    work: Work
    attempts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadingAttempts:
    """More than one client competed: what do `asked` say?"""

    work: Work
    attempts: tuple[str, ...]
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Archiving:
    work: Work
    attempts: tuple[str, ...]


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
    | ListingAttempts
    | CheckingArchive
    | ReadingAttempts
    | Archiving
    | DeletingAttempts
    | DeletingMarker
)


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Removes the attempts of all marked versions except the newest `keep`."""

    keep: int = KEEP
    layout: TrackerLayout = TRACKER

    def __post_init__(self) -> None:
        assert self.keep >= 1, "the newest marker is how the head is found"

    def begin(self) -> Step:
        # Not a listing of all versions that there ever were: clean-up keeps the markers few.
        return Ask(ListingMarkers(), (ListPage(self.layout.index),))

    def resume(self, state: State, answers: tuple[Answer, ...]) -> Step:
        failed = next((answer for answer in answers if isinstance(answer, Failed)), None)
        if failed is not None:
            # Nothing is repeated here: the marker of this version is still there for the next clean-up.
            done = () if isinstance(state, ListingMarkers | CheckingNewest) else state.work.done
            return Finish(CleanedUp(done, failed.error))
        match state, answers:
            case ListingMarkers(markers), (Page() as page,):
                return self._listed_markers(markers, page)
            case CheckingNewest(markers), (Found(),):
                newest = markers[-1].number
                # The newest markers stay: they show, when a lake is opened, that the log has lost its end. So
                # do the attempts of these versions: a lost record can be made again from a proposal.
                due = tuple(version for version in markers if version.number <= newest - self.keep)
                return self._next(Work(due))
            case CheckingNewest(), (Missing(),):
                # Marker and record are written at once, so the newest version may not be visible yet. Counted
                # from there, one visible version fewer would be kept.
                return Finish(CleanedUp(()))
            case ListingAttempts(), (Page() as page,):
                return self._listed_attempts(state, page)
            case CheckingArchive(work, attempts), (Missing(),):
                return self._keep(work, attempts)
            case CheckingArchive(work, attempts), (Found(),):
                # Another clean-up was here before, and perhaps died. It saw all attempts, and we may not: its
                # archive must not be replaced by less.
                return self._delete_attempts(work, attempts)
            case ReadingAttempts(work, attempts, asked), _:
                return self._read(work, attempts, dict(zip(asked, answers, strict=True)))
            case Archiving(work, attempts), (Done(),):
                return self._delete_attempts(work, attempts)
            # Only now the marker: after a crash before this, the next clean-up still finds the version. The
            # other way round, attempts would stay forever.
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
        # yet, and if the older markers went, the largest marker would go back.
        return Ask(CheckingNewest(markers), (Get(self.layout.record_key(markers[-1])),))

    def _next(self, work: Work) -> Step:
        if not work.due:
            return Finish(CleanedUp(work.done))
        return Ask(ListingAttempts(work), (ListPage(self.layout.attempts(work.due[0])),))

    def _listed_attempts(self, state: ListingAttempts, page: Page) -> Step:
        work, version = state.work, state.work.due[0]
        keys = (*state.keys, *page.keys)
        if not page.complete:
            more = ListPage(self.layout.attempts(version), page.keys[-1])
            return Ask(ListingAttempts(work, keys), (more,))
        if self.layout.record_key(version) not in keys:
            # Without the record, a proposal is all that is left of the version: its next client completes it,
            # or `headgate fsck --repair` makes the record again from it.
            return self._next(replace(work, due=work.due[1:]))
        attempts = tuple(key for key in keys if self._is_attempt(version, key))
        # After the listing, never before it: a clean-up that ends in between would leave us with an archive
        # that was missing and a listing that is incomplete, and we would keep less than it did.
        return Ask(CheckingArchive(work, attempts), (Get(self.layout.archive_key(version)),))

    def _keep(self, work: Work, attempts: tuple[str, ...]) -> Step:
        """Stores who competed. A version that only one client wanted needs no such entry."""
        version = work.due[0]
        if not has_rivals(version, attempts):
            return self._archive(work, attempts, str(version).encode())
        asked = telling(version, attempts)[-MAX_KEPT:]
        return Ask(ReadingAttempts(work, attempts, asked), tuple(map(Get, asked)))

    def _read(self, work: Work, attempts: tuple[str, ...], answers: Mapping[str, Answer]) -> Step:
        said = {key: answer.data for key, answer in answers.items() if isinstance(answer, Found)}
        if len(said) < len(answers):
            # Another clean-up deleted some of them, so it has written the archive, from all of them.
            return self._delete_attempts(work, attempts)
        version = work.due[0]
        return self._archive(work, attempts, bids_in(version, attempts, said).encode(version))

    def _archive(self, work: Work, attempts: tuple[str, ...], kept: bytes) -> Step:
        # Before the first attempt goes: a crash in between leaves attempts whose content is kept already.
        return Ask(Archiving(work, attempts), (Put(self.layout.archive_key(work.due[0]), kept),))

    def _delete_attempts(self, work: Work, attempts: tuple[str, ...]) -> Step:
        if not attempts:
            return self._delete_marker(work)
        return Ask(DeletingAttempts(work), tuple(map(Delete, attempts)))

    def _is_attempt(self, version: Version, key: str) -> bool:
        # The record stays forever, not only for readers: a client that was suspended during its claim finds
        # it. Without it, that client would decide the version a second time.
        return not key.startswith(self.layout.hints(version))

    def _delete_marker(self, work: Work) -> Step:
        return Ask(DeletingMarker(work), (Delete(self.layout.index_key(work.due[0])),))
