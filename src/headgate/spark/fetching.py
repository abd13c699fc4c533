"""Few rows that a change found or makes, brought to this process, which then writes their files itself.

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

from headgate.errors import InvalidInputError
from headgate.iceberg.positions import Positions
from headgate.spark.fitting import nullable_type, quoted
from headgate.spark.handing import to_be_handed_over
from headgate.spark.kept import Kept
from headgate.spark.places import Located
from headgate.spark.reach import Way, wanted_way
from headgate.spark.types import schema_to_spark

FETCHED_BYTES = 32 * 1024 * 1024
"""What is kept of a change may take so much in memory, as Spark estimates it, and is still fetched."""
RESULT_SHARE = 4
"""Only so small a part of what Spark lets a job bring to the driver is used: it is an estimate."""


def is_little(spark: SparkSession, kept: Kept) -> bool:
    """Whether rows that are kept are to be fetched; not if the session asks for Spark's own writer.

    Nor if some are on disk: how long they are in memory, nobody knows.
    """
    if kept.size_bytes > FETCHED_BYTES or kept.is_on_disk or wanted_way(spark) is Way.NATIVE:
        return False
    context: Any = spark.sparkContext._jsc
    allowed = int(context.sc().conf().getSizeAsBytes("spark.driver.maxResultSize", "1g"))
    return allowed == 0 or kept.size_bytes <= allowed // RESULT_SHARE


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of a table that a change found: the place of each, and of which kind it is.

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
        return Positions.of_columns(self.paths.filter(wanted.combine_chunks()), self.positions.filter(wanted))

    def origins(self) -> pa.Array:
        """The paths of the files in which the rows of `images` are."""
        return self.paths.filter(self.have_images.combine_chunks())


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a source, which have the columns of the table, with the number of each."""

    numbers: pa.ChunkedArray
    rows: pa.Table

    def without(self, met: pa.ChunkedArray) -> pa.Table:
        """The rows but those with these numbers."""
        return self.rows.filter(pc.invert(pc.is_in(self.numbers, met.combine_chunks())))


def fetch_found(
    located: Located, found: DataFrame, kind: str, image: str | None, schema: Schema, met: str = "NULL"
) -> FoundRows:
    """Rows that were found, which have the columns of `located.columns`; `kind` and `met` are SQL.

    Those of which `kind` is null are left out, but for the rows that they met. `image` is the column with a
    struct that has the columns of `schema`, or null.
    """
    told = (*located.columns(), kind, met, "false" if image is None else f"{image} IS NOT NULL")
    inside = [] if image is None else [f"{image}.*"]
    every, images = _fetched(found, told, inside, schema)
    shown, positions, kinds, numbers_met, have_images = every.columns
    changed = kinds.is_valid()
    encoded = shown.filter(changed).combine_chunks().dictionary_encode()
    names = pa.array([located.path(name) for name in encoded.dictionary.to_pylist()], pa.string())
    becoming = images if image is None else images.filter(pc.and_(changed, have_images))
    return FoundRows(
        names.take(encoded.indices),
        positions.filter(changed),
        kinds.filter(changed),
        have_images.filter(changed),
        becoming,
        numbers_met,
    )


def fetch_source(rows: DataFrame, number: str, schema: Schema) -> SourceRows:
    """All rows of a source, which has columns of the same names and types as `schema`."""
    told, values = _fetched(rows, (number,), [quoted(field.name) for field in schema.fields], schema)
    return SourceRows(told.column(0), values)


def fetch_images(rows: DataFrame, image: str, schema: Schema) -> pa.Table:
    """What stands in the column `image`, a struct that has the columns of `schema`."""
    return _fetched(rows, (), [f"{image}.*"], schema)[1]


def _fetched(
    rows: DataFrame, told: Sequence[str], columns: Sequence[str], schema: Schema
) -> tuple[pa.Table, pa.Table]:
    """What is `told`, which is SQL, and `columns`, which are those of `schema` if there are any.

    Names of the table's columns are not part of SQL here: a setting makes patterns of them.
    """
    selected = to_be_handed_over(rows.select(*map(sf.expr, told), *columns))
    # PySpark takes no null for a struct whose fields are required.
    nested = {
        f"c{number}": sf.col(f"c{number}").cast(nullable_type(field.dataType))
        for number, field in enumerate(schema_to_spark(schema).fields, len(told))
        if columns and not isinstance(field.dataType, AtomicType)
    }
    try:
        table = (selected.withColumns(nested) if nested else selected).toArrow()
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"the rows are not what their schema says: {error}") from error
    values = table.select(range(len(told), table.num_columns))
    names = [field.name for field in schema.fields]
    return table.select(range(len(told))), values.rename_columns(names) if columns else pa.table({})
