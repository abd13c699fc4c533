"""Whether a transaction may commit while others are pending: plans in the log, announced transactions.

Rows 32 to 34 of the conflict matrix, and conflicts between plans. A table says which pending instants count
at all; the functions below it decide what follows from an overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from headgate.core.conflict.meeting import keys_in_common
from headgate.model.announcement import Announcement, Intent
from headgate.model.identifiers import TxId
from headgate.model.plan import PendingPlan


class Role(Enum):
    """What an instant does, as far as others are concerned."""

    INGESTION = "ingestion"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"

    @classmethod
    def of(cls, kind: str) -> Role:
        """The role of an operation: everything that is not a table service is ingestion."""
        return cls(kind) if kind in (cls.CLUSTERING.value, cls.COMPACTION.value) else cls.INGESTION


class Chosen(Enum):
    """When a pending instant is a candidate."""

    NO = "no"
    YES = "yes"
    UNLESS_UPDATES_ALLOWED = "yes, unless updates are allowed"
    IF_UPDATES_ALLOWED = "yes, if updates are allowed"


CHOOSE_FROM_PENDING: Mapping[tuple[Role, Role], Chosen] = MappingProxyType(
    {
        (Role.INGESTION, Role.INGESTION): Chosen.NO,
        (Role.INGESTION, Role.CLUSTERING): Chosen.UNLESS_UPDATES_ALLOWED,
        (Role.INGESTION, Role.COMPACTION): Chosen.YES,
        # Clustering yields to ingestion if ingestion is allowed during clustering.
        (Role.CLUSTERING, Role.INGESTION): Chosen.IF_UPDATES_ALLOWED,
        # Table services are compared when they are planned: see `plan_conflicts`.
        (Role.CLUSTERING, Role.CLUSTERING): Chosen.NO,
        (Role.CLUSTERING, Role.COMPACTION): Chosen.NO,
        (Role.COMPACTION, Role.INGESTION): Chosen.NO,
        (Role.COMPACTION, Role.CLUSTERING): Chosen.NO,
        (Role.COMPACTION, Role.COMPACTION): Chosen.NO,
    }
)
"""Whether (the committing instant, the pending one) are compared."""


def is_candidate(me: Role, pending: Role, *, updates_allowed: bool) -> bool:
    """Whether a committing instant must be checked against a pending one."""
    match CHOOSE_FROM_PENDING[me, pending]:
        case Chosen.NO:
            return False
        case Chosen.YES:
            return True
        case Chosen.UNLESS_UPDATES_ALLOWED:
            return not updates_allowed
        case Chosen.IF_UPDATES_ALLOWED:
            return updates_allowed


@dataclass(frozen=True, slots=True)
class PendingConflict:
    """One reason why a transaction cannot be committed while another one, `txid`, is pending."""

    rule: int
    name: str
    txid: TxId
    reason: str
    next_step: str
    rerun_helps: bool = False


@dataclass(frozen=True, slots=True)
class Touched:
    """The existing files of a table that an ingestion changes or removes.

    `files` are their marks, `paths` are their virtual paths. A plain append touches none.
    """

    name: str
    table: str
    paths: frozenset[str]
    files: frozenset[str] | None
    updates_allowed: bool = False
    strict_compaction: bool = False


@dataclass(frozen=True, slots=True)
class PendingVerdict:
    """What pending instants mean for a transaction: why it is rejected, or which plans its record cancels."""

    conflicts: tuple[PendingConflict, ...] = ()
    cancels: tuple[TxId, ...] = ()


def judge_ingestion(touched: Iterable[Touched], plans: Iterable[PendingPlan]) -> PendingVerdict:
    """Rows 32 and 33: an ingestion while plans are pending."""
    pending = tuple(plans)
    met = [(mine, plan, common) for mine in touched for plan in pending if (common := _meeting(mine, plan))]
    conflicts = [
        conflict
        for mine, plan, common in met
        if (conflict := _ingestion_conflict(mine, plan, common)) is not None
    ]
    yielding = {plan.txid for mine, plan, _ in met if _makes_way(mine, plan)}
    return PendingVerdict(tuple(conflicts), tuple(sorted(yielding)))


def _ingestion_conflict(mine: Touched, plan: PendingPlan, common: str) -> PendingConflict | None:
    role = Role(plan.service)
    if not is_candidate(Role.INGESTION, role, updates_allowed=mine.updates_allowed):
        return None
    if role is Role.COMPACTION:
        return _compaction_conflict(mine, plan, common) if mine.strict_compaction else None
    return PendingConflict(
        32,
        "ingestion against a clustering plan",
        plan.txid,
        f"{mine.name}: your commit and a planned clustering (version {plan.version}) overlap in {common}",
        f"wait for it, cancel it with headgate timeline LAKE --cancel {plan.txid}, or let ingestion win: "
        "clustering.allow_updates = true",
    )


def _compaction_conflict(mine: Touched, plan: PendingPlan, common: str) -> PendingConflict:
    return PendingConflict(
        33,
        "ingestion against a compaction plan, strict",
        plan.txid,
        f"{mine.name}: your commit and a planned compaction (version {plan.version}) overlap in {common}",
        f"wait for it, cancel it with headgate timeline LAKE --cancel {plan.txid}, or let the compaction be "
        "rebased onto the changes: conflict.compaction = carry",
    )


def _makes_way(mine: Touched, plan: PendingPlan) -> bool:
    """Whether the plan ends because an ingestion is committed."""
    return Role(plan.service) is Role.CLUSTERING and mine.updates_allowed


def judge_service(
    completed: Iterable[tuple[PendingPlan, bool]], announced: Iterable[Announcement]
) -> PendingVerdict:
    """Row 34: the completion of plans while ingestion is announced.

    Each plan comes with whether updates are allowed on its table.
    """
    intents = [(one.txid, intent) for one in announced for intent in one.intents]
    return PendingVerdict(
        tuple(
            PendingConflict(
                34,
                "clustering against announced ingestion",
                txid,
                f"{intent.name}: a running {intent.kind} and the clustering overlap in {common}",
                f"complete the clustering after transaction {txid} has ended, or cancel it",
            )
            for plan, allowed in completed
            for txid, intent in intents
            if is_candidate(Role(plan.service), Role.of(intent.kind), updates_allowed=allowed)
            if (common := _meeting(intent, plan))
        )
    )


def plan_conflicts(ours: PendingPlan, pending: Iterable[PendingPlan]) -> tuple[PendingConflict, ...]:
    """Why a plan cannot be scheduled while others are pending: only one plan at a time may rewrite a file."""
    return tuple(
        PendingConflict(
            23,
            "plan against plan",
            other.txid,
            f"a planned {other.service} (version {other.version}) overlaps in {common} with this "
            f"{ours.service}",
            "plan again, without the files that the other one rewrites",
            rerun_helps=True,
        )
        for other in pending
        if (common := _meeting(ours, other))
    )


def completion_conflicts(
    completes: Iterable[TxId], pending: Mapping[TxId, PendingPlan], cancelled: Mapping[TxId, object]
) -> tuple[PendingConflict, ...]:
    """Why plans cannot be completed: each must be pending, so that its work is committed once or never."""
    return tuple(
        PendingConflict(
            36,
            "completing a plan that is not pending",
            txid,
            f"the plan {txid} {'was cancelled' if txid in cancelled else 'is not pending'}",
            "discard the work, and plan again",
        )
        for txid in completes
        if txid not in pending
    )


def cancellation_conflicts(
    cancels: Iterable[TxId], before: Mapping[TxId, PendingPlan], now: Mapping[TxId, PendingPlan]
) -> tuple[PendingConflict, ...]:
    """Why plans that were pending `before`, when the transaction began, can no longer be cancelled."""
    return tuple(
        PendingConflict(
            36,
            "cancelling a plan that is not pending",
            txid,
            f"the plan {txid} was completed or cancelled meanwhile",
            "nothing to do",
        )
        for txid in cancels
        if txid in before and txid not in now
    )


def early_conflicts(ours: Intent, announced: Iterable[Announcement]) -> tuple[PendingConflict, ...]:
    """Announced transactions that are about to change what `ours` is about to change.

    Uses only what both have announced; a transaction without an overlap here is checked again when it
    commits.
    """
    return tuple(
        PendingConflict(
            35,
            "announced by a running transaction",
            other.txid,
            f"{ours.name}: {intent.kind} by {other.user} on {other.host} is running since "
            f"{other.started_at:%Y-%m-%d %H:%M:%S} UTC, and overlaps in {common} with this {ours.kind}",
            "retry it after the other one has ended, or set conflict.early = false to check at the commit",
            rerun_helps=True,
        )
        for other in announced
        for intent in other.intents
        if (common := _early_meeting(ours, intent))
    )


def _early_meeting(ours: Intent, other: Intent) -> str | None:
    """What both are about to change, in words, as far as both announced it; None if nothing."""
    if ours.table == other.table and (keys := keys_in_common(ours.upserted, other.upserted)):
        return keys
    if (_is_by_row(ours) and _is_by_row(other)) or not (_is_known(ours) and _is_known(other)):
        return None
    return _meeting(ours, other)


def _is_by_row(intent: Intent) -> bool:
    """Whether it is compared row by row when it is committed; a compaction is rebased onto changed rows."""
    return intent.by_position or Role.of(intent.kind) is Role.COMPACTION


def _is_known(intent: Intent) -> bool:
    return bool(intent.paths) or intent.files is not None


# --- what two have in common ------------------------------------------------------------------------------


def _files(one: Touched | Intent | PendingPlan) -> frozenset[str] | None:
    return one.inputs if isinstance(one, PendingPlan) else one.files


def _meeting(one: Touched | Intent | PendingPlan, other: Touched | Intent | PendingPlan) -> str | None:
    """Where two overlap, in words; None if nowhere.

    If both name their files, the files decide. Otherwise the paths do; without paths, the whole table counts.
    """
    if one.table != other.table:
        return None
    mine, theirs = _files(one), _files(other)
    if mine is not None and theirs is not None:
        count = len(mine & theirs)
        return None if not count else f"{count} file{'' if count == 1 else 's'}"
    if not one.paths or not other.paths:
        return "the table"
    common = sorted(
        max(path, its, key=len) for path in one.paths for its in other.paths if _is_related(path, its)
    )
    return None if not common else f"the path {common[0]}" if len(common) == 1 else f"{len(common)} paths"


def _is_related(one: str, other: str) -> bool:
    """Whether a path of a table equals another one, or is above or below it."""
    first, second = _inside_table(one), _inside_table(other)
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]


def _inside_table(path: str) -> list[str]:
    """The parts of a virtual path below its table, whose name may have changed meanwhile."""
    return path.strip("/").split("/")[2:]
