"""Reading tables as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.errors import AnalysisException, ParseException, PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from headgate.commit.driver import Driver
from headgate.errors import InvalidInputError
from headgate.host import SYSTEM
from headgate.iceberg.arrow_files import read_rows
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.spark_text import BUCKET_FUNCTION, to_spark_sql
from headgate.spark.fitting import quoted, reordered
from headgate.spark.partitioning import register_bucket
from headgate.spark.reach import Way, require_hadoop_uri, way_to_read
from headgate.spark.session import prepared
from headgate.spark.types import FIELD_ID, schema_to_spark
from headgate.storage.capabilities import Store

TASKS_PER_CORE = 4
"""How many tasks a scan through Arrow has for each core, so that one large file does not hold up the rest."""

NESTED_PRUNING = "spark.sql.optimizer.nestedSchemaPruning.enabled"

_READ_OPTIONS = {
    # The names are those of files, not patterns, and their directories mean nothing.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
}


@dataclass(frozen=True, slots=True)
class Scan:
    """Files of a table, and what is wanted of them.

    `only` selects rows, as does `condition`, which only Spark understands. `wanted` are the columns of the
    result, in their order.
    """

    driver: Driver
    files: tuple[DataFile, ...]
    metadata: TableMetadata
    wanted: Schema
    only: Bound | None = None
    condition: str | Column | None = None

    @property
    def schema(self) -> Schema:
        return self.metadata.schema

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame; columns are found by field id.

        Through Spark's own Parquet reader where its Hadoop client reaches the storage, so that column
        pruning, pushed filters and code generation are Spark's; else through Arrow in the Python workers.
        """
        prepared(spark)
        if self.metadata.renamed_inside:
            # Spark forgets the ids of fields inside when it reads only some of them, and then goes by name.
            # It looks at the setting when the rows are wanted, so it stays.
            spark.conf.set(NESTED_PRUNING, "false")
        if not self.files:
            return spark.createDataFrame([], schema_to_spark(self.wanted))
        match way_to_read(spark, self.driver.store):
            case Way.NATIVE:
                return self._selected(self._native(spark))
            case _ if self.condition is None:
                return _through_arrow(self.driver.store, spark, self.files, self.wanted, self.only)
            case _:
                rows = _through_arrow(self.driver.store, spark, self.files, self.schema, self.only)
                return self._selected(rows)

    def _native(self, spark: SparkSession) -> DataFrame:
        root = self.driver.store.uri()
        hadoop_root = require_hadoop_uri(spark, root)
        paths = [hadoop_root + file.path.removeprefix(root) for file in self.files]
        plain = self.only is None and self.condition is None
        struct = schema_to_spark(self.wanted if plain else self.schema)
        in_files = StructType(
            [StructField(self._name_in_scan(f), f.dataType, f.nullable, f.metadata) for f in struct.fields]
        )
        rows = spark.read.schema(in_files).options(**_READ_OPTIONS).parquet(*paths)
        if in_files.names == struct.names:
            return rows
        named = zip(in_files.names, struct.fields, strict=True)
        return rows.select(*(sf.col(quoted(name)).alias(f.name, metadata=f.metadata) for name, f in named))

    def _name_in_scan(self, field: StructField) -> str:
        """What a column is called while Spark reads it: by its own name, or by one that no file has.

        Spark finds columns by id, but hands filters to the files by name. A file that has another column
        under that name would be passed over by the values of the other one.
        """
        field_id = field.metadata[FIELD_ID]
        if field_id not in self.metadata.renamed_over:
            return field.name
        name = f"headgate_{field_id}"
        while name in self.metadata.names_ever:
            name += "_"
        return name

    def _selected(self, rows: DataFrame) -> DataFrame:
        if self.only is not None:
            text = to_spark_sql(self.only)
            if BUCKET_FUNCTION in text:
                register_bucket(rows.sparkSession)
            rows = rows.where(text)
        if self.condition is not None:
            rows = _where(rows, self.condition)
        if self.wanted == self.schema:
            return rows
        struct = schema_to_spark(self.wanted)
        columns = [
            reordered(sf.col(quoted(field.name)), rows.schema[field.name].dataType, field.dataType).alias(
                field.name, metadata=field.metadata
            )
            for field in struct.fields
        ]
        return rows.select(*columns)


def _where(rows: DataFrame, condition: str | Column) -> DataFrame:
    """The rows that a condition of Spark's own selects."""
    try:
        return rows.where(condition)
    except (AnalysisException, ParseException, PySparkTypeError) as error:
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
    groups: tuple[tuple[DataFile, ...], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the groups whose numbers the batches hold."""
        driver = Driver(self.store, SYSTEM)
        loader = TableLoader(driver)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file in self.groups[number]:
                    rows = read_rows(driver, loader, [file], self.schema, self.only)
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


def _through_arrow(
    store: Store, spark: SparkSession, files: Sequence[DataFile], schema: Schema, only: Bound | None
) -> DataFrame:
    count = min(len(files), max(1, spark.sparkContext.defaultParallelism) * TASKS_PER_CORE)
    reading = FileReading(store, schema, only, _balanced(files, count))
    return spark.range(0, count, 1, count).mapInArrow(_named(reading), schema_to_spark(schema))


def _balanced(files: Sequence[DataFile], count: int) -> tuple[tuple[DataFile, ...], ...]:
    """The files in `count` groups of about the same size: the largest go first, each to the lightest."""
    groups: list[list[DataFile]] = [[] for _ in range(count)]
    weights = [0] * count
    for file in sorted(files, key=lambda file: file.size_bytes, reverse=True):
        lightest = weights.index(min(weights))
        groups[lightest].append(file)
        weights[lightest] += file.size_bytes
    return tuple(tuple(group) for group in groups)


def _named(reading: FileReading) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # The name of the function is what `explain` and the Spark UI show.
    def headgate_arrow_read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return reading(batches)

    return headgate_arrow_read
