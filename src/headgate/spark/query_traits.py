"""What Spark's analysis of a query tells: whether it gives the same rows again, and works row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from headgate.core.refresh_plan import Traits

ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "View"})
"""The operators that make each row of the result from one row, whatever other rows there are."""


def traits_of(query: DataFrame) -> Traits:
    """The traits of a query that is analyzed, and whose tables are leaves of its plan. Nothing is run."""
    frame: Any = query
    plan = frame._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        return Traits(varies="its query has a function that gives something else each time")
    others = sorted({node.nodeName() for node in _inner(plan)} - ROW_BY_ROW)
    if others:
        return Traits(more_than_rows=f"its query does more than to select and compute rows ({others[0]})")
    if not plan.subqueriesAll().isEmpty():
        return Traits(more_than_rows="its query has a query inside")
    return Traits()


def _inner(plan: Any) -> Iterator[Any]:
    """The operators that have inputs, from the top down."""
    children = plan.children()
    if children.isEmpty():
        return
    yield plan
    for position in range(children.size()):
        yield from _inner(children.apply(position))
