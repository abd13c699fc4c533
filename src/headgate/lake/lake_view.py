"""A read-only view of a lake at one version, which never changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.sql.query import Travel
from headgate.core.sql.view_rules import require_names, require_no_circle
from headgate.errors import InvalidInputError
from headgate.model.named_object import NamedObject, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.lake.lake import Lake
    from headgate.lake.table import Table

Leaf: TypeAlias = "Callable[[LakeView, str], DataFrame]"
"""Returns the rows of a table or mount of a lake."""


@dataclass(frozen=True, slots=True)
class LakeView:
    """The lake at one version, as `Lake.at` returns it.

    `committed_at` is None for version 0. `objects` are the views and mounts by name.
    """

    version: int
    properties: Mapping[str, str]
    strategy: str
    tags: Mapping[str, int]
    committed_at: datetime | None
    objects: Mapping[str, NamedObject]
    _lake: Lake = field(repr=False, compare=False)

    def tables(self, namespace: str | None = None) -> tuple[str, ...]:
        """The names of all tables, or of those in a namespace."""
        return self._lake.tables(namespace, version=self.version)

    def table(self, name: str) -> Table:
        """The table, view or mount with this name, at this version."""
        return self._lake.table(name, version=self.version)

    def sql(self, spark: SparkSession, query: str) -> DataFrame:
        """Runs a query on the tables, views and mounts of this version.

        A query can read a name at another version with `VERSION AS OF` or `TIMESTAMP AS OF`. Names that the
        lake does not have are looked up in the Spark session.
        """
        if not isinstance(query, str):
            raise InvalidInputError(f"a query must be a string, not a {type(query).__name__}")
        from headgate.spark.sql.run import run_query

        return run_query(spark, query, (*self.tables(), *self.objects), self._reader(spark, (), None))

    def _rows_of(
        self, spark: SparkSession, name: str, trail: tuple[str, ...] = (), leaf: Leaf | None = None
    ) -> DataFrame:
        """The rows of a table, view or mount at this version.

        `trail` lists the views that this read is part of, from the outside in. `leaf`, if given, supplies
        the rows of tables and mounts. Raises `NotFoundError` for a view that reads a name that does not
        exist, and `InvalidInputError` for a view that reads itself, directly or through other views.
        """
        found = self.objects.get(name)
        if found is None or not isinstance(found.definition, View):
            return self.table(name).read(spark) if leaf is None else leaf(self, name)
        inner = (*trail, f"{name} at version {self.version}")
        require_no_circle(inner)
        return self._stored_rows(spark, name, found.definition.sql, inner, leaf)

    def _stored_rows(
        self,
        spark: SparkSession,
        owner: str,
        sql: str,
        trail: tuple[str, ...] = (),
        leaf: Leaf | None = None,
    ) -> DataFrame:
        """The result of the query that the lake stores for `owner`. The query is checked on each run."""
        from headgate.spark.sql.run import StoredQuery

        query = StoredQuery.of(spark, owner, sql)
        require_names(owner, query.relations, (*self.tables(), *self.objects))
        return query.frame(self._reader(spark, trail, leaf))

    def _reader(
        self, spark: SparkSession, trail: tuple[str, ...], leaf: Leaf | None
    ) -> Callable[[str, Travel | None], DataFrame]:
        def read(name: str, travel: Travel | None) -> DataFrame:
            if travel is None:
                return self._rows_of(spark, name, trail, leaf)
            there = self._lake.at(version=travel.version, timestamp=travel.timestamp, tag=travel.tag)
            return there._rows_of(spark, name, trail, leaf)

        return read


def moment(given: str | date | datetime) -> datetime:
    """The timestamp in UTC that the caller gave. Without a time zone it is in UTC; a date is its start."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given.strip())
        except ValueError:
            raise InvalidInputError(
                f"{given!r} is not a timestamp", "write it as 2026-11-15T10:00:00Z"
            ) from None
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime(given.year, given.month, given.day)
    if not isinstance(given, datetime):
        raise InvalidInputError(f"a timestamp must be a string or a datetime, not a {type(given).__name__}")
    if given.tzinfo is None:
        return given.replace(tzinfo=UTC)
    try:
        return given.astimezone(UTC)
    except OverflowError:
        raise InvalidInputError(f"{given} is outside the years 1 to 9999 in UTC") from None
