"""The lake: the object that every use of Headgate starts from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headgate.core.conflict.retry import RetryPolicy, checked_policy
from headgate.core.history.commit_time import ahead_warning
from headgate.core.history.fold import empty_state
from headgate.core.history.log_entry import LogEntry
from headgate.core.input.arguments import check_callable, found_tag, texts
from headgate.core.input.settings import check_follow_up
from headgate.core.plans.strategy import choose, parse_strategy, verdicts
from headgate.core.retention.expire_policy import DEFAULT_POLICY, ExpirePolicy
from headgate.core.sql.query import Travel
from headgate.errors import InvalidInputError
from headgate.lake import administration, outcomes
from headgate.lake.administration import DEAD_AFTER, DEFAULT_AGE
from headgate.lake.catalog import Names, objects_of
from headgate.lake.creation import create
from headgate.lake.fsck import examine
from headgate.lake.history import History
from headgate.lake.lake_view import LakeView
from headgate.lake.materialized_views import MaterializedViews, RefreshResult
from headgate.log.announcements import DEFAULT_HEARTBEAT, Announcements, check_heartbeat
from headgate.log.checkpoints import Checkpoints
from headgate.log.driver import Driver
from headgate.log.genesis import read_identity
from headgate.log.log import CommitLog, time_of_newest
from headgate.log.probe import probe
from headgate.model.attempts import VersionAttempts
from headgate.model.control_entry import ControlEntry
from headgate.model.fsck import FsckReport
from headgate.model.identity import DEFAULT_DIVISOR, check_divisor
from headgate.model.instant import Instant
from headgate.model.metrics import LakeMetrics, Metrics
from headgate.model.named_object import NamedObject
from headgate.model.probe import ProbeReport
from headgate.model.replica import ReplicaMark, ReplicaReport
from headgate.model.reports import (
    CompactionProgress,
    CompactionReport,
    ExpireReport,
    RecoveryNeed,
    RecoveryReport,
    VacuumReport,
)
from headgate.model.state import LakeState
from headgate.spark.store.open import opened_store
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.runner import HookRunner
from headgate.steward.hooks.runs import HooksRun
from headgate.steward.rebuilding import Rebuilding, RebuildReport
from headgate.steward.recovery import OpenHook, Recovery
from headgate.steward.replica.mark import promote, read_mark
from headgate.storage.capabilities import Store
from headgate.storage.location import Options
from headgate.storage.mount_roots import MountRoots
from headgate.system.host import SYSTEM, Host
from headgate.transaction.builder import make_envelope
from headgate.transaction.handle import LakeHandle
from headgate.transaction.named_objects import Catalog, Step
from headgate.transaction.result import CommitResult, Diagnosis, Resolution
from headgate.transaction.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.core.compaction.outlook import TableOutlook
    from headgate.lake.table import Table
    from headgate.maintenance.compaction import Looks
    from headgate.maintenance.expired_files import OnProgress


class Lake(Catalog[CommitResult]):
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
        self._history = History(self._handle)
        self._names = Names(self._handle)
        self._materialized = MaterializedViews(self)

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
        create(driver, wanted, divisor, make_envelope(host, args, None, None).command, on_probe)
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
        wanted = self._history.version_at(version, timestamp, tag)
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
        return self._history.log(
            limit=limit, before=before, table=table, user=user, since=since, kind=kind, init=init
        )

    def log_frame(self, spark: SparkSession, **query: Any) -> DataFrame:
        """Returns the entries of `log` as a DataFrame, one row per commit."""
        from headgate.spark.read.log import log_frame

        return log_frame(spark, self.log(**query))

    def timeline(self, *, limit: int | None = 50, pending: bool = False) -> tuple[Instant, ...]:
        """Running transactions and pending plans, then what has ended, newest first.

        Reads the newest `limit` commits (all of them if it is None), or none if you want only what is
        `pending`. Removes announcements that dead transactions left behind.
        """
        return self._history.timeline(limit, pending=pending)

    def attempts(self, version: int) -> VersionAttempts:
        """The writers that competed for a version, and the outcome of each claim.

        Clients of FileTracker record their claims on the storage. For the other strategies, and for retried
        operations, the records of the next 256 versions list the versions that their writers lost; a writer
        that gave up left no trace. Raises `InvalidInputError` if the version is not committed.
        """
        return self._history.attempts(version)

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
        named = self._history.version_at(None, travel.timestamp, None)
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
        return outcomes.cancel(self._handle, txid, args)

    def resolve(self, txid: str) -> Resolution:
        """Resolves the unknown outcome of a transaction whose writer got no answer, or died.

        Searches the log from the newest version down. If the transaction is in it, it was committed.
        Otherwise this commits a record that cancels it, so that it can never commit, even if its writer is
        still running.
        """
        return outcomes.resolve(self._handle, txid)

    # --- views and mounts ----------------------------------------------------------------------------

    def objects(self, *, version: int | None = None) -> Mapping[str, NamedObject]:
        """The views and mounts by name, at the newest version or at `version`."""
        return objects_of(self._handle.refresh() if version is None else self._handle.state_at(version))

    def create_materialized_view(
        self,
        spark: SparkSession,
        name: str,
        sql: str,
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Creates a table with the result of a query. `refresh` brings it up to date.

        The query reads one version of the lake, and the table stores which one. Other engines read the table
        like any other. The SQL is checked in the same way as that of a view, and by Spark.
        """
        given = {} if properties is None else properties
        return self._materialized.create(spark, name, sql, partition_by, sort_by, given)

    def refresh(self, spark: SparkSession, name: str) -> RefreshResult:
        """Updates a materialized view to the result of its query at the newest version.

        Runs in one transaction, which is retried after a conflict. If the query works row by row on one
        table, and rows were only added to that table, the refresh adds the new rows. Otherwise it rewrites
        all rows. If nothing has changed, no version is created. If two processes refresh at the same time,
        each row is still added once, and a refresh that dies leaves nothing behind. A refresh reads the
        records since the last one.
        """
        return self._materialized.refresh(spark, name)

    def _define(self, step: Step, *description: str) -> CommitResult:
        lake = self._handle
        return lake.run(description, lambda tx: tx._define(step, *description), lake.refresh())

    # --- hooks and recovery --------------------------------------------------------------------------

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that run after commits of this handle, in the order in which they run."""
        return self._handle.steward.hooks.runner.hooks

    def add_hook(self, hook: Hook) -> None:
        """Registers a hook. It runs after each later commit of this handle that it applies to.

        Raises `InvalidInputError` if the name is already registered, or if hooks would wait for each other.
        """
        self._handle.steward.register(hook)

    def run_hooks(self, *, retry: bool = False) -> HooksRun:
        """Runs pending hooks of earlier versions that are registered here; with `retry`, failed ones too.

        `recover` runs the hooks of writers that died.
        """
        return Recovery(self._handle.idle_steward()).run_open_hooks(retry=retry)

    def skip_hooks(self, name: str) -> tuple[int, ...]:
        """Skips a hook for every version for which it is not done, and returns these versions.

        Use this for a hook that you no longer need. Otherwise it stays open until somebody runs it. Hooks
        after it stop waiting for it. Hooks of writers that died are included only after a call of `recover`.
        """
        (checked,) = texts("hook names", (name,))
        return Recovery(self._handle.idle_steward()).skip_hooks(checked)

    def open_hooks(self) -> tuple[OpenHook, ...]:
        """All writers' hooks that are not done, or were undone, oldest version first. Changes nothing."""
        return Recovery(self._handle.idle_steward()).open_hooks()

    def control(self, version: int) -> ControlEntry | None:
        """The control entry of a version, with its hooks and timings; None if there is none."""
        return self._handle.idle_steward().entries.read(self._handle.state_at(version).version)

    def recover(self, *, patience: timedelta = DEAD_AFTER) -> RecoveryReport:
        """Completes the work that dead writers left undone, and reports it. Idempotent.

        The cost depends on the versions since the last recovery. Cancels abandoned plans that are older than
        `patience`. Runs pending hooks that are registered here.
        """
        return administration.recover(self._handle, patience)

    def recovery_needed(self, *, patience: timedelta = DEAD_AFTER) -> RecoveryNeed:
        """Reports what `recover` would do, without doing it.

        Costs three reads and three listings, however long the log is, and one read for each pending plan and
        each version with open hooks. If there are plans, it also reads the running transactions. A writer
        that is still running may be about to do the missing work itself.
        """
        return administration.recovery_needed(self._handle, patience)

    def rebuild_control(self, *, progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Rebuilds control entries, the outbox, checkpoints and published metadata from the log.

        Removes control entries, outbox objects and checkpoints that belong to no version.
        Reads the whole log. `progress` receives the number of versions done and the total.
        """
        check_callable("progress", progress)
        return Rebuilding(self._handle.idle_steward(), progress or (lambda _done, _all: None)).run()

    def fsck(
        self,
        *,
        all_versions: bool = False,
        deep: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> FsckReport:
        """Checks for damage, and changes nothing. For a lake that does not open, use `headgate.fsck`."""
        check_callable("progress", progress)
        return examine(self._handle.driver, all_versions, deep, progress)

    # --- measurements --------------------------------------------------------------------------------

    def metrics(self) -> Metrics:
        """Counts for this handle since it was opened: commits, conflicts, hooks, requests and bytes."""
        return self._handle.idle_steward().ledger.metrics(self._handle.driver.meter.counts())

    def measure(self, *, versions: int | None = 1000) -> LakeMetrics:
        """The size of the lake, its history and its tables, and the activity in its newest versions.

        Lists all objects of the lake, and reads the metadata of each table and the control entries of the
        newest `versions` (all of them if it is None). Rows and bytes of tables are those of the newest
        version.
        """
        return administration.measure(self._handle, versions)

    # --- replicas ------------------------------------------------------------------------------------

    def replicate(
        self,
        target: str | os.PathLike[str] | Store,
        *,
        options: Options | None = None,
        adopt: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ReplicaReport:
        """Updates the replica of this lake at `target` to the newest version, or creates it.

        You can interrupt it and run it again. If the location contains anything other than a replica of this
        lake, this raises `AlreadyExistsError` and changes nothing. `adopt` also accepts a replica that was
        promoted and has no versions of its own. It commits a version to this lake, after which processes
        that still have the promoted lake open can no longer commit to it. `progress` receives the number of
        versions copied and the total.
        """
        return administration.replicate(self._handle, target, options, adopt=adopt, progress=progress)

    @property
    def replica_of(self) -> ReplicaMark | None:
        """The lake that this one is a replica of; None if it is not a replica. Reads the storage."""
        return read_mark(self._handle.driver)

    def promote(self) -> ReplicaMark:
        """Turns a replica into an independent lake, which accepts commits and is no longer replicated to."""
        return promote(self._handle.checkpoints)

    # --- compaction and retention --------------------------------------------------------------------

    def compact(
        self,
        spark: SparkSession | None = None,
        *,
        table: str | None = None,
        progress: Callable[[CompactionProgress], None] | None = None,
        patience: timedelta | None = None,
    ) -> CompactionReport:
        """Merges small files and applies row deletes where a table is ready for it; in all tables or in one.

        docs/compaction.md explains which files are ready. Uses Spark if a session is given or active,
        otherwise Arrow in this process. Other writers can keep running; their row changes are rebased onto
        the new files. Several compactions can run at the same time and share the work. They take over the
        work of one that died once it is older than `patience` (2 minutes by default). `progress` is called
        for each group of files that was written. An interrupted compaction keeps only the work that it has
        completed.
        """
        from headgate.maintenance.compaction import TAKE_OVER_AFTER, Compactor  # loads pyiceberg

        compactor = Compactor(
            self._handle,
            self._looks,
            spark,
            progress or (lambda _: None),
            TAKE_OVER_AFTER if patience is None else patience,
        )
        return compactor.run(table)

    def compaction_outlook(self, table: str | None = None) -> tuple[TableOutlook, ...]:
        """For each table, the segments of each path by level, and those ready to compact. Changes nothing."""
        from headgate.maintenance.compaction import Compactor

        return Compactor(self._handle).outlook(table)

    @cached_property
    def _looks(self) -> Looks:
        from headgate.maintenance.compaction import Looks

        return Looks()

    def expire(
        self,
        policy: ExpirePolicy | Sequence[str] = DEFAULT_POLICY,
        *,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> ExpireReport:
        """Expires versions that a policy does not keep, and deletes the files that only they needed.

        A policy is a list of tiers: `["all:1d", "1:30d", "2:forever"]` keeps all versions for a day,
        boundaries of level 1 for 30 days, and boundaries of level 2 forever. Headgate also keeps the newest
        version, tagged versions, and everything that pending plans, running transactions and materialized
        views still need. A kept version returns the same rows as before. Reading an expired one raises
        `NotFoundError`. You can repeat the call, and several processes can run it at the same time; the next
        call finishes one that died. With `dry_run`, it changes nothing.
        """
        return administration.expire(self._handle, policy, dry_run=dry_run, progress=progress)

    def vacuum(
        self,
        *,
        older_than: timedelta | str = DEFAULT_AGE,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> VacuumReport:
        """Deletes files of transactions that never committed, and files left by lost attempts and crashes.

        Deletes only in the directories of tables, and nothing that a kept version needs. If a transaction
        left files but is not in the log, this first commits a record that cancels it, so that the
        transaction cannot commit later. `older_than` (a timedelta, or a string such as `1d`) protects
        running transactions. You can repeat the call. With `dry_run`, it changes nothing.
        """
        return administration.vacuum(self._handle, older_than, dry_run=dry_run, progress=progress)


def _tags(state: LakeState) -> Mapping[str, int]:
    return MappingProxyType({name: version.number for name, version in sorted(state.tags.items())})
