"""Where rows are: the data file of each, and its position there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headgate.iceberg.positions import Positions
from headgate.spark.fitting import quoted

GROUP_POSITIONS = 1 << 20
"""The positions of a file travel in groups, each a row of Spark: of so many rows of the file at most."""

_PATH, _GROUP, _KIND, _POSITIONS, _COUNT = "path", "group", "kind", "positions", "count"


@dataclass(frozen=True, slots=True)
class Located:
    """Rows with the columns `file` and `position`, which come last.

    What stands in `file` may be a name of Spark's own; `path` makes of it what the manifest has, and `shown`
    has, by that, the names that may stand there.
    """

    rows: DataFrame
    file: str
    position: str
    path: Callable[[str], str] = str
    shown: Callable[[], Mapping[str, tuple[str, ...]]] = dict

    def columns(self) -> list[Column]:
        """The place of each row."""
        return [sf.col(quoted(self.file)), sf.col(quoted(self.position))]

    def gathered(self, found: DataFrame, kind: Column | None = None) -> Gathered:
        """The places of rows that were found, which have the columns of `columns`.

        Each counts as one of `kind`; rows of which it is null are only counted. Each path travels once for
        many rows.
        """
        number = sf.lit(0) if kind is None else kind
        file, position = self.columns()
        grouped = found.groupBy(
            file.alias(_PATH), (position / GROUP_POSITIONS).cast("int").alias(_GROUP), number.alias(_KIND)
        ).agg(
            sf.collect_list(sf.when(number.isNotNull(), position)).alias(_POSITIONS),
            sf.count("*").alias(_COUNT),
        )
        table = grouped.select(_PATH, _KIND, _POSITIONS, _COUNT).toArrow().combine_chunks()
        paths = [self.path(shown) for shown in table.column(_PATH).to_pylist()]
        return Gathered(table.set_column(0, _PATH, pa.array(paths, pa.string())))


@dataclass(frozen=True, slots=True)
class Gathered:
    """Places of rows, each of a kind: a table of files, kinds, lists of positions, and counts."""

    table: pa.Table

    @property
    def rows(self) -> int:
        """How many rows there were, with those of no kind."""
        return int(pc.sum(self.table.column(_COUNT)).as_py() or 0)

    @property
    def repeated(self) -> bool:
        """Whether a row of a file is there more than once, with a kind."""
        told = len(pc.list_flatten(self.table.column(_POSITIONS)))
        return told > len(self._positions(self.table))

    def of(self, kinds: set[int]) -> Positions:
        """Those of some kinds."""
        wanted = pc.is_in(self.table.column(_KIND), pa.array(sorted(kinds), pa.int32()))
        return self._positions(self.table.filter(wanted))

    @staticmethod
    def _positions(table: pa.Table) -> Positions:
        lists = table.column(_POSITIONS)
        encoded = table.column(_PATH).combine_chunks().dictionary_encode()
        numbers = encoded.indices.take(pc.list_parent_indices(lists).combine_chunks())
        paths = pa.DictionaryArray.from_arrays(numbers, encoded.dictionary)
        return Positions.of_columns(paths, pc.list_flatten(lists))
