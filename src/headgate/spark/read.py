"""Reading tables as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.errors import AnalysisException, ParseException, PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headgate.commit.driver import Driver
from headgate.core.lookup import free_name, nearest
from headgate.errors import InvalidInputError
from headgate.host import SYSTEM
from headgate.iceberg.arrow_files import read_located, read_rows
from headgate.iceberg.bound import Bound
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.positions import position_columns
from headgate.iceberg.spark_text import BUCKET_FUNCTION, to_spark_sql
from headgate.spark.fitting import quoted, reordered
from headgate.spark.jobs import unknown_column
from headgate.spark.native_read import NativeFiles
from headgate.spark.partitioning import register_bucket
from headgate.spark.places import Located
from headgate.spark.reach import Way, for_workers, require_hadoop_uri, way_to_read
from headgate.spark.session import prepared
from headgate.spark.types import FIELD_ID, schema_to_spark
from headgate.storage.capabilities import Store

TASKS_PER_CORE = 4
"""How many tasks a scan through Arrow has for each core, so that one large file does not hold up the rest."""

NESTED_PRUNING = "spark.sql.optimizer.nestedSchemaPruning.enabled"


@dataclass(frozen=True, slots=True)
class Scan:
    """Files of a table, and what is wanted of them.

    `only` selects rows, as does `condition`, which only Spark understands. `wanted` are the columns of the
    result, in their order.
    """

    loader: TableLoader
    files: tuple[PlannedFile, ...]
    metadata: TableMetadata
    wanted: Schema
    only: Bound | None = None
    condition: str | Column | None = None

    @property
    def schema(self) -> Schema:
        return self.metadata.schema

    @property
    def store(self) -> Store:
        return self.loader.driver.store

    def frame(self, spark: SparkSession) -> DataFrame:
        """The live rows as a DataFrame; columns are found by field id.

        Through Spark's own Parquet reader where its Hadoop client reaches the storage, so that column
        pruning, pushed filters and code generation are Spark's; else through Arrow in the Python workers.
        """
        self._prepare(spark)
        if not self.files:
            return no_rows(spark, schema_to_spark(self.wanted))
        plain = self.only is None and self.condition is None
        match way_to_read(spark, self.store):
            case Way.NATIVE:
                return self._selected(self._native(spark, self.wanted if plain else self.schema).rows())
            case _ if self.condition is None:
                return self._through_arrow(spark, self.wanted)
            case _:
                return self._selected(self._through_arrow(spark, self.schema))

    def located(self, spark: SparkSession) -> Located:
        """The same rows, each with its place."""
        self._prepare(spark)
        names = position_columns(self.wanted)
        if not self.files:
            return Located(no_rows(spark, _located_struct(self.wanted)), *names)
        match way_to_read(spark, self.store):
            case Way.NATIVE:
                every = self._native(spark, self.schema).located()
            case _:
                rows = self._through_arrow(spark, self.schema, located=True)
                every = Located(rows, *position_columns(self.schema), shown=self._paths)
        # If all columns are wanted, the places are there under these names.
        anew = zip(every.columns(), names, strict=True) if self.wanted != self.schema else ()
        places = [sf.col(column).alias(name) for column, name in anew]
        return Located(self._selected(every.rows, places), *names, every.path, every.shown)

    def _paths(self) -> dict[str, tuple[str, ...]]:
        return {planned.file.path: (planned.file.path,) for planned in self.files}

    def _prepare(self, spark: SparkSession) -> None:
        prepared(spark)
        if self.metadata.renamed_inside:
            # Spark forgets the ids of fields inside when it reads only some of them, and then goes by name.
            # It looks at the setting when the rows are wanted, so it stays.
            spark.conf.set(NESTED_PRUNING, "false")

    def _native(self, spark: SparkSession, schema: Schema) -> NativeFiles:
        struct, places = schema_to_spark(schema), position_columns(schema)
        names = {field.name: self._name_in_scan(field) for field in struct.fields}
        root = self.store.uri()
        hadoop_root = require_hadoop_uri(spark, root)
        return NativeFiles(spark, self.loader, hadoop_root, self.files, struct, names, *places)

    def _name_in_scan(self, field: StructField) -> str:
        """What a column is called while Spark reads it: by its own name, or by one that no file has.

        Spark finds columns by id, but hands filters to the files by name. A file that has another column
        under that name would be passed over by the values of the other one.
        """
        field_id = field.metadata[FIELD_ID]
        if field_id not in self.metadata.renamed_over:
            return field.name
        return free_name(f"headgate_{field_id}", self.metadata.names_ever)

    def _through_arrow(self, spark: SparkSession, schema: Schema, located: bool = False) -> DataFrame:
        count = min(len(self.files), max(1, spark.sparkContext.defaultParallelism) * TASKS_PER_CORE)
        groups = _balanced(self.files, count)
        reading = FileReading(for_workers(self.store), schema, self.only, groups, located)
        struct = _located_struct(schema) if located else schema_to_spark(schema)
        return spark.range(0, count, 1, count).mapInArrow(_named(reading), struct)

    def _selected(self, rows: DataFrame, more: Sequence[Column] = ()) -> DataFrame:
        return selected_rows(rows, self.schema, self.wanted, self.only, self.condition, more)


def selected_rows(
    rows: DataFrame,
    schema: Schema,
    wanted: Schema,
    only: Bound | None,
    condition: str | Column | None,
    more: Sequence[Column] = (),
) -> DataFrame:
    """Those of `rows`, which have `schema`, that are selected; the columns of `wanted`, and `more`."""
    if only is not None:
        text = to_spark_sql(only)
        if BUCKET_FUNCTION in text:
            register_bucket(rows.sparkSession)
        rows = rows.where(text)
    if condition is not None:
        rows = _where(rows, condition, schema_to_spark(schema).names)
    if wanted == schema and not more:
        return rows
    struct = schema_to_spark(wanted)
    columns = [
        reordered(sf.col(quoted(field.name)), rows.schema[field.name].dataType, field.dataType).alias(
            field.name, metadata=field.metadata
        )
        for field in struct.fields
    ]
    return rows.select(*columns, *more)


def no_rows(spark: SparkSession, struct: StructType) -> DataFrame:
    """None, of a schema. Not by `createDataFrame`, which makes an RDD of Python objects first."""
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    return DataFrame(
        session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(struct.json())), spark
    )


def _located_struct(schema: Schema) -> StructType:
    path, position = position_columns(schema)
    return schema_to_spark(schema).add(path, StringType()).add(position, LongType())


def _where(rows: DataFrame, condition: str | Column, known: Sequence[str]) -> DataFrame:
    """The rows that a condition of Spark's own selects, which speaks of columns that are known."""
    try:
        return rows.where(condition)
    except (AnalysisException, ParseException, PySparkTypeError) as error:
        name = unknown_column(str(error))
        if name is not None:
            raise InvalidInputError(f"there is no column {name}", nearest(name, known)) from error
        reason = str(error).strip().split("\n", maxsplit=1)[0]
        raise InvalidInputError(
            f"neither Headgate nor Spark understands the condition {condition!r}: {reason}",
            "see docs/predicates.md, or Spark's SQL reference",
        ) from error


