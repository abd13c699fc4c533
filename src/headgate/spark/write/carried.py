"""Encodes with Arrow in the Python workers and lets Spark write the files: lists and maps on HDFS.

Spark's own Parquet writer writes no field ids inside lists and maps, and the Python workers cannot reach
Hadoop file systems. So each worker passes a whole Parquet file to Spark as one row, and Spark's text writer
writes every row to a file of its own: the bytes unchanged, followed by the line separator, which is set to
the four bytes that end a Parquet file. Spark's committer leaves out files of failed and speculative tasks, as
with Spark's own writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headgate.errors import InternalError
from headgate.iceberg.format.data_file import DataFile, Partition
from headgate.iceberg.format.directories import Target
from headgate.iceberg.format.encoding import FileForm, encode_parquet
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.schema.arrow import fitted, partitioned
from headgate.log.driver import Driver
from headgate.spark.fitting import handed_over, to_be_handed_over
from headgate.spark.reach import hadoop_directory
from headgate.spark.write.layout import WriteLayout
from headgate.spark.write.native import COMMITTER, collect_files
from headgate.spark.write.partitioning import directory_columns
from headgate.storage.capabilities import RenameNoReplace

FILE_ROWS_BYTES = 64 * 1024 * 1024
"""How many bytes of rows one file contains: an executor holds the file in memory as one value."""
BUFFER_BYTES = 256 * 1024 * 1024
"""How much memory a task uses for all partitions before it passes on the largest of them."""

ENDING = "PAR1"
_CARRIED = ".txt"
TEXT_WRITER = {"lineSep": ENDING, "compression": "none", "maxRecordsPerFile": "1"}


@dataclass(frozen=True, slots=True)
class FileEncoding:
    """Everything a task needs to encode files of a table; it is sent to the workers."""

    metadata: TableMetadata
    table: str
    form: FileForm

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files of a task, each without its last four bytes."""
        waiting: dict[Partition, list[pa.Table]] = {}
        sizes: dict[Partition, int] = {}
        schema, spec = self.metadata.schema, self.metadata.spec
        for batch in batches:
            rows = fitted(handed_over(batch, schema), schema, self.table)
            for partition, part in partitioned(rows, schema, spec):
                waiting.setdefault(partition, []).append(part)
                sizes[partition] = sizes.get(partition, 0) + part.nbytes
            while sizes and (max(sizes.values()) >= FILE_ROWS_BYTES or sum(sizes.values()) > BUFFER_BYTES):
                largest = max(sizes, key=sizes.__getitem__)
                del sizes[largest]
                yield self._file(waiting.pop(largest))
        for parts in waiting.values():
            yield self._file(parts)

    def _file(self, parts: list[pa.Table]) -> pa.RecordBatch:
        data = encode_parquet(pa.concat_tables(parts), self.form).removesuffix(ENDING.encode())
        return pa.RecordBatch.from_pydict({"file": pa.array([data], pa.binary())})


def write(target: Target, df: DataFrame, layout: WriteLayout) -> tuple[DataFile, ...]:
    """Writes the rows of `df`, which fits the table, as new data files. They are not visible yet."""
    driver, metadata = target.driver, target.metadata
    directories = directory_columns(metadata.schema, metadata.spec)
    rows = layout.distributed(df.withColumns(directories), tuple(directories)).drop(*directories)
    encoding = FileEncoding(metadata, target.table, FileForm.of(metadata.properties))
    files = to_be_handed_over(rows).mapInArrow(_named(encoding), "file binary")
    attempt = target.loader.key(target.new_directory())
    # The cast keeps the bytes unchanged, even if they are not valid text.
    texts = files.select(sf.col("file").cast("string"))
    writer = texts.write.mode("append").options(**COMMITTER, **TEXT_WRITER)
    writer.text(hadoop_directory(df.sparkSession, driver.store, attempt))
    give_names(driver, attempt)
    return collect_files(driver, metadata, attempt)


def _named(encoding: FileEncoding) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # `explain` and the Spark UI show the name of the function.
    def headgate_carried_write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return encoding(batches)

    return headgate_carried_write


def give_names(driver: Driver, attempt: str) -> None:
    """Gives the files their Parquet names."""
    keys = [key for key in driver.keys(f"{attempt}/") if key.endswith(_CARRIED)]
    driver.host.together([partial(_rename, driver, key) for key in keys])


def _rename(driver: Driver, key: str) -> None:
    store = driver.store
    assert isinstance(store, RenameNoReplace), store
    if not store.rename_no_replace(key, f"{key.removesuffix(_CARRIED)}.parquet"):
        raise InternalError(f"{key} could not be renamed, although no other process uses it")
