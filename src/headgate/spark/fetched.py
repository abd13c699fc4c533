"""Few rows that a change found or makes, in this process, which then writes their files itself.

A job of Spark that writes a file takes longer to be planned, started and committed than a few megabytes take
to be encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import AtomicType

from headgate.iceberg.positions import Positions
from headgate.spark.fitting import nullable_type, quoted
from headgate.spark.kept import Kept
from headgate.spark.places import Located
from headgate.spark.reach import Way, wanted_way
from headgate.spark.types import schema_to_spark

FETCHED_BYTES = 64 * 1024 * 1024
"""What is kept of a change may take so much in memory, and is still fetched."""


def is_little(spark: SparkSession, kept: Kept) -> bool:
    """Whether rows that are kept are to be fetched; not if the session asks for Spark's own writer."""
    return kept.size_bytes <= FETCHED_BYTES and wanted_way(spark) is not Way.NATIVE


@dataclass(frozen=True, slots=True)
class Fetched:
    """Rows of a table that were found: the place of each, and of which kind it is.

    `images` has those that `have_images`, as they are to be, in the same order. `met` are the numbers of the
    rows of a source that they met.
    """

    paths: pa.Array
    positions: pa.ChunkedArray
    kinds: pa.ChunkedArray
    have_images: pa.ChunkedArray
    images: pa.Table
    met: pa.ChunkedArray

    @property
    def repeated(self) -> bool:
        """Whether a row of the table is there more than once."""
        return len(self.paths) > len(Positions.of_columns(self.paths, self.positions))

    def of(self, kinds: set[int]) -> Positions:
        """Where the rows of some kinds are."""
        wanted = pc.is_in(self.kinds, pa.array(sorted(kinds), pa.int32()))
        return Positions.of_columns(self.paths.filter(_one(wanted)), self.positions.filter(wanted))

    def origins(self) -> pa.Array:
        """The paths of the files in which the rows of `images` are."""
        return self.paths.filter(_one(self.have_images))


@dataclass(frozen=True, slots=True)
class FetchedSource:
    """The rows of a source, which have the columns of the table, with the number of each."""

    numbers: pa.ChunkedArray
    rows: pa.Table

    def without(self, met: pa.ChunkedArray) -> pa.Table:
        """The rows but those with these numbers."""
        return self.rows.filter(pc.invert(pc.is_in(self.numbers, _one(met))))


def fetched(
    located: Located, found: DataFrame, kind: str, image: str | None, schema: Schema, met: str = "NULL"
) -> Fetched:
    """Rows that were found, which have the columns of `located.columns`; `kind` and `met` are SQL.

    Those of which `kind` is null are left out, but for the rows that they met. `image` is a struct with the
    columns of `schema`, or null.
    """
    has_image = "false" if image is None else f"{image} IS NOT NULL"
    told = (*located.columns(), kind, met, has_image)
    every = _fetched(found, told, () if image is None else image_columns(image, schema), schema)
    rows = every.filter(every.column(2).is_valid())
    shown, positions, kinds, _, have_images, *images = rows.columns
    encoded = _one(shown).dictionary_encode()
    names = pa.array([located.path(name) for name in encoded.dictionary.to_pylist()], pa.string())
    becoming = rows.select(range(len(told), rows.num_columns)).filter(have_images) if images else pa.table({})
    return Fetched(names.take(encoded.indices), positions, kinds, have_images, becoming, every.column(3))


def fetched_source(rows: DataFrame, number: str, schema: Schema) -> FetchedSource:
    """All rows of a source, which has columns of the same names and types as `schema`."""
    columns = tuple(quoted(field.name) for field in schema.fields)
    numbers, *values = _fetched(rows, (number,), columns, schema).columns
    return FetchedSource(numbers, pa.table(values, names=[field.name for field in schema.fields]))


def fetched_rows(rows: DataFrame, columns: Sequence[str], schema: Schema) -> pa.Table:
    """Rows with `columns`, which are SQL, as those of `schema`."""
    return _fetched(rows, (), columns, schema)


def image_columns(image: str, schema: Schema) -> tuple[str, ...]:
    """The columns inside of a struct, in SQL."""
    return tuple(f"{image}.{quoted(field.name)}" for field in schema.fields)


def _fetched(rows: DataFrame, told: Sequence[str], columns: Sequence[str], schema: Schema) -> pa.Table:
    """What is `told`, and then `columns` under the names of `schema`."""
    named = [f"{text} AS c{number}" for number, text in enumerate((*told, *columns))]
    kinds = schema_to_spark(schema).fields if columns else []
    # PySpark takes no null for a struct whose fields are required.
    nested = {
        f"c{number}": sf.col(f"c{number}").cast(nullable_type(field.dataType))
        for number, field in enumerate(kinds, len(told))
        if not isinstance(field.dataType, AtomicType)
    }
    flat = rows.selectExpr(*named)
    table = (flat.withColumns(nested) if nested else flat).toArrow()
    return table.rename_columns([*table.column_names[: len(told)], *(field.name for field in kinds)])


def _one(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks()
