"""The order in which Spark puts rows that it moves: that of the table, or that of a clustering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from headgate.iceberg.clustering import SAMPLED_ROWS, order_of, rankings_of
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.rewriting import Clustering
from headgate.iceberg.zorder import Ranking, zorder
from headgate.spark.fitting import quoted
from headgate.spark.layout import in_sort_order, sort_columns

Z = "_headgate_z"
"""The column with the place of a row in a Z-order."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """Columns that rows are sorted by; rows are cut into ranges of the first `cut` of them.

    `numbered` adds what is not there yet.
    """

    by: tuple[Column, ...]
    cut: int
    numbered: Callable[[DataFrame], DataFrame]

    def __bool__(self) -> bool:
        return bool(self.by)

    @property
    def cuts(self) -> tuple[Column, ...]:
        return self.by[: self.cut]


def ordering(metadata: TableMetadata, clustering: Clustering | None, rows: DataFrame, count: int) -> Ordering:
    """The order for `rows`, of which there are about `count`. A Z-order is found from a sample of them."""
    if clustering is None:
        columns = sort_columns(metadata)
        return Ordering(columns, len(columns), _as_they_are)
    columns = in_sort_order(metadata.schema, order_of(clustering, metadata.schema))
    if not clustering.zorder:
        return Ordering(columns, len(columns), _as_they_are)
    names = [sf.col(quoted(name)) for name in clustering.columns]
    sample = rows.select(*names)
    if count > SAMPLED_ROWS:
        sample = sample.sample(SAMPLED_ROWS / count)
    place = _place(rankings_of(sample.toArrow(), clustering))(*names)
    return Ordering((sf.col(Z), *columns), 1, lambda given: given.withColumn(Z, place))


def _as_they_are(rows: DataFrame) -> DataFrame:
    return rows


def _place(rankings: tuple[Ranking, ...]) -> Callable[..., Column]:
    @arrow_udf("bigint")  # type: ignore[untyped-decorator]
    def headgate_zorder(*columns: pa.Array) -> pa.Array:
        return zorder(columns, rankings)

    function: Callable[..., Column] = headgate_zorder
    return function