# --- Arrow in the workers ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileReading:
    """All that a task must know to read its files; it travels to the workers."""

    store: Store
    schema: Schema
    only: Bound | None
    groups: tuple[tuple[PlannedFile, ...], ...]
    located: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the groups whose numbers the batches hold."""
        driver = Driver(self.store, SYSTEM)
        loader = TableLoader(driver)
        read = read_located if self.located else read_rows
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file in self.groups[number]:
                    rows = read(driver, loader, [file], self.schema, self.only)
                    kinds = pa.schema([_plain_field(field) for field in rows.schema])
                    yield from (batch.cast(kinds) for batch in rows.to_batches())


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with plain lists for large ones, which Spark does not take from Arrow."""
    if pa.types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain(field.type))


def _balanced(files: Sequence[PlannedFile], count: int) -> tuple[tuple[PlannedFile, ...], ...]:
    """The files in `count` groups of about the same size: the largest go first, each to the lightest."""
    groups: list[list[PlannedFile]] = [[] for _ in range(count)]
    weights = [0] * count
    for planned in sorted(files, key=lambda planned: planned.file.size_bytes, reverse=True):
        lightest = weights.index(min(weights))
        groups[lightest].append(planned)
        weights[lightest] += planned.file.size_bytes
    return tuple(tuple(group) for group in groups)


def _named(reading: FileReading) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # The name of the function is what `explain` and the Spark UI show.
    def headgate_arrow_read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return reading(batches)

    return headgate_arrow_read
