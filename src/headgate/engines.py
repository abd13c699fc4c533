"""Who finds and changes rows: Spark where a session is active or Spark brings the rows, else this process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headgate.errors import InvalidInputError
from headgate.iceberg.arrow_changes import ArrowChanges, ArrowMerge
from headgate.iceberg.arrow_rewrite import ArrowRewriter
from headgate.iceberg.bound import Bound, InPartitions
from headgate.iceberg.rewriting import Rewriter
from headgate.iceberg.row_change import MergeEngine, RowEngine
from headgate.iceberg.target import Target
from headgate.storage.capabilities import ReachElsewhere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def row_engine(target: Target) -> RowEngine:
    """The engine for a change that brings no rows."""
    spark = active_session(target)
    if spark is None:
        return ArrowChanges(target)
    from headgate.spark.row_changes import SparkChanges  # only those who use Spark need pyspark loaded

    return SparkChanges(target, spark)


def engine_of(target: Target, rows: Any, matching: Bound) -> RowEngine:
    """The engine for an overwrite by `rows` of those that match: the one that the rows belong to."""
    # Sets of partitions have no SQL. Files with other rows beside them are those of older specs.
    if not type(rows).__module__.startswith("pyspark.sql.") or isinstance(matching, InPartitions):
        return ArrowChanges(target)
    from headgate.spark.row_changes import SparkChanges

    return SparkChanges(target, rows.sparkSession)


def merge_engine(target: Target, rows: Any) -> MergeEngine:
    """The engine for rows that are merged into a table: the one that they belong to."""
    if isinstance(rows, pa.Table):
        spark = active_session(target)
        if spark is None:
            return ArrowMerge(target, rows)
        rows = spark.createDataFrame(rows)
    if not type(rows).__module__.startswith("pyspark.sql."):
        raise InvalidInputError(
            f"{target.table}: the rows must be a Spark DataFrame or a pyarrow Table, "
            f"not a {type(rows).__name__}"
        )
    from headgate.spark.merge import merge_of

    return merge_of(target, rows)


def rewriter_for(target: Target, spark: SparkSession | None) -> Rewriter:
    """The engine that writes files of a table anew: Spark if a session is given or active."""
    session = active_session(target) if spark is None else spark
    if session is None:
        return ArrowRewriter()
    from headgate.spark.rewriting import SparkRewriter

    return SparkRewriter(session)


def active_session(target: Target) -> SparkSession | None:
    """The session that this process uses, if Spark can reach the lake; none is started."""
    if "pyspark.sql" not in sys.modules or not isinstance(target.driver.store, ReachElsewhere):
        return None
    from headgate.spark.session import running_session

    return running_session()
