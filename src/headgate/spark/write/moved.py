"""Writes rows that were only moved: in the order in which they come, each with its original location.

Rows belong to numbered groups. All rows of a group belong to one partition of one spec, which may be an old
one, so the partition need not be computed from the files. The three ways to write are those of
`spark.write.table`. In each, a task writes one file per group that it holds, or several if one would become
too long.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headgate.arrow.footers import describe_file_in
from headgate.arrow.origins import ORIGIN_FILE, ORIGIN_FILE_ID, ORIGIN_POSITION, ORIGIN_POSITION_ID
from headgate.errors import InternalError
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Target, new_file
from headgate.iceberg.format.encoding import CODEC, COMPRESSION, FileForm, parquet_writer
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.schema.arrow import data_file, fitted
from headgate.log.driver import Driver
from headgate.spark import fitting
from headgate.spark.fitting import to_be_handed_over
from headgate.spark.reach import Way, hadoop_directory, way_to_write
from headgate.spark.types import has_lists_or_maps
from headgate.spark.write.carried import ENDING, FILE_ROWS_BYTES, TEXT_WRITER, give_names
from headgate.spark.write.native import COMMITTER
from headgate.storage.capabilities import MakeDurable, Store
from headgate.system.host import SYSTEM

NUMBER = "_headgate_file_number"
"""The column with the number of the file that contained a row: far shorter than the file's path."""
GROUP = "headgate_group"
"""The column with the number of a row's group. Not hidden: Spark writes directories that begin with it."""
_GROUP_ID = 2147483000  # never in a file: it names a directory, or is dropped

ROW_GROUP_BYTES = 64 * 1024 * 1024
_IN_GROUP = re.compile(rf"/{GROUP}=(\d+)/")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where rows are written. `likes` has a file of each group, whose spec and partition the new files get.

    `origins` are the paths of the original files, by their numbers. `sort_order_id` is the id of the table's
    order if the rows are in one.
    """

    target: Target
    likes: tuple[DataFile, ...]
    origins: tuple[str, ...]
    target_file_bytes: int
    sort_order_id: int

    @property
    def schema(self) -> Schema:
        return self.target.metadata.schema


def write_moved(to: Destination, rows: DataFrame) -> list[tuple[int, DataFile]]:
    """Writes rows, which have the columns of the table, NUMBER, ORIGIN_POSITION and GROUP, as they come.

    They must be sorted by group within each task. Returns each new file with its group. The files are not
    visible yet.
    """
    match way_to_write(rows.sparkSession, to.target.driver.store, lists_or_maps=has_lists_or_maps(to.schema)):
        case Way.NATIVE:
            return _native(to, rows)
        case Way.CARRIED:
            return _carried(to, rows)
        case Way.ARROW:
            return _through_arrow(to, rows)


def with_origins(rows: DataFrame, to: Destination) -> DataFrame:
    """The rows as they are written: with the path of each row's original file."""
    origin = iceberg.NestedField(ORIGIN_FILE_ID, ORIGIN_FILE, iceberg.StringType(), required=False)
    position = iceberg.NestedField(ORIGIN_POSITION_ID, ORIGIN_POSITION, iceberg.LongType(), required=False)
    group = iceberg.NestedField(_GROUP_ID, GROUP, iceberg.IntegerType(), required=False)
    # As one literal, which takes one call to the JVM: no path contains a control character.
    paths = sf.split(sf.lit("\n".join(to.origins)), "\n")
    # A lookup, not a join: below a join, Spark assumes that the order of rows is irrelevant.
    named = rows.withColumn(ORIGIN_FILE, sf.get(paths, sf.col(NUMBER))).drop(NUMBER)
    return fitting.fitted(named, Schema(*to.schema.fields, origin, position, group), to.target.table)


def _native(to: Destination, rows: DataFrame) -> list[tuple[int, DataFile]]:
    target = to.target
    attempt = target.loader.key(target.new_directory())
    codec = target.metadata.properties.get(CODEC, COMPRESSION)
    options = {"compression": codec, "parquet.statistics.truncate.length": str(2**31 - 1)}
    place = hadoop_directory(rows.sparkSession, target.driver.store, attempt)
    ready = with_origins(rows, to)
    if len(to.likes) == 1:
        # Not by a column: this way the order of rows is kept, whatever Spark makes of it.
        writer = ready.drop(GROUP).write.mode("append").options(**COMMITTER, **options)
        writer.parquet(f"{place}/{GROUP}=0")
    else:
        ready.write.mode("append").options(**COMMITTER, **options).partitionBy(GROUP).parquet(place)
    return _collect(to, attempt)


def _carried(to: Destination, rows: DataFrame) -> list[tuple[int, DataFile]]:
    target = to.target
    attempt = target.loader.key(target.new_directory())
    longest = min(to.target_file_bytes, FILE_ROWS_BYTES)
    encoding = MovedEncoding(
        to.schema, target.table, to.origins, FileForm.of(target.metadata.properties), longest
    )
    files = to_be_handed_over(rows).mapInArrow(_named(encoding), f"file binary, {GROUP} int")
    texts = files.select(sf.col("file").cast("string"), GROUP)
    writer = texts.write.mode("append").options(**COMMITTER, **TEXT_WRITER).partitionBy(GROUP)
    writer.text(hadoop_directory(rows.sparkSession, target.driver.store, attempt))
    give_names(target.driver, attempt)
    return _collect(to, attempt)


