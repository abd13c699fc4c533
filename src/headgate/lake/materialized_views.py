"""Materialized views: tables that store the result of a query, and the version that it was computed from.

In all other respects they are tables: other engines read them, they are compacted, and you drop them with
`drop_table`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headgate.core.plans.refresh import REFRESHED_AT, VIEW_SQL, Mode, Refresh, Sight, Traits, plan_refresh
from headgate.core.sql.view_rules import RelationsOf, changes_with_time, checked_sql, sources_of
from headgate.errors import CorruptLakeError, InvalidInputError
from headgate.model.identifiers import number_in
from headgate.model.reports import RowCounts
from headgate.model.state import LakeState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.lake.lake import Lake
    from headgate.lake.lake_view import LakeView
    from headgate.lake.table import Table
    from headgate.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The result of a refresh. The view now contains the result of its query at version `source_version`.

    `mode` is `incremental` (`rows` counts the added rows), `full` (`rows` counts all rows) or `unchanged`. In
    the last case no version was created, and `version` is the one that the refresh read. `reason` explains
    the mode. `hook_failures` lists hooks of the version that are not done, with reasons. `clock_warning` is
    the same as in `CommitResult`.
    """

    name: str
    version: int
    source_version: int
    mode: str
    rows: int
    reason: str
    hook_failures: tuple[str, ...] = ()
    clock_warning: str | None = None


@dataclass(frozen=True, slots=True)
class MaterializedViews:
    """Creates and refreshes the materialized views of a lake, each in its own transaction."""

    lake: Lake

    def create(
        self,
        spark: SparkSession,
        name: str,
        sql: str,
        partition_by: Sequence[str],
        sort_by: Sequence[str],
        properties: Mapping[str, str],
    ) -> Table:
        """See `Lake.create_materialized_view`."""
        from headgate.lake.table import Table  # loads pyiceberg

        def change(tx: Transaction) -> None:
            create(self.lake, spark, tx, name, sql, partition_by, sort_by, properties)

        handle = self.lake._handle
        made = handle.run(("create_materialized_view", name), change, handle.refresh())
        return Table(self.lake, name, made=made)

    def refresh(self, spark: SparkSession, name: str) -> RefreshResult:
        """See `Lake.refresh`."""
        done: list[tuple[Refresh, int]] = []

        def change(tx: Transaction) -> None:
            at = tx.reached.version.number
            done[:] = [(refresh(self.lake, spark, tx, name), at)]

        handle = self.lake._handle
        result = handle.run(("refresh", name), change, handle.refresh())
        ((todo, source_version),) = done
        rows = 0 if todo.mode is Mode.UNCHANGED else self._rows_added(name, result.version)
        return RefreshResult(
            name,
            result.version,
            source_version,
            todo.mode.value,
            rows,
            todo.reason,
            result.hook_failures,
            result.clock_warning,
        )

    def _rows_added(self, name: str, version: int) -> int:
        snapshot = self.lake.table(name, version=version).snapshot
        return snapshot.rows_added if snapshot is not None and snapshot.version == version else 0


