"""Finding the newest decided version, from one that is known to be decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headgate.commit.layout import RecordLayout
from headgate.commit.machine import Ask, Finish
from headgate.errors import StorageError
from headgate.model.identifiers import Version
from headgate.storage.capabilities import Page
from headgate.storage.requests import Answer, Failed, Found, Get, ListPage, Missing

MAX_PROBES = 1000
"""How many records are read one by one before the newest one seen is good enough: the lake moves faster."""


@dataclass(frozen=True, slots=True)
class NotFound:
    """Storage failed; the head is not known."""

    error: StorageError


@dataclass(frozen=True, slots=True)
class CheckingNext:
    """Is there anything above the known version at all?"""


@dataclass(frozen=True, slots=True)
class ListingIndex:
    newest: Version


@dataclass(frozen=True, slots=True)
class CheckingListed:
    """A marker can be there before its record; the record of the version below it is there then."""

    version: Version


@dataclass(frozen=True, slots=True)
class Probing:
    """`known` is decided; a record above it can be there without a marker."""

    known: Version
    probes: int


Step: TypeAlias = Ask | Finish[Version | NotFound]
State: TypeAlias = CheckingNext | ListingIndex | CheckingListed | Probing


@dataclass(frozen=True, slots=True)
class FindHead:
    """Exact: finds every version whose record was readable when it started.

    Costs one GET when nothing is new, else about one LIST and two GETs however far the head has moved.
    """

    layout: RecordLayout
    at_least: Version

    def begin(self) -> Step:
        return Ask(CheckingNext(), (Get(self.layout.record_key(self.at_least.next())),))

    def resume(self, state: State, answers: tuple[Answer, ...]) -> Step:
        (answer,) = answers
        match state, answer:
            case _, Failed(error):
                return Finish(NotFound(error))
            case CheckingNext(), Missing():
                return Finish(self.at_least)
            case CheckingNext(), _:
                after = self.layout.index_key(self.at_least)
                return Ask(ListingIndex(self.at_least.next()), (ListPage(self.layout.index, after),))
            case ListingIndex(newest), Page() as page:
                return self._listed(newest, page)
            case CheckingListed(version), Found():
                return self._probe(version, 0)
            case CheckingListed(version), _:
                return Finish(Version(version.number - 1))
            case Probing(known, probes), Found() if probes < MAX_PROBES:
                return self._probe(known.next(), probes + 1)
            case Probing(known), Found():
                return Finish(known.next())
            case Probing(known), _:
                return Finish(known)
            case _:
                raise AssertionError((state, answer))

    def _listed(self, newest: Version, page: Page) -> Step:
        for key in page.keys:
            version = self.layout.indexed_version(key)
            newest = newest if version is None else max(newest, version)
        # The index may share its prefix with other objects; those sort behind it.
        beyond = bool(page.keys) and self.layout.indexed_version(page.keys[-1]) is None
        if not page.complete and not beyond:
            return Ask(ListingIndex(newest), (ListPage(self.layout.index, page.keys[-1]),))
        if newest == self.at_least.next():
            return self._probe(newest, 0)
        return Ask(CheckingListed(newest), (Get(self.layout.record_key(newest)),))

    def _probe(self, known: Version, probes: int) -> Step:
        return Ask(Probing(known, probes), (Get(self.layout.record_key(known.next())),))
