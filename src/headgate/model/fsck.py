"""What `fsck` found, for its caller."""

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
    """One thing that is not as it should be. `kind` is stable, `where` is the key of the object."""

    severity: Severity
    kind: str
    where: str
    problem: str
    next_step: str

    @property
    def is_damage(self) -> bool:
        return self.severity is Severity.DAMAGE


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What `Lake.fsck` found. `version` is the newest one in the log; `checked` counts what was looked at."""

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
        """Whether nothing is broken; there may be notes."""
        return not self.damage