def _collect(to: Destination, attempt: str) -> list[tuple[int, DataFile]]:
    """The files in the directory of an attempt, made durable."""
    driver, metadata = to.target.driver, to.target.metadata
    keys = [key for key in driver.keys(f"{attempt}/") if key.endswith(".parquet")]
    if isinstance(driver.store, MakeDurable):
        driver.store.make_durable(keys)
    groups = [_group_of(key) for key in keys]
    files = driver.host.together(
        [
            partial(describe_file_in, driver, metadata, key, to.target.loader.uri(key), to.likes[group])
            for key, group in zip(keys, groups, strict=True)
        ]
    )
    found = [(group, file) for group, file in zip(groups, files, strict=True) if file is not None]
    return [(group, replace(file, sort_order_id=to.sort_order_id)) for group, file in found]


def _group_of(key: str) -> int:
    found = _IN_GROUP.search(key)
    if found is None:
        raise InternalError(f"Spark wrote {key}, which belongs to no group")
    return int(found[1])


def _through_arrow(to: Destination, rows: DataFrame) -> list[tuple[int, DataFile]]:
    target = to.target
    writing = MovedWriting(
        MovedEncoding(
            to.schema, target.table, to.origins, FileForm.of(target.metadata.properties), to.target_file_bytes
        ),
        target.driver.store,
        target.metadata,
        target.new_directory(),
        to.likes,
        to.sort_order_id,
    )
    reports = to_be_handed_over(rows).mapInArrow(_named(writing), "file binary").collect()
    return [pickle.loads(report.file) for report in reports]


_Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _named(work: _Work) -> _Work:
    # `explain` and the Spark UI show the name of the function.
    def headgate_moved_write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(batches)

    return headgate_moved_write


# --- in the workers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MovedEncoding:
    """Everything a task needs to encode files of moved rows; it is sent to the workers."""

    schema: Schema
    table: str
    origins: tuple[str, ...]
    form: FileForm
    target_file_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files of a task, each without its last four bytes, and with its group."""
        for group, data in self.files(batches):
            told = {"file": pa.array([data.removesuffix(ENDING.encode())], pa.binary())}
            yield pa.RecordBatch.from_pydict({**told, GROUP: pa.array([group], pa.int32())})

    def files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        """The bytes of each file, and the number of its group."""
        growing: tuple[int, _Growing] | None = None
        for group, rows in self._by_group(batches):
            if growing is not None and (
                growing[0] != group or growing[1].expected_bytes >= self.target_file_bytes
            ):
                yield growing[0], growing[1].close()
                growing = None
            if growing is None:
                growing = group, _Growing(self.form)
            growing[1].add(rows)
        if growing is not None:
            yield growing[0], growing[1].close()

    def _by_group(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
        paths = pa.array(self.origins, pa.string())
        for batch in batches:
            if not batch.num_rows:
                continue
            *columns, numbers, positions, groups = batch.columns
            table = pa.table(columns, names=[column.name for column in self.schema.fields])
            rows = fitted(table, self.schema, self.table)
            rows = rows.append_column(_origin(ORIGIN_FILE, pa.string(), ORIGIN_FILE_ID), paths.take(numbers))
            rows = rows.append_column(_origin(ORIGIN_POSITION, pa.int64(), ORIGIN_POSITION_ID), positions)
            for start, end in _runs(groups):
                yield groups[start].as_py(), rows.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class MovedWriting:
    """The same, plus where to put the files."""

    encoding: MovedEncoding
    store: Store
    metadata: TableMetadata
    directory: str
    likes: tuple[DataFile, ...]
    sort_order_id: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the rows of a task, and yields a report of each file."""
        driver = Driver(self.store, SYSTEM)
        for group, data in self.encoding.files(batches):
            report = pickle.dumps((group, self._put(driver, self.likes[group], data)))
            yield pa.RecordBatch.from_pydict({"file": pa.array([report], pa.binary())})

    def _put(self, driver: Driver, like: DataFile, data: bytes) -> DataFile:
        name = driver.host.new_txid()
        uri = new_file(self.directory, self.metadata, like.spec_id, like.partition, name)
        driver.put(uri.removeprefix(driver.store.uri() + "/"), data)
        footer = pq.read_metadata(pa.BufferReader(data))
        file = data_file(uri, len(data), footer, like.partition, self.metadata)
        return replace(file, spec_id=like.spec_id, sort_order_id=self.sort_order_id)


@dataclass(slots=True)
class _Growing:
    """A Parquet file in memory that rows are added to."""

    form: FileForm
    out: pa.BufferOutputStream = field(default_factory=pa.BufferOutputStream)
    writer: Any = None
    waiting: list[pa.Table] = field(default_factory=list)
    waiting_bytes: int = 0

    @property
    def expected_bytes(self) -> int:
        return int(self.out.tell())

    def add(self, rows: pa.Table) -> None:
        self.waiting.append(rows)
        self.waiting_bytes += rows.nbytes
        if self.waiting_bytes >= ROW_GROUP_BYTES:
            self._encode()

    def close(self) -> bytes:
        """The whole file."""
        if self.waiting:
            self._encode()
        self.writer.close()
        return bytes(self.out.getvalue())

    def _encode(self) -> None:
        rows = pa.concat_tables(self.waiting)
        if self.writer is None:
            self.writer = parquet_writer(self.out, rows, self.form)
        self.writer.write_table(rows)
        self.waiting, self.waiting_bytes = [], 0


def _origin(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


def _runs(groups: Any) -> Iterator[tuple[int, int]]:
    """The ranges of consecutive rows of one group."""
    numbers = groups.to_numpy(zero_copy_only=False)
    changes: Sequence[int] = [int(place) + 1 for place in np.flatnonzero(np.diff(numbers))]
    yield from zip((0, *changes), (*changes, len(numbers)), strict=True)
