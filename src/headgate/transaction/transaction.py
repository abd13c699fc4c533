"""A transaction: a set of changes that becomes one version of the lake, or nothing.

The commit tries the version after the newest one that it knows. If another writer has taken it, the
transaction reads the records that it missed, checks by the conflict rules whether its changes are still
valid, and tries the next version. Other writers see nothing before the record is committed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from headgate.core.conflict.isolation import Isolation
from headgate.core.conflict.retry import Effort, RetryPolicy
from headgate.core.history.commit_time import clock_warning
from headgate.core.input.arguments import of_kind
from headgate.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    StorageError,
)
from headgate.log.driver import Waiting
from headgate.log.log import Progress, commit_time, time_of_newest
from headgate.log.machine import Committed, ContestedError, Lost, Unknown
from headgate.model.announcement import Intent
from headgate.model.identifiers import TxId, Version
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.steward.backlog import Awaited, Decided
from headgate.steward.publishing import published_after
from headgate.steward.replica.mark import refuse_replica
from headgate.system.host import renew_after_fork
from headgate.transaction.announcing import Presence
from headgate.transaction.backoff import Waits
from headgate.transaction.builder import Envelope, NotedChanges, Stage, Work
from headgate.transaction.changes import TableChange
from headgate.transaction.conflicts import (
    Bereft,
    ExpiredBaseError,
    OtherWriters,
    how_to_settle,
    out_of_time,
)
from headgate.transaction.result import CommitResult

if TYPE_CHECKING:
    from headgate.iceberg.format.snapshot import Drafts
    from headgate.transaction.handle import LakeHandle
    from headgate.transaction.table_metadata import PreparedTable


NOTHING_SPENT = Effort()


@dataclass(frozen=True, slots=True)
class _Offer:
    """A record that was offered for the version after `state`, and may have been committed."""

    record: Record
    state: LakeState


@dataclass(frozen=True, slots=True)
class Start:
    """How a transaction begins: its state, envelope and retry policy. For the rest see `OtherWriters`."""

    envelope: Envelope
    retry: RetryPolicy
    base: LakeState
    effort: Effort = NOTHING_SPENT
    pending: frozenset[TxId] | None = None
    isolation: Isolation | None = None
    may_be_old: bool = False


class Transaction(NotedChanges):
    """A transaction that `Lake.transaction` began.

    Use it in a `with` block, which commits at the end, or call `commit`.
    """

    def __init__(self, lake: LakeHandle, start: Start) -> None:
        log, base, envelope = lake.log, start.base, start.envelope
        txid = log.driver.host.new_txid()
        loader = Bereft(log, base.version, txid, lake.loader)
        presence = Presence(lake.announcements, txid, base, envelope.started_at, envelope.command)
        self._others = OtherWriters(
            log,
            loader,
            lake.steward.ledger,
            presence,
            base,
            pending=start.pending,
            isolation=start.isolation,
            may_be_old=start.may_be_old,
            app=None if envelope.app is None else envelope.app.app,
        )
        super().__init__(Work(txid, base, log.driver, loader, self._others, lake.mounts, lake.lake_at), log)
        self._host = log.driver.host
        self._envelope = envelope
        self._retry = start.retry
        self._steward = lake.steward
        self._clock_warning: str | None = None
        self._offered: _Offer | None = None
        self._committed: Record | None = None
        self._drafts: Drafts = {}
        self._written: set[str] = set()
        self._effort = start.effort
        self._patience_seconds = start.effort.left_seconds(start.retry)
        self._result: CommitResult | None = None
        self._one_at_a_time = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        # A commit that is running in another thread belongs to the parent process. Here it is unresolved.
        self._one_at_a_time = threading.Lock()

    @property
    def txid(self) -> str:
        """The id of this transaction, which its record in the log contains."""
        return self._work.id.text

    @property
    def effort(self) -> Effort:
        """The attempts and the time spent so far, including earlier runs of the same operation."""
        return self._effort

    @property
    def reached(self) -> LakeState:
        """The newest state that this transaction has seen."""
        return self._others.state

    @property
    def _is_blind(self) -> bool:
        """Whether its changes so far do not depend on anything that it read in the lake."""
        return self._work.noted.is_blind

    @property
    def result(self) -> CommitResult:
        """The result of the commit; `InvalidInputError` before there is one."""
        if self._result is None:
            raise InvalidInputError(f"transaction {self.txid} is {self._work.stage.value}: it has no result")
        return self._result

    @property
    def committed_before(self) -> CommitResult | None:
        """What `commit` would return if the application already committed this batch or a later one.

        None if the newest version that this transaction has seen does not contain the batch. Check this
        before you do the work: you can skip the work if the batch is committed.
        """
        return self._earlier_batch()

    def abort(self) -> None:
        """Ends the transaction without changing anything. Waits for a commit that runs in another thread."""
        with self._one_at_a_time:
            self._work.require_open()
            self._work.stage = Stage.ABORTED
            self._others.leave()

    def commit(self) -> CommitResult:
        """Makes the changes visible as one new version.

        The commit is atomic. After a `ConflictError` or `StorageError`, nothing has changed and the
        transaction is over. After a `CommitUnknownError` or an interrupt (Ctrl-C), the outcome is unknown:
        call `commit` again to resolve it. It never commits twice. Each call has the whole retry budget of
        the policy.
        """
        with self._one_at_a_time:
            return self._commit_or_tell_how_to_settle()

    def _commit_or_tell_how_to_settle(self) -> CommitResult:
        try:
            return self._commit_once()
        except Exception as error:
            self._steward.ledger.count_failure(error)
            raise
        except KeyboardInterrupt as interrupt:
            if self._work.stage in (Stage.UNSETTLED, Stage.COMMITTED):
                known = self._committed or self._result
                version = None if known is None else known.version
                interrupt.add_note(how_to_settle(self.txid, version, self._log.driver.store.describe()))
            raise

    def _commit_once(self) -> CommitResult:
        if self._result is not None:
            self._end(self._result)  # again, because a Ctrl-C may have interrupted the first call
            self._others.leave()
            return self._result
        if self._work.stage is Stage.ABORTED:
            self._work.require_open()
        if not self._work.noted and not self._completes_batch():
            return self._end_without_a_version()
        try:
            self._steward.raise_lost()
            self._finish_tables()
            result = self._commit_in_time()
        except BaseException as error:
            # A record that was offered without an answer stays unresolved. Everything else is over.
            if self._work.stage is Stage.OPEN:
                self._work.stage = Stage.ABORTED if self._result is None else Stage.COMMITTED
                # After an interrupt, do not wait for another request.
                presence = self._others.presence
                leave = self._others.leave if isinstance(error, Exception) else presence.fall_silent
                leave()
            raise
        self._others.leave()
        self._result = replace(result, postponed=self._others.presence.postponed)
        if self._committed is not None:
            self._follow_up(self._committed)
        return self.result

    def _completes_batch(self) -> bool:
        """Whether this is a batch of an application that has read rows of a table, a view or a mount.

        The log must record such a batch even if there was nothing to change. Otherwise a later run of the
        same batch could find rows that were added after this one.
        """
        changes = self._work.noted
        looked = self._work.rows is not None or changes.reads or changes.read_objects
        return self._envelope.app is not None and bool(looked)

    def _end_without_a_version(self) -> CommitResult:
        """Ends a transaction that changes nothing. This is an error unless it searched for rows to change."""
        if self._work.rows is None:
            raise InvalidInputError(
                "there is nothing to commit: the transaction contains no changes",
                "make a change before you commit, or call abort()",
            )
        self._end(self._result_at(self._work.base.version))
        self._others.leave()
        return self.result

    def _follow_up(self, record: Record) -> None:
        """Does the work that follows a commit. If it is interrupted, recovery does the rest."""
        spent = {"commit": self._effort.spent_seconds, "waited": self._effort.waited_seconds}
        followed = self._steward.follow(Decided(record, self._others.state, spent))
        if isinstance(followed, Awaited):
            self._result = replace(self.result, _follow_up=followed)
        else:
            postponed = (*self.result.postponed, *followed.postponed)
            self._result = replace(self.result, postponed=postponed, hook_failures=followed.hook_failures)

    def _finish_tables(self) -> None:
        """Writes the remaining files of the tables, if that has not been done yet."""
        if self._work.stage is Stage.OPEN and self._work.noted.tables:
            from headgate.transaction import table_writer

            table_writer.finish(self._work)

    def _commit_in_time(self) -> CommitResult:
        started = self._host.elapsed()
        try:
            return self._commit(started + self._patience_seconds)
        finally:
            self._effort = self._effort.spent(self._host.elapsed() - started)

    def _commit(self, until: float) -> CommitResult:
        waiting = Waiting(self._retry, until)
        waits = Waits(self._log, self._retry, self._others.catch_up, self._note_wait)
        losses = 0
        if self._offered is not None and not self._settle(self._offered, waiting):
            losses += 1
        while self._result is None:
            if losses:
                waits.give_way(losses, until)
            self._try_in_turn(losses, waiting, waits)
            losses += 1
        return self.result

    def _try_in_turn(self, losses: int, waiting: Waiting, waits: Waits) -> None:
        """Makes an attempt while the other threads of this process wait.

        If the turn does not come in time, the attempt does not wait for it.
        """
        turn, pressure = self._log.turn, self._log.pressure
        left = max(0.0, waiting.until - self._host.elapsed())
        try:
            turn.acquire(timeout=min(left, threading.TIMEOUT_MAX))
            started = self._host.elapsed()
            if losses or started < pressure.calm_at:
                waits.let_others_pass(losses, waiting.until)
                started = self._host.elapsed()
            self._try(losses, waiting)
            pressure.attempt_seconds = self._host.elapsed() - started
        finally:
            # The lock itself knows whether we hold it: a Ctrl-C can come right after `acquire` took it.
            try:  # noqa: SIM105 — a call of anything else before this one could be interrupted
                turn.release()
            except RuntimeError:
                pass

    def _try(self, losses: int, waiting: Waiting) -> None:
        """Makes one attempt at the next version. Sets the result if our record is committed.

        The first attempt is always made, even if the time is over. Later ones end for lack of time only after
        the winning records were read: one of them may be ours, or the reason why ours is rejected.
        """
        self._others.follow(self._log.follow_seen(self._others.state))
        self._others.follow(self._log.confirm_end(self._others.state, self._published_after))
        earlier = self._committed_by_a_twin() or self._earlier_batch()
        if earlier is not None:
            self._end(earlier)
            return
        # Checked at each attempt: a version lost to a replication may be the fence of an adoption.
        if self._steward.checkpoints.may_be_replica(self._others.state):
            refuse_replica(self._steward.checkpoints, self._others.state)
        self._others.refuse_conflicts(self._work)
        if losses and self._host.elapsed() >= waiting.until:
            raise self._out_of_time()
        try:
            self._offer(waiting)
        except ExpiredBaseError:
            # Its base has expired, so other writers were faster. That counts as a loss.
            if not self._others.catch_up(1):
                raise

    def _published_after(self, version: Version) -> tuple[Version, str] | None:
        tables = self._others.state.tables
        changed = [tables[name].location for name in self._work.noted.tables if name in tables]
        return published_after(self._log.driver, changed, version)

    # --- offering a record ----------------------------------------------------------------------------

    def _offer(self, waiting: Waiting) -> None:
        """Offers the record for the next version. Sets the result if it is the one that is committed."""
        strategy = self._log.strategy(self._others.state, waiting)
        tables = self._prepare()
        self._effort = self._effort.tried()
        record = self._record(tables)
        # From here on, an interrupt leaves it unknown whether the record was committed.
        self._offered = _Offer(record, self._others.state)
        self._work.stage = Stage.UNSETTLED
        try:
            outcome = strategy.publish(record.version, record.encode(), self._host.new_txid())
        except StorageError as error:
            # The strategy guarantees that our record was not and never will be committed.
            self._withdraw()
            if isinstance(error, ContestedError):
                raise self._out_of_time() from error
            raise
        if self._conclude(self._offered, outcome):
            self._remember(tables)

    def _remember(self, tables: Sequence[PreparedTable]) -> None:
        """Keeps what was written. Only after a win: a lost attempt gave its manifests another number."""
        for table in tables:
            if table.metadata is not None:
                key = table.commit.table.metadata
                self._work.loader().remember(key, table.metadata, table.manifests, table.entries)

    def _prepare(self) -> list[PreparedTable]:
        """Writes the metadata objects of the changed tables for the next version. No reader sees them yet."""
        if not self._work.noted.tables:
            return []
        from headgate.transaction.table_metadata import (  # loads pyiceberg, which only tables need
            Attempt,
            prepare,
        )

        attempt = Attempt(
            self._others.state,
            self._work.id,
            self._commit_time(),
            self._log.identity.divisor,
            self._envelope.remarks(),
            self._drafts,
        )
        self._others.prefetch(self._work.noted.tables)
        tables = prepare(self._work.loader(), list(self._work.noted.tables.values()), attempt)
        objects = [item for table in tables for item in table.objects.items() if item[0] not in self._written]
        self._host.together([partial(self._log.driver.put, key, data) for key, data in objects])
        self._written.update(key for key, _ in objects)
        return tables

    def _settle(self, offer: _Offer, waiting: Waiting) -> bool:
        """Resolves an offer that got no answer. Returns False if another record was committed."""
        strategy = self._log.strategy(offer.state, waiting)
        record = offer.record
        return self._conclude(offer, strategy.resolve(record.version, record.encode(), self._host.new_txid()))

    def _conclude(self, offer: _Offer, outcome: Committed | Lost | Unknown) -> bool:
        # A Ctrl-C can come between any two steps. The offer is cleared last, so that it can be resolved again
        # with the same result.
        match outcome:
            case Committed():
                self._others.state = self._log.absorb(offer.state, offer.record.encode()).state
                self._committed = offer.record
                self._log.pressure.note_win()
                self._end(self._result_at(offer.record.version))
                return True
            case Lost(data):
                entry = self._log.absorb(offer.state, data)
                self._others.follow(Progress(entry.state, (entry.record,), ended=False))
                self._effort = self._effort.lost_to(entry.record.version.number)
                self._withdraw()
                self._log.pressure.note_loss()
                return False
            case Unknown(version, _, error):
                raise CommitUnknownError(
                    f"cannot determine yet whether {self.txid} was committed as version {version}, after "
                    f"{self._tries()}: {error.problem}",
                    "do not run the work again; once the cause is fixed, call commit() on this transaction "
                    f"again, or from another process Lake.resolve({self.txid!r}) or "
                    f"headgate doctor {self._log.driver.store.describe()} --resolve {self.txid}",
                    version.number,
                    self.txid,
                ) from error

    def _commit_time(self) -> datetime:
        now = self._host.now()
        time = commit_time(self._log, self._others.state, now)
        self._clock_warning = clock_warning(time_of_newest(self._log, self._others.state), time, now)
        return time

    def _record(self, tables: Sequence[PreparedTable]) -> Record:
        changes, envelope = self._work.noted, self._envelope
        strategy = self._others.state.next_strategy if changes.strategy is None else changes.strategy.value
        version = self._others.state.version.next()
        record = Record(
            version=version,
            txid=self._work.id,
            previous=self._others.state.digest,
            kind=changes.kind,
            started_at=envelope.started_at,
            committed_at=self._commit_time(),
            command=envelope.command,
            base=self._work.base.version,
            attempts=self._effort.attempts,
            lost=self._effort.lost,
            next_strategy=strategy,
            app=envelope.app,
            lake_properties=changes.properties,
            tags=changes.tags,
            tables=tuple(table.commit for table in tables),
            objects=tuple(change.commit() for change in changes.objects.values()),
            paths={path: change for table in tables for path, change in table.paths.items()},
            reads=changes.files_read(),
            read_objects=changes.objects_read(),
            plan=None if changes.plan is None else replace(changes.plan, version=version),
            completes=changes.completes,
            cancels=tuple(dict.fromkeys((*changes.cancels, *self._others.yielding))),
            expires=changes.expires,
            properties=envelope.properties or {},
            fences=changes.fences,
        )
        return self._steward.with_hooks(record)

    def _end(self, result: CommitResult) -> None:
        self._result = result
        self._work.stage = Stage.COMMITTED
        self._offered = None

    def _withdraw(self) -> None:
        self._work.stage = Stage.OPEN
        self._offered = None

    def _note_wait(self, seconds: float) -> None:
        self._effort = self._effort.waited(seconds)

    def _out_of_time(self) -> ConflictError:
        return out_of_time(self._tries(), self._retry, self._others.state.version)

    def _tries(self) -> str:
        return "1 attempt" if self._effort.attempts == 1 else f"{self._effort.attempts} attempts"

    # --- before the work ----------------------------------------------------------------------------------

    def announce(self, intent: Intent, change: TableChange) -> None:
        """Announces a change of a table to other writers, before a long operation begins.

        `change` is the change as far as it is known. With the lake property `conflict.early`, this raises the
        `ConflictError` that the commit would raise, as far as it can be foreseen.
        """
        of_kind("the intent", intent, Intent)
        of_kind("the change", change, TableChange)
        self._work.announce(intent, change)

    def _committed_by_a_twin(self) -> CommitResult | None:
        """The result, if the other process committed this transaction after a fork."""
        twin = next((record for record in self._others.unchecked if record.txid == self._work.id), None)
        return None if twin is None else self._result_at(twin.version)

    def _earlier_batch(self) -> CommitResult | None:
        app = self._envelope.app
        known = None if app is None else self._others.state.apps.get(app.app)
        if app is None or known is None or known.batch < app.batch:
            return None
        known_result = self._result_at(known.version)
        return replace(known_result, already_committed=True, newest_batch=known.batch, changed=True)

    def _result_at(self, version: Version) -> CommitResult:
        spent, changed = self._effort, bool(self._work.noted)
        return CommitResult(
            version.number,
            self.txid,
            spent.attempts,
            spent.waited_seconds,
            rows=self._work.rows,
            changed=changed,
            clock_warning=self._clock_warning,
        )

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._work.stage is not Stage.OPEN:
            return
        if kind is None:
            self.commit()
        else:
            self.abort()
