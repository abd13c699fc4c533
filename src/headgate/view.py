"""The lake as it was at one version: all tables together, unchanged for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from headgate.core.query import Travel
from headgate.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.lake import Lake
    from headgate.table import Table


@dataclass(frozen=True, slots=True)
class LakeView:
    """Made by `Lake.at`. `committed_at` is None for version 0."""

    version: int
    properties: Mapping[str, str]
    strategy: str
    tags: Mapping[str, int]
    committed_at: datetime | None
    _lake: Lake = field(repr=False, compare=False)

    def tables(self, namespace: str | None = None) -> tuple[str, ...]:
        """The names of all tables, or of those in a namespace."""
        return self._lake.tables(namespace, version=self.version)

    def table(self, name: str) -> Table:
        """The table of this name, as it was at this version."""
        return self._lake.table(name, version=self.version)

    def sql(self, spark: SparkSession, query: str) -> DataFrame:
        """The result of a query in which the tables are those of this version.

        Names of tables may carry `VERSION AS OF` and `TIMESTAMP AS OF`; names that the lake has not are those
        of the session.
        """
        from headgate.spark.sql import run_query

        if not isinstance(query, str):
            raise InvalidInputError(f"a query is a text, not a {type(query).__name__}")

        def read(name: str, travel: Travel | None) -> DataFrame:
            if travel is None:
                return self.table(name).read(spark)
            there = self._lake.at(version=travel.version, timestamp=travel.timestamp, tag=travel.tag)
            return there.table(name).read(spark)

        return run_query(spark, query, self.tables(), read)


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
