"""Checks a transaction against the commits and plans of other writers, and raises the errors of conflicts.

Also fetches the evidence for the conflict rules from the tables of the lake, each answer once. The evidence
never changes: it consists of manifests and position delete files of committed versions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.conflict.detection import (
    Beginning,
    Conflict,
    Incompatible,
    Rebasable,
    Retryable,
    candidates,
    find_conflicts,
    next_step,
    refusal,
    resolve,
)
from headgate.core.conflict.evidence import ChangedRows
from headgate.core.conflict.footprint import Footprint
from headgate.core.conflict.isolation import Isolation
from headgate.core.conflict.overlooked import Earlier, following, moves_rows
from headgate.core.conflict.pending import (
    PendingConflict,
    PendingVerdict,
    Touched,
    cancellation_conflicts,
    completion_conflicts,
    judge_ingestion,
    judge_service,
    plan_conflicts,
)
from headgate.core.conflict.retry import Effort, RetryPolicy
from headgate.core.input.settings import ALLOW_UPDATES, COMPACTION, EARLY, Setting
from headgate.errors import ConflictError, CorruptLakeError, HeadgateError, UnknownOutcomeNote
from headgate.log.driver import Driver
from headgate.log.log import CommitLog, Progress
from headgate.model.announcement import Intent
from headgate.model.footprint import file_mark
from headgate.model.identifiers import TxId, Version
from headgate.model.plan import PendingPlan
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.model.table import StructurePart, TableCommit, TableRef
from headgate.steward.ledger import Ledger
from headgate.transaction.announcing import Presence
from headgate.transaction.changes import Changes, TableChange

if TYPE_CHECKING:
    from headgate.iceberg.format.data_file import Content, DataFile
    from headgate.iceberg.format.loader import TableLoader
    from headgate.iceberg.format.metadata import TableMetadata
    from headgate.transaction.builder import Work


class ExpiredBaseError(ConflictError):
    """The base version of a transaction has expired, and with it an object that the transaction needs."""


class OutdatedBaseError(ConflictError):
    """The operation began on an old version to save a request, and columns that it names changed since."""


@dataclass(frozen=True, slots=True)
class Bereft:
    """The loader of a transaction, which reports why an object that the transaction needs is missing.

    Either the base version of the transaction has expired, or vacuum cancelled the transaction and deleted
    its files. What it has read so far may be incomplete, so the transaction ends.
    """

    log: CommitLog
    base: Version
    txid: TxId
    loader: Callable[[], TableLoader]

    def __call__(self) -> TableLoader:
        return self.loader().explained(self._why_missing)

    def _why_missing(self, key: str) -> HeadgateError:
        newest = self.log.catch_up(self.log.newest, 1).state
        cancelled = self._find_cancellation(newest)
        if cancelled is not None:
            return cancelled
        kept, uri = newest.retention, self.loader().uri(key)
        if self.base.number > kept.until:
            return CorruptLakeError(f"{uri} is missing, but the lake refers to it")
        return ExpiredBaseError(
            f"the transaction began on version {self.base}, but version {kept.by} has expired all versions "
            f"up to {kept.until} since then: {uri} is gone",
            "run it again in a new transaction on the newest version; nothing has changed",
        )

    def _find_cancellation(self, newest: LakeState) -> HeadgateError | None:
        """The conflict that the commit would end with, if a record above the base cancels the transaction."""
        # The records, not `newest.cancelled`, which is bounded. Files are deleted only after a cancellation.
        above = newest.version.number - self.base.number
        records = (one for one in self.log.records_down(newest, above) if self.txid in one.cancels)
        conflicts = find_conflicts(Footprint(self.txid), records)
        if not conflicts:
            return None
        return TransactionConflictError(conflict_text(conflicts), next_step(conflicts), conflicts)


class TransactionConflictError(ConflictError):
    """A `ConflictError` with the conflict rules that rejected the commit."""

    def __init__(
        self, problem: str, next_step: str | None = None, conflicts: tuple[Conflict, ...] = ()
    ) -> None:
        super().__init__(problem, next_step)
        self.args = (problem, next_step, conflicts)
        self.conflicts = conflicts

    @property
    def outcome(self) -> Retryable | Incompatible:
        """Whether the same operation can succeed in a new transaction on the new head."""
        return refusal(self.conflicts)


class PendingConflictError(TransactionConflictError):
    """A transaction cannot be committed while others are pending. `pending` lists them with the reasons."""

    def __init__(
        self,
        problem: str,
        next_step: str | None = None,
        conflicts: tuple[Conflict, ...] = (),
        pending: tuple[PendingConflict, ...] = (),
    ) -> None:
        super().__init__(problem, next_step, conflicts)
        self.args = (problem, next_step, conflicts, pending)
        self.pending = pending

    @classmethod
    def of(cls, pending: tuple[PendingConflict, ...]) -> PendingConflictError:
        text = "\n".join(f"{one.reason} [rule {one.rule}: {one.name}]" for one in pending)
        return cls(text, pending[0].next_step, pending=pending)

    @property
    def outcome(self) -> Retryable | Incompatible:
        return Retryable(()) if all(one.rerun_helps for one in self.pending) else Incompatible(())


def gave_up(error: TransactionConflictError, runs: int, effort: Effort) -> TransactionConflictError:
    """The error that the caller of an operation gets after its last run ended in a conflict."""
    return TransactionConflictError(
        f"gave up after {runs} runs with {effort.attempts} attempts, each of which conflicted with another "
        f"writer; nothing has changed. The last conflict:\n{error.problem}",
        "try again when the lake is less busy, or allow more attempts or time in the retry policy",
        conflicts=error.conflicts,
    )


def out_of_time(tries: str, policy: RetryPolicy, newest: Version) -> ConflictError:
    """The error of a transaction that lost the race for every version that it tried."""
    return ConflictError(
        f"gave up after {tries}: other writers were faster each time, and the "
        f"{policy.total.total_seconds():g} s of the retry policy have passed; nothing has changed, and the "
        f"newest version is {newest}",
        "try again when the lake is less busy, or allow more time in the retry policy",
    )


def how_to_settle(txid: str, committed: Version | int | None, place: str) -> str:
    """What to do about a transaction that was interrupted during its commit, or after it."""
    if committed is not None:
        return (
            f"transaction {txid} was committed as version {committed}; to complete the work that follows it, "
            f"such as hooks, run headgate recover {place}"
        )
    return UnknownOutcomeNote(
        f"transaction {txid} may have been committed; to resolve its outcome, call commit() on it again, "
        f"call Lake.resolve({txid!r}), or run headgate doctor {place} --resolve {txid}"
    )


def conflict_text(conflicts: Sequence[Conflict], was_pending: Container[Version] = ()) -> str:
    """The conflicts, one per line. `was_pending` are versions that were running when ours began."""
    return "\n".join(
        f"{conflict}{' (it was running when yours began)' if conflict.other.version in was_pending else ''}"
        for conflict in conflicts
    )


Place: TypeAlias = tuple[int, str]
"""A version, and the uuid of a table."""


@dataclass
class FetchedEvidence:
    """The `Evidence` of one transaction. Reads the storage only when a rule needs it."""

    _driver: Driver
    _loader: Callable[[], TableLoader]
    _added: dict[Place, Mapping[str, object]] = field(default_factory=dict)
    _rows: dict[Place, Mapping[str, ChangedRows]] = field(default_factory=dict)

    def added(self, other: Record, table: TableCommit) -> Mapping[str, object] | None:
        from headgate.iceberg.format.data_file import Content
        from headgate.iceberg.predicate.selection import AddedFile

        place = (other.version.number, table.table.uuid)
        if place not in self._added:
            metadata = self._loader().metadata(table.table.metadata)
            files = self._files(metadata, other, table, Content.DATA)
            self._added[place] = {file.path: AddedFile(file, metadata) for file in files}
        return self._added[place]

    def rows(
        self, other: Record, table: TableCommit, files: frozenset[str]
    ) -> Mapping[str, ChangedRows] | None:
        place = (other.version.number, table.table.uuid)
        if place not in self._rows:
            self._rows[place] = self._fetch_changed_rows(other, table)
        return {mark: rows for mark, rows in self._rows[place].items() if mark in files}

    def _fetch_changed_rows(self, other: Record, table: TableCommit) -> Mapping[str, ChangedRows]:
        from headgate.iceberg.format.data_file import Content
        from headgate.iceberg.format.directories import Role, role_of
        from headgate.iceberg.format.positions import Positions, read_positions

        loader = self._loader()
        metadata = loader.metadata(table.table.metadata)
        listed = tuple(self._files(metadata, other, table, Content.POSITION_DELETES))

        def positions_of(not_in: Role) -> Positions:
            # A file that does not say which kind of rows it marks is treated as both kinds.
            return read_positions(self._driver, loader, [f for f in listed if role_of(f.path) is not not_in])

        deleted, updated = (
            positions_of(not_in=Role.POSITIONS_UPDATED),
            positions_of(not_in=Role.POSITIONS_DELETED),
        )
        paths = {*deleted.by_file, *updated.by_file}
        return {file_mark(path): ChangedRows(deleted.in_file(path), updated.in_file(path)) for path in paths}

    def _files(
        self, metadata: TableMetadata, other: Record, table: TableCommit, content: Content
    ) -> Iterator[DataFile]:
        """The files that `other` added to the table; `metadata` is the table after that commit."""
        from headgate.iceberg.format.data_file import Status

        loader, number = self._loader(), other.version.number
        # The files that a version adds are in manifests that it wrote itself, merged with others or not.
        new = [m for m in loader.manifests(metadata) if m.sequence_number == number and m.content is content]
        for entries in loader.entries(new):
            for entry in entries:
                if entry.status is Status.ADDED and entry.snapshot_id == table.snapshot_id:
                    yield entry.file


@dataclass
class OtherWriters:
    """What others have committed and announced since a transaction began, and whether it is still valid.

    `state` is the newest state that was read, and `unchecked` are the records up to it that were not checked
    yet. For `pending` see `Beginning`. `isolation` is the one that the caller chose. With `may_be_old`, the
    transaction may have begun on an older version, to save a request. `app` is the application whose batch it
    is.
    """

    log: CommitLog
    loader: Callable[[], TableLoader]
    ledger: Ledger
    presence: Presence
    state: LakeState
    pending: frozenset[TxId] | None = None
    isolation: Isolation | None = None
    may_be_old: bool = False
    app: str | None = None
    unchecked: tuple[Record, ...] = ()
    yielding: tuple[TxId, ...] = ()
    """Plans that make way for the transaction."""
    base: LakeState = field(init=False)
    _commits: dict[TableRef, tuple[TableCommit, Version, TxId]] = field(default_factory=dict)
    """Where each table that others changed is now, and which version and transaction left it there."""
    _moves: tuple[Record, ...] = ()
    _overlooked: Earlier = field(default_factory=Earlier)
    _evidence: FetchedEvidence = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.state
        self._evidence = FetchedEvidence(self.log.driver, self.loader)

    def follow(self, progress: Progress) -> None:
        self.state, self.unchecked = progress.state, (*self.unchecked, *progress.records)
        for record in progress.records:
            self._commits |= {commit.table: (commit, record.version, record.txid) for commit in record.tables}

    def prefetch(self, tables: Iterable[str]) -> None:
        """Reads what others have left of these tables, by name, all of it at the same time."""
        refs = (self.state.tables.get(name) for name in tables)
        found = [self._commits[ref] for ref in refs if ref is not None and ref in self._commits]
        if found:
            self.loader().prefetch(found)

    def catch_up(self, at_once: int) -> bool:
        """Reads what others have committed. Returns False if there is nothing new."""
        progress = self.log.catch_up(self.state, at_once)
        self.follow(progress)
        return bool(progress.records)

    def refuse_conflicts(self, work: Work) -> None:
        """Raises a `ConflictError` if the changes of the transaction are no longer valid."""
        try:
            self.judge(work)
        except PendingConflictError:
            # A plan that is pending at this version may have ended at a later one that was not read yet.
            if not self.catch_up(1):
                raise
            self.judge(work)

    def judge(self, work: Work) -> None:
        """Rejects changes that conflict with the versions read so far, or with plans pending at the last."""
        if self.unchecked:
            self._judge_completed(work)
        self.yielding = self._refuse_pending(work.noted)

    def _judge_completed(self, work: Work) -> None:
        carries = self._refuse_completed(work.noted).carries
        if carries or any(map(moves_rows, self.unchecked)):
            # One by one: changes rebased over one compaction, or reads before it, can conflict with the next.
            for record in self.unchecked:
                self._rebase(work, record)
                if moves_rows(record):
                    self._moves = (*self._moves, record)
        ours = self._footprint(work.noted)
        for record in self.unchecked:
            # The winner of a later version may have seen it.
            self._overlooked.note(record, ours)
        self.unchecked = ()

    def _require_same_columns(self, ours: Footprint, others: Sequence[Record]) -> None:
        """Rejects rows whose columns were looked up by name before others changed the columns.

        This concerns only an operation that began on an older version to save a request.
        """
        if not self.may_be_old:
            return
        uuids = {table.uuid for table in ours.tables}
        for record in others:
            for commit in record.tables:
                if commit.table.uuid in uuids and StructurePart.SCHEMA.value in commit.structure:
                    raise OutdatedBaseError(
                        f"{commit.name}: version {record.version} changed the columns",
                        "run the operation again, in a new transaction on the newest version",
                    )

    def _refuse_completed(self, changes: Changes) -> Rebasable:
        chosen = candidates(Beginning(self.base.version, self.pending), self.unchecked)
        ours = self._footprint(changes)
        records = [one.record for one in chosen]
        self._require_same_columns(ours, records)
        conflicts = find_conflicts(ours, records, self._evidence, self._overlooked.records)
        outcome = resolve(conflicts)
        if isinstance(outcome, Rebasable):
            return outcome
        self.ledger.count_rejection(conflict.name for conflict in conflicts)
        was_pending = {one.record.version for one in chosen if one.was_pending}
        raise TransactionConflictError(conflict_text(conflicts, was_pending), next_step(conflicts), conflicts)

    def _footprint(self, changes: Changes) -> Footprint:
        """What the rules compare, including reads in the files to which rows have moved since."""
        ours = replace(changes.footprint(self.presence.txid, self.isolation), app=self.app)
        return following(ours, self._moves, self._evidence) if self._moves else ours

    def _rebase(self, work: Work, record: Record) -> None:
        """Rebases row changes onto the files of a compaction that `record` made, or the other way round."""
        conflicts = find_conflicts(self._footprint(work.noted), [record], self._evidence)
        if not conflicts:
            return
        from headgate.transaction.rebase import rebase_changes

        # Nothing is noted before all of it is known, so that an interrupt leaves the changes as they were.
        done = isinstance(resolve(conflicts), Rebasable) and rebase_changes(work, record, self._evidence)
        if not done:
            self.ledger.count_rejection(conflict.name for conflict in conflicts)
            raise TransactionConflictError(conflict_text(conflicts), next_step(conflicts), conflicts)

    # --- what is announced, and what is pending -----------------------------------------------------------

    def announce(self, work: Work, intent: Intent, change: TableChange) -> None:
        """Announces a change of a table before a long operation begins.

        With the lake property `conflict.early`, raises the `ConflictError` that the commit would raise, as
        far as it can be foreseen.
        """
        early = EARLY.is_on(self.state.properties)
        if intent.files is not None and not intent.files and not early:
            return  # there are only keys to announce, and only `conflict.early` uses them
        plan = work.noted.completes[0] if work.noted.completes else None
        # Announce first: if two begin at the same time, at least one of them sees the other.
        self.presence.announce(work, intent, plan, self.log.driver.host.now())
        if early:
            try:
                self._refuse_early(intent, work.noted.with_table(change))
            except ConflictError:
                # The caller may keep the transaction open, but it must not hold up others.
                self.presence.leave()
                raise

    def _refuse_early(self, intent: Intent, changes: Changes) -> None:
        self.catch_up(1)
        self._refuse_completed(changes)
        self._refuse_pending(changes)
        conflicts = self.presence.early(intent, self.state)
        if conflicts:
            raise PendingConflictError.of(conflicts)

    def leave(self) -> None:
        """Removes the announcement of the transaction, which is over."""
        if self.presence.intents:
            self.presence.leave()

    def _refuse_pending(self, changes: Changes) -> tuple[TxId, ...]:
        """Rejects changes that conflict with pending plans. Returns the plans that give way to them."""
        if not (self.state.plans or changes.plan or changes.completes or changes.cancels):
            return ()
        verdict = self._verdict(changes)
        if verdict.conflicts:
            self.ledger.count_rejection(["pending"])
            raise PendingConflictError.of(verdict.conflicts)
        return verdict.cancels

    def _verdict(self, changes: Changes) -> PendingVerdict:
        """Whether `changes` can be committed on top of the newest state that was read and its pending plans.

        Reads the storage only if a pending plan concerns a table of the transaction.
        """
        ended = (
            *completion_conflicts(changes.completes, self.state.plans, self.state.cancelled),
            *cancellation_conflicts(changes.cancels, self.base.plans, self.state.plans),
        )
        planned = () if changes.plan is None else plan_conflicts(changes.plan, self._others(changes))
        beside = self._as_service(changes) if changes.completes else self._as_ingestion(changes)
        return replace(beside, conflicts=(*ended, *planned, *beside.conflicts))

    def _others(self, changes: Changes) -> list[PendingPlan]:
        """The pending plans, except those that the same record ends."""
        ending = {*changes.completes, *changes.cancels}
        return [plan for txid, plan in self.state.plans.items() if txid not in ending]

    def _as_ingestion(self, changes: Changes) -> PendingVerdict:
        if not self.state.plans:
            return PendingVerdict()
        return judge_ingestion(self._touched(changes), self._others(changes))

    def _touched(self, changes: Changes) -> Iterator[Touched]:
        planned_for = {plan.table for plan in self.state.plans.values()}
        for change in changes.tables.values():
            if change.base is not None and change.base.uuid in planned_for and change.touched_files:
                yield self._touched_by(change, change.base)

    def _touched_by(self, change: TableChange, table: TableRef) -> Touched:
        return Touched(
            name=change.name,
            table=table.uuid,
            paths=change.paths,
            files=change.touched_files,
            updates_allowed=self._setting(ALLOW_UPDATES, table.uuid) == "true",
            strict_compaction=self._setting(COMPACTION, table.uuid) == "strict",
        )

    def _as_service(self, changes: Changes) -> PendingVerdict:
        completed = [
            (plan, self._setting(ALLOW_UPDATES, plan.table) == "true")
            for plan in (self.state.plans.get(txid) for txid in changes.completes)
            if plan is not None
        ]
        if not any(allowed and plan.service == "clustering" for plan, allowed in completed):
            return PendingVerdict()
        return judge_service(completed, self.presence.others(self.state))

    def _setting(self, setting: Setting, table: str) -> str:
        """The value of a setting for a table: its own, or that of the lake."""
        ref = next((ref for ref in self.state.tables.values() if ref.uuid == table), None)
        own = {} if ref is None else self.loader().metadata(ref.metadata).properties
        return setting.of(own, self.state.properties)
