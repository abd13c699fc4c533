"""Compaction of the tables of a lake: plans are scheduled in the log, carried out, completed or given up.

Any number of compactors may run. Each leaves out what a pending plan is about; who finds a plan that nobody
carries out takes it over. A plan ends once, whoever carries it out: the log refuses the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from headgate.compacting import Rewriting
from headgate.core.compaction.due import plan_compaction
from headgate.core.compaction.outlook import TableOutlook, paths_of
from headgate.core.compaction.plans import Unworkable, details, groups_of, in_plans, without_pending
from headgate.core.compaction.segments import Group
from headgate.core.lookup import found_table
from headgate.engines import rewriter_for
from headgate.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptLakeError,
    HeadgateError,
    NotFoundError,
)
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.rewriting import RewriteGroup, Rewriter, Rewritten
from headgate.iceberg.target import Target
from headgate.model.compaction import CompactionProgress, CompactionReport
from headgate.model.identifiers import TxId, Version
from headgate.model.plan import PendingPlan, Service
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.refusals import TransactionConflictError
from headgate.services.looks import Looks
from headgate.services.segments import LiveTable, live_table
from headgate.services.tally import Tally
from headgate.services.undisturbed import undisturbed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.lake import Lake
    from headgate.transaction import Transaction

TAKE_OVER_AFTER = timedelta(minutes=2)
"""How old a plan must be, and with nobody at work on it, before another compactor takes it over."""
MAX_ROUNDS = 8
"""How often a compaction looks again, since its own commits may have completed a window."""
MAX_IN_VAIN = 3
"""How many plans of a table in a row may come to nothing before it is left to a later compaction."""

SERVICE: Service = "compaction"


class CompactionInterrupt(KeyboardInterrupt):
    """A Ctrl-C in a compaction; `left` says what became of the plan that it was at."""

    def __init__(self, left: str) -> None:
        super().__init__(left)
        self.left = left


@dataclass
class Compactor:
    """One compaction through one handle of a lake."""

    lake: Lake
    looks: Looks = field(default_factory=Looks)
    spark: SparkSession | None = None
    progress: Callable[[CompactionProgress], None] = lambda _: None
    patience: timedelta = TAKE_OVER_AFTER
    rewriter: Callable[[Target, SparkSession | None], Rewriter] = rewriter_for
    tally: Tally = field(default_factory=Tally)

    def run(self, table: str | None = None) -> CompactionReport:
        """Does all that is due, in all tables or in one.

        Comes to an end, however busy the lake is: each round is about the versions that it began with.
        If the process dies inside, what was completed is complete, and the plan that it was at is taken over.
        """
        only = None if table is None else found_table(self.lake._refreshed(), table).uuid
        for _ in range(MAX_ROUNDS):
            done = len(self.tally.completed)
            self._round(only)
            if len(self.tally.completed) == done:
                break
        return self.tally.report(self.lake._refreshed().version.number)

    def _round(self, only: str | None) -> None:
        state = self.lake._refreshed()
        self._take_over(state, only)
        newest = state.version.number
        if only is not None:
            self._compact(only, newest)
            return
        concerned = self.looks.concerning(newest, self._divisor, self._records)
        tables = [ref.uuid for ref in state.tables.values() if concerned.concerns(ref.uuid)]
        done = [self._compact(uuid, newest) for uuid in tables]
        # What a plan keeps to itself, or could not be done, may be due later without any new window.
        if all(done) and not state.plans and not self.lake._refreshed().plans:
            self.looks.remember(newest)
        else:
            self.looks.forget()

    def outlook(self, table: str | None = None) -> tuple[TableOutlook, ...]:
        """The tables, or one of them, with what is due there. Changes nothing."""
        return undisturbed(self.lake._checkpoints, lambda: self._outlooks(table))

    def _outlooks(self, table: str | None) -> tuple[TableOutlook, ...]:
        state = self.lake._refreshed()
        names = sorted(state.tables) if table is None else [table]
        if table is not None:
            found_table(state, table)
        return tuple(self._outlook(state, name) for name in names)

    def _outlook(self, state: LakeState, name: str) -> TableOutlook:
        live = self._live(state, name)
        free = without_pending(live.segments, self._plans(state, state.tables[name].uuid))
        newest = state.version.number
        return TableOutlook(
            name,
            newest,
            len(self._loader.manifests(live.metadata)),
            len(live.segments) - len(free),
            paths_of(live.segments, free, newest, self._divisor, live.policy),
        )

    # --- one table ----------------------------------------------------------------------------------------

    def _compact(self, uuid: str, newest: int) -> bool:
        """Plans and carries out what is due in a table at a version, one plan after the other.

        False if something is left that could not be done, or not be looked at.
        """
        in_vain = 0
        while in_vain < MAX_IN_VAIN:
            due = undisturbed(self.lake._checkpoints, lambda: self._due(uuid, newest))
            if due is None or not due.groups:
                return due is None or due.is_whole
            plan = self._schedule(due.name, due.groups)
            done = plan is not None and self._carry_out(plan)
            in_vain = 0 if done else in_vain + 1
        return False

    def _due(self, uuid: str, newest: int) -> _Due | None:
        """What the next plan for a table is about; None if the table is gone."""
        state = self.lake._refreshed()
        name = _name(state, uuid)
        if name is None:
            return None
        live = self._live(state, name)
        free = without_pending(live.segments, self._plans(state, uuid))
        then = [segment for segment in free if segment.covers.last <= newest]
        due = plan_compaction(then, newest, self._divisor, live.policy)
        return _Due(name, next(in_plans(due, live.policy), ()), len(free) == len(live.segments))

    def _schedule(self, name: str, groups: Sequence[Group]) -> PendingPlan | None:
        """Publishes a plan; None if another compactor was faster, or the table is gone."""
        files = [segment.file for group in groups for segment in group.segments]
        tx = self._begin(name)
        try:
            with tx:
                tx.plan(SERVICE, name, files, {group.path for group in groups}, details(groups))
        except (TransactionConflictError, NotFoundError):
            return None
        self.tally.scheduled(tx.result)
        return tx.reached.plans.get(TxId(tx.txid))

    # --- one plan -----------------------------------------------------------------------------------------

    def _take_over(self, state: LakeState, only: str | None) -> None:
        """Carries out the plans that nobody seems to be carrying out, or gives them up."""
        _, dead = self.lake._dead_plans(self.patience)
        for plan in self._plans(state):
            if only is not None and plan.table != only:
                continue
            if _name(state, plan.table) is None:
                self._cancel(plan, "its table is gone")
            elif plan.txid in dead:
                self.tally.taken_over.append(plan.txid.text)
                self._carry_out(plan)

    def _carry_out(self, plan: PendingPlan) -> bool:
        """Rewrites what a plan is about, and completes it; False if that came to nothing.

        A plan that cannot be completed any more is cancelled. Whatever goes wrong, no row is changed.
        """
        tx = self._begin(_name(self.lake._refreshed(), plan.table) or plan.table)
        try:
            work = self._work(tx, plan)
            if not isinstance(work, _Work):
                tx.abort()
                if work is not None:
                    self._cancel(plan, work.reason)
                return False
            with tx:
                tx.complete(plan.txid)
                tx.table(work.live.name)._rewrite(work.rewriting)
        except ConflictError as error:
            self._cancel(plan, error.problem.splitlines()[0])
            return False
        except CommitUnknownError:
            raise  # it may be complete; if not, somebody takes it over
        except HeadgateError as error:
            if isinstance(error, CorruptLakeError) and plan.txid not in self.lake._refreshed().plans:
                return False  # somebody else ended it, and what it was about was expired
            self._give_up(plan, type(error).__name__)
            raise
        except KeyboardInterrupt as interrupt:
            if getattr(interrupt, "__notes__", None):
                raise  # while it was committed, which may have been decided; the note says how to find out
            raise CompactionInterrupt(self._give_up(plan, "interrupted")) from interrupt
        self.tally.complete(plan, work.live.name, tx.result, work.done)
        return True

    def _work(self, tx: Transaction, plan: PendingPlan) -> _Work | Unworkable | None:
        """What is to be done for a plan; None if it has ended meanwhile."""
        state = tx.reached
        if plan.txid not in state.plans:
            return None
        name = _name(state, plan.table)
        if name is None:
            return Unworkable("its table is gone")
        live = self._live(state, name)
        groups = groups_of(plan, live.segments, live.policy)
        return groups if isinstance(groups, Unworkable) else _Work(self, live, groups)

    def _give_up(self, plan: PendingPlan, reason: str) -> str:
        """Cancels a plan for a reason that matters more than whether this succeeds; says if it did."""
        try:
            self._cancel(plan, reason)
        except (HeadgateError, KeyboardInterrupt):
            return f"the plan {plan.txid} is left for the next compaction to take over"
        return f"the plan {plan.txid} was cancelled, and no row has changed"

    def _cancel(self, plan: PendingPlan, reason: str) -> None:
        newest = self.lake._refreshed()
        if plan.txid not in newest.plans:
            return
        try:
            result = self.lake._run(("compact", "--cancel"), lambda tx: tx.cancel(plan.txid), newest)
        except TransactionConflictError:
            return  # completed or cancelled by somebody else
        self.tally.gave_up(plan, result, reason)

    # --- the lake -----------------------------------------------------------------------------------------

    def _begin(self, name: str) -> Transaction:
        return self.lake.transaction(("compact", name))

    def _live(self, state: LakeState, name: str) -> LiveTable:
        return live_table(self._loader, state, name, self._divisor)

    def _plans(self, state: LakeState, uuid: str | None = None) -> list[PendingPlan]:
        """The pending plans: of a table those of any service, else those of compaction."""
        if uuid is not None:
            return [plan for plan in state.plans.values() if plan.table == uuid]
        return [plan for plan in state.plans.values() if plan.service == SERVICE]

    def _records(self, versions: Sequence[int]) -> Sequence[Record]:
        log = self.lake._log
        return log.driver.host.together([partial(log.record, Version(number)) for number in versions])

    @property
    def _loader(self) -> TableLoader:
        return self.lake._table_loader()

    @property
    def _divisor(self) -> int:
        return self.lake.divisor


@dataclass(frozen=True, slots=True)
class _Due:
    """What is due in a table, as far as one plan may go; `is_whole` unless pending plans have some of it."""

    name: str
    groups: Sequence[Group]
    is_whole: bool


@dataclass
class _Work:
    """A plan that is being carried out."""

    compactor: Compactor
    live: LiveTable
    groups: Sequence[Group]
    done: list[tuple[RewriteGroup, Rewritten]] = field(default_factory=list)

    def rewriting(self, target: Target) -> Rewriting:
        rewriter = self.compactor.rewriter(target, self.compactor.spark)
        self._tell("")
        return Rewriting(self.live.rewrite_groups(self.groups), rewriter, on_group=self._on_group)

    def _on_group(self, group: RewriteGroup, written: Rewritten) -> None:
        self.done.append((group, written))
        self._tell(group.path)

    def _tell(self, path: str) -> None:
        read = [planned.file for group, _ in self.done for planned in group.files]
        self.compactor.progress(
            CompactionProgress(
                self.live.name,
                path,
                len(read),
                sum(len(group.segments) for group in self.groups),
                sum(file.size_bytes for file in read),
                sum(group.size_bytes for group in self.groups),
            )
        )


def _name(state: LakeState, uuid: str) -> str | None:
    """The name that a table has; None if it is gone."""
    return next((name for name, ref in state.tables.items() if ref.uuid == uuid), None)
