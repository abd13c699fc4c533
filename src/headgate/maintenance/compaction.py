"""Compacts the tables of a lake: schedules plans in the log, carries them out, and completes or cancels them.

Any number of compactors may run. Each skips files of pending plans, and takes over abandoned plans. A plan
ends only once, whichever process carries it out: the log rejects a second completion.

The log says where a compactor has to look, starting from the mark of the last compaction of any process.
The mark is in memory and on storage (`control/compacted.json`). Nothing depends on it: without a mark, the
whole log says it, or every table is checked if that takes fewer requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from headgate.core.compaction.eligible import Group, plan_compaction
from headgate.core.compaction.outlook import TableOutlook, paths_of
from headgate.core.compaction.plans import Unworkable, details, groups_of, in_plans, without_pending
from headgate.core.compaction.touched import Intents, Look, Mark, look_everywhere
from headgate.core.input.arguments import found_table
from headgate.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptLakeError,
    HeadgateError,
    NotFoundError,
)
from headgate.iceberg.format.directories import Target
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.scan.engine import RewriteGroup, Rewriter, Rewritten
from headgate.log.layout import COMPACTED
from headgate.log.log import CommitLog
from headgate.maintenance.live_segments import LiveTable, live_table
from headgate.model.identifiers import TxId, Version
from headgate.model.plan import PendingPlan, Service
from headgate.model.reports import CompactionProgress, CompactionReport
from headgate.model.state import LakeState
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.engines import rewriter_for
from headgate.transaction.handle import LakeHandle
from headgate.transaction.result import CommitResult
from headgate.transaction.rewrite import Rewriting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.transaction.transaction import Transaction


@dataclass
class Tally:
    """Counts what a compaction has committed so far."""

    planned: list[str] = field(default_factory=list)
    taken_over: list[str] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    tables: dict[str, None] = field(default_factory=dict)
    done: list[tuple[RewriteGroup, Rewritten]] = field(default_factory=list)

    def note_planned(self, result: CommitResult) -> None:
        self.planned.append(result.txid)
        self.versions.append(result.version)

    def complete(
        self,
        plan: PendingPlan,
        table: str,
        result: CommitResult,
        done: Sequence[tuple[RewriteGroup, Rewritten]],
    ) -> None:
        self.completed.append(plan.txid.text)
        self.versions.append(result.version)
        self.tables[table] = None
        self.done += done

    def gave_up(self, plan: PendingPlan, result: CommitResult, reason: str) -> None:
        self.cancelled.append(plan.txid.text)
        self.reasons.append(reason)
        self.versions.append(result.version)

    def report(self, until: int) -> CompactionReport:
        read = [planned.file for group, _ in self.done for planned in group.files]
        written = [file for _, made in self.done for file in made.files]
        rows = sum(file.record_count for file in written)
        return CompactionReport(
            until=until,
            tables=tuple(self.tables),
            planned=tuple(self.planned),
            taken_over=tuple(self.taken_over),
            completed=tuple(self.completed),
            cancelled=tuple(self.cancelled),
            reasons=tuple(self.reasons),
            groups=len(self.done),
            files_in=len(read),
            files_out=len(written),
            bytes_in=sum(file.size_bytes for file in read),
            bytes_out=sum(file.size_bytes for file in written),
            rows=rows,
            rows_dropped=sum(file.record_count for file in read) - rows,
            versions=tuple(sorted(self.versions)),
        )


# --- where to look ----------------------------------------------------------------------------------------

MAX_RECORDS = 1000
"""How many records may be read in order to skip tables, however few tables there are."""
REQUESTS_OF_A_LOOK = 3
"""How many requests checking a table costs at least: its metadata, a manifest list, a manifest."""


@dataclass
class Looks:
    """The newest mark that a handle knows. `stored` is the one on storage, as far as known."""

    mark: Mark | None = None
    stored: Mark | None = None

    def look(self, newest: LakeState, log: CommitLog) -> Look:
        """Where something can be ready to compact at the newest version.

        One GET for the mark, unless this handle has one, and the records since then. If these are more
        requests than checking every table takes, every table is checked.
        """
        found = None if self.mark is None else _since(self.mark, newest, log)
        return found or self._look_from_storage(newest, log)

    def _look_from_storage(self, newest: LakeState, log: CommitLog) -> Look:
        mark = _read(log)
        found = None if mark is None else _since(mark, newest, log)
        # One that is of no use to us is of none to others: it is rewritten, whatever version it names.
        self.stored = None if found is None else mark
        return found or _since_creation(newest, log) or _everywhere(newest)

    def remember(self, mark: Mark, log: CommitLog) -> None:
        """Keeps a mark, and stores it if a window was completed since the stored one. Idempotent.

        So a handle that compacts after every commit writes once for each window, and a process without memory
        reads at most one window more. Also stores it if other plans are pending, or something else is left to
        do: others would check these tables each time. A late write may set the mark back, which costs
        reading more records.
        """
        self.mark = mark
        if self.stored is None or _is_worth_storing(mark, self.stored, log.identity.divisor):
            log.driver.put(COMPACTED, mark.encode())
            self.stored = mark


def _is_worth_storing(mark: Mark, stored: Mark, divisor: int) -> bool:
    return mark.version // divisor != stored.version // divisor or not mark.waits_like(stored)


def _read(log: CommitLog) -> Mark | None:
    data = log.driver.get(COMPACTED)
    try:
        return None if data is None else Mark.decode(data, COMPACTED)
    except CorruptLakeError:
        return None  # as if there were none; it is rewritten


def _since(mark: Mark, newest: LakeState, log: CommitLog) -> Look | None:
    """What the log says since a mark; None if that is too much to read, or if the mark is of another log."""
    number, divisor = newest.version.number, log.identity.divisor
    most = max(MAX_RECORDS, REQUESTS_OF_A_LOOK * len(newest.tables))
    if not 0 <= number - mark.version <= most:
        return None
    wanted = mark.wanted(number, divisor)
    return None if len(wanted) > most else _look_through(mark, newest, log, wanted)


def _since_creation(newest: LakeState, log: CommitLog) -> Look | None:
    """What the whole log says; None unless reading it takes fewer requests than checking every table.

    No table existed at version 0, so its mark needs no compaction.
    """
    wanted = range(1, newest.version.number + 1)
    if log.unread(wanted) >= REQUESTS_OF_A_LOOK * len(newest.tables):
        return None
    return _look_through(Mark(0, newest.identity), newest, log, wanted)


def _look_through(mark: Mark, newest: LakeState, log: CommitLog, wanted: Sequence[int]) -> Look | None:
    records = log.driver.host.together([partial(log.record, Version(version)) for version in wanted])
    number, divisor = newest.version.number, log.identity.divisor
    return mark.look(number, newest.digest, divisor, records, _tables_of_plans(newest))


def _everywhere(newest: LakeState) -> Look:
    return look_everywhere(newest.version.number, newest.digest, _tables_of_plans(newest))


def _tables_of_plans(state: LakeState) -> dict[str, str]:
    return {txid.text: plan.table for txid, plan in state.plans.items()}


# --- compacting -------------------------------------------------------------------------------------------

TAKE_OVER_AFTER = timedelta(minutes=2)
"""How old a plan that no process works on must be before another compactor takes it over."""
MAX_ROUNDS = 8
"""How often a compaction checks again, because its own commits may have completed a window."""
MAX_IN_VAIN = 3
"""How many plans of a table may fail in a row before the table is left to a later compaction."""

SERVICE: Service = "compaction"


class CompactionInterrupt(KeyboardInterrupt):
    """A Ctrl-C in a compaction; `left` says what happened to the current plan."""

    def __init__(self, left: str) -> None:
        super().__init__(left)
        self.left = left


@dataclass
class Compactor:
    """One compaction through one handle of a lake."""

    lake: LakeHandle
    looks: Looks = field(default_factory=Looks)
    spark: SparkSession | None = None
    progress: Callable[[CompactionProgress], None] = lambda _: None
    patience: timedelta = TAKE_OVER_AFTER
    rewriter: Callable[[Target, SparkSession | None], Rewriter] = rewriter_for
    tally: Tally = field(default_factory=Tally)

    def run(self, table: str | None = None) -> CompactionReport:
        """Compacts everything that is ready, in all tables or in one.

        Terminates even if the lake is busy, because each round considers only the versions that existed at
        its start. If the process dies, completed plans stay complete, and another compactor takes over the
        current plan.
        """
        only = None if table is None else found_table(self.lake.refresh(), table).uuid
        for _ in range(MAX_ROUNDS):
            done = len(self.tally.completed)
            self._round(only)
            if len(self.tally.completed) == done:
                break
        return self.tally.report(self.lake.refresh().version.number)

    def _round(self, only: str | None) -> None:
        state = self.lake.refresh()
        if self._take_over(state, only):
            state = self.lake.refresh()  # the files of a plan that has ended are free
        newest = state.version.number
        if only is not None:
            self._compact(only, newest, Intents(everything=True), ())
            return
        look = self.looks.look(state, self.lake.log)
        tables = [ref.uuid for ref in state.tables.values() if look.intents.concerns(ref.uuid)]
        left = [uuid for uuid in tables if not self._compact(uuid, newest, look.intents, look.mark.plans)]
        # Files of a plan that failed, or began meanwhile, may become ready later without a new window. So the
        # mark names their paths, and they are checked again.
        self.looks.remember(look.mark.leaving(look.intents.within(left)), self.lake.log)

    def outlook(self, table: str | None = None) -> tuple[TableOutlook, ...]:
        """The tables, or one of them, with what is ready to compact. Changes nothing."""
        return self.lake.checkpoints.read_undisturbed(lambda: self._outlooks(table))

    def _outlooks(self, table: str | None) -> tuple[TableOutlook, ...]:
        state = self.lake.refresh()
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

    def _compact(self, uuid: str, newest: int, intents: Intents, known: Collection[str]) -> bool:
        """Plans and carries out what is ready in a table at a version, one plan after the other.

        Checks only the paths that `intents` name. Returns False if something is left that could not be done
        or checked, unless it waits for the end of the `known` plans.
        """
        in_vain = 0
        while in_vain < MAX_IN_VAIN:
            due = self.lake.checkpoints.read_undisturbed(lambda: self._due(uuid, newest, intents, known))
            if due is None or not due.groups:
                return due is None or due.is_whole
            plan = self._schedule(due.name, due.groups)
            done = plan is not None and self._carry_out(plan)
            in_vain = 0 if done else in_vain + 1
        return False

    def _due(self, uuid: str, newest: int, intents: Intents, known: Collection[str]) -> _Due | None:
        """The content of the next plan for a table; None if the table is gone."""
        state = self.lake.refresh()
        name = _name(state, uuid)
        if name is None:
            return None
        live = self._live(state, name, intents.paths_of(uuid, name))
        plans = self._plans(state, uuid)
        later = [plan for plan in plans if plan.txid.text not in known]
        free = without_pending(live.segments, plans)
        is_whole = len(without_pending(live.segments, later)) == len(live.segments)
        then = [segment for segment in free if segment.covers.last <= newest]
        due = plan_compaction(then, newest, self._divisor, live.policy)
        return _Due(name, next(in_plans(due, live.policy), ()), is_whole)

    def _schedule(self, name: str, groups: Sequence[Group]) -> PendingPlan | None:
        """Publishes a plan; None if another compactor was faster, or the table is gone."""
        files = [segment.file for group in groups for segment in group.segments]
        tx = self._begin(name)
        try:
            with tx:
                tx.plan(SERVICE, name, files, {group.path for group in groups}, details(groups))
        except (TransactionConflictError, NotFoundError):
            return None
        self.tally.note_planned(tx.result)
        return tx.reached.plans.get(TxId(tx.txid))

    # --- one plan -----------------------------------------------------------------------------------------

    def _take_over(self, state: LakeState, only: str | None) -> bool:
        """Carries out abandoned plans, or cancels them. Returns whether there were any."""
        _, dead = self.lake.dead_plans(self.patience)
        found = False
        for plan in self._plans(state):
            if only is not None and plan.table != only:
                continue
            if _name(state, plan.table) is None:
                found = True
                self._cancel(plan, "its table is gone")
            elif plan.txid in dead:
                found = True
                self.tally.taken_over.append(plan.txid.text)
                self._carry_out(plan)
        return found

    def _carry_out(self, plan: PendingPlan) -> bool:
        """Rewrites the files of a plan, and completes it. Returns False if that failed.

        Cancels a plan that can no longer be completed. A failure never changes a row.
        """
        tx = self._begin(_name(self.lake.refresh(), plan.table) or plan.table)
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
            raise  # it may be complete; if not, another compactor takes it over
        except HeadgateError as error:
            if isinstance(error, CorruptLakeError) and plan.txid not in self.lake.refresh().plans:
                return False  # another process ended it, and its files have expired
            self._give_up(plan, type(error).__name__)
            raise
        except KeyboardInterrupt as interrupt:
            if getattr(interrupt, "__notes__", None):
                raise  # during the commit, whose outcome is unknown; the note says how to find out
            raise CompactionInterrupt(self._give_up(plan, "interrupted")) from interrupt
        self.tally.complete(plan, work.live.name, tx.result, work.done)
        return True

    def _work(self, tx: Transaction, plan: PendingPlan) -> _Work | Unworkable | None:
        """The work of a plan; None if the plan has ended meanwhile."""
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
        """Tries to cancel a plan.

        Returns the outcome as text, because the caller has a more important error.
        """
        try:
            self._cancel(plan, reason)
        except (HeadgateError, KeyboardInterrupt):
            return f"the plan {plan.txid} is left for the next compaction to take over"
        return f"the plan {plan.txid} was cancelled, and no row was changed"

    def _cancel(self, plan: PendingPlan, reason: str) -> None:
        newest = self.lake.refresh()
        if plan.txid not in newest.plans:
            return
        try:
            result = self.lake.run(("compact", "--cancel"), lambda tx: tx.cancel(plan.txid), newest)
        except TransactionConflictError:
            return  # completed or cancelled by another process
        self.tally.gave_up(plan, result, reason)

    # --- the lake -----------------------------------------------------------------------------------------

    def _begin(self, name: str) -> Transaction:
        return self.lake.transaction(("compact", name))

    def _live(self, state: LakeState, name: str, paths: Collection[str] | None = None) -> LiveTable:
        return live_table(self._loader, state, name, self._divisor, paths)

    def _plans(self, state: LakeState, uuid: str | None = None) -> list[PendingPlan]:
        """The pending plans: with a table, those of any service on it; else those of compaction."""
        if uuid is not None:
            return [plan for plan in state.plans.values() if plan.table == uuid]
        return [plan for plan in state.plans.values() if plan.service == SERVICE]

    @property
    def _loader(self) -> TableLoader:
        return self.lake.loader()

    @property
    def _divisor(self) -> int:
        return self.lake.divisor


@dataclass(frozen=True, slots=True)
class _Due:
    """What one plan may take of what is ready in a table; `is_whole` unless later plans have some of it."""

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
    """The current name of a table; None if the table is gone."""
    return next((name for name, ref in state.tables.items() if ref.uuid == uuid), None)
