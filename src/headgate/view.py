"""The lake as it was at one version: all tables together, unchanged for ever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.query import Travel, find_relations
from headgate.core.view_rules import require_names, require_no_circle
from headgate.errors import InvalidInputError, NotFoundError
from headgate.model.named_object import NamedObject, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.lake import Lake
    from headgate.table import Table

Leaf: TypeAlias = "Callable[[LakeView, str], DataFrame]"
"""Gives the rows of a table or mount of a lake."""


@dataclass(frozen=True, slots=True)
class LakeView:
    """Made by `Lake.at`. `committed_at` is None for version 0. `objects` are the views and mounts by name."""

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
        """The table, view or mount of this name, as it was at this version."""
        return self._lake.table(name, version=self.version)

    def sql(self, spark: SparkSession, query: str) -> DataFrame:
        """The result of a query in which the tables, views and mounts are those of this version.

        Names may carry `VERSION AS OF` and `TIMESTAMP AS OF`; names that the lake has not are those of the
        session.
        """
        if not isinstance(query, str):
            raise InvalidInputError(f"a query is a text, not a {type(query).__name__}")
        return self._query(spark, query, ())

    def _rows_of(
        self, spark: SparkSession, name: str, trail: tuple[str, ...] = (), leaf: Leaf | None = None
    ) -> DataFrame:
        """The rows of a table, view or mount. `trail` are the views that it is read for, from the outside in.

        `leaf` may give other rows for tables and mounts than those that they have.

        The tables of a view are those of this version. `NotFoundError` names a view that reads what is not
        there; `InvalidInputError` one that reads itself, in however many steps.
        """
        found = self.objects.get(name)
        if found is None or not isinstance(found.definition, View):
            return self.table(name).read(spark) if leaf is None else leaf(self, name)
        sql = found.definition.sql
        inner = (*trail, f"{name} at version {self.version}")
        require_no_circle(inner)
        require_names(name, find_relations(sql), (*self.tables(), *self.objects))
        try:
            return self._query(spark, sql, inner, leaf)
        except NotFoundError as error:
            raise NotFoundError(f"the view {name}: {error.problem}", error.next_step) from error

    def _query(
        self, spark: SparkSession, query: str, trail: tuple[str, ...], leaf: Leaf | None = None
    ) -> DataFrame:
        from headgate.spark.sql import run_query

        def read(name: str, travel: Travel | None) -> DataFrame:
            if travel is None:
                return self._rows_of(spark, name, trail, leaf)
            there = self._lake.at(version=travel.version, timestamp=travel.timestamp, tag=travel.tag)
            return there._rows_of(spark, name, trail, leaf)

        return run_query(spark, query, (*self.tables(), *self.objects), read)


def moment(given: str | date | datetime) -> datetime:
    """A moment that a caller named. Without a time zone it is in UTC; a day alone is its first moment."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given.strip())
        except ValueError:
            raise InvalidInputError(
                f"{given!r} is not a moment", "write it as 2026-11-15T10:00:00Z"
            ) from None
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime(given.year, given.month, given.day)
    if not isinstance(given, datetime):
        raise InvalidInputError(f"a moment is a text or a datetime, not a {type(given).__name__}")
    if given.tzinfo is None:
        return given.replace(tzinfo=UTC)
    try:
        return given.astimezone(UTC)
    except OverflowError:
        raise InvalidInputError(f"{given} is not in the years 1 to 9999 of UTC") from None
