"""A transaction among those that are still running: what it tells them, and what it learns of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from headgate.changes import Changes, TableChange
from headgate.commit.announcements import Announcements
from headgate.core.pending import (
    PendingConflict,
    PendingVerdict,
    Touched,
    cancellation_conflicts,
    completion_conflicts,
    early_conflicts,
    judge_ingestion,
    judge_service,
    plan_conflicts,
)
from headgate.core.settings import ALLOW_UPDATES, COMPACTION, Setting
from headgate.errors import HeadgateError
from headgate.model.announcement import Announcement, Intent
from headgate.model.identifiers import TxId
from headgate.model.plan import PendingPlan
from headgate.model.record import Command
from headgate.model.state import LakeState
from headgate.model.table import TableRef

if TYPE_CHECKING:
    from headgate.iceberg.loader import TableLoader


@dataclass
class Presence:
    """How one transaction is seen by others. Announced only if it says what it is about to do."""

    announcements: Announcements
    loader: Callable[[], TableLoader]
    txid: TxId
    base: LakeState
    started_at: datetime
    command: Command
    intents: dict[str, Intent] = field(default_factory=dict)
    postponed: tuple[str, ...] = ()

    def announce(self, owner: object, intent: Intent, plan: TxId | None, now: datetime) -> None:
        """Tells others what `owner`, the transaction, is about to do to a table.

        A storage that fails here does not stop the work: it is noted, and nobody is told.
        """
        self.intents[intent.table] = intent
        announcement = Announcement(
            txid=self.txid,
            base=self.base.version,
            started_at=self.started_at,
            heartbeat_at=now,
            interval=self.announcements.interval,
            user=self.command.user,
            host=self.command.host,
            intents=tuple(self.intents.values()),
            plan=plan,
        )
        self._attempt("announcing the transaction", lambda: self.announcements.announce(owner, announcement))

    def leave(self) -> None:
        """The transaction is over: removes its announcement, if there is one."""
        if self.intents:
            self.intents = {}
            self._attempt("removing the announcement", lambda: self.announcements.retire(self.txid))

    def fall_silent(self) -> None:
        """The transaction is over and nothing more can be asked of the storage: others will notice."""
        self.announcements.silence(self.txid)

    def _attempt(self, what: str, step: Callable[[], None]) -> None:
        try:
            step()
        except HeadgateError as error:
            self.postponed = (*self.postponed, f"{what}: {error.problem}")

    # --- what is pending ----------------------------------------------------------------------------------

    def verdict(self, changes: Changes, state: LakeState) -> PendingVerdict:
        """Whether `changes` can be committed on top of `state` beside what is pending there.

        Asks the storage only if a pending plan is about a table of the transaction.
        """
        ended = (
            *completion_conflicts(changes.completes, state.plans, state.cancelled),
            *cancellation_conflicts(changes.cancels, self.base.plans, state.plans),
        )
        planned = () if changes.plan is None else plan_conflicts(changes.plan, self._others(changes, state))
        beside = self._as_service(changes, state) if changes.completes else self._as_ingestion(changes, state)
        return replace(beside, conflicts=(*ended, *planned, *beside.conflicts))

    def early(self, intent: Intent, state: LakeState) -> tuple[PendingConflict, ...]:
        """Announced transactions that `intent` is likely to contradict."""
        return early_conflicts(intent, self._announced(state))

    def _others(self, changes: Changes, state: LakeState) -> list[PendingPlan]:
        """Pending plans but for those that the same record ends."""
        ending = {*changes.completes, *changes.cancels}
        return [plan for txid, plan in state.plans.items() if txid not in ending]

    def _as_ingestion(self, changes: Changes, state: LakeState) -> PendingVerdict:
        if not state.plans:
            return PendingVerdict()
        return judge_ingestion(self._touched(changes, state), self._others(changes, state))

    def _touched(self, changes: Changes, state: LakeState) -> Iterator[Touched]:
        planned_for = {plan.table for plan in state.plans.values()}
        for change in changes.tables.values():
            if change.base is not None and change.base.uuid in planned_for and change.touched_files:
                yield self._touched_by(change, change.base, state)

    def _touched_by(self, change: TableChange, table: TableRef, state: LakeState) -> Touched:
        return Touched(
            name=change.name,
            table=table.uuid,
            paths=change.paths,
            files=change.touched_files,
            updates_allowed=self._setting(ALLOW_UPDATES, table.uuid, state) == "true",
            strict_compaction=self._setting(COMPACTION, table.uuid, state) == "strict",
        )

    def _as_service(self, changes: Changes, state: LakeState) -> PendingVerdict:
        completed = [
            (plan, self._setting(ALLOW_UPDATES, plan.table, state) == "true")
            for plan in (state.plans.get(txid) for txid in changes.completes)
            if plan is not None
        ]
        if not any(allowed and plan.service == "clustering" for plan, allowed in completed):
            return PendingVerdict()
        return judge_service(completed, self._announced(state))

    def _announced(self, state: LakeState) -> list[Announcement]:
        """Announced transactions but for this one."""
        running = self.announcements.running(is_over=state.cancelled.__contains__)
        return [one for one in running if one.txid != self.txid]

    def _setting(self, setting: Setting, table: str, state: LakeState) -> str:
        """What a table says, or else its lake."""
        ref = next((ref for ref in state.tables.values() if ref.uuid == table), None)
        own = {} if ref is None else self.loader().metadata(ref.metadata).properties
        return setting.of(own, state.properties)
