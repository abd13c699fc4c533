"""The lake: the object that every use of Headgate starts from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headgate.core.conflict.retry import RetryPolicy, checked_policy
from headgate.core.history.commit_time import ahead_warning
from headgate.core.history.fold import empty_state
from headgate.core.history.instants import timeline
from headgate.core.history.log_entry import INIT, LogEntry, LogQuery, init_entry, log_entry
from headgate.core.input.arguments import (
    check_callable,
    checked_limit,
    found_tag,
    require_commit,
    version_number,
    whole_number,
)
from headgate.core.input.settings import check_follow_up
from headgate.core.plans.strategy import choose, parse_strategy, require_for_init, verdicts
from headgate.core.sql.query import Travel
from headgate.errors import (
    InvalidInputError,
    StorageError,
    shown,
)
from headgate.lake.administration import LakeAdministration
from headgate.lake.catalog import LakeObjects, Names, objects_of
from headgate.lake.lake_view import LakeView, moment
from headgate.lake.materialized_views import MaterializedViews
from headgate.log.announcements import DEFAULT_HEARTBEAT, Announcements, check_heartbeat
from headgate.log.checkpoints import Checkpoints, state_at
from headgate.log.competition import attempts_at
from headgate.log.driver import Driver
from headgate.log.genesis import decide_identity, read_identity, refuse_existing
from headgate.log.log import CommitLog, time_of_newest, version_at
from headgate.log.probe import probe
from headgate.model.attempts import VersionAttempts
from headgate.model.identifiers import TxId, is_txid
from headgate.model.identity import DEFAULT_DIVISOR, LakeIdentity, check_divisor
from headgate.model.instant import Instant
from headgate.model.probe import ProbeReport, Promise
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.spark.store.open import opened_store
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.runner import HookRunner
from headgate.storage.capabilities import Store
from headgate.storage.location import Options
from headgate.storage.mount_roots import MountRoots
from headgate.system.host import SYSTEM, Host
from headgate.transaction.builder import make_envelope
from headgate.transaction.conflicts import (
    TransactionConflictError,
)
from headgate.transaction.handle import LakeHandle
from headgate.transaction.result import CommitResult, Diagnosis, Resolution
from headgate.transaction.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.lake.table import Table


class Lake(LakeAdministration, LakeObjects):
    """A lake: a directory or prefix that contains one log and its tables.

    Threads can share one. Opening a lake is cheap, so each process opens its own.
    """

    def __init__(
        self,
        log: CommitLog,
        checkpoints: Checkpoints,
        retry: RetryPolicy,
        announcements: Announcements,
        hooks: Sequence[Hook] = (),
        mounts: MountRoots | None = None,
        follow_up: str | None = None,
    ) -> None:
        mounts = MountRoots() if mounts is None else mounts
        runner = HookRunner(log.driver.host, hooks)
        self._handle = LakeHandle(
            log, checkpoints, retry, announcements, runner, mounts, self._lake_at, follow_up
        )
        self._names = Names(self._handle)
        self._materialized = MaterializedViews(self)
        self._mount_roots = mounts

    # --- creating and opening ----------------------------------------------------------------------------

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
        args: Sequence[str] = (),
        allow_mounts: Sequence[str | os.PathLike[str]] | None = None,
        follow_up: str | None = None,
    ) -> Lake:
        """Creates an empty lake at `place`, a path or URL, and opens it.

        Tests the storage first, and chooses the best commit strategy that is safe on it. `on_probe` receives
        the findings. `args` describes the command in version 0 of the log, without secrets. The call is
        atomic: if several run at the same time, one creates the lake, and the others raise
        `AlreadyExistsError`. If the process dies, there is a complete lake or none. Raises `CorruptLakeError`
        if the location has the log of a lake but not its identity.
        """
        wanted = None if strategy is None else parse_strategy(strategy)
        check_divisor(divisor)
        check_heartbeat(heartbeat)
        check_callable("on_probe", on_probe)
        check_follow_up(follow_up)
        policy, mounts = checked_policy(retry, RetryPolicy()), MountRoots.of(allow_mounts)
        driver = Driver(opened_store(place, options), host)
        envelope = make_envelope(host, args, None, None)
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
            command=envelope.command,
        )
        decide_identity(driver, identity)
        return cls._open(driver, policy, heartbeat, hooks, mounts, follow_up)

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
        allow_mounts: Sequence[str | os.PathLike[str]] | None = None,
        follow_up: str | None = None,
    ) -> Lake:
        """Opens the lake at `place`, a path or URL, at its newest version.

        Reads one checkpoint and at most `divisor` records, however long the log is, and changes nothing.
        `heartbeat` is the interval at which transactions that announce themselves renew their announcements.
        `hooks` run after each commit of this handle. `allow_mounts` lists directories of this host that
        mounts can be read from, including all subdirectories. The environment variable
        `HEADGATE_MOUNTS_ALLOW` adds more. You can always read mounts that you create through this handle.

        `follow_up="background"` lets commits return as soon as they are decided, while a thread publishes the
        tables for other engines and writes the control entries. `"inline"` does this before they return.
        Without it, the lake property `commit.follow-up` decides. See `CommitResult.wait`.
        """
        check_heartbeat(heartbeat)
        check_follow_up(follow_up)
        policy, mounts = checked_policy(retry, RetryPolicy()), MountRoots.of(allow_mounts)
        driver = Driver(opened_store(place, options), host)
        return cls._open(driver, policy, heartbeat, hooks, mounts, follow_up)

    @classmethod
    def _open(
        cls,
        driver: Driver,
        retry: RetryPolicy,
        heartbeat: timedelta,
        hooks: Sequence[Hook],
        mounts: MountRoots,
        follow_up: str | None,
    ) -> Lake:
        identity, identity_bytes = read_identity(driver)
        genesis = empty_state(identity, identity_bytes)
        log = CommitLog(driver, identity, genesis)
        checkpoints = Checkpoints(log, genesis)
        before = log.shared_before()
        checkpoints.open()
        log.share(before)
        return cls(log, checkpoints, retry, Announcements(driver, heartbeat), hooks, mounts, follow_up)

    # --- reading -----------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """The location of the lake, without credentials."""
        return self._handle.driver.store.describe()

    @property
    def id(self) -> str:
        """The id of the lake, which `init` assigned."""
        return self._handle.log.identity.lake_id

    @property
    def created_at(self) -> datetime:
        return self._handle.log.identity.created_at

    @property
    def divisor(self) -> int:
        """The number of commits in a window of level 1, which was fixed at `init`."""
        return self._handle.log.identity.divisor

    @property
    def version(self) -> int:
        """The newest version. Reads the storage: one GET if nothing is new."""
        return self._handle.refresh().version.number

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the lake at its newest version. Reads the storage."""
        return MappingProxyType(dict(self._handle.refresh().properties))

    @property
    def strategy(self) -> str:
        """The commit strategy of the next version. Reads the storage."""
        return self._handle.refresh().next_strategy

    @property
    def tags(self) -> Mapping[str, int]:
        """The tags of the lake, each with the version that it names. Reads the storage."""
        return _tags(self._handle.refresh())

    def at(
        self,
        version: int | None = None,
        *,
        timestamp: str | date | datetime | None = None,
        tag: str | None = None,
    ) -> LakeView:
        """A read-only view of all tables of the lake at a version, a timestamp or a tag.

        A timestamp without a time zone is in UTC. Without arguments, you get the newest version; the view
        does not change when others commit. Raises `NotFoundError` if the version or tag does not exist, or
        the lake did not exist at the timestamp.
        """
        wanted = self._version_at(version, timestamp, tag)
        state = self._handle.refresh() if wanted is None else self._handle.state_at(wanted)
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
        """Runs a query on the newest version of the tables, which is the same version for all of them.

        `lake.sql(spark, "SELECT * FROM sales.orders VERSION AS OF 41")` reads one table at another version.
        You can also name a tag (`VERSION AS OF 'eom'`) or a timestamp
        (`TIMESTAMP AS OF '2026-11-15T10:00:00Z'`).
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
        init: bool = False,
    ) -> tuple[LogEntry, ...]:
        """The commits, newest first: all of them, at most `limit`, or only those below version `before`.

        More filters: `table` (a name, or a pattern such as `sales.*`), `user`, `since` (a timestamp), and
        `kind`: `commit`, `plan`, `cancel`, `switch`, `expire`, a change of a table (`create`, `drop`, …) or
        of its rows (`append`, `delete`, …). Each record is verified against the digest in the record after
        it. With `init=True` or `kind="init"`, the result includes version 0, which created the lake; its
        `txid` is the id of the lake.
        """
        only_init = kind == INIT
        query = LogQuery.of(
            table, None if only_init else kind, user, None if since is None else moment(since)
        )
        checked_limit(limit)
        below = None if before is None else whole_number("before", before)
        newest = self._handle.refresh()
        if below is not None:
            last = version_number(max(0, min(below - 1, newest.version.number)))
            newest = state_at(self._handle.checkpoints, newest, last)
        every = newest.version.number
        most = every + 1 if limit is None else min(limit, every + 1)
        count = 0 if only_init else most if query == LogQuery() else every
        records = self._handle.log.records_down(newest, count)
        made = init_entry(self._handle.log.identity)
        is_chosen = (init or only_init) and (below is None or below > 0)
        first = (made,) if is_chosen and query.chooses_init(made.committed_at, made.user) else ()
        return tuple(islice(chain(map(log_entry, query.chosen(records)), first), most))

    def log_frame(self, spark: SparkSession, **query: Any) -> DataFrame:
        """Returns the entries of `log` as a DataFrame, one row per commit."""
        from headgate.spark.read.log import log_frame

        return log_frame(spark, self.log(**query))

    def timeline(self, *, limit: int | None = 50, pending: bool = False) -> tuple[Instant, ...]:
        """Running transactions and pending plans, then what has ended, newest first.

        Reads the newest `limit` commits (all of them if it is None), or none if you want only what is
        `pending`. Removes announcements that dead transactions left behind.
        """
        checked_limit(limit)
        newest = self._handle.refresh()
        count = (
            0 if pending else newest.version.number if limit is None else min(limit, newest.version.number)
        )
        records = tuple(self._handle.log.records_down(newest, count))
        plans = self._handle.driver.host.together(
            [partial(self._handle.log.record, plan.version) for plan in newest.plans.values()]
        )
        running = self._handle.announcements.running(is_over=newest.cancelled.__contains__)
        return timeline(records, plans, running, newest, self._handle.driver.host.now())

    def attempts(self, version: int) -> VersionAttempts:
        """The writers that competed for a version, and the outcome of each claim.

        Clients of FileTracker record their claims on the storage. For the other strategies, and for retried
        operations, the records of the next 256 versions list the versions that their writers lost; a writer
        that gave up left no trace. Raises `InvalidInputError` if the version is not committed.
        """
        wanted = version_number(version)
        newest = self._handle.refresh()
        require_commit(newest, wanted)
        return attempts_at(self._handle.log, self._handle.checkpoints, newest, wanted)

    def doctor(self) -> Diagnosis:
        """Tests the storage again, and reports for each commit strategy whether it is safe there."""
        report = probe(self._handle.driver.store, self._handle.driver.host)
        newest = self._handle.refresh()
        ahead = ahead_warning(time_of_newest(self._handle.log, newest), self._handle.driver.host.now())
        return Diagnosis(self.place, newest.next_strategy, report, verdicts(report), ahead)

    # --- tables --------------------------------------------------------------------------------------------

    def tables(self, namespace: str | None = None, *, version: int | None = None) -> tuple[str, ...]:
        """The names of all tables, or of those in a namespace, at the newest version or at `version`."""
        state = self._handle.refresh() if version is None else self._handle.state_at(version)
        names = sorted(state.tables)
        return tuple(name for name in names if namespace is None or name.split(".")[0] == namespace)

    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that contain tables, views or mounts. A namespace exists as long as it has one."""
        newest = self._handle.refresh()
        return tuple(sorted({name.split(".")[0] for name in (*newest.tables, *newest.objects)}))

    def table(self, name: str, *, version: int | None = None) -> Table:
        """The table, view or mount with this name. With `version`, a read-only table at that version.

        You can write only to tables. If nothing has the name, the `NotFoundError` suggests similar names.
        """
        from headgate.lake.table import Table

        self._names.find(name, version)
        return Table(self, name, version)

    def _made_table(self, name: str, made: CommitResult) -> Table:
        from headgate.lake.table import Table

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
        """Creates a table in its own transaction. `schema` is DDL, a pyarrow Schema or an Iceberg Schema.

        `partition_by` takes columns and Iceberg transforms: `["day(ts)", "bucket(8, customer)"]`. `sort_by`
        is the order of the rows in each file: `["ts", "id desc nulls last"]`.
        """
        made = self._handle.run(
            args,
            lambda tx: tx.create_table(
                name, schema, partition_by=partition_by, sort_by=sort_by, properties=properties
            ),
            self._handle.refresh(),
        )
        return self._made_table(name, made)

    def drop_table(self, name: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Drops a table in its own transaction. Its files stay until its versions expire."""
        return self._handle.run(args, lambda tx: tx.drop_table(name), self._handle.refresh())

    def rename_table(self, name: str, to: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Renames a table in its own transaction."""
        return self._handle.run(args, lambda tx: tx.rename_table(name, to), self._handle.refresh())

    # --- writing -----------------------------------------------------------------------------------------

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

        Use the result in a `with` block, which commits at the end, or call its `commit`. `args` describes the
        command in the log, without secrets. `app` is the name of an application and the number of its batch:
        a batch is committed only once, even if it found nothing to change. `properties` are stored with the
        commit, without secrets. `isolation` (`snapshot`, `write-serializable` or `serializable`) overrides
        the setting of the tables.
        """
        return self._handle.transaction(
            args, app=app, properties=properties, retry=retry, isolation=isolation
        )

    def _lake_at(self, base: LakeState, travel: Travel) -> LakeView:
        """The lake at a version that a query in a transaction on `base` names; tags are those of `base`."""
        if travel.tag is not None:
            return self.at(found_tag(base, travel.tag).number)
        if travel.timestamp is None:
            return self.at(travel.version)
        named = self._version_at(None, travel.timestamp, None)
        assert named is not None, travel
        return self.at(min(named, base.version.number))

    def set_properties(self, properties: Mapping[str, str], *, args: Sequence[str] = ()) -> CommitResult:
        """Sets lake properties in its own transaction, which is retried after a conflict."""
        return self._handle.run(args, lambda tx: tx.set_properties(properties), blind=True)

    def remove_properties(self, *names: str, args: Sequence[str] = ()) -> CommitResult:
        """Removes lake properties in its own transaction, which is retried after a conflict."""
        return self._handle.run(args, lambda tx: tx.remove_properties(*names), blind=True)

    def tag(self, name: str, version: int | None = None, *, args: Sequence[str] = ()) -> CommitResult:
        """Tags a version, by default the newest one, so that `Lake.at` finds it. Moves an existing tag."""
        base = self._handle.refresh()
        number = base.version.number if version is None else self._handle.state_at(version).version.number
        return self._handle.run(args, lambda tx: tx.set_tag(name, number), base)

    def untag(self, name: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Removes a tag. If there is none with this name, the `NotFoundError` suggests similar names."""
        return self._handle.run(args, lambda tx: tx.remove_tag(name), self._handle.refresh())

    def change_strategy(self, strategy: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Changes the commit strategy for all versions after this commit. Other writers can keep running.

        Tests the storage first, and raises `UnsupportedError` if the strategy is not safe there.
        """
        wanted = parse_strategy(strategy)
        if self.strategy == wanted.value:
            raise InvalidInputError(f"the lake already uses the strategy {wanted}", "nothing to do")
        choose(probe(self._handle.driver.store, self._handle.driver.host), wanted, self.place)
        return self._handle.run(args, lambda tx: tx.choose_strategy(wanted), self._handle.refresh())

    def cancel(self, txid: str, *, args: Sequence[str] = ()) -> CommitResult:
        """Cancels a pending plan or a running transaction. It can never commit after that.

        Searches the log from the newest version down, and raises `InvalidInputError` if the transaction was
        already committed, completed or cancelled.
        """
        wanted, newest = _txid(txid), self._handle.refresh()
        if wanted not in newest.plans:
            self._refuse_ended(wanted, newest)
        result = self._handle.run(args, lambda tx: tx.cancel(wanted), newest)
        try:
            self._handle.announcements.retire(wanted)
        except StorageError as error:
            left = f"removing the announcement: {error.problem}"
            return replace(result, postponed=(*result.postponed, left))
        return result

    def _refuse_ended(self, txid: TxId, newest: LakeState) -> None:
        committed = self._committed(txid, newest)
        if committed is not None:
            raise InvalidInputError(
                f"{txid} was committed as version {committed.version} and has nothing pending",
                "you can undo a commit only by committing another change",
            )
        if txid in newest.cancelled:
            raise InvalidInputError(
                f"{txid} was cancelled by version {newest.cancelled[txid]}", "nothing to do"
            )

    def _committed(self, txid: TxId, newest: LakeState) -> Record | None:
        """The record of a transaction, if it is in the log."""
        records = self._handle.log.records_down(newest, newest.version.number)
        return next((record for record in records if record.txid == txid), None)

    def resolve(self, txid: str) -> Resolution:
        """Resolves the unknown outcome of a transaction whose writer got no answer, or died.

        Searches the log from the newest version down. If the transaction is in it, it was committed.
        Otherwise this commits a record that cancels it, so that it can never commit, even if its writer is
        still running.
        """
        wanted, newest = _txid(txid), self._handle.refresh()
        # Search the whole log: a wrong answer would be final.
        found = self._committed(wanted, newest)
        if found is not None:
            return Resolution(txid, found.version.number)
        if wanted in newest.cancelled:
            return Resolution(txid, None)
        try:
            done = self._handle.run((), lambda tx: tx.cancel(wanted), newest)
        except TransactionConflictError as error:
            committed = [c.other for c in error.conflicts if c.other.txid.text == txid]
            if not committed:
                raise
            return Resolution(txid, committed[0].version.number)
        return Resolution(txid, None, done.version, done.hook_failures)

    def _version_at(
        self, version: int | None, timestamp: str | date | datetime | None, tag: str | None
    ) -> int | None:
        """The version that the caller gave in one of three ways; None if the caller gave none."""
        if sum(given is not None for given in (version, timestamp, tag)) > 1:
            given = {"version": version, "timestamp": timestamp, "tag": tag}
            names = " and ".join(name for name, value in given.items() if value is not None)
            raise InvalidInputError(
                f"{names} each name a version", "give only one of version, timestamp and tag"
            )
        if timestamp is not None:
            return version_at(self._handle.log, self._handle.refresh(), moment(timestamp)).number
        if tag is not None:
            return found_tag(self._handle.refresh(), tag).number
        return version


def _tags(state: LakeState) -> Mapping[str, int]:
    return MappingProxyType({name: version.number for name, version in sorted(state.tags.items())})


def _txid(text: str) -> TxId:
    if not isinstance(text, str) or not is_txid(text):
        raise InvalidInputError(f"{shown(text)} is not a transaction id", "take it from the error or the log")
    return TxId(text)
