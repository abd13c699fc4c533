"""What came of expiring versions and of vacuuming files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpireReport:
    """What an expire did, or with `dry_run` would do.

    `version` is the one whose record says what is kept; None if nothing was due, or in a dry run. All
    versions above `until` are kept, and of those up to it `kept`. `expired` is how many can be read no more.
    `data_files` and `objects` were deleted: data and delete files, and everything together, with `bytes` as
    far as known; also what an expire that died had left. `held_back` says why more was not expired.
    """

    policy: str
    version: int | None
    until: int
    expired: int
    kept: tuple[int, ...]
    data_files: int
    objects: int
    bytes: int
    held_back: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What a vacuum did, or with `dry_run` would do.

    `cancelled` are transactions that had left files and never committed: now they never will; `versions` are
    those whose records say so. `objects` were deleted, with `bytes` as far as known. `spared` are objects
    that nothing needs, and that are too young, or of transactions that are running.
    """

    cancelled: tuple[str, ...]
    versions: tuple[int, ...]
    objects: int
    bytes: int
    spared: int
    dry_run: bool = False
