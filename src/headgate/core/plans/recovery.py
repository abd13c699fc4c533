"""What recovery has to do, from what it reads: a decision without any action."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headgate.core.compaction.windows import boundary_at_or_before
from headgate.core.history.commit_time import has_passed
from headgate.model.announcement import Announcement
from headgate.model.identifiers import TxId, Version
from headgate.model.plan import PendingPlan
from headgate.model.record import Record


@dataclass(frozen=True, slots=True)
class Seen:
    """A lake as recovery sees it.

    Every version up to `recovered` has its control entry; above that, the versions in `written` have one.
    `checkpoints` are the boundaries above `recovered` that have a checkpoint. `outbox` contains the versions
    that may have open hooks.
    """

    head: Version
    divisor: int
    recovered: Version
    written: Collection[Version]
    checkpoints: Collection[Version]
    outbox: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """Versions without an entry, boundaries without a checkpoint, and versions with hooks to run."""

    entries: tuple[Version, ...]
    checkpoints: tuple[Version, ...]
    hooks: tuple[Version, ...]


def plan_recovery(seen: Seen) -> RecoveryPlan:
    """What is missing. The work grows with the versions above the last recovered one, not with the lake."""
    gap = [Version(number) for number in range(seen.recovered.number + 1, seen.head.number + 1)]
    return RecoveryPlan(
        entries=tuple(version for version in gap if version not in seen.written),
        checkpoints=tuple(
            version
            for version in gap
            if version == boundary_at_or_before(version, seen.divisor) and version not in seen.checkpoints
        ),
        hooks=tuple(version for version in seen.outbox if version <= seen.head),
    )


def dead_plans(
    plans: Mapping[TxId, PendingPlan],
    scheduled: Iterable[Record],
    running: Iterable[Announcement],
    now: datetime,
    patience: timedelta,
) -> tuple[TxId, ...]:
    """The pending plans that were scheduled a while ago and that no process seems to be carrying out.

    Clocks are not needed for correctness: if a plan is cancelled while a process works on it, the log rejects
    that commit, and only the work is lost.
    """
    in_work = {announcement.plan for announcement in running}
    return tuple(
        record.txid
        for record in scheduled
        if record.txid in plans
        and record.txid not in in_work
        and has_passed(record.committed_at, patience, now)
    )
