"""Rewrites files with Spark: rows never pass through the driver.

Small groups are numerous, and a job for each would take longer than its work. So one job rewrites all of
them: each Python worker rewrites whole groups through Arrow. A large group has jobs of its own, in which
Spark sorts and writes. If the workers cannot reach the storage, one Spark job rewrites all small groups of a
window. Only workers rewrite tables that contain a type unknown to Spark, such as UUID and TIME; if the
workers cannot reach the storage, this process does.

To compare the rows before and after, Spark computes their content in any order: the number of rows, and the
sum of their hashes. Spark's hash skips nulls and does not accept maps. So whether a value is null is hashed
as well, at every depth, and a map is hashed as the list of its entries.

Moved rows are sorted in the order of the table, or in that of a clustering.
"""

from __future__ import annotations

import heapq
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import DoubleType, FloatType
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from headgate.arrow.data_files import target_bytes
from headgate.arrow.origins import ORIGIN_POSITION
from headgate.arrow.rewrite import ArrowRewriter
from headgate.arrow.row_order import SAMPLED_ROWS, order_of, rankings_of
from headgate.arrow.zorder import Ranking, zorder
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Role, Target
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.scan.engine import Clustering, Content, RewriteGroup, Rewritten
from headgate.iceberg.scan.planning import PlannedFile
from headgate.iceberg.schema.arrow import with_nan_counts
from headgate.log.driver import Driver
from headgate.model.identifiers import TxId
from headgate.spark.change.kept_rows import TASK_BYTES
from headgate.spark.fitting import quoted
from headgate.spark.jobs import described, translated
from headgate.spark.read.row_locations import Located
from headgate.spark.read.table import TASKS_PER_CORE, Scan
from headgate.spark.session import prepared
from headgate.spark.store.hadoop import HadoopStore
from headgate.spark.types import has_spark_types, schema_to_spark
from headgate.spark.write.layout import in_sort_order, sort_columns
from headgate.spark.write.moved import GROUP, NUMBER, Destination, write_moved
from headgate.storage.capabilities import Store
from headgate.system.host import SYSTEM

WORKER_BYTES = 32 * 1024 * 1024
"""A group with more bytes is not rewritten by one worker, which would hold all of it in memory."""
_SHOWN = "_headgate_shown"


