"""SQL over the tables of a lake: queries of the user, and queries that the lake stores.

In a query of the user, names of the lake become temporary views during one analysis, and other names are
those of the session. Somebody else may have written a stored query, so it is checked, and can access nothing
but the lake.

Spark's analysis of a query also shows whether the result is deterministic, and whether it is computed row by
row.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.core.input.arguments import nearest
from headgate.core.plans.refresh import Traits
from headgate.core.sql.query import Travel, rewritten
from headgate.core.sql.stored import (
    MAX_PLACES,
    Node,
    Relation,
    harmless_relations,
    places,
    require_readable,
)
from headgate.core.sql.widths import Width, require_narrow, require_small_cubes
from headgate.errors import HeadgateError, InvalidInputError, NotFoundError
from headgate.spark.session import prepared
from headgate.spark.sql.parser import Syntax, reason

_places: WeakKeyDictionary[DataFrame, int] = WeakKeyDictionary()
"""For results of stored queries: the number of relations that Spark has expanded in each."""

_widths: WeakKeyDictionary[DataFrame, Width] = WeakKeyDictionary()
"""For results of stored queries: how wide each can be."""

_UNKNOWN_TABLE = re.compile(r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (?P<name>\S+)")


def run_query(
    spark: SparkSession,
    query: str,
    tables: Collection[str],
    read: Callable[[str, Travel | None], DataFrame],
) -> DataFrame:
    """The result of `query`, in which the names of `tables` refer to the results of `read`.

    Other names are those of the session: its own views and tables can take part.
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
        # The plan of the result contains the plans of the views; their names are no longer needed.
        for view in views.values():
            spark.catalog.dropTempView(view)


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A query that a lake stores, parsed and checked. What was checked is what is run."""

    owner: str
    syntax: Syntax
    tree: Node
    relations: tuple[Relation, ...]

    @classmethod
    def of(cls, spark: SparkSession, owner: str, sql: str) -> StoredQuery:
        """The query of the view `owner`. Raises unless everything in it is known to be harmless."""
        require_readable(owner, sql)
        require_small_cubes(owner, sql)
        syntax = Syntax.of(prepared(spark), sql)
        tree = syntax.tree()
        return cls(owner, syntax, tree, harmless_relations(owner, tree, syntax.case_sensitive))

    def frame(self, read: Callable[[str, Travel | None], DataFrame]) -> DataFrame:
        """The result, in which each relation refers to the result of `read`."""
        self._require_few(lambda _: 1)  # a lower bound, before anything is read
        rows: dict[tuple[str, Travel | None], DataFrame] = {}
        for relation in self.relations:
            name = (relation.table, relation.travel)
            if name not in rows:
                rows[name] = read(*name)
        given = {relation: rows[relation.table, relation.travel] for relation in self.relations}
        size = self._require_few(lambda relation: _places.get(given[relation], 1))
        width = require_narrow(
            self.owner, self.tree, self.syntax.case_sensitive, lambda relation: _width(given[relation])
        )
        try:
            result = self.syntax.frame(self.tree, given)
        except (PySparkException, Py4JJavaError) as error:
            problem = f"Spark cannot run the query of {self.owner}: {reason(error)}"
            raise InvalidInputError(problem, "see Spark's SQL reference") from error
        _places[result], _widths[result] = size, width
        return result

    def _require_few(self, size_of: Callable[[Relation], int]) -> int:
        """The number of relations in the query. Raises before Spark starts to expand too many."""
        size = places(self.tree, self.syntax.case_sensitive, size_of)
        if size > MAX_PLACES:
            raise InvalidInputError(
                f"the query of {self.owner} expands to more than {MAX_PLACES:,} relations, counting those of "
                "the views and parts in it",
                "read a materialized view instead of views on views",
            )
        return size


def _width(rows: DataFrame) -> Width:
    return _widths.get(rows) or Width(len(rows.columns))


def stored_relations(spark: SparkSession, owner: str, sql: str) -> tuple[Relation, ...]:
    """The relations that a stored query reads. Raises unless it is harmless."""
    return StoredQuery.of(spark, owner, sql).relations


def _our_error(text: str, tables: Collection[str]) -> HeadgateError:
    missing = _UNKNOWN_TABLE.search(text)
    if missing is None:
        return InvalidInputError(f"Spark cannot run the query: {text.strip()}", "see Spark's SQL reference")
    name = missing["name"].replace("`", "")
    every = f"tables: {', '.join(sorted(tables)) or 'none'}"
    return NotFoundError(f"there is no table {name}", nearest(name, tables) or every)


ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "View"})
"""The operators that compute each row of the result from one row, independently of other rows."""


def traits_of(query: DataFrame) -> Traits:
    """The traits of an analyzed query whose tables are leaves of its plan. Nothing is executed."""
    frame: Any = query
    plan = frame._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        return Traits(varies="its query uses a function that returns something else each time")
    others = sorted({node.nodeName() for node in _inner(plan)} - ROW_BY_ROW)
    if others:
        return Traits(more_than_rows=f"its query does more than select and compute rows ({others[0]})")
    if not plan.subqueriesAll().isEmpty():
        return Traits(more_than_rows="its query contains a subquery")
    return Traits()


def _inner(plan: Any) -> Iterator[Any]:
    """The operators that have inputs, from the top down."""
    children = plan.children()
    if children.isEmpty():
        return
    yield plan
    for position in range(children.size()):
        yield from _inner(children.apply(position))
