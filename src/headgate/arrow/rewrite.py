"""Merges files through Arrow, in this process: for tables whose groups of files fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from headgate.arrow.content import content_of, total
from headgate.arrow.data_files import read_located, read_rows, target_bytes
from headgate.arrow.origins import with_origins
from headgate.arrow.row_order import clustered, in_order
from headgate.core.compaction.eligible import ENOUGH_SHARE
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Target, new_file
from headgate.iceberg.format.encoding import FileForm, encode_parquet
from headgate.iceberg.scan.engine import Clustering, Content, RewriteGroup, Rewritten
from headgate.iceberg.scan.planning import PlannedFile
from headgate.iceberg.schema.arrow import data_file, footer_of, nan_counts, with_nan_counts

FRAMES = 4
"""A new file is at least this many times as long as one without rows."""


class ArrowRewriter:
    """A `Rewriter` without a JVM."""

    def rewrite(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        """One group after the other, so one at a time is in memory. New files are read back for `after`."""
        for group in groups:
            yield _rewrite_group(target, group, clustering)


def _rewrite_group(target: Target, group: RewriteGroup, clustering: Clustering | None) -> Rewritten:
    schema = target.metadata.schema
    located = read_located(target.driver, target.loader, group.files, schema)
    before = content_of(located.select([field.name for field in schema.fields]))
    rows, order_id = _ordered(target, with_origins(located, schema, target.table), clustering)
    writing = _Writing(target, group, order_id)
    files = tuple(writing.files(rows))
    return Rewritten(files, before, total(_read_back(target, file) for file in files))


def _ordered(target: Target, rows: pa.Table, clustering: Clustering | None) -> tuple[pa.Table, int]:
    """The sorted rows, and the id of the order; a clustering has the id of no order."""
    schema, order = target.metadata.schema, target.metadata.sort_order
    if clustering is None:
        return (rows if order.is_unsorted else in_order(rows, schema, order)), order.order_id
    return clustered(rows, schema, clustering), UNSORTED_SORT_ORDER.order_id


def _read_back(target: Target, file: DataFile) -> Content:
    stored = PlannedFile(file, 0, all_match=False)
    return content_of(read_rows(target.driver, target.loader, [stored], target.metadata.schema))


@dataclass(frozen=True, slots=True)
class _Writing:
    """New files of one group, in the partition of its files."""

    target: Target
    group: RewriteGroup
    order_id: int

    def files(self, rows: pa.Table) -> Iterator[DataFile]:
        """Writes the rows in order, into files of about the target size. They are not visible yet."""
        if not rows.num_rows:
            return
        directory = replace(self.target, window=self.group.window).new_directory()
        properties = self.target.metadata.properties
        form = FileForm.of(properties)
        for part, data in _encoded(rows, self._row_bytes(), target_bytes(properties), form):
            yield self._put(directory, part, data)

    def _row_bytes(self) -> float:
        """The size of a row in the existing files: rows in the new files are similar, and mostly shorter."""
        files = [planned.file for planned in self.group.files]
        return sum(file.size_bytes for file in files) / max(1, sum(file.record_count for file in files))

    def _put(self, directory: str, rows: pa.Table, data: bytes) -> DataFile:
        target, like = self.target, self.group.files[0].file
        name = target.driver.host.new_txid()
        uri = new_file(directory, target.metadata, like.spec_id, like.partition, name)
        target.driver.put(target.loader.key(uri), data)
        # The partition and its spec are those of the inputs, even if the table has changed since.
        described = replace(
            data_file(uri, len(data), footer_of(data), like.partition, target.metadata),
            spec_id=like.spec_id,
            sort_order_id=self.order_id,
        )
        return with_nan_counts(described, nan_counts(rows, target.metadata.schema))


def _encoded(
    rows: pa.Table, row_bytes: float, target: int, form: FileForm
) -> Iterator[tuple[pa.Table, bytes]]:
    """The rows in files of about equal length, as close to the target as can be estimated.

    If the target is close to the size of a file without rows, files would become ever shorter, down to one
    row.
    """
    start, target = 0, max(target, FRAMES * len(encode_parquet(rows.slice(0, 0), form)))
    while start < rows.num_rows:
        count = _share(rows.num_rows - start, row_bytes, target)
        part = rows.slice(start, count)
        data = encode_parquet(part, form)
        row_bytes = len(data) / count
        if len(data) < target * ENOUGH_SHARE and start + count < rows.num_rows:
            # Rows are shorter than estimated: now it is known by how much.
            count = _share(rows.num_rows - start, row_bytes, target)
            part = rows.slice(start, count)
            data = encode_parquet(part, form)
            row_bytes = len(data) / count
        yield part, data
        start += count


def _share(rows: int, row_bytes: float, target: int) -> int:
    """How many of the remaining rows become the next file, if all files should have about equal length."""
    files = max(1, round(rows * row_bytes / target))
    return -(-rows // files)
