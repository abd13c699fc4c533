"""The result of `fsck`, as a value for callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Severity(Enum):
    """Whether something is broken, or only worth knowing."""

    DAMAGE = "damage"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem that was found. `kind` is stable, `where` is the key of the object."""

    severity: Severity
    kind: str
    where: str
    problem: str
    next_step: str

    @property
    def is_damage(self) -> bool:
        return self.severity is Severity.DAMAGE


@dataclass(frozen=True, slots=True)
class CutOut:
    """A transaction whose rows are not part of the lake, although it was once committed as `version`.

    `transaction` is None if it is unknown. `kept_as` is the key of a copy of its record, or of its control
    entry; None if there is none (yet).
    """

    version: int
    transaction: str | None = None
    kept_as: str | None = None


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What `repair` did with versions whose records were missing from the log, or were others.

    `rebuilt` were rebuilt from their control entries. `divergent` were committed under numbers of lost
    versions; the lost ones were restored in their place. `lost` were given up: their numbers now belong to
    records that change nothing. `given_up` are their transactions, as far as they are known; without
    `accept_loss`, those that it would give up. `missing` could not be rebuilt, and nothing was done about
    them. `stale` is published metadata that contradicts the log, which `accept_loss` would remove;
    `unpublished` was removed or replaced. `version` is the newest version now.
    """

    place: str
    version: int
    rebuilt: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    divergent: tuple[CutOut, ...] = ()
    given_up: tuple[CutOut, ...] = ()
    stale: tuple[str, ...] = ()
    unpublished: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no version is missing any more, and nothing that is published contradicts the log."""
        return not (self.missing or self.stale)


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What `Lake.fsck` found. `version` is the newest one in the log; `checked` counts what was checked."""

    place: str
    version: int
    findings: tuple[Finding, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def damage(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.is_damage)

    @property
    def notes(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.is_damage)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken; there may still be notes."""
        return not self.damage
