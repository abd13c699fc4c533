"""The views, mounts and materialized views of a lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from headgate.core.input.arguments import found_name
from headgate.errors import NotFoundError
from headgate.lake.materialized_views import MaterializedViews, RefreshResult
from headgate.model.named_object import NamedObject
from headgate.model.state import LakeState
from headgate.model.table import TableRef
from headgate.transaction.handle import LakeHandle
from headgate.transaction.named_objects import Catalog, Step
from headgate.transaction.result import CommitResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.lake.table import Table


class LakeObjects(Catalog[CommitResult]):
    """The methods of a lake for views and mounts. Each change is its own transaction."""

    _handle: LakeHandle
    _materialized: MaterializedViews

    def _define(self, step: Step, *description: str) -> CommitResult:
        lake = self._handle
        return lake.run(description, lambda tx: tx._define(step, *description), lake.refresh())

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


@dataclass(frozen=True, slots=True)
class Names:
    """Looks up the tables, views and mounts of a lake by name."""

    lake: LakeHandle

    def find(self, name: str, version: int | None = None) -> TableRef | NamedObject:
        """The table, view or mount with a name, at the newest version or at `version`."""
        if version is None:
            return found_name(self.lake.refresh(), name)
        try:
            return found_name(self.lake.state_at(version), name)
        except NotFoundError as error:
            later = self._version_with(name, version)
            if later is None:
                raise
            raise NotFoundError(error.problem, f"read it at version {later}, where it exists") from None

    def _version_with(self, name: str, after: int) -> int | None:
        """A version above `after` that has `name`, if the newest one does.

        It is the first such version if the name was created only once.
        """
        newest = self.lake.refresh()
        if name not in (*newest.tables, *newest.objects) or after >= newest.version.number:
            return None
        without, having = after, newest.version.number
        while having - without > 1:
            middle = (without + having) // 2
            state = self.lake.state_at(middle)
            if name in state.tables or name in state.objects:
                having = middle
            else:
                without = middle
        return having


def objects_of(state: LakeState) -> Mapping[str, NamedObject]:
    """The views and mounts of a state, sorted by name."""
    return MappingProxyType(dict(sorted(state.objects.items())))
