"""Rows that a change found or creates, computed once and kept by Spark, and how much memory they take.

Few rows are fetched to this process, which then writes their files itself: planning, starting and committing
a Spark job that writes a file takes longer than encoding a few megabytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import AtomicType

from headgate.errors import InvalidInputError
from headgate.iceberg.format.positions import Positions
from headgate.spark.fitting import nullable_type, quoted, to_be_handed_over
from headgate.spark.reach import Way, wanted_way
from headgate.spark.read.row_locations import Located
from headgate.spark.sql.columns import as_columns
from headgate.spark.types import schema_to_spark

FETCHED_BYTES = 32 * 1024 * 1024
"""Kept rows are fetched if Spark estimates that they take at most this much memory."""
RESULT_SHARE = 4
"""Only this part of Spark's limit on results for the driver is used, because sizes are estimates."""


def is_little(spark: SparkSession, kept: Kept) -> bool:
    """Whether kept rows should be fetched; not if the session asks for Spark's own writer.

    Nor if some of them are on disk, because their size in memory is unknown.
    """
    if kept.size_bytes > FETCHED_BYTES or kept.is_on_disk or wanted_way(spark) is Way.NATIVE:
        return False
    context: Any = spark.sparkContext._jsc
    allowed = int(context.sc().conf().getSizeAsBytes("spark.driver.maxResultSize", "1g"))
    return allowed == 0 or kept.size_bytes <= allowed // RESULT_SHARE


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of a table that a change found, each with its location and its kind.

    `images` has the new values of those rows that `have_images`, in the same order. `met` has the numbers of
    the source rows that matched them.
    """

    paths: pa.Array
    positions: pa.ChunkedArray
    kinds: pa.ChunkedArray
    have_images: pa.ChunkedArray
    images: pa.Table
    met: pa.ChunkedArray

    @property
    def repeated(self) -> bool:
        """Whether any row of the table was found more than once."""
        return len(self.paths) > len(Positions.of_columns(self.paths, self.positions))

    def of(self, kinds: set[int]) -> Positions:
        """The locations of the rows of some kinds."""
        wanted = pc.is_in(self.kinds, pa.array(sorted(kinds), pa.int32()))
        return Positions.of_columns(self.paths.filter(wanted.combine_chunks()), self.positions.filter(wanted))

    def origins(self) -> pa.Array:
        """The paths of the files that contain the rows of `images`."""
        return self.paths.filter(self.have_images.combine_chunks())


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a source, with the columns of the table, and the number of each."""

    numbers: pa.ChunkedArray
    rows: pa.Table

    def without(self, met: pa.ChunkedArray) -> pa.Table:
        """All rows except those with these numbers."""
        return self.rows.filter(pc.invert(pc.is_in(self.numbers, met.combine_chunks())))


def fetch_found(
    located: Located, found: DataFrame, kind: str, image: str | None, schema: Schema, met: str = "NULL"
) -> FoundRows:
    """Fetches rows that were found, which have the columns of `located.columns`; `kind` and `met` are SQL.

    Rows whose `kind` is null are left out, but the source rows that matched them still count. `image` is a
    column with structs that have the columns of `schema`, or null.
    """
    told = (*located.columns(), kind, met, "false" if image is None else f"{image} IS NOT NULL")
    inside = [] if image is None else [f"{image}.*"]
    every, images = _fetch(found, told, inside, schema)
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
    """Fetches all rows of a source whose columns have the names and types of `schema`."""
    told, values = _fetch(rows, (number,), [quoted(field.name) for field in schema.fields], schema)
    return SourceRows(told.column(0), values)


def fetch_images(rows: DataFrame, image: str, schema: Schema) -> pa.Table:
    """Fetches the column `image`, which holds structs with the columns of `schema`."""
    return _fetch(rows, (), [f"{image}.*"], schema)[1]


def _fetch(
    rows: DataFrame, told: Sequence[str], columns: Sequence[str], schema: Schema
) -> tuple[pa.Table, pa.Table]:
    """Fetches `told`, which is SQL, and `columns`, which are those of `schema` if there are any.

    The names of the table's columns do not become part of the SQL: with one setting, Spark reads quoted names
    as patterns.
    """
    selected = to_be_handed_over(rows.select(*as_columns(rows.sparkSession, told), *columns))
    # PySpark does not accept null for a struct whose fields are required.
    nested = {
        f"c{number}": sf.col(f"c{number}").cast(nullable_type(field.dataType))
        for number, field in enumerate(schema_to_spark(schema).fields, len(told))
        if columns and not isinstance(field.dataType, AtomicType)
    }
    try:
        table = (selected.withColumns(nested) if nested else selected).toArrow()
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"the rows do not match their schema: {error}") from error
    values = table.select(range(len(told), table.num_columns))
    names = [field.name for field in schema.fields]
    return table.select(range(len(told))), values.rename_columns(names) if columns else pa.table({})


TASK_BYTES = 64 * 1024 * 1024
"""How much kept data one task gets: a change usually finds few rows, spread over many partitions."""
MAX_TASKS = 2**31 - 1
"""Spark counts tasks in 32 bits. Coalescing to more partitions than exist changes nothing."""
NOBODY_KNOWS = sys.maxsize
PATIENCE_MS = 60_000
"""How long to wait for Spark to report the storage of kept rows. On a busy machine it answers late."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows that were computed, and an estimate of what they take in memory and on the disks of executors.

    Spark keeps them as long as they are referenced. They are never computed again: if a part is lost with an
    executor, jobs that need it fail instead of mixing two results.
    """

    rows: DataFrame
    size_bytes: int
    is_on_disk: bool = False

    @property
    def tasks(self) -> int:
        """The number of tasks for these rows."""
        return min(MAX_TASKS, -(-self.size_bytes // TASK_BYTES) or 1)

    def together(self) -> DataFrame:
        """The rows in one task if they are few: then Spark groups them without an exchange."""
        return self.rows.coalesce(1) if self.tasks == 1 else self.rows


def keep(rows: DataFrame) -> Kept:
    """Computes the rows, now and once."""
    done = rows.localCheckpoint()
    info = _storage(done)
    if info is None:
        return Kept(done, NOBODY_KNOWS)
    on_disk = info.diskUsed()
    return Kept(done, info.memoryUsed() + on_disk, on_disk > 0)


def _storage(rows: DataFrame) -> Any | None:
    """Spark's storage information on computed rows, once it covers all of them; None if it does not."""
    jdf: Any = rows._jdf
    number = jdf.queryExecution().analyzed().rdd().id()
    context: Any = rows.sparkSession.sparkContext._jsc.sc()
    seen = _reported(context, number)
    if seen is None:
        # Reports from executors arrive with a delay: on a busy machine not even the first may be there.
        try:
            context.listenerBus().waitUntilEmpty(PATIENCE_MS)
        except Py4JJavaError:  # too many reports at once
            return None
        seen = _reported(context, number)
    return seen


def _reported(context: Any, number: int) -> Any | None:
    """What has been reported on an RDD; None if that is nothing, or not on all of its partitions."""
    try:
        info = context.statusStore().rdd(number)
    except Py4JJavaError:  # nothing yet
        return None
    return info if info.numCachedPartitions() == info.numPartitions() else None