def create(
    lake: Lake,
    spark: SparkSession,
    tx: Transaction,
    name: str,
    sql: str,
    partition_by: Sequence[str],
    sort_by: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    """Creates a table with the result of a query on the base of `tx`, and stores the version of the base."""
    from headgate.spark.types import nullable

    state = tx.reached
    sources_of(name, checked_sql(sql), state.tables, state.objects, relations_of(spark))
    rows = lake.at(state.version.number)._stored_rows(spark, name, sql)
    own = {VIEW_SQL: sql, REFRESHED_AT: str(state.version)}
    made = tx.create_table(
        name,
        nullable(rows.schema),
        partition_by=partition_by,
        sort_by=sort_by,
        properties={**properties, **own},
    )
    made.append(rows)


def refresh(lake: Lake, spark: SparkSession, tx: Transaction, name: str) -> Refresh:
    """Updates a materialized view to the base of `tx`. Changes nothing if it is up to date.

    Two refreshes at the same time change the same table property, so one of them conflicts. It is retried,
    and finds what the other one did.
    """
    stale = _Stale.of(lake, spark, name, tx.reached)
    todo = stale.plan()
    writer = tx.table(name)
    match todo.mode:
        case Mode.UNCHANGED:
            tx.count_rows(RowCounts())
            return todo
        case Mode.INCREMENTAL:
            writer.append(stale.added_rows())
        case Mode.FULL:
            writer.overwrite(stale.all_rows())
    writer.set_properties({REFRESHED_AT: str(tx.reached.version)})
    return todo


def relations_of(spark: SparkSession) -> RelationsOf:
    """A function that finds the relations of a stored query, and rejects a query that is not allowed."""
    from headgate.spark.sql.run import stored_relations

    return partial(stored_relations, spark)


def require_materialized(table: Table) -> None:
    """Raises an error unless the table is a materialized view."""
    if table.kind != "materialized view":
        raise InvalidInputError(
            f"{table.name} is a {table.kind}, not a materialized view",
            "only materialized views can be refreshed",
        )


@dataclass(frozen=True, slots=True)
class _Stale:
    """A materialized view that was last refreshed at version `since`, and the `state` of the lake."""

    lake: Lake
    spark: SparkSession
    name: str
    sql: str
    since: int
    state: LakeState

    @classmethod
    def of(cls, lake: Lake, spark: SparkSession, name: str, state: LakeState) -> _Stale:
        table = lake.table(name, version=state.version.number)
        require_materialized(table)
        properties = table.properties
        said = properties.get(REFRESHED_AT, "")
        since = number_in(said)
        if since is None or since > state.version.number:
            raise CorruptLakeError(
                f"{name}: the property {REFRESHED_AT} is {said[:80]!r}, which is not a version of the lake"
            )
        return cls(lake, spark, name, properties[VIEW_SQL], since, state)

    def plan(self) -> Refresh:
        before, after, records = self.lake._handle.records_between(self.since, self.state.version.number)
        own = after.tables[self.name].uuid
        todo = plan_refresh(own, self._traits(), self._sight(before), self._sight(after), records)
        expired = self.lake._handle.log.newest.retention.until
        if todo.mode is Mode.INCREMENTAL and expired and self.since <= expired:
            return Refresh(
                Mode.FULL, f"versions up to {expired} have expired, and the last refresh was at {self.since}"
            )
        return todo

    def _sight(self, state: LakeState) -> Sight:
        others = {name: ref for name, ref in state.tables.items() if name != self.name}
        sources = sources_of(self.name, self.sql, others, state.objects, relations_of(self.spark))
        return Sight(sources, {name: others[name].uuid for name in sources.tables})

    def _traits(self) -> Traits:
        from headgate.spark.sql.run import traits_of
        from headgate.spark.types import empty_frame

        views = self._sight(self.state).sources.views.values()
        if any(changes_with_time(sql) for sql in (self.sql, *(view.sql for view in views))):
            return Traits(varies="its query depends on the time, the user or another changing value")

        def empty(there: LakeView, name: str) -> DataFrame:
            return empty_frame(self.spark, there.table(name).schema)

        return traits_of(self._now()._stored_rows(self.spark, self.name, self.sql, leaf=empty))

    def _now(self) -> LakeView:
        return self.lake.at(self.state.version.number)

    def all_rows(self) -> DataFrame:
        return self._fitting(self._now()._stored_rows(self.spark, self.name, self.sql))

    def added_rows(self) -> DataFrame:
        """The result of the query on the rows that were added to its table since the last refresh."""
        from headgate.spark.sql.run import StoredQuery

        (source,) = self._sight(self.state).sources.tables
        added = self.lake.table(source)._added_rows(self.spark, self.since, self.state.version.number)
        query = StoredQuery.of(self.spark, self.name, self.sql)
        return self._fitting(query.frame(lambda *_: added))

    def _fitting(self, rows: DataFrame) -> DataFrame:
        kept = [f.name for f in self.lake.table(self.name, version=self.state.version.number).schema.fields]
        if sorted(rows.columns) != sorted(kept):
            raise InvalidInputError(
                f"{self.name}: its query now returns the columns {', '.join(rows.columns)}, but the table "
                f"has {', '.join(kept)}",
                "drop it and create it again, or change its columns first",
            )
        return rows
