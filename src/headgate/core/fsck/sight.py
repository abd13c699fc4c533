"""What was seen of an object: its bytes, nothing, or why it could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headgate.core.fsck.kinds import finding
from headgate.model.fsck import Finding


@dataclass(frozen=True, slots=True)
class Trouble:
    """The storage did not give an object, though it may be there."""

    problem: str


Seen: TypeAlias = bytes | Trouble | None
"""None: there is no such object."""


def trouble_with(where: str, trouble: Trouble) -> Finding:
    return finding("object-unreadable", where, trouble.problem)
