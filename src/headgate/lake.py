"""The lake: the public object that everything starts from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headgate.commit.announcements import DEFAULT_HEARTBEAT, Announcements
from headgate.commit.checkpoints import Checkpoints, state_at
from headgate.commit.driver import Driver
from headgate.commit.genesis import decide_identity, read_identity, refuse_existing
from headgate.commit.log import CommitLog
from headgate.commit.moments import version_at
from headgate.commit.probe import probe
from headgate.core.arguments import version_number, whole_number
from headgate.core.choice import choose, parse_strategy, require_for_init, verdicts
from headgate.core.conflict import Incompatible
from headgate.core.fold import empty_state
from headgate.core.instants import timeline
from headgate.core.isolation import Isolation, isolation_named
from headgate.core.log_entry import LogEntry, log_entry
from headgate.core.log_query import LogQuery
from headgate.core.lookup import found_tag
from headgate.core.retry import Effort, RetryPolicy, delay_seconds
from headgate.core.settings import CANDIDATES
from headgate.envelope import Envelope, make_envelope
from headgate.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from headgate.host import SYSTEM, Host
from headgate.lake_objects import LakeObjects, objects_of
from headgate.lake_retention import LakeRetention
from headgate.lake_services import LakeServices
from headgate.lake_stewardship import LakeStewardship
from headgate.model.identifiers import TxId, is_txid
from headgate.model.identity import DEFAULT_DIVISOR, LakeIdentity
from headgate.model.instant import Instant
from headgate.model.probe import ProbeReport, Promise
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.opening import check_callable, check_divisor, check_heartbeat, checked_policy, opened_store
from headgate.refusals import ExpiredBaseError, TransactionConflictError, gave_up
from headgate.result import CommitResult, Diagnosis, Resolution
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.runner import HookRunner
from headgate.steward.replica.mark import refuse_replica
from headgate.steward.steward import Steward
from headgate.storage.capabilities import Store
from headgate.storage.location import Options
from headgate.transaction import Transaction
from headgate.view import LakeView, moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.iceberg.loader import TableLoader
    from headgate.table import Table


class Lake(LakeStewardship, LakeServices, LakeRetention, LakeObjects):
    """A root location with one log. Safe to share between threads; cheap to open in each process."""

    def __init__(
        self,
        log: CommitLog,
        checkpoints: Checkpoints,
        retry: RetryPolicy,
        announcements: Announcements,
        hooks: Sequence[Hook] = (),
    ) -> None:
        self._log = log
        self._checkpoints = checkpoints
        self._retry = retry
        self._announcements = announcements
        self._loader: TableLoader | None = None
        self._steward = Steward(log, checkpoints, self._table_loader, HookRunner(log.driver.host, hooks))

    # --- making and opening ------------------------------------------------------------------------------

    @classmethod
    def init(
        cls,
        place: str | os.PathLike[str] | Store,
        *,
        strategy: str | None = None,
        divisor: int = DEFAULT_DIVISOR,
        options: Options | None = None,
        retry: RetryPolicy | None = None,
        heartbeat: timedelta = DEFAULT_HEARTBEAT,
        hooks: Sequence[Hook] = (),
        host: Host = SYSTEM,
        on_probe: Callable[[ProbeReport], None] | None = None,
    ) -> Lake:
        """Makes a new, empty lake at `place` and opens it.

        Tries out the storage first and chooses the best strategy that is safe there; `on_probe` is told what
        was found. Atomic: of any number of racing calls one makes the lake, the others raise
        `AlreadyExistsError`. A call that dies inside leaves no lake, or a complete one.
        `CorruptLakeError` if the log of a lake is there without its identity.
        """
        wanted = None if strategy is None else parse_strategy(strategy)
        check_divisor(divisor)
        check_heartbeat(heartbeat)
        check_callable("on_probe", on_probe)
        policy = checked_policy(retry, RetryPolicy())
        driver = Driver(opened_store(place, options), host)
        # Before the probe writes anything: a lake that exists must not be touched.
        refuse_existing(driver)
        report = probe(driver.store, host)
        if on_probe is not None:
            on_probe(report)
        require_for_init(report, driver.store.describe())
        identity = LakeIdentity(
            lake_id=host.new_txid().text,
            divisor=divisor,
            first_strategy=choose(report, wanted, driver.store.describe()).value,
            ordered_listing=report.holds(Promise.ORDERED_LISTING),
            created_at=host.now(),
        )
        decide_identity(driver, identity)
        return cls._open(driver, policy, heartbeat, hooks)

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str] | Store,
        *,
        options: Options | None = None,
        retry: RetryPolicy | None = None,
        heartbeat: timedelta = DEFAULT_HEARTBEAT,
        hooks: Sequence[Hook] = (),
        host: Host = SYSTEM,
    ) -> Lake:
        """Opens the lake at `place`, at its newest version.

        Reads one checkpoint and at most `divisor` records, however long the log is. Changes nothing.
        `heartbeat` is how often running transactions of this handle say that they are alive, if they announce
        themselves at all. `hooks` run after its commits.
        """
        check_heartbeat(heartbeat)
        driver = Driver(opened_store(place, options), host)
        return cls._open(driver, checked_policy(retry, RetryPolicy()), heartbeat, hooks)

    @classmethod
    def _open(cls, driver: Driver, retry: RetryPolicy, heartbeat: timedelta, hooks: Sequence[Hook]) -> Lake:
        identity, identity_bytes = read_identity(driver)
        genesis = empty_state(identity, identity_bytes)
        log = CommitLog(driver, identity, genesis)
        checkpoints = Checkpoints(log, genesis)
        before = log.shared_before()
        checkpoints.open()
        log.share(before)
        return cls(log, checkpoints, retry, Announcements(driver, heartbeat), hooks)

    # --- looking -----------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """Where the lake is, without credentials."""
        return self._driver.store.describe()

    @property
    def id(self) -> str:
        """The identity of the lake, given at init."""
        return self._log.identity.lake_id

    @property
    def created_at(self) -> datetime:
        return self._log.identity.created_at

    @property
    def divisor(self) -> int:
        """How many commits make a window of the first level; fixed at init."""
        return self._log.identity.divisor

    @property
    def version(self) -> int:
        """The newest version. Asks storage: one GET when nothing is new."""
        return self._refreshed().version.number

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the lake at its newest version. Asks storage."""
        return MappingProxyType(dict(self._refreshed().properties))

    @property
    def strategy(self) -> str:
        """How the next version will be claimed. Asks storage."""
        return self._refreshed().next_strategy

    @property
    def tags(self) -> Mapping[str, int]:
        """The tags of the lake, each with the version that it names. Asks storage."""
        return _tags(self._refreshed())

    def at(
        self,
        version: int | None = None,
        *,
        timestamp: str | date | datetime | None = None,
        tag: str | None = None,
    ) -> LakeView:
        """The lake as it was: at a version, at a moment, or where a tag points to; all tables together.

        A moment without a time zone is in UTC. Without arguments: as it is now, but unchanging from then on.
        Raises `NotFoundError` if there was no lake then, or there is no such version or tag.
        """
        wanted = self._version_at(version, timestamp, tag)
        state = self._refreshed() if wanted is None else self._state_at(wanted)
        return LakeView(
            version=state.version.number,
            properties=MappingProxyType(dict(state.properties)),
            strategy=state.next_strategy,
            tags=_tags(state),
            committed_at=state.committed_at,
            objects=objects_of(state),
            _lake=self,
        )

    def sql(self, spark: SparkSession, query: str) -> DataFrame:
        """The result of a query over the tables of the lake, all at its newest version.

        `lake.sql(spark, "SELECT * FROM sales.orders VERSION AS OF 41")`: a table can be read as it was at a
        version, a tag (`VERSION AS OF 'eom'`) or a moment (`TIMESTAMP AS OF '2026-11-15T10:00:00Z'`).
        """
        return self.at().sql(spark, query)

    def log(
        self,
        *,
        limit: int | None = None,
        before: int | None = None,
        table: str | None = None,
        user: str | None = None,
        since: str | date | datetime | None = None,
        kind: str | None = None,
    ) -> tuple[LogEntry, ...]:
        """The commits, newest first: all, or `limit` of them, or only those below version `before`.

        Further only those that changed `table` (a name, or a pattern as `sales.*`), by `user`, not before
        the moment `since`, or of a `kind`: `commit`, `plan`, `cancel`, `switch`, `expire`, what was done to
        a table (`create`, `drop`, …) or to its rows (`append`, `delete`, …). Every record that is read is
        checked against the digest that the one after it carries.
        """
        query = LogQuery.of(table, kind, user, None if since is None else moment(since))
        if limit is not None and whole_number("limit", limit) < 0:
            raise InvalidInputError(f"limit must not be negative, but is {limit}")
        below = None if before is None else whole_number("before", before)
        newest = self._refreshed()
        if below is not None:
            last = version_number(max(0, min(below - 1, newest.version.number)))
            newest = state_at(self._checkpoints, newest, last)
        count = newest.version.number if limit is None or query != LogQuery() else limit
        records = self._log.records_down(newest, count)
        return tuple(islice(map(log_entry, query.chosen(records)), limit))

    def log_frame(self, spark: SparkSession, **query: Any) -> DataFrame:
        """The same as `log`, as a DataFrame: one row for each commit."""
        from headgate.spark.log_read import log_frame

        return log_frame(spark, self.log(**query))

    def timeline(self, *, limit: int | None = 50, pending: bool = False) -> tuple[Instant, ...]:
        """What is running and planned, then what has ended, newest first.

        The newest `limit` commits are read for it, or all if it is None, or none if only what is `pending` is
        wanted. Announcements that transactions left behind when they died are removed on the way.
        """
        if limit is not None and whole_number("limit", limit) < 0:
            raise InvalidInputError(f"limit must not be negative, but is {limit}")
        newest = self._refreshed()
        count = 0 if pending else newest.version.number if limit is None else limit
        records = tuple(self._log.records_down(newest, count))
        plans = self._driver.host.together(
            [partial(self._log.record, plan.version) for plan in newest.plans.values()]
        )
        running = self._announcements.running(is_over=newest.cancelled.__contains__)
        return timeline(records, plans, running, newest, self._driver.host.now())

    def doctor(self) -> Diagnosis:
        """Tries out the storage again, and judges every strategy by what it finds."""
        report = probe(self._driver.store, self._driver.host)
        return Diagnosis(self.place, self.strategy, report, verdicts(report))

    # --- tables --------------------------------------------------------------------------------------------

    def tables(self, namespace: str | None = None, *, version: int | None = None) -> tuple[str, ...]:
        """The names of all tables, or of those in a namespace; now, or as they were at a version."""
        state = self._refreshed() if version is None else self._state_at(version)
        names = sorted(state.tables)
        return tuple(name for name in names if namespace is None or name.split(".")[0] == namespace)

    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that have tables, views or mounts. One comes and goes with them."""
        newest = self._refreshed()
        return tuple(sorted({name.split(".")[0] for name in (*newest.tables, *newest.objects)}))

    def table(self, name: str, *, version: int | None = None) -> Table:
        """The table of this name; a view or mount can only be read. With `version`, as it was then.

        `NotFoundError` names the nearest ones.
        """
        from headgate.table import Table

        self._named(name, version)
        return Table(self, name, version)

    def _made_table(self, name: str, made: CommitResult) -> Table:
        from headgate.table import Table

        return Table(self, name, made=made)

    def create_table(
        self,
        name: str,
        schema: Any,
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
    ) -> Table:
        """Makes a table, in a transaction of its own. `schema` is DDL, a pyarrow Schema or an Iceberg Schema.

        `partition_by` takes columns and Iceberg's transforms: `["day(ts)", "bucket(8, customer)"]`. `sort_by`
        is the order of the rows in each file: `["ts", "id desc nulls last"]`.
        """
        made = self._run(
            args,
            lambda tx: tx.create_table(
                name, schema, partition_by=partition_by, sort_by=sort_by, properties=properties
            ),
            self._refreshed(),
        )
        return self._made_table(name, made)

    def drop_table(self, name: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Drops a table, in a transaction of its own. Its files stay until its versions expire."""
        return self._run(args, lambda tx: tx.drop_table(name), self._refreshed())

    def rename_table(self, name: str, to: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Gives a table another name, in a transaction of its own."""
        return self._run(args, lambda tx: tx.rename_table(name, to), self._refreshed())

    # --- changing ----------------------------------------------------------------------------------------

    def transaction(
        self,
        args: Sequence[str] = (),
        *,
        app: tuple[str, int] | None = None,
        properties: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        isolation: str | None = None,
    ) -> Transaction:
        """Begins a transaction on the newest version.

        `args` says what is being done, for the log; secrets in it are removed. `app` names an application
        and the number of its batch: a batch that was committed before is not committed again. `properties`
        are remarks that are kept with the commit, also without secrets. `isolation` (`snapshot`,
        `write-serializable` or `serializable`) takes the place of what the tables ask for. Use the result in
        a `with` block, or call its `commit`.
        """
        chosen = None if isolation is None else isolation_named(isolation)
        envelope = make_envelope(self._driver.host, args, app, properties)
        return self._begin(envelope, checked_policy(retry, self._retry), self._refreshed(), Effort(), chosen)

    def _begin(
        self,
        envelope: Envelope,
        policy: RetryPolicy,
        base: LakeState,
        effort: Effort,
        isolation: Isolation | None = None,
    ) -> Transaction:
        refuse_replica(self._checkpoints)
        pending = None
        if CANDIDATES.of(base.properties) == "start":
            pending = self._announcements.txids() | frozenset(base.plans)
        return Transaction(
            self._log,
            self._table_loader,
            envelope,
            policy,
            self._steward,
            self._announcements,
            base,
            pending,
            effort,
            isolation,
        )

    def set_properties(self, properties: Mapping[str, str], *, args: Sequence[str] = ()) -> CommitResult:
        """Sets lake properties, in a transaction of its own that is run again after a conflict."""
        return self._run(args, lambda tx: tx.set_properties(properties))

    def remove_properties(self, *names: str, args: Sequence[str] = ()) -> CommitResult:
        """Removes lake properties, in a transaction of its own that is run again after a conflict."""
        return self._run(args, lambda tx: tx.remove_properties(*names))

    def tag(self, name: str, version: int | None = None, *, args: Sequence[str] = ()) -> CommitResult:
        """Gives a version (the newest, if none is named) a name for `Lake.at`; a tag of this name moves."""
        base = self._refreshed()
        number = base.version.number if version is None else self._state_at(version).version.number
        return self._run(args, lambda tx: tx.set_tag(name, number), base)

    def untag(self, name: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Removes a tag; `NotFoundError` names the nearest ones."""
        return self._run(args, lambda tx: tx.remove_tag(name), self._refreshed())

    def change_strategy(self, strategy: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Makes `strategy` the one of all versions after the commit that says so; writers may be running.

        Tries out the storage first, and raises `UnsupportedError` if the strategy would be unsafe there.
        """
        wanted = parse_strategy(strategy)
        if self.strategy == wanted.value:
            raise InvalidInputError(f"the lake uses the strategy {wanted} already", "nothing to do")
        choose(probe(self._driver.store, self._driver.host), wanted, self.place)
        return self._run(args, lambda tx: tx.choose_strategy(wanted))

    def cancel(self, txid: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Gives up a pending plan, or a running transaction, which then can never commit.

        Raises `InvalidInputError` if it was committed, completed or cancelled before; the log is searched for
        it from the newest version down.
        """
        wanted, newest = _txid(txid), self._refreshed()
        if wanted not in newest.plans:
            self._refuse_ended(wanted, newest)
        result = self._run(args, lambda tx: tx.cancel(wanted), newest)
        try:
            self._announcements.retire(wanted)
        except StorageError as error:
            left = f"removing the announcement: {error.problem}"
            return replace(result, postponed=(*result.postponed, left))
        return result

    def _refuse_ended(self, txid: TxId, newest: LakeState) -> None:
        committed = self._committed(txid, newest)
        if committed is not None:
            raise InvalidInputError(
                f"{txid} was committed as version {committed.version}, and nothing of it is pending",
                "what is committed can only be undone by another change",
            )
        if txid in newest.cancelled:
            raise InvalidInputError(
                f"{txid} was cancelled by version {newest.cancelled[txid]}", "nothing to do"
            )

    def _committed(self, txid: TxId, newest: LakeState) -> Record | None:
        """The record of a transaction, if it is in the log."""
        records = self._log.records_down(newest, newest.version.number)
        return next((record for record in records if record.txid == txid), None)

    def resolve(self, txid: str) -> Resolution:
        """Settles what became of a transaction whose writer lost the answer, or died.

        If it is in the log, which is searched from the newest version down, it was committed. Otherwise a
        record is committed that cancels it, so that it never will be, even if its writer is only asleep.
        """
        wanted, newest = _txid(txid), self._refreshed()
        # The whole log: a wrong answer here would stand for ever.
        found = self._committed(wanted, newest)
        if found is not None:
            return Resolution(txid, found.version.number)
        if wanted in newest.cancelled:
            return Resolution(txid, None)
        try:
            done = self._run((), lambda tx: tx.cancel(wanted), newest)
        except TransactionConflictError as error:
            committed = [c.other for c in error.conflicts if c.other.txid.text == txid]
            if not committed:
                raise
            return Resolution(txid, committed[0].version.number)
        return Resolution(txid, None, done.version, done.hook_failures)

    def _run(
        self, args: Sequence[str], change: Callable[[Transaction], object], base: LakeState | None = None
    ) -> CommitResult:
        """Runs `change` in a transaction of its own, and again after a conflict, until it is committed.

        For operations that can be repeated as a whole. All runs share the patience of one retry policy; each
        begins on the state that the one before it has seen.
        """
        envelope = make_envelope(self._driver.host, args, None, None)
        base, effort = base or self._log.newest, Effort()
        for run in range(1, self._retry.attempts + 1):
            tx = self._begin(envelope, self._retry, base, effort)
            try:
                with tx:
                    change(tx)
            except (InvalidInputError, NotFoundError, AlreadyExistsError, ExpiredBaseError):
                # The base may be older than what others have seen: a table or a column that is missing there
                # can exist by now, and its files can have gone with it.
                newest = self._refreshed()
                if run == self._retry.attempts or newest.version <= base.version:
                    raise
                base = newest
            except TransactionConflictError as error:
                if isinstance(error.outcome, Incompatible):
                    raise
                base, effort = tx.reached, tx.effort
                if run == self._retry.attempts or not effort.left_seconds(self._retry):
                    raise gave_up(error, run, effort) from error
                effort = self._wait_for_run(run, effort)
            else:
                return tx.result
        raise AssertionError("the last run returns or raises")

    def _wait_for_run(self, runs: int, effort: Effort) -> Effort:
        host = self._driver.host
        delay = delay_seconds(self._retry, runs, host.chance())
        seconds = min(delay, effort.left_seconds(self._retry))
        host.sleep(seconds)
        return effort.waited(seconds).spent(seconds)

    # --- for Table, which stands in the same layer -------------------------------------------------------

    def _table_loader(self) -> TableLoader:
        """Reads the metadata of tables, each object once."""
        # Made when first needed: loading pyiceberg takes longer than most commands that need no table.
        if self._loader is None:
            from headgate.iceberg.loader import TableLoader, TableMemory

            self._loader = TableLoader(self._driver, self._log.companion("tables", TableMemory))
        return self._loader

    @property
    def _driver(self) -> Driver:
        """What performs requests on the storage of this lake."""
        return self._log.driver

    def _records_between(self, since: int, until: int | None) -> tuple[LakeState, LakeState, list[Record]]:
        """The states at two versions, and the records after the first up to the second, oldest first."""
        first = whole_number("since", since)
        after = self._refreshed() if until is None else self._state_at(until)
        last = after.version.number
        if not 0 <= first <= last:
            raise InvalidInputError(
                f"there are no changes from version {first} to version {last}",
                f"ask for those since a version from 0 to {last}",
            )
        return self._state_at(first), after, [*self._log.records_down(after, last - first)][::-1]

    def _version_at(
        self, version: int | None, timestamp: str | date | datetime | None, tag: str | None
    ) -> int | None:
        """The version that a caller named in one of three ways, or None if in none."""
        if sum(given is not None for given in (version, timestamp, tag)) > 1:
            raise InvalidInputError("a version, a timestamp and a tag say the same", "give one of them")
        if timestamp is not None:
            return version_at(self._log, self._refreshed(), moment(timestamp)).number
        if tag is not None:
            return found_tag(self._refreshed(), tag).number
        return version

    def _state_at(self, version: int) -> LakeState:
        wanted = version_number(version)
        newest = self._log.newest
        if wanted > newest.version:
            newest = self._refreshed()
        return state_at(self._checkpoints, newest, wanted)

    def _refreshed(self) -> LakeState:
        return self._checkpoints.refresh()


def _tags(state: LakeState) -> Mapping[str, int]:
    return MappingProxyType({name: version.number for name, version in sorted(state.tags.items())})


def _txid(text: str) -> TxId:
    if not isinstance(text, str) or not is_txid(text):
        raise InvalidInputError(f"{text!r} is not a transaction id", "take it from the error or the log")
    return TxId(text)
