"""Writes through Arrow inside Spark's Python workers.

Used for what Spark's own writer cannot do: field ids inside lists and maps, and storage that the session's
Hadoop client cannot reach. Each task puts whole files on storage and reports them. Files of failed and
speculative tasks are never reported, so they are never referenced.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from headgate.iceberg.format.data_file import DataFile, Partition
from headgate.iceberg.format.directories import Target, new_file
from headgate.iceberg.format.encoding import FileForm, parquet_writer
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.schema.arrow import data_file, fitted, partitioned, require_partition
from headgate.log.driver import Driver
from headgate.spark.fitting import handed_over, to_be_handed_over
from headgate.spark.reach import for_workers
from headgate.spark.write.layout import WriteLayout
from headgate.spark.write.partitioning import directory_columns
from headgate.storage.capabilities import Store
from headgate.system.host import SYSTEM

ROW_GROUP_BYTES = 64 * 1024 * 1024
BUFFER_BYTES = 256 * 1024 * 1024
"""How much memory a task uses for all partitions before it writes the largest of them."""
REPORT = "file binary"


@dataclass(frozen=True, slots=True)
class FileWriting:
    """Everything a task needs to write files of a table; it is sent to the workers."""

    store: Store
    metadata: TableMetadata
    directory: str
    table: str
    form: FileForm
    target_file_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the rows of a task, and yields a report of each file."""
        files = _Files(self, Driver(self.store, SYSTEM))
        schema, spec = self.metadata.schema, self.metadata.spec
        for batch in batches:
            rows = fitted(handed_over(batch, schema), schema, self.table)
            for partition, part in partitioned(rows, schema, spec):
                files.add(partition, part)
        reports = [pickle.dumps(file) for file in files.finish()]
        yield pa.RecordBatch.from_pydict({"file": pa.array(reports, pa.binary())})


def write(target: Target, df: DataFrame, layout: WriteLayout) -> tuple[DataFile, ...]:
    """Writes the rows of `df`, which fits the table, as new data files. They are not visible yet."""
    metadata = target.metadata
    directories = directory_columns(metadata.schema, metadata.spec)
    rows = layout.distributed(df.withColumns(directories), tuple(directories)).drop(*directories)
    writing = FileWriting(
        for_workers(target.driver.store),
        metadata,
        target.new_directory(),
        target.table,
        FileForm.of(metadata.properties),
        layout.target_file_bytes,
    )
    reports = to_be_handed_over(rows).mapInArrow(_named(writing), REPORT).collect()
    return tuple(pickle.loads(report.file) for report in reports)


def _named(writing: FileWriting) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # `explain` and the Spark UI show the name of the function.
    def headgate_arrow_write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return writing(batches)

    return headgate_arrow_write


@dataclass(slots=True)
class _Open:
    """A file that is being written, in memory."""

    partition: Partition
    out: pa.BufferOutputStream = field(default_factory=pa.BufferOutputStream)
    writer: pq.ParquetWriter | None = None
    waiting: list[pa.Table] = field(default_factory=list)
    waiting_bytes: int = 0


class _Files:
    """The files of one task, one open file per partition."""

    def __init__(self, writing: FileWriting, driver: Driver) -> None:
        self._writing = writing
        self._driver = driver
        self._open: dict[Partition, _Open] = {}
        self._done: list[DataFile] = []

    def add(self, partition: Partition, rows: pa.Table) -> None:
        file = self._open.setdefault(partition, _Open(partition))
        file.waiting.append(rows)
        file.waiting_bytes += rows.nbytes
        if file.waiting_bytes >= ROW_GROUP_BYTES:
            self._write_group(file)
            if file.out.tell() >= self._writing.target_file_bytes:
                self._close(file)
        while self._memory_bytes() > BUFFER_BYTES:
            self._close(max(self._open.values(), key=lambda file: file.waiting_bytes + file.out.tell()))

    def finish(self) -> list[DataFile]:
        for file in list(self._open.values()):
            self._close(file)
        return self._done

    def _memory_bytes(self) -> int:
        return sum(file.waiting_bytes + file.out.tell() for file in self._open.values())

    def _write_group(self, file: _Open) -> None:
        rows = pa.concat_tables(file.waiting)
        if file.writer is None:
            file.writer = parquet_writer(file.out, rows, self._writing.form)
        file.writer.write_table(rows)
        file.waiting, file.waiting_bytes = [], 0

    def _close(self, file: _Open) -> None:
        if file.waiting:
            self._write_group(file)
        assert file.writer is not None
        file.writer.close()
        data, metadata = bytes(file.out.getvalue()), self._writing.metadata
        spec_id, name = metadata.spec.spec_id, self._driver.host.new_txid()
        require_partition(file.partition, metadata)
        uri = new_file(self._writing.directory, metadata, spec_id, file.partition, name)
        self._driver.put(uri.removeprefix(self._driver.store.uri() + "/"), data)
        footer = pq.read_metadata(pa.BufferReader(data))
        self._done.append(data_file(uri, len(data), footer, file.partition, metadata))
        del self._open[file.partition]
