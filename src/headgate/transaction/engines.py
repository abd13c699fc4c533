"""Chooses the engine: Spark if a session is active or the rows come from Spark, otherwise this process.

A table with a type that Spark lacks, such as TIME and UUID, is changed in this process in any case.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headgate.arrow.rewrite import ArrowRewriter
from headgate.arrow.row_changes import ArrowChanges, ArrowMerge
from headgate.core.sql.view_rules import RelationsOf, checked_sql, relations_in_text
from headgate.errors import InvalidInputError
from headgate.iceberg.format.directories import Target
from headgate.iceberg.predicate.bound import Bound, InPartitions
from headgate.iceberg.scan.engine import MergeEngine, Rewriter, RowEngine
from headgate.storage.capabilities import ReachElsewhere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK_TYPES = (
    "the table has columns of types that Spark lacks, so use only what Headgate can compute without Spark "
    "(docs/predicates.md, docs/row-changes.md)"
)


def row_engine(target: Target) -> RowEngine:
    """The engine for a change without new rows."""
    spark = active_session(target)
    if spark is None:
        return ArrowChanges(target)
    if _lacks_types(target):
        return ArrowChanges(target, if_only_spark_can=NO_SPARK_TYPES)
    from headgate.spark.change.row_changes import SparkChanges  # loads pyspark, which only Spark users need

    return SparkChanges(target, spark)


def engine_of(target: Target, rows: Any, matching: Bound) -> RowEngine:
    """The engine for an overwrite of the matching rows by `rows`: the one that `rows` belong to."""
    # Sets of partitions have no SQL. Only files of older specs also contain other rows.
    if not type(rows).__module__.startswith("pyspark.sql.") or isinstance(matching, InPartitions):
        return ArrowChanges(target)
    from headgate.spark.change.row_changes import SparkChanges

    return SparkChanges(target, rows.sparkSession)


def merge_engine(target: Target, rows: Any) -> MergeEngine:
    """The engine for rows that are merged into a table: the one that the rows belong to."""
    if isinstance(rows, pa.Table):
        spark = active_session(target)
        if spark is None:
            return ArrowMerge(target, rows)
        if _lacks_types(target):
            return ArrowMerge(target, rows, if_only_spark_can=NO_SPARK_TYPES)
        rows = spark.createDataFrame(rows)
    if not type(rows).__module__.startswith("pyspark.sql."):
        raise InvalidInputError(
            f"{target.table}: rows must be a Spark DataFrame or a pyarrow Table, not a {type(rows).__name__}"
        )
    from headgate.spark.change.merge import merge_of

    return merge_of(target, rows)


def rewriter_for(target: Target, spark: SparkSession | None) -> Rewriter:
    """The engine that rewrites files of a table: Spark if a session is given or active."""
    session = active_session(target) if spark is None else spark
    if session is None:
        return ArrowRewriter()
    from headgate.spark.change.rewrite import SparkRewriter

    return SparkRewriter(session)


def active_session(target: Target) -> SparkSession | None:
    """The running session of this process, if Spark can reach the lake. Does not start one."""
    return _running_session() if isinstance(target.driver.store, ReachElsewhere) else None


def _lacks_types(target: Target) -> bool:
    """Whether Spark lacks the type of a column. Asked only while a session is active: it loads pyspark."""
    from headgate.spark.types import has_spark_types

    return not has_spark_types(target.metadata.schema)


def relations_finder() -> RelationsOf:
    """A function that finds the relations of a stored query; Spark's parser, which also checks it, if any."""
    spark = _running_session()
    if spark is None:
        return relations_in_text
    from headgate.spark.sql.run import stored_relations

    return partial(stored_relations, spark)


def checked_query(sql: str) -> str:
    """Checks the query of a materialized view: its text and, if a session runs, by Spark's parser."""
    relations_finder()("a materialized view", checked_sql(sql))
    return sql


def _running_session() -> SparkSession | None:
    if "pyspark.sql" not in sys.modules:
        return None
    from headgate.spark.session import running_session

    return running_session()
