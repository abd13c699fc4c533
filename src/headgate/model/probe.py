"""What a probe found out about a storage."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Promise(Enum):
    """What a storage may promise; the value explains it to people."""

    WHOLE_PUT = "an object appears whole or not at all"
    READ_AFTER_WRITE = "a written object can be read at once"
    LIST_AFTER_WRITE = "a written object is listed at once"
    ORDERED_LISTING = "listings are in key order"
    CREATE_REFUSED = "a second create of the same object is refused"
    CREATE_RACE = "of racing creates exactly one succeeds"
    RENAME_REFUSED = "a rename refuses to replace an object"
    RENAME_RACE = "of racing renames exactly one succeeds"


class Seen(Enum):
    """How the trial of a promise ended; the value is what people read."""

    KEPT = "yes"
    BROKEN = "NO"
    UNANSWERED = "no answer"


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a promise when it was tried; `detail` says more unless it was kept.

    Unanswered is not broken: the storage was asked several times and nothing can be said about it.
    """

    promise: Promise
    seen: Seen
    detail: str = ""

    @property
    def held(self) -> bool:
        return self.seen is Seen.KEPT


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """All findings about one storage. A promise that is not listed as held must not be relied upon.

    `left` are the objects of the probe that could not be removed; they do no harm.
    """

    findings: tuple[Finding, ...]
    left: tuple[str, ...] = ()

    def holds(self, promise: Promise) -> bool:
        return any(finding.promise is promise and finding.held for finding in self.findings)

    def unanswered(self, promise: Promise) -> bool:
        return any(found.promise is promise and found.seen is Seen.UNANSWERED for found in self.findings)

    def detail(self, promise: Promise) -> str:
        return next((finding.detail for finding in self.findings if finding.promise is promise), "not tried")