@dataclass(frozen=True, slots=True)
class SparkRewriter:
    """A `Rewriter` on Spark. A worker rewrites a whole group of up to `worker_bytes`."""

    spark: SparkSession
    worker_bytes: int = WORKER_BYTES

    def rewrite(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        prepared(self.spark)
        by_spark = has_spark_types(target.metadata.schema)
        if not by_spark and isinstance(target.driver.store, HadoopStore):
            # Neither is possible: Spark lacks the type, and the workers cannot reach the storage.
            yield from ArrowRewriter().rewrite(target, groups, clustering)
            return
        most = self.worker_bytes if by_spark else math.inf
        small = [n for n, group in enumerate(groups) if _bytes_of(group) <= most]
        done = dict(zip(small, self._small(target, [groups[n] for n in small], clustering), strict=True))
        for number, group in enumerate(groups):
            if number in done:
                yield done.pop(number)
            else:
                yield from self._by_spark(target, [group], clustering)

    def _small(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> list[Rewritten]:
        if not groups:
            return []
        if not isinstance(target.driver.store, HadoopStore):
            with self._doing(target, f"rewrite {len(groups)} groups of files (Arrow in Python workers)"):
                return _in_workers(self.spark, target, groups, clustering)
        # A job writes into one directory, and its name contains the window.
        by_window = sorted(range(len(groups)), key=lambda n: groups[n].window)
        done: dict[int, Rewritten] = {}
        for _, numbers in groupby(by_window, key=lambda n: groups[n].window):
            alike = list(numbers)
            done |= zip(alike, self._by_spark(target, [groups[n] for n in alike], clustering), strict=True)
        return [done[number] for number in range(len(groups))]

    def _by_spark(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> list[Rewritten]:
        """Rewrites groups of one window together."""
        into = replace(target, role=Role.CARRIED, window=groups[0].window)
        with self._doing(target, f"rewrite {len(groups)} groups of files (Spark)"):
            return _Moving(self.spark, into, tuple(groups), clustering).run()

    @contextmanager
    def _doing(self, target: Target, doing: str) -> Iterator[None]:
        """Describes the jobs inside and translates their failures."""
        told = described(self.spark, f"headgate: {doing} of {target.table}")
        with told, translated(target, "rewrite files"):
            yield


def _bytes_of(group: RewriteGroup) -> int:
    return sum(planned.file.size_bytes for planned in group.files)


def _rows_of(groups: Iterable[RewriteGroup]) -> int:
    return sum(planned.file.record_count for group in groups for planned in group.files)


# --- many small groups ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupRewriting:
    """Everything a task needs to rewrite groups; it is sent to the workers."""

    store: Store
    metadata: TableMetadata
    txid: TxId
    table: str
    groups: tuple[RewriteGroup, ...]
    tasks: tuple[tuple[int, ...], ...]
    clustering: Clustering | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rewrites the groups of the tasks whose numbers are in the batches, and yields a report of each."""
        driver = Driver(self.store, SYSTEM)
        target = Target(driver, TableLoader(driver), self.metadata, self.txid, self.table, Role.CARRIED)
        for batch in batches:
            for number in (number for task in batch.column(0).to_pylist() for number in self.tasks[task]):
                done = list(ArrowRewriter().rewrite(target, [self.groups[number]], self.clustering))
                report = pickle.dumps((number, done[0]))
                yield pa.RecordBatch.from_pydict({"report": pa.array([report], pa.binary())})


def _in_workers(
    spark: SparkSession, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
) -> list[Rewritten]:
    """Rewrites each group in a Python worker."""
    count = min(len(groups), max(1, spark.sparkContext.defaultParallelism) * TASKS_PER_CORE)
    rewriting = GroupRewriting(
        target.driver.store,
        target.metadata,
        target.txid,
        target.table,
        tuple(groups),
        _balanced([_bytes_of(group) for group in groups], count),
        clustering,
    )

    # `explain` and the Spark UI show the name of the function.
    def headgate_arrow_rewrite(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return rewriting(batches)

    reports = spark.range(0, count, 1, count).mapInArrow(headgate_arrow_rewrite, "report binary").collect()
    done = dict(pickle.loads(report.report) for report in reports)
    return [done[number] for number in range(len(groups))]


def _balanced(weights: Sequence[int], count: int) -> tuple[tuple[int, ...], ...]:
    """The indexes of the weights, in `count` tasks of about equal weight."""
    tasks: list[list[int]] = [[] for _ in range(count)]
    held = [(0, task) for task in range(count)]
    for number in sorted(range(len(weights)), key=weights.__getitem__, reverse=True):
        weight, task = heapq.heappop(held)
        tasks[task].append(number)
        # An empty file takes time, too.
        heapq.heappush(held, (weight + weights[number] + 1, task))
    return tuple(map(tuple, tasks))


# --- groups that Spark sorts and writes -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Moving:
    """Groups of one window that are rewritten together."""

    spark: SparkSession
    target: Target
    groups: tuple[RewriteGroup, ...]
    clustering: Clustering | None

    def run(self) -> list[Rewritten]:
        before = self._before()
        written = write_moved(self._destination(), self._in_files())
        after, files = self._after([file for _, file in written])
        by_group: dict[int, list[DataFile]] = {number: [] for number in range(len(self.groups))}
        for number, file in written:
            by_group[number].append(files[file.path])
        return [
            Rewritten(
                tuple(by_group[number]),
                before.get(number, NOTHING),
                added_up(after[file.path] for file in by_group[number]),
            )
            for number in range(len(self.groups))
        ]

    @property
    def _metadata(self) -> TableMetadata:
        return self.target.metadata

    @property
    def _files(self) -> tuple[PlannedFile, ...]:
        return tuple(planned for group in self.groups for planned in group.files)

    def _destination(self) -> Destination:
        return Destination(
            self.target,
            tuple(group.files[0].file for group in self.groups),
            tuple(planned.file.path for planned in self._files),
            target_bytes(self._metadata.properties),
            (self._metadata.sort_order if self.clustering is None else UNSORTED_SORT_ORDER).order_id,
        )

    # --- reading ------------------------------------------------------------------------------------------

    def _located(self, files: Sequence[PlannedFile]) -> Located:
        schema = self._metadata.schema
        return Scan(self.target.loader, tuple(files), self._metadata, schema).located(self.spark)

    def _numbered(self, located: Located) -> DataFrame:
        """The columns of the table, plus the file number, the position and the group of each row."""
        shown = located.shown()
        groups = [number for number, group in enumerate(self.groups) for _ in group.files]
        names = [
            (name, number, groups[number])
            for number, planned in enumerate(self._files)
            for name in shown.get(planned.file.path, ())
        ]
        known = self.spark.createDataFrame(names, f"{_SHOWN} STRING, {NUMBER} INT, {GROUP} INT")
        file, position = map(sf.col, located.columns())
        rows = located.rows.join(sf.broadcast(known), file == sf.col(_SHOWN))
        columns = [sf.col(quoted(field.name)) for field in self._metadata.schema.fields]
        return rows.select(*columns, NUMBER, position.alias(ORIGIN_POSITION), GROUP)

    def _before(self) -> dict[int, Content]:
        """The content of each group that has rows, from a separate read, to verify the rewrite."""
        rows = self._numbered(self._located(self._files))
        found = rows.groupBy(GROUP).agg(*content_columns(self._metadata.schema)).collect()
        return {row[GROUP]: content_of(row) for row in found}

    def _after(self, files: Sequence[DataFile]) -> tuple[dict[str, Content], dict[str, DataFile]]:
        """The content of each new file, read back from storage, and the files with their NaN counts."""
        if not files:
            return {}, {}
        schema = self._metadata.schema
        located = self._located([PlannedFile(file, 0, all_match=False) for file in files])
        floating = [field for field in schema.fields if isinstance(field.field_type, FloatType | DoubleType)]
        nans = [
            sf.count_if(sf.isnan(sf.col(quoted(field.name)))).alias(f"nan{field.field_id}")
            for field in floating
        ]
        shown = sf.col(located.columns()[0]).alias(_SHOWN)
        found = located.rows.groupBy(shown).agg(*content_columns(schema), *nans).collect()
        contents = {located.path(row[_SHOWN]): content_of(row) for row in found}
        counts = {
            located.path(row[_SHOWN]): {field.field_id: row[f"nan{field.field_id}"] for field in floating}
            for row in found
        }
        counted = {file.path: with_nan_counts(file, counts.get(file.path, {})) for file in files}
        return {file.path: contents.get(file.path, NOTHING) for file in files}, counted

    # --- layout ---------------------------------------------------------------------------------------------

    def _in_files(self) -> DataFrame:
        """The rows, distributed to tasks and sorted as they are to be written."""
        located = self._located(self._files)
        rows = self._numbered(located)
        order = ordering(self._metadata, self.clustering, rows, _rows_of(self.groups))
        if len(self.groups) > 1:
            return self._many(rows, order)
        size = _bytes_of(self.groups[0])
        count = max(1, round(size / target_bytes(self._metadata.properties)))
        return self._sorted(rows, order, count) if order else self._as_they_are(count)

    def _many(self, rows: DataFrame, order: Ordering) -> DataFrame:
        """Each group in one task, so that it becomes one file; without an order, rows stay as they are."""
        size = sum(map(_bytes_of, self.groups))
        least = min(len(self.groups), self.spark.sparkContext.defaultParallelism)
        tasks = max(least, -(-size // TASK_BYTES))
        by = order.by or (sf.col(NUMBER), sf.col(ORIGIN_POSITION))
        placed = order.numbered(rows).repartition(tasks, GROUP).sortWithinPartitions(GROUP, *by)
        return placed.drop(Z)

    def _sorted(self, rows: DataFrame, order: Ordering, count: int) -> DataFrame:
        numbered = order.numbered(rows)
        cut = numbered.repartitionByRange(count, *order.cuts) if count > 1 else numbered.coalesce(1)
        return cut.sortWithinPartitions(*order.by).drop(Z)

    def _as_they_are(self, count: int) -> DataFrame:
        """Combines consecutive files into one, without an exchange of rows.

        Spark reads files in an order of its own; rows that were written together should stay together.
        """
        parts = [
            self._numbered(self._located(part)).coalesce(1).sortWithinPartitions(NUMBER, ORIGIN_POSITION)
            for part in _in_parts(self._files, count)
        ]
        return reduce(DataFrame.unionAll, parts)


def _in_parts(files: Sequence[PlannedFile], count: int) -> Iterator[tuple[PlannedFile, ...]]:
    """The files in order, in at most `count` parts of about equal size."""
    total = sum(planned.file.size_bytes for planned in files)
    part: list[PlannedFile] = []
    passed = cut = 0
    for planned in files:
        part.append(planned)
        passed += planned.file.size_bytes
        if passed * count >= total * (cut + 1):
            yield tuple(part)
            part, cut = [], passed * count // max(1, total)
    if part:
        yield tuple(part)


ROWS, LOW, HIGH = "rows", "low", "high"
_HALF_BITS = 32
_LOW_HALF = 2**_HALF_BITS - 1
_ALL = 2**64 - 1
NOTHING = Content(0, 0)


def content_columns(schema: Schema) -> list[Column]:
    """The aggregates from which `content_of` computes the content of a group's rows.

    The halves of the hashes are summed separately, because the sum of whole hashes overflows Spark's numbers.
    """
    hashed = sf.xxhash64(*_parts(schema_to_spark(schema)))
    return [
        sf.count("*").alias(ROWS),
        sf.sum(hashed.bitwiseAND(sf.lit(_LOW_HALF))).alias(LOW),
        sf.sum(sf.shiftrightunsigned(hashed, _HALF_BITS)).alias(HIGH),
    ]


def content_of(found: Row) -> Content:
    """The content from a row with the columns of `content_columns`."""
    return Content(found[ROWS], (found[LOW] + (found[HIGH] << _HALF_BITS)) & _ALL)


def added_up(contents: Iterable[Content]) -> Content:
    """The content of all rows together."""
    every = list(contents)
    return Content(sum(one.rows for one in every), sum(one.hash for one in every) & _ALL)


def _parts(struct: spark.StructType) -> list[Column]:
    return [
        part
        for field in struct.fields
        for part in _value_and_null(sf.col(quoted(field.name)), field.dataType)
    ]


def _value_and_null(value: Column, kind: spark.DataType) -> list[Column]:
    """A value, and whether it is null."""
    return [value.isNull(), _hashable(value, kind)]


def _hashable(value: Column, kind: spark.DataType) -> Column:
    match kind:
        case spark.StructType():
            inside = [
                part for field in kind.fields for part in _value_and_null(value[field.name], field.dataType)
            ]
            return sf.struct(*(part.alias(f"p{number}") for number, part in enumerate(inside)))
        case spark.ArrayType():
            return sf.transform(value, lambda element: _pair(element, kind.elementType))
        case spark.MapType():
            entries = spark.StructType().add("key", kind.keyType).add("value", kind.valueType)
            return sf.transform(sf.map_entries(value), lambda entry: _pair(entry, entries))
    return value


def _pair(value: Column, kind: spark.DataType) -> Column:
    return sf.struct(*(part.alias(f"p{number}") for number, part in enumerate(_value_and_null(value, kind))))


Z = "_headgate_z"
"""The column with the position of a row in the Z-order."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """Columns to sort by. Rows are split into ranges of the first `cut` columns.

    `numbered` adds the columns that do not exist yet.
    """

    by: tuple[Column, ...]
    cut: int
    numbered: Callable[[DataFrame], DataFrame]

    def __bool__(self) -> bool:
        return bool(self.by)

    @property
    def cuts(self) -> tuple[Column, ...]:
        return self.by[: self.cut]


def ordering(metadata: TableMetadata, clustering: Clustering | None, rows: DataFrame, count: int) -> Ordering:
    """The order for about `count` rows. The ranges of a Z-order are computed from a sample of them."""
    if clustering is None:
        columns = sort_columns(metadata)
        return Ordering(columns, len(columns), _as_they_are)
    columns = in_sort_order(metadata.schema, order_of(clustering, metadata.schema))
    if not clustering.zorder:
        return Ordering(columns, len(columns), _as_they_are)
    names = [sf.col(quoted(name)) for name in clustering.columns]
    sample = rows.select(*names)
    if count > SAMPLED_ROWS:
        sample = sample.sample(SAMPLED_ROWS / count)
    place = _place(rankings_of(sample.toArrow(), clustering))(*names)
    return Ordering((sf.col(Z), *columns), 1, lambda given: given.withColumn(Z, place))


def _as_they_are(rows: DataFrame) -> DataFrame:
    return rows


def _place(rankings: tuple[Ranking, ...]) -> Callable[..., Column]:
    @arrow_udf("bigint")  # type: ignore[untyped-decorator]
    def headgate_zorder(*columns: pa.Array) -> pa.Array:
        return zorder(columns, rankings)

    function: Callable[..., Column] = headgate_zorder
    return function
