"""Reading tables as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame, SparkSession

from headgate.commit.driver import Driver
from headgate.errors import UnsupportedError
from headgate.host import SYSTEM
from headgate.iceberg.arrow_files import read_rows
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.loader import TableLoader
from headgate.spark.reach import Way, hadoop_uri, require_hadoop_uri, wanted_way
from headgate.spark.session import prepared
from headgate.spark.types import schema_to_spark
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore

TASKS_PER_CORE = 4
"""How many tasks a scan through Arrow has for each core, so that one large file does not hold up the rest."""

_READ_OPTIONS = {
    # The names are those of files, not patterns, and their directories mean nothing.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
}


def read_files(driver: Driver, spark: SparkSession, files: Sequence[DataFile], schema: Schema) -> DataFrame:
    """The rows of `files` as a DataFrame with the columns of `schema`, found by field id.

    Through Spark's own Parquet reader where its Hadoop client reaches the storage, so that column pruning,
    pushed filters and code generation are Spark's; else through Arrow in the Python workers.
    """
    prepared(spark)
    struct = schema_to_spark(schema)
    if not files:
        return spark.createDataFrame([], struct)
    match _choose_way(spark, driver.store):
        case Way.NATIVE:
            root, hadoop_root = driver.store.uri(), require_hadoop_uri(spark, driver.store.uri())
            paths = [hadoop_root + file.path.removeprefix(root) for file in files]
            return spark.read.schema(struct).options(**_READ_OPTIONS).parquet(*paths)
        case Way.ARROW:
            return _through_arrow(driver.store, spark, files, schema)


def _choose_way(spark: SparkSession, store: Store) -> Way:
    if isinstance(store, MemoryStore):
        raise UnsupportedError("Spark cannot reach a lake in memory", "use read_arrow, or a lake on a disk")
    wanted = wanted_way(spark)
    if wanted is not None:
        return wanted
    return Way.ARROW if hadoop_uri(spark, store.uri()) is None else Way.NATIVE


# --- Arrow in the workers ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileReading:
    """All that a task must know to read its files; it travels to the workers."""

    store: Store
    schema: Schema
    groups: tuple[tuple[DataFile, ...], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the groups whose numbers the batches hold."""
        driver = Driver(self.store, SYSTEM)
        loader = TableLoader(driver)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file in self.groups[number]:
                    yield from read_rows(driver, loader, [file], self.schema).to_batches()


def _through_arrow(store: Store, spark: SparkSession, files: Sequence[DataFile], schema: Schema) -> DataFrame:
    count = min(len(files), max(1, spark.sparkContext.defaultParallelism) * TASKS_PER_CORE)
    reading = FileReading(store, schema, _balanced(files, count))
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
