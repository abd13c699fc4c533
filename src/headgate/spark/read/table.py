"""Reads tables as DataFrames."""

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

from headgate.arrow.data_files import read_located, read_rows
from headgate.core.input.arguments import free_name, nearest
from headgate.errors import ConflictError, HeadgateError, InvalidInputError
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.positions import position_columns
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.predicate.spark_text import BUCKET_FUNCTION, to_spark_sql
from headgate.iceberg.scan.planning import PlannedFile
from headgate.log.driver import Driver
from headgate.model.identifiers import TxId
from headgate.spark.fitting import quoted, reordered
from headgate.spark.jobs import unknown_column
from headgate.spark.reach import Way, for_workers, require_hadoop_uri, way_to_read
from headgate.spark.read.native import NativeFiles
from headgate.spark.read.row_locations import Located
from headgate.spark.session import prepared
from headgate.spark.sql.columns import as_column
from headgate.spark.types import FIELD_ID, schema_to_spark
from headgate.spark.write.partitioning import register_bucket
from headgate.storage.capabilities import Store
from headgate.system.host import SYSTEM

TASKS_PER_CORE = 4
"""How many tasks per core an Arrow scan has, so that one large file does not delay the others."""

NESTED_PRUNING = "spark.sql.optimizer.nestedSchemaPruning.enabled"


@dataclass(frozen=True, slots=True)
class Scan:
    """Files of a table, and which rows and columns of them are wanted.

    Rows are selected by `only`, and by `condition`, which only Spark can evaluate. `wanted` are the columns
    of the result, in order. `txid` is the transaction that reads, which may have written some of the files.
    """

    loader: TableLoader
    files: tuple[PlannedFile, ...]
    metadata: TableMetadata
    wanted: Schema
    only: Bound | None = None
    condition: str | Column | None = None
    txid: TxId | None = None

    @property
    def schema(self) -> Schema:
        return self.metadata.schema

    @property
    def store(self) -> Store:
        return self.loader.driver.store

    def frame(self, spark: SparkSession) -> DataFrame:
        """The live rows as a DataFrame; columns are matched by field id.

        Uses Spark's own Parquet reader if its Hadoop client reaches the storage, so that column pruning,
        pushed filters and code generation are Spark's. Otherwise uses Arrow in the Python workers.
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
        """The same rows, each with its location."""
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
        # If all columns are wanted, the locations have these names.
        anew = zip(every.columns(), names, strict=True) if self.wanted != self.schema else ()
        places = [sf.col(column).alias(name) for column, name in anew]
        return Located(self._selected(every.rows, places), *names, every.path, every.shown)

    def _paths(self) -> dict[str, tuple[str, ...]]:
        return {planned.file.path: (planned.file.path,) for planned in self.files}

    def _prepare(self, spark: SparkSession) -> None:
        prepared(spark)
        files = (file for planned in self.files for file in (planned.file, *planned.deletes))
        self.loader.require_data_files({file.path for file in files})
        if self.metadata.renamed_inside:
            # When Spark reads only some nested fields, it ignores their ids and matches them by name. Spark
            # reads the setting when the rows are computed, so it is not reset.
            spark.conf.set(NESTED_PRUNING, "false")

    def _native(self, spark: SparkSession, schema: Schema) -> NativeFiles:
        struct, places = schema_to_spark(schema), position_columns(schema)
        names = {field.name: self._name_in_scan(field) for field in struct.fields}
        root = self.store.uri()
        hadoop_root = require_hadoop_uri(spark, root)
        return NativeFiles(spark, self.loader, hadoop_root, self.files, struct, names, *places)

    def _name_in_scan(self, field: StructField) -> str:
        """The name of a column while Spark reads it: its own name, or one that no file has.

        Spark matches columns by id, but pushes filters down by name. If a file has another column of that
        name, the statistics of that column would decide whether the file is skipped.
        """
        field_id = field.metadata[FIELD_ID]
        if field_id not in self.metadata.renamed_over:
            return field.name
        return free_name(f"headgate_{field_id}", self.metadata.names_ever)

    def _through_arrow(self, spark: SparkSession, schema: Schema, located: bool = False) -> DataFrame:
        count = min(len(self.files), max(1, spark.sparkContext.defaultParallelism) * TASKS_PER_CORE)
        groups = _balanced(self.files, count)
        reading = FileReading(for_workers(self.store), schema, self.only, groups, located, self.txid)
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
    """The selected rows of `rows`, which have `schema`; with the columns of `wanted`, and `more`."""
    if only is not None:
        text = to_spark_sql(only)
        if BUCKET_FUNCTION in text:
            register_bucket(rows.sparkSession)
        rows = rows.where(as_column(rows.sparkSession, text))
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
    """An empty frame with a schema. `createDataFrame` would make an RDD of Python objects first."""
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    return DataFrame(
        session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(struct.json())), spark
    )


def _located_struct(schema: Schema) -> StructType:
    path, position = position_columns(schema)
    return schema_to_spark(schema).add(path, StringType()).add(position, LongType())


def _where(rows: DataFrame, condition: str | Column, known: Sequence[str]) -> DataFrame:
    """The rows that a Spark condition on known columns selects."""
    try:
        wanted = as_column(rows.sparkSession, condition) if isinstance(condition, str) else condition
        return rows.where(wanted)
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
    """Everything a task needs to read its files; it is sent to the workers."""

    store: Store
    schema: Schema
    only: Bound | None
    groups: tuple[tuple[PlannedFile, ...], ...]
    located: bool = False
    txid: TxId | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the groups whose numbers are in the batches."""
        driver = Driver(self.store, SYSTEM)
        loader = TableLoader(driver)
        if self.txid is not None:
            loader = loader.explained(OwnFileMissing(loader, self.txid))
        read = read_located if self.located else read_rows
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file in self.groups[number]:
                    rows = read(driver, loader, [file], self.schema, self.only)
                    kinds = pa.schema([_plain_field(field) for field in rows.schema])
                    yield from (batch.cast(kinds) for batch in rows.to_batches())


@dataclass(frozen=True, slots=True)
class OwnFileMissing:
    """Says in a worker why a file is missing to a transaction. The worker does not know the log.

    Vacuum deletes the files of a transaction that has not committed, but only after it has cancelled it.
    """

    loader: TableLoader
    txid: TxId

    def __call__(self, key: str) -> HeadgateError:
        if self.txid.text not in key:
            return self.loader.missing(key)
        return ConflictError(
            f"{self.loader.uri(key)} is missing, which transaction {self.txid} wrote: a vacuum cancels a "
            "transaction that seems to be dead before it deletes its files, so this one was cancelled",
            "do the work in a new transaction, if it is still needed; commit() says which version cancels it",
        )


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with plain lists instead of large ones, which Spark does not accept from Arrow."""
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
    """The files in `count` groups of about equal size: the largest first, each to the lightest group."""
    groups: list[list[PlannedFile]] = [[] for _ in range(count)]
    weights = [0] * count
    for planned in sorted(files, key=lambda planned: planned.file.size_bytes, reverse=True):
        lightest = weights.index(min(weights))
        groups[lightest].append(planned)
        weights[lightest] += planned.file.size_bytes
    return tuple(tuple(group) for group in groups)


def _named(reading: FileReading) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # `explain` and the Spark UI show the name of the function.
    def headgate_arrow_read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return reading(batches)

    return headgate_arrow_read
