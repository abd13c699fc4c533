"""Rewriting files with Spark: rows never pass through the driver.

Small groups are many, and a job for each would take longer than its work: all of them are one job, in which
Python workers rewrite a group each through Arrow. A large group has jobs of its own, in which Spark sorts and
writes. Where the workers do not reach the storage, small groups with the same window are one job of Spark's.
Tables with a type that Spark has not, as UUID, are rewritten by workers alone.
"""

from __future__ import annotations

import heapq
import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby

import pyarrow as pa
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import DoubleType, FloatType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headgate.commit.driver import Driver
from headgate.host import SYSTEM
from headgate.iceberg.arrow import with_nan_counts
from headgate.iceberg.arrow_rewrite import ArrowRewriter
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.origins import ORIGIN_POSITION
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.rewriting import Clustering, Content, RewriteGroup, Rewritten
from headgate.iceberg.target import Target
from headgate.model.identifiers import TxId
from headgate.spark.content import NOTHING, added_up, content_columns, content_of
from headgate.spark.fitting import quoted
from headgate.spark.hadoop import HadoopStore
from headgate.spark.jobs import described, translated
from headgate.spark.kept import TASK_BYTES
from headgate.spark.layout import target_bytes
from headgate.spark.moved_write import GROUP, NUMBER, Destination, write_moved
from headgate.spark.ordering import Ordering, Z, ordering
from headgate.spark.places import Located
from headgate.spark.read import TASKS_PER_CORE, Scan
from headgate.spark.session import prepared
from headgate.spark.types import has_spark_types
from headgate.storage.capabilities import Store

WORKER_BYTES = 32 * 1024 * 1024
"""A group whose files are longer together is not rewritten by one worker, which holds all of it in memory."""
_SHOWN = "_headgate_shown"


@dataclass(frozen=True, slots=True)
class SparkRewriter:
    """A `Rewriter` that is Spark. Groups up to `worker_bytes` are rewritten whole by a worker."""

    spark: SparkSession
    worker_bytes: int = WORKER_BYTES

    def rewritten(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        prepared(self.spark)
        most = self.worker_bytes if has_spark_types(target.metadata.schema) else math.inf
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
        # A job writes into one directory, whose name has the window.
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
            return _Moving(self.spark, into, tuple(groups), clustering).done()

    @contextmanager
    def _doing(self, target: Target, doing: str) -> Iterator[None]:
        """Jobs inside are called so, and their failures are ours."""
        told = described(self.spark, f"headgate: {doing} of {target.table}")
        with told, translated(target.table, "rewrite files"):
            yield


def _bytes_of(group: RewriteGroup) -> int:
    return sum(planned.file.size_bytes for planned in group.files)


def _rows_of(groups: Iterable[RewriteGroup]) -> int:
    return sum(planned.file.record_count for group in groups for planned in group.files)


# --- many small groups ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupRewriting:
    """All that a task must know to rewrite groups; it travels to the workers."""

    store: Store
    metadata: TableMetadata
    txid: TxId
    table: str
    groups: tuple[RewriteGroup, ...]
    tasks: tuple[tuple[int, ...], ...]
    clustering: Clustering | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rewrites the groups of the tasks whose numbers the batches hold, and yields a report of each."""
        driver = Driver(self.store, SYSTEM)
        target = Target(driver, TableLoader(driver), self.metadata, self.txid, self.table, Role.CARRIED)
        for batch in batches:
            for number in (number for task in batch.column(0).to_pylist() for number in self.tasks[task]):
                done = list(ArrowRewriter().rewritten(target, [self.groups[number]], self.clustering))
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

    # The name of the function is what `explain` and the Spark UI show.
    def headgate_arrow_rewrite(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return rewriting(batches)

    reports = spark.range(0, count, 1, count).mapInArrow(headgate_arrow_rewrite, "report binary").collect()
    done = dict(pickle.loads(report.report) for report in reports)
    return [done[number] for number in range(len(groups))]


def _balanced(weights: Sequence[int], count: int) -> tuple[tuple[int, ...], ...]:
    """The numbers of the weights in `count` tasks of about the same weight."""
    tasks: list[list[int]] = [[] for _ in range(count)]
    held = [(0, task) for task in range(count)]
    for number in sorted(range(len(weights)), key=weights.__getitem__, reverse=True):
        weight, task = heapq.heappop(held)
        tasks[task].append(number)
        # A file that is empty takes its time too.
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

    def done(self) -> list[Rewritten]:
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
        """The columns of the table, the number of each row's file, its position there, and its group."""
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
        """The content of each group that has rows: read on its own, to hold the rewrite against it."""
        rows = self._numbered(self._located(self._files))
        found = rows.groupBy(GROUP).agg(*content_columns(self._metadata.schema)).collect()
        return {row[GROUP]: content_of(row) for row in found}

    def _after(self, files: Sequence[DataFile]) -> tuple[dict[str, Content], dict[str, DataFile]]:
        """The content of each new file as it is read back, and the files with the number of NaN in them."""
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

    # --- laying out ---------------------------------------------------------------------------------------

    def _in_files(self) -> DataFrame:
        """The rows in the tasks, and in the order, in which they are written."""
        located = self._located(self._files)
        rows = self._numbered(located)
        order = ordering(self._metadata, self.clustering, rows, _rows_of(self.groups))
        if len(self.groups) > 1:
            return self._many(rows, order)
        size = _bytes_of(self.groups[0])
        count = max(1, round(size / target_bytes(self._metadata.properties)))
        return self._sorted(rows, order, count) if order else self._as_they_are(count)

    def _many(self, rows: DataFrame, order: Ordering) -> DataFrame:
        """Each group in one task, so that it becomes one file; rows of no order stay as they are."""
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
        """Files that follow each other become one, without an exchange of rows.

        Spark reads files in an order of its own; rows that came together are to stay together.
        """
        parts = [
            self._numbered(self._located(part)).coalesce(1).sortWithinPartitions(NUMBER, ORIGIN_POSITION)
            for part in _in_parts(self._files, count)
        ]
        return reduce(DataFrame.unionAll, parts)


def _in_parts(files: Sequence[PlannedFile], count: int) -> Iterator[tuple[PlannedFile, ...]]:
    """The files in their order, in at most `count` parts of about the same size."""
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
