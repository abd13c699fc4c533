"""SQL expressions as Spark columns, read exactly as they are written.

This is the only module that gives Spark the text of an expression. Spark's own `expr`, `where` and
`selectExpr` use the parser of the session, which first replaces `${…}` by settings and environment variables
of the process, also inside strings and quoted names. A predicate would select other rows, and a name that a
lake contains could copy a secret into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import Column, SparkSession

from headgate.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class _Java:
    """Classes of the JVM: each name in a path to a class costs a call."""

    parser: Any
    utils: Any
    sessions: Any


_KNOWN: WeakKeyDictionary[SparkContext, _Java] = WeakKeyDictionary()


def as_column(spark: SparkSession, sql: str) -> Column:
    """An expression as a column that is not analyzed yet.

    Raises Spark's `ParseException` if it is not SQL, and `InvalidInputError` if it is nested too deeply.
    """
    return as_columns(spark, [sql])[0]


def as_columns(spark: SparkSession, sqls: Sequence[str]) -> list[Column]:
    """The same for several expressions."""
    session: Any = spark
    java, ours = _java(spark), session._jsparkSession
    before = java.sessions.getActiveSession()
    if before.contains(ours):
        return [_parsed(java, sql) for sql in sqls]
    # The settings of the parser are those of the thread's active session.
    java.sessions.setActiveSession(ours)
    try:
        return [_parsed(java, sql) for sql in sqls]
    finally:
        if before.isDefined():
            java.sessions.setActiveSession(before.get())
        else:
            java.sessions.clearActiveSession()


def _parsed(java: _Java, sql: str) -> Column:
    try:
        return Column(java.utils.column(java.parser.parseExpression(sql)))
    except Py4JJavaError as error:
        reason = str(error.java_exception.toString()).strip().split("\n", maxsplit=1)[0]
        raise InvalidInputError(f"Spark cannot read the expression {sql[:80]!r}: {reason}") from error


def _java(spark: SparkSession) -> _Java:
    context: Any = spark.sparkContext
    if context not in _KNOWN:
        sql = context._jvm.org.apache.spark.sql
        _KNOWN[context] = _Java(
            sql.catalyst.parser.CatalystSqlParser(), sql.classic.ExpressionUtils, sql.SparkSession
        )
    return _KNOWN[context]
