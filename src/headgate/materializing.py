"""Materialized views: tables that hold the result of a query, and the version of the lake that it is of.

They are tables in all else: other engines read them, they are compacted, and dropped with `drop_table`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.core.refresh_plan import REFRESHED_AT, VIEW_SQL, Mode, Refresh, Sight, Traits, plan_refresh
from headgate.core.view_rules import changes_with_time, checked_sql, sources_of
from headgate.errors import CorruptLakeError, InvalidInputError
from headgate.model.row_counts import RowCounts
from headgate.model.state import LakeState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.lake import Lake
    from headgate.table import Table
    from headgate.transaction import Transaction
    from headgate.view import LakeView


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What a refresh did. Its rows are now the result of its query at `source_version` of the lake.

    `mode` is `incremental` (`rows` were added), `full` (all are new, `rows` of them) or `unchanged`: then no
    version was made, and `version` is the one that was looked at. `reason` says why this mode.
    `hook_failures` are hooks of the version that are not done, with why.
    """

    name: str
    version: int
    source_version: int
    mode: str
    rows: int
    reason: str
    hook_failures: tuple[str, ...] = ()


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
    """Makes a table with the result of a query on the state that `tx` began on, and notes which."""
    from headgate.spark.types import nullable

    state = tx.reached
    sources_of(name, checked_sql(sql), state.tables, state.objects)
    rows = lake.at(state.version.number).sql(spark, sql)
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
    """Brings a materialized view up to the state that `tx` began on; changes nothing if there is no need.

    Whoever refreshes at the same time changes the same table property: one of the two is refused, runs again,
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


def require_materialized(table: Table) -> None:
    """Refuses what cannot be refreshed."""
    if table.kind != "materialized view":
        raise InvalidInputError(
            f"{table.name} is a {table.kind}, and no materialized view", "only these are refreshed"
        )


@dataclass(frozen=True, slots=True)
class _Stale:
    """A materialized view as it was refreshed at version `since`, and the lake as it is at `state`."""

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
        since = properties.get(REFRESHED_AT, "")
        if not since.isdecimal() or int(since) > state.version.number:
            raise CorruptLakeError(f"{name}: the property {REFRESHED_AT} is {since!r}, which is no version")
        return cls(lake, spark, name, properties[VIEW_SQL], int(since), state)

    def plan(self) -> Refresh:
        before, after, records = self.lake._records_between(self.since, self.state.version.number)
        own = after.tables[self.name].uuid
        todo = plan_refresh(own, self._traits(), self._sight(before), self._sight(after), records)
        expired = self.lake._log.newest.retention.until
        if todo.mode is Mode.INCREMENTAL and expired and self.since <= expired:
            return Refresh(Mode.FULL, f"versions up to {expired} are expired, and it is of {self.since}")
        return todo

    def _sight(self, state: LakeState) -> Sight:
        others = {name: ref for name, ref in state.tables.items() if name != self.name}
        sources = sources_of(self.name, self.sql, others, state.objects)
        return Sight(sources, {name: others[name].uuid for name in sources.tables})

    def _traits(self) -> Traits:
        from headgate.spark.query_traits import traits_of
        from headgate.spark.types import empty_frame

        views = self._sight(self.state).sources.views.values()
        if any(changes_with_time(sql) for sql in (self.sql, *(view.sql for view in views))):
            return Traits(varies="its query asks for the time, the user or the like")

        def empty(there: LakeView, name: str) -> DataFrame:
            return empty_frame(self.spark, there.table(name).schema)

        return traits_of(self._now()._query(self.spark, self.sql, (), empty))

    def _now(self) -> LakeView:
        return self.lake.at(self.state.version.number)

    def all_rows(self) -> DataFrame:
        return self._fitting(self._now().sql(self.spark, self.sql))

    def added_rows(self) -> DataFrame:
        """What the query makes of the rows that were added to its table since the last refresh."""
        from headgate.spark.sql import run_query

        (source,) = self._sight(self.state).sources.tables
        added = self.lake.table(source)._added_rows(self.spark, self.since, self.state.version.number)
        return self._fitting(run_query(self.spark, self.sql, (source,), lambda *_: added))

    def _fitting(self, rows: DataFrame) -> DataFrame:
        kept = [f.name for f in self.lake.table(self.name, version=self.state.version.number).schema.fields]
        if sorted(rows.columns) != sorted(kept):
            raise InvalidInputError(
                f"{self.name}: its query gives the columns {', '.join(rows.columns)} now, and the table has "
                f"{', '.join(kept)}",
                "drop it and make it again, or change its columns first",
            )
        return rows
