"""A transaction: changes that become one version of the lake, or nothing.

Commit tries the version after the newest one that it knows. If another writer has it, the transaction reads
what it missed, asks the rules whether its change still holds, and tries the next version. Nothing that
another writer can see exists before the record is decided.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from headgate.changes import Changes, TableChange, TableRead
from headgate.commit.announcements import Announcements
from headgate.commit.driver import Driver, Waiting
from headgate.commit.log import CommitLog, Progress
from headgate.commit.outcome import Committed, ContestedError, Lost, Unknown
from headgate.core.candidates import Beginning, candidates
from headgate.core.conflict import Rebasable, find_conflicts, next_step, resolve
from headgate.core.footprint import Footprint
from headgate.core.isolation import Isolation
from headgate.core.moved_reads import following, moves_rows
from headgate.core.retry import Effort, RetryPolicy
from headgate.core.settings import EARLY
from headgate.envelope import Envelope
from headgate.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    StorageError,
)
from headgate.evidence import FetchedEvidence
from headgate.forks import renew_after_fork
from headgate.model.announcement import Intent
from headgate.model.identifiers import TxId, Version
from headgate.model.record import Record
from headgate.model.row_counts import RowCounts
from headgate.model.state import LakeState
from headgate.noting import NotedChanges
from headgate.presence import Presence
from headgate.refusals import (
    ExpiredBaseError,
    ExpiringBase,
    PendingConflictError,
    TransactionConflictError,
    conflict_text,
    how_to_settle,
    out_of_time,
)
from headgate.result import CommitResult
from headgate.steward.steward import Steward
from headgate.turns import Turns

if TYPE_CHECKING:
    from headgate.iceberg.loader import TableLoader
    from headgate.iceberg.snapshot import Drafts
    from headgate.preparation import PreparedTable


NOTHING_SPENT = Effort()


@dataclass(frozen=True, slots=True)
class _Offer:
    """A record that was offered for the version after `state`, and may have been decided."""

    record: Record
    state: LakeState


class Stage(Enum):
    OPEN = "open"
    UNSETTLED = "unsettled"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Transaction(NotedChanges):
    """Made by `Lake.transaction`. Use it in a `with` block, which commits at the end, or call `commit`."""

    def __init__(
        self,
        log: CommitLog,
        loader: Callable[[], TableLoader],
        envelope: Envelope,
        retry: RetryPolicy,
        steward: Steward,
        announcements: Announcements,
        base: LakeState,
        pending: frozenset[TxId] | None = None,
        effort: Effort = NOTHING_SPENT,
        isolation: Isolation | None = None,
    ) -> None:
        self._log = log
        self._loader = ExpiringBase(log, base.version, loader)
        self._host = log.driver.host
        self._envelope = envelope
        self._retry = retry
        self._steward = steward
        self._txid = self._host.new_txid()
        self._base = base
        self._beginning = Beginning(base.version, pending)
        self._presence = Presence(
            announcements, self._loader, self._txid, base, envelope.started_at, envelope.command
        )
        self._yielding: tuple[TxId, ...] = ()
        self._state = base
        self._unchecked: tuple[Record, ...] = ()
        self._moves: tuple[Record, ...] = ()
        self._changes = Changes()
        self._rows: RowCounts | None = None
        self._isolation = isolation
        self._evidence = FetchedEvidence(log.driver, self._loader)
        self._stage = Stage.OPEN
        self._offered: _Offer | None = None
        self._committed: Record | None = None
        self._drafts: Drafts = {}
        self._written: set[str] = set()
        self._effort = effort
        self._patience_seconds = effort.left_seconds(retry)
        self._result: CommitResult | None = None
        self._one_at_a_time = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        # A commit that another thread of the parent was in is the parent's; here it is not yet settled.
        self._one_at_a_time = threading.Lock()

    @property
    def txid(self) -> str:
        """The identity of this transaction, as it will stand in the log."""
        return self._txid.text

    @property
    def effort(self) -> Effort:
        """What it has cost so far, with earlier runs of the same operation."""
        return self._effort

    @property
    def reached(self) -> LakeState:
        """The newest state that this transaction has seen."""
        return self._state

    @property
    def result(self) -> CommitResult:
        """The result of the commit; `InvalidInputError` before there is one."""
        if self._result is None:
            raise InvalidInputError(f"transaction {self.txid} is {self._stage.value}: it has no result")
        return self._result

    @property
    def committed_before(self) -> CommitResult | None:
        """What `commit` would return if the batch of the application, or a later one, was committed before.

        None if nothing is known of it, as of the newest version that this transaction has seen. Asked before
        the work, it saves it.
        """
        return self._earlier_batch()

    def _open(self) -> _Open:
        self._require_open()
        return _Open(self)

    def abort(self) -> None:
        """Gives up; nothing was or will be changed. Waits for a commit that another thread has begun."""
        with self._one_at_a_time:
            self._require_open()
            self._stage = Stage.ABORTED
            self._presence.leave()

    def commit(self) -> CommitResult:
        """Makes the changes visible as one new version.

        Atomic. After a `ConflictError` or `StorageError` nothing has changed and the transaction is over.
        After a `CommitUnknownError`, or if the process was interrupted inside, calling it again settles what
        happened and never commits twice. Each call has the whole patience of the retry policy.
        """
        with self._one_at_a_time:
            return self._commit_or_tell_how_to_settle()

    def _commit_or_tell_how_to_settle(self) -> CommitResult:
        try:
            return self._commit_once()
        except KeyboardInterrupt as interrupt:
            if self._stage in (Stage.UNSETTLED, Stage.COMMITTED):
                known = self._committed or self._result
                version = None if known is None else known.version
                interrupt.add_note(how_to_settle(self.txid, version, self._log.driver.store.describe()))
            raise

    def _commit_once(self) -> CommitResult:
        if self._result is not None:
            self._end(self._result)  # again: a Ctrl-C may have come between its steps
            self._presence.leave()
            return self._result
        if self._stage is Stage.ABORTED:
            self._require_open()
        if not self._changes and self._rows is not None:
            self._end(self._earlier_batch() or replace(self._result_at(self._base.version), changed=False))
            self._presence.leave()
            return self.result
        if not self._changes:
            raise InvalidInputError(
                "there is nothing to commit: the transaction changes nothing", "change something, or abort"
            )
        try:
            self._finish_tables()
            result = self._commit_in_time()
        except BaseException as error:
            # What was offered and not answered stays unsettled; everything else is over.
            if self._stage is Stage.OPEN:
                self._stage = Stage.ABORTED if self._result is None else Stage.COMMITTED
                # Whoever interrupts us is not kept waiting for a request.
                leave = self._presence.leave if isinstance(error, Exception) else self._presence.fall_silent
                leave()
            raise
        self._presence.leave()
        self._result = replace(result, postponed=self._presence.postponed)
        if self._committed is not None:
            self._follow_up(self._committed)
        return self.result

    def _follow_up(self, record: Record) -> None:
        """What is due after the decision. Whoever interrupts it leaves the rest to recovery."""
        spent = {"commit": self._effort.spent_seconds, "waited": self._effort.waited_seconds}
        followed = self._steward.after_commit(self._state, record, spent)
        postponed = (*self.result.postponed, *followed.postponed)
        self._result = replace(self.result, postponed=postponed, hook_failures=followed.hook_failures)

    def _finish_tables(self) -> None:
        """Writes the rest of what the tables need, if it is not there yet."""
        if self._stage is Stage.OPEN and self._changes.tables:
            from headgate import writing

            writing.finish(self._open())

    def _commit_in_time(self) -> CommitResult:
        started = self._host.elapsed()
        try:
            return self._commit(started + self._patience_seconds)
        finally:
            self._effort = self._effort.spent(self._host.elapsed() - started)

    def _commit(self, until: float) -> CommitResult:
        waiting = Waiting(self._retry, until)
        turns = Turns(self._log, self._retry, self._catch_up, self._note_wait)
        losses = 0
        if self._offered is not None and not self._settle(self._offered, waiting):
            losses += 1
        while self._result is None:
            if losses:
                turns.give_way(losses, until)
            turns.in_turn(losses, until, partial(self._try, losses, waiting))
            losses += 1
        return self.result

    def _try(self, losses: int, waiting: Waiting) -> None:
        """One attempt at the next version. Sets the result if it is decided in our favour.

        The first one is always made, whatever the time. Time ends the later ones only after a look at the
        records that won: one of them may be ours, or say why ours is refused.
        """
        self._follow(self._log.follow_seen(self._state))
        earlier = self._committed_by_a_twin() or self._earlier_batch()
        if earlier is not None:
            self._end(earlier)
            return
        self._refuse_conflicts()
        if losses and self._host.elapsed() >= waiting.until:
            raise self._out_of_time()
        try:
            self._offer(waiting)
        except ExpiredBaseError:
            # What it was prepared on is expired, so others have been faster: that counts as a loss.
            if not self._catch_up(1):
                raise

    # --- offering a record ----------------------------------------------------------------------------

    def _offer(self, waiting: Waiting) -> None:
        """Offers the record for the next version. Sets the result if it is the one that is decided."""
        strategy = self._log.strategy(self._state, waiting)
        tables = self._prepare()
        self._effort = self._effort.tried()
        record = self._record(tables)
        # From here on, whatever interrupts us leaves the question whether the record was decided.
        self._offered = _Offer(record, self._state)
        self._stage = Stage.UNSETTLED
        try:
            outcome = strategy.publish(record.version, record.encode(), self._host.new_txid())
        except StorageError as error:
            # The strategy's word that ours is not and never will be decided.
            self._withdraw()
            if isinstance(error, ContestedError):
                raise self._out_of_time() from error
            raise
        if self._decided(self._offered, outcome):
            self._remember(tables)

    def _remember(self, tables: Sequence[PreparedTable]) -> None:
        """Keeps what was written. Only now: an attempt that was lost gave its manifests another number."""
        for table in tables:
            if table.metadata is not None:
                key = table.commit.table.metadata
                self._loader().remember(key, table.metadata, table.manifests, table.entries)

    def _prepare(self) -> list[PreparedTable]:
        """Writes the metadata objects of the changed tables for the next version. Nobody sees them yet."""
        if not self._changes.tables:
            return []
        from headgate.preparation import Attempt, prepare  # loads pyiceberg, which only tables need

        attempt = Attempt(
            self._state,
            self._txid,
            self._host.now(),
            self._log.identity.divisor,
            self._envelope.remarks(),
            self._drafts,
        )
        tables = prepare(self._loader(), list(self._changes.tables.values()), attempt)
        objects = [item for table in tables for item in table.objects.items() if item[0] not in self._written]
        self._host.together([partial(self._log.driver.put, key, data) for key, data in objects])
        self._written.update(key for key, _ in objects)
        return tables

    def _settle(self, offer: _Offer, waiting: Waiting) -> bool:
        """Finds out what became of an offer whose answer was lost; False if another record was decided."""
        strategy = self._log.strategy(offer.state, waiting)
        record = offer.record
        return self._decided(offer, strategy.resolve(record.version, record.encode(), self._host.new_txid()))

    def _decided(self, offer: _Offer, outcome: Committed | Lost | Unknown) -> bool:
        # A Ctrl-C can come between any two steps; the offer goes last, so that settling it again is possible
        # and ends the same.
        match outcome:
            case Committed():
                self._state = self._log.absorb(offer.state, offer.record.encode()).state
                self._committed = offer.record
                self._log.pressure.won()
                self._end(self._result_at(offer.record.version))
                return True
            case Lost(data):
                entry = self._log.absorb(offer.state, data)
                self._state, self._unchecked = entry.state, (*self._unchecked, entry.record)
                self._withdraw()
                self._log.pressure.lost()
                return False
            case Unknown(version, _, error):
                raise CommitUnknownError(
                    f"whether version {version} is transaction {self.txid} cannot be told yet, after "
                    f"{self._tries()}: {error.problem}",
                    "do not run the work again; once the cause is mended, call commit() on this transaction "
                    f"again, or from another process Lake.resolve({self.txid!r}) or "
                    f"headgate doctor {self._log.driver.store.describe()} --resolve {self.txid}",
                    version.number,
                    self.txid,
                ) from error

    def _record(self, tables: Sequence[PreparedTable]) -> Record:
        changes, envelope = self._changes, self._envelope
        strategy = self._state.next_strategy if changes.strategy is None else changes.strategy.value
        version = self._state.version.next()
        record = Record(
            version=version,
            txid=self._txid,
            previous=self._state.digest,
            kind=changes.kind,
            started_at=envelope.started_at,
            # Never before the version before, whatever our clock says: so a version can be found by time.
            committed_at=max(self._host.now(), self._state.committed_at or self._log.identity.created_at),
            command=envelope.command,
            base=self._base.version,
            attempts=self._effort.attempts,
            next_strategy=strategy,
            app=envelope.app,
            lake_properties=changes.properties,
            tags=changes.tags,
            tables=tuple(table.commit for table in tables),
            objects=tuple(change.commit() for change in changes.objects.values()),
            paths={path: change for table in tables for path, change in table.paths.items()},
            plan=None if changes.plan is None else replace(changes.plan, version=version),
            completes=changes.completes,
            cancels=tuple(dict.fromkeys((*changes.cancels, *self._yielding))),
            expires=changes.expires,
            properties=envelope.properties or {},
        )
        return self._steward.with_hooks(record)

    def _end(self, result: CommitResult) -> None:
        self._result = result
        self._stage = Stage.COMMITTED
        self._offered = None

    def _withdraw(self) -> None:
        self._stage = Stage.OPEN
        self._offered = None

    # --- other writers ----------------------------------------------------------------------------------

    def _catch_up(self, at_once: int) -> bool:
        """Reads what others have committed; False if that is nothing."""
        progress = self._log.catch_up(self._state, at_once)
        self._follow(progress)
        return bool(progress.records)

    def _note_wait(self, seconds: float) -> None:
        self._effort = self._effort.waited(seconds)

    def _follow(self, progress: Progress) -> None:
        self._state, self._unchecked = progress.state, (*self._unchecked, *progress.records)

    def _out_of_time(self) -> ConflictError:
        return out_of_time(self._tries(), self._retry, self._state.version)

    def _tries(self) -> str:
        return "1 attempt" if self._effort.attempts == 1 else f"{self._effort.attempts} attempts"

    def _refuse_conflicts(self) -> None:
        try:
            self._judge()
        except PendingConflictError:
            # What was pending at this version may have ended at a later one, which we have not read yet.
            if not self._catch_up(1):
                raise
            self._judge()

    def _judge(self) -> None:
        """Refuses what contradicts the versions that were read so far, and what is pending at the last."""
        carries = self._refuse_completed(self._changes).carries
        if carries or any(map(moves_rows, self._unchecked)):
            # One by one: what was carried over one compaction, or read before it, can meet what came after.
            for record in self._unchecked:
                self._carry_over(record)
                if moves_rows(record):
                    self._moves = (*self._moves, record)
        self._unchecked = ()
        self._yielding = self._refuse_pending(self._changes)

    def _refuse_completed(self, changes: Changes) -> Rebasable:
        chosen = candidates(self._beginning, self._unchecked)
        ours = self._footprint(changes)
        conflicts = find_conflicts(ours, (one.record for one in chosen), self._evidence)
        outcome = resolve(conflicts)
        if isinstance(outcome, Rebasable):
            return outcome
        self._steward.ledger.refused(conflict.name for conflict in conflicts)
        was_pending = {one.record.version for one in chosen if one.was_pending}
        raise TransactionConflictError(conflict_text(conflicts, was_pending), next_step(conflicts), conflicts)

    def _footprint(self, changes: Changes) -> Footprint:
        """What the rules compare: also what was read, at the places to which it has been moved since."""
        return following(changes.footprint(self._txid, self._isolation), self._moves, self._evidence)

    def _carry_over(self, record: Record) -> None:
        """Carries row changes over a compaction that `record` made, or the other way round."""
        conflicts = find_conflicts(self._footprint(self._changes), [record], self._evidence)
        if not conflicts:
            return
        from headgate import writing  # loads pyiceberg, which only tables need

        # Nothing is noted before all of it is known: whoever interrupts us finds what was there before.
        done = isinstance(resolve(conflicts), Rebasable) and writing.carry(
            self._open(), record, self._evidence
        )
        if not done:
            self._steward.ledger.refused(conflict.name for conflict in conflicts)
            raise TransactionConflictError(conflict_text(conflicts), next_step(conflicts), conflicts)

    def _refuse_pending(self, changes: Changes) -> tuple[TxId, ...]:
        """Refuses what cannot go beside what is pending; returns the plans that make way for it."""
        verdict = self._presence.verdict(changes, self._state)
        if verdict.conflicts:
            self._steward.ledger.refused(["pending"])
            raise PendingConflictError.of(verdict.conflicts)
        return verdict.cancels

    # --- before the work ----------------------------------------------------------------------------------

    def announce(self, intent: Intent, change: TableChange) -> None:
        """Tells others what is about to be done to a table, before the work that takes long.

        `change` is what is known of it by now. With the lake property `conflict.early`, raises the
        `ConflictError` that the commit would end with, as far as that can be told already.
        """
        self._require_open()
        plan = self._changes.completes[0] if self._changes.completes else None
        # First: of two that begin at the same moment, at least one sees the other.
        self._presence.announce(self, intent, plan, self._host.now())
        if EARLY.is_on(self._state.properties):
            try:
                self._check_early(intent, change)
            except ConflictError:
                # The caller may keep the transaction; nobody else is to be held up by it.
                self._presence.leave()
                raise

    def _check_early(self, intent: Intent, change: TableChange) -> None:
        self._follow(self._log.catch_up(self._state, 1))
        changes = self._changes.with_table(change)
        self._refuse_completed(changes)
        self._refuse_pending(changes)
        conflicts = self._presence.early(intent, self._state)
        if conflicts:
            raise PendingConflictError.of(conflicts)

    def _committed_by_a_twin(self) -> CommitResult | None:
        """If the process was forked with this transaction open, the other one may have committed it."""
        twin = next((record for record in self._unchecked if record.txid == self._txid), None)
        return None if twin is None else self._result_at(twin.version)

    def _earlier_batch(self) -> CommitResult | None:
        app = self._envelope.app
        known = None if app is None else self._state.apps.get(app.app)
        if app is None or known is None or known.batch < app.batch:
            return None
        return replace(self._result_at(known.version), already_committed=True, newest_batch=known.batch)

    def _result_at(self, version: Version) -> CommitResult:
        spent = self._effort
        return CommitResult(version.number, self.txid, spent.attempts, spent.waited_seconds, rows=self._rows)

    def _require_open(self) -> None:
        if self._stage is not Stage.OPEN:
            raise InvalidInputError(
                f"transaction {self.txid} is {self._stage.value}",
                "call commit() again to settle it"
                if self._stage is Stage.UNSETTLED
                else "begin a new transaction",
            )

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stage is not Stage.OPEN:
            return
        if kind is None:
            self.commit()
        else:
            self.abort()


@dataclass(frozen=True, slots=True)
class _Open:
    """A transaction as writing to its tables sees it."""

    tx: Transaction

    @property
    def base(self) -> LakeState:
        return self.tx._base

    @property
    def id(self) -> TxId:
        return self.tx._txid

    @property
    def driver(self) -> Driver:
        return self.tx._log.driver

    def loader(self) -> TableLoader:
        return self.tx._loader()

    def changes(self) -> Changes:
        self.tx._require_open()
        return self.tx._changes

    def announce(self, intent: Intent, change: TableChange) -> None:
        self.tx.announce(intent, change)

    def note(self, change: TableChange) -> None:
        self.tx._require_open()
        self.tx._changes = self.tx._changes.with_table(change)

    def note_objects(self, changes: Changes) -> None:
        self.tx._require_open()
        self.tx._changes = changes

    def note_read(self, read: TableRead) -> None:
        self.tx._require_open()
        self.tx._changes = self.tx._changes.with_read(read)

    def count(self, rows: RowCounts) -> None:
        before = self.tx._rows
        self.tx._rows = rows if before is None else before + rows
