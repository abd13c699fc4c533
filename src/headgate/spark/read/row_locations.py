"""Locations of rows: the data file of each row, and its position in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headgate.errors import InternalError
from headgate.iceberg.format.positions import Positions
from headgate.spark.sql.columns import as_columns

GROUP_POSITIONS = 1 << 20
"""Positions of a file are collected in groups, one Spark row each, of at most this many rows of the file."""

_PATH, _GROUP, _KIND, _POSITION, _POSITIONS, _COUNT = "path", "part", "kind", "position", "positions", "count"


@dataclass(frozen=True, slots=True)
class Located:
    """Rows with the columns `file` and `position`, which come last.

    `file` may contain Spark's own names or numbers. `path` converts them to paths in the manifest, and
    `shown` maps such a path to the possible values of `file`.
    """

    rows: DataFrame
    file: str
    position: str
    path: Callable[[Any], str] = str
    shown: Callable[[], Mapping[str, tuple[Any, ...]]] = dict

    def columns(self) -> tuple[str, str]:
        """The names of the location columns. Both are plain identifiers, in SQL too."""
        return self.file, self.position

    def short(self) -> Located:
        """The same with a number for each file, since its name is often longer than the rest of a row.

        Unchanged if two names would have the same number.
        """
        names = {path: tuple(shown) for path, shown in self.shown().items()}
        numbers = {path: tuple(crc32(name.encode()) for name in shown) for path, shown in names.items()}
        paths = {number: path for path, ours in numbers.items() for number in ours}
        if len(paths) < sum(map(len, names.values())):
            return self

        def path(number: int) -> str:
            if number not in paths:
                raise InternalError(
                    f"Spark reports rows of a file that it was not asked to read: number {number}"
                )
            return paths[number]

        rows = self.rows.withColumn(self.file, sf.crc32(self.file))
        return replace(self, rows=rows, path=path, shown=lambda: numbers)

    def gather(self, found: DataFrame, kind: str = "0") -> Gathered:
        """The locations of found rows, which have the columns of `columns`.

        Each has the kind that `kind`, which is SQL, computes; rows whose kind is null are only counted. Each
        path is sent once for many rows.
        """
        file, position = self.columns()
        *told, positions, count = as_columns(
            found.sparkSession,
            [
                f"{file} AS {_PATH}",
                f"{position} DIV {GROUP_POSITIONS} AS {_GROUP}",
                f"{kind} AS {_KIND}",
                f"{position} AS {_POSITION}",
                f"collect_list(CASE WHEN {_KIND} IS NOT NULL THEN {_POSITION} END) AS {_POSITIONS}",
                f"count(*) AS {_COUNT}",
            ],
        )
        grouped = found.select(*told).groupBy(_PATH, _GROUP, _KIND).agg(positions, count)
        table = grouped.select(_PATH, _KIND, _POSITIONS, _COUNT).toArrow().combine_chunks()
        paths = [self.path(shown) for shown in table.column(_PATH).to_pylist()]
        return Gathered(table.set_column(0, _PATH, pa.array(paths, pa.string())))


class Places(Protocol):
    """The locations of found rows, each with a kind."""

    @property
    def repeated(self) -> bool:
        """Whether any row of a file was found more than once with a kind."""
        ...

    def of(self, kinds: set[int]) -> Positions:
        """The locations of some kinds."""
        ...


@dataclass(frozen=True, slots=True)
class Gathered:
    """Locations of rows, each with a kind: a table of files, kinds, lists of positions, and counts."""

    table: pa.Table

    @property
    def rows(self) -> int:
        """The number of rows, including those without a kind."""
        return int(pc.sum(self.table.column(_COUNT)).as_py() or 0)

    @property
    def repeated(self) -> bool:
        """Whether any row of a file was found more than once with a kind."""
        told = len(pc.list_flatten(self.table.column(_POSITIONS)))
        return told > len(self._positions(self.table))

    def of(self, kinds: set[int]) -> Positions:
        """The locations of some kinds."""
        wanted = pc.is_in(self.table.column(_KIND), pa.array(sorted(kinds), pa.int32()))
        return self._positions(self.table.filter(wanted))

    @staticmethod
    def _positions(table: pa.Table) -> Positions:
        lists = table.column(_POSITIONS)
        encoded = table.column(_PATH).combine_chunks().dictionary_encode()
        numbers = encoded.indices.take(pc.list_parent_indices(lists).combine_chunks())
        paths = pa.DictionaryArray.from_arrays(numbers, encoded.dictionary)
        return Positions.of_columns(paths, pc.list_flatten(lists))
