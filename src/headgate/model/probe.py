"""What a probe found out about a storage."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Promise(Enum):
    """A promise that a storage may keep; the value explains it to people."""

    WHOLE_PUT = "an object appears completely or not at all"
    READ_AFTER_WRITE = "a new object can be read immediately"
    LIST_AFTER_WRITE = "a new object is listed immediately"
    ORDERED_LISTING = "listings are in key order"
    CREATE_REFUSED = "creating an existing object fails"
    CREATE_RACE = "exactly one of several concurrent creates succeeds"
    RENAME_REFUSED = "a rename never replaces an existing object"
    RENAME_RACE = "exactly one of several concurrent renames succeeds"


class Seen(Enum):
    """How the test of a promise ended; the value is shown to people."""

    KEPT = "yes"
    BROKEN = "NO"
    UNANSWERED = "no answer"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the test of a promise; `detail` says more unless it was kept.

    Unanswered does not mean broken: the storage was asked several times, and nothing is known about the
    promise.
    """

    promise: Promise
    seen: Seen
    detail: str = ""

    @property
    def held(self) -> bool:
        return self.seen is Seen.KEPT


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """All findings about one storage. Do not rely on a promise that is not listed as held.

    `left` are the objects of the probe that could not be removed; they are harmless.
    """

    findings: tuple[Finding, ...]
    left: tuple[str, ...] = ()

    def holds(self, promise: Promise) -> bool:
        return any(finding.promise is promise and finding.held for finding in self.findings)

    def unanswered(self, promise: Promise) -> bool:
        return any(found.promise is promise and found.seen is Seen.UNANSWERED for found in self.findings)

    def detail(self, promise: Promise) -> str:
        return next((finding.detail for finding in self.findings if finding.promise is promise), "not tried")
