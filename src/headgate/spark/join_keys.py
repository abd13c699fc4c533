"""Which columns of a table a join compares with which of its source, as Spark understands it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def join_keys(joined: DataFrame, table: DataFrame, source: DataFrame) -> dict[str, str]:
    """Columns of `table` that must equal one of `source`, with its name.

    `joined` is a join of the two. Only what stands for itself in a conjunction counts; a column that is
    converted before it is compared does not, but for an integer that is widened.
    """
    plan: Any = joined._jdf.queryExecution().analyzed()
    condition = plan.condition()
    if not condition.isDefined():
        return {}
    sides = [_names(table), _names(source)]
    found: dict[str, str] = {}
    for left, right in _equalities(condition.get()):
        for mine, theirs in ((left, right), (right, left)):
            if mine in sides[0] and theirs in sides[1]:
                found.setdefault(sides[0][mine], sides[1][theirs])
    return found


def _names(rows: DataFrame) -> dict[int, str]:
    """The columns by the number that Spark knows them by."""
    output: Any = rows._jdf.queryExecution().analyzed().output()
    columns = [output.apply(number) for number in range(output.size())]
    return {column.exprId().id(): column.name() for column in columns}


def _equalities(expression: Any) -> list[tuple[int, int]]:
    match expression.nodeName():
        case "And":
            return [*_equalities(expression.left()), *_equalities(expression.right())]
        case "EqualTo":
            left, right = _column(expression.left()), _column(expression.right())
            return [(left, right)] if left is not None and right is not None else []
    return []


def _column(expression: Any) -> int | None:
    """The number of a column that is compared as it is, or as a wider integer."""
    if expression.nodeName() == "Cast" and expression.dataType().simpleString() == "bigint":
        child = expression.child()
        return _column(child) if child.dataType().simpleString() == "int" else None
    return expression.exprId().id() if expression.nodeName() == "AttributeReference" else None
