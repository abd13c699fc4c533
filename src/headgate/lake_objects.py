"""What a lake has beside tables: views and mounts, and tables that are the result of a query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from headgate import materializing
from headgate.catalog import Catalog, Step
from headgate.core.lookup import found_name, not_a_table
from headgate.core.refresh_plan import Mode, Refresh
from headgate.errors import NotFoundError
from headgate.materializing import RefreshResult
from headgate.model.named_object import NamedObject
from headgate.model.state import LakeState
from headgate.model.table import TableRef
from headgate.result import CommitResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.lake import Lake
    from headgate.table import Table
    from headgate.table_view import TimeTravel
    from headgate.transaction import Transaction


class LakeObjects(Catalog[CommitResult]):
    """The part of a lake that is about what its names stand for; each change is a transaction of its own."""

    @abstractmethod
    def _run(
        self, args: Sequence[str], change: Callable[[Transaction], object], base: LakeState | None = None
    ) -> CommitResult: ...

    @abstractmethod
    def _refreshed(self) -> LakeState: ...

    @abstractmethod
    def _state_at(self, version: int) -> LakeState: ...

    def _define(self, step: Step, *description: str) -> CommitResult:
        return self._run(description, lambda tx: tx._define(step, *description), self._refreshed())

    @property
    def _lake(self) -> Lake:
        return cast("Lake", self)

    def objects(self, *, version: int | None = None) -> Mapping[str, NamedObject]:
        """The views and mounts by name; now, or as they were at a version."""
        return objects_of(self._refreshed() if version is None else self._state_at(version))

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
        """Makes a table with the result of a query, which `refresh` brings up to date.

        The query reads the lake at one version, and the table keeps which. Other engines read it like any
        table. The SQL is checked as that of a view, and by Spark.
        """
        given = {} if properties is None else properties

        def change(tx: Transaction) -> None:
            materializing.create(self._lake, spark, tx, name, sql, partition_by, sort_by, given)

        made = self._run(("create_materialized_view", name), change, self._refreshed())
        return self._lake._made_table(name, made)

    def refresh(self, spark: SparkSession, name: str) -> RefreshResult:
        """Makes the rows of a materialized view those of its query at the newest version.

        In one transaction, which is run again after a conflict: by adding what comes from added rows, if the
        query works row by row on one table that rows were only added to; else by writing all of them anew.
        If nothing has changed, no version is made. Of two that refresh at the same time, each row is added
        once; one that dies leaves nothing behind. Costs a look at the records since the last refresh.
        """
        done: list[tuple[Refresh, int]] = []

        def change(tx: Transaction) -> None:
            at = tx.reached.version.number
            done[:] = [(materializing.refresh(self._lake, spark, tx, name), at)]

        result = self._run(("refresh", name), change, self._refreshed())
        ((todo, source_version),) = done
        rows = 0 if todo.mode is Mode.UNCHANGED else self._rows_written(name, result.version)
        failures = result.hook_failures
        return RefreshResult(
            name, result.version, source_version, todo.mode.value, rows, todo.reason, failures
        )

    def _rows_written(self, name: str, version: int) -> int:
        snapshot = self._lake.table(name, version=version).snapshot
        return snapshot.rows_added if snapshot is not None and snapshot.version == version else 0

    # --- for Table ---------------------------------------------------------------------------------------

    @property
    def _travel(self) -> TimeTravel:
        """Tables as they were."""
        from headgate.table_view import TimeTravel  # loads pyiceberg, which only tables need

        return TimeTravel(self._lake._checkpoints, self._lake._table_loader)

    def _named(self, name: str, version: int | None = None) -> TableRef | NamedObject:
        """The table, view or mount of a name, now or at a version."""
        if version is None:
            return found_name(self._refreshed(), name)
        try:
            return found_name(self._state_at(version), name)
        except NotFoundError as error:
            later = self._version_with(name, version)
            if later is None:
                raise
            raise NotFoundError(error.problem, f"it is there at version {later}") from None

    def _version_with(self, name: str, after: int) -> int | None:
        """A version above `after` that has a table which the lake has now; the first, if it was made once."""
        newest = self._refreshed()
        if name not in (*newest.tables, *newest.objects) or after >= newest.version.number:
            return None
        without, having = after, newest.version.number
        while having - without > 1:
            middle = (without + having) // 2
            state = self._state_at(middle)
            if name in state.tables or name in state.objects:
                having = middle
            else:
                without = middle
        return having

    def _table_ref(self, name: str, version: int | None = None) -> TableRef:
        """The same, if it is a table."""
        found = self._named(name, version)
        if isinstance(found, NamedObject):
            raise not_a_table(name, found.definition)
        return found


def objects_of(state: LakeState) -> Mapping[str, NamedObject]:
    """The views and mounts of a state, in the order of their names."""
    return MappingProxyType(dict(sorted(state.objects.items())))
