"""SQL over the tables of a lake: names become views of the snapshots, for the time of one analysis."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from headgate.core.lookup import nearest
from headgate.core.query import Travel, rewritten
from headgate.errors import HeadgateError, InvalidInputError, NotFoundError
from headgate.spark.session import prepared

_UNKNOWN_TABLE = re.compile(r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (?P<name>\S+)")


def run_query(
    spark: SparkSession,
    query: str,
    tables: Collection[str],
    read: Callable[[str, Travel | None], DataFrame],
) -> DataFrame:
    """The result of `query`, in which the names of `tables` stand for what `read` returns.

    Names that are not among them are those of the session: its own views and tables can take part.
    """
    prepared(spark)
    views: dict[tuple[str, Travel | None], str] = {}

    def view_of(table: str, travel: Travel | None) -> str:
        if (table, travel) not in views:
            view = f"headgate_{uuid.uuid4().hex}"
            read(table, travel).createTempView(view)
            views[table, travel] = view
        return views[table, travel]

    try:
        return spark.sql(rewritten(query, tables, view_of))
    except (AnalysisException, ParseException) as error:
        raise _our_error(str(error), tables) from error
    finally:
        # The plan of the result holds what the views stood for; the names are not needed any more.
        for view in views.values():
            spark.catalog.dropTempView(view)


def require_parses(spark: SparkSession, query: str) -> None:
    """Refuses a text that Spark's parser does not take for a query. Looks at no name and reads nothing."""
    session: Any = spark
    try:
        session._jsparkSession.sessionState().sqlParser().parseQuery(query)
    except ParseException as error:
        raise InvalidInputError(f"Spark cannot read the query: {str(error).strip()}") from error


def _our_error(text: str, tables: Collection[str]) -> HeadgateError:
    missing = _UNKNOWN_TABLE.search(text)
    if missing is None:
        return InvalidInputError(f"Spark cannot run the query: {text.strip()}", "see Spark's SQL reference")
    name = missing["name"].replace("`", "")
    every = f"tables: {', '.join(sorted(tables)) or 'none'}"
    return NotFoundError(f"there is no table {name}", nearest(name, tables) or every)
