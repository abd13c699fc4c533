"""Files put together through Arrow, in this process: for tables whose groups of files fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from headgate.core.compaction.policy import ENOUGH_SHARE
from headgate.iceberg.arrow import data_file, footer_of, nan_counts, with_nan_counts
from headgate.iceberg.arrow_files import read_located, read_rows
from headgate.iceberg.clustering import clustered
from headgate.iceberg.content import content_of, total
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import new_file
from headgate.iceberg.encoding import FileForm, encode_parquet
from headgate.iceberg.origins import with_origins
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.rewriting import Clustering, Content, RewriteGroup, Rewritten
from headgate.iceberg.rolling import target_bytes
from headgate.iceberg.sorting import in_order
from headgate.iceberg.target import Target


class ArrowRewriter:
    """A `Rewriter` without a JVM."""

    def rewritten(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        """One group after the other; in memory is one at a time. The new files are read back for `after`."""
        for group in groups:
            yield _rewritten(target, group, clustering)


def _rewritten(target: Target, group: RewriteGroup, clustering: Clustering | None) -> Rewritten:
    schema = target.metadata.schema
    located = read_located(target.driver, target.loader, group.files, schema)
    before = content_of(located.select([field.name for field in schema.fields]))
    rows, order_id = _ordered(target, with_origins(located, schema, target.table), clustering)
    writing = _Writing(target, group, order_id)
    files = tuple(writing.files(rows))
    return Rewritten(files, before, total(_as_written(target, file) for file in files))


def _ordered(target: Target, rows: pa.Table, clustering: Clustering | None) -> tuple[pa.Table, int]:
    """The rows in their order, and its id; one that the table does not have is none that readers know."""
    schema, order = target.metadata.schema, target.metadata.sort_order
    if clustering is None:
        return in_order(rows, schema, order), order.order_id
    return clustered(rows, schema, clustering), UNSORTED_SORT_ORDER.order_id


def _as_written(target: Target, file: DataFile) -> Content:
    stored = PlannedFile(file, 0, all_match=False)
    return content_of(read_rows(target.driver, target.loader, [stored], target.metadata.schema))


@dataclass(frozen=True, slots=True)
class _Writing:
    """New files of one group, in the partition of its files."""

    target: Target
    group: RewriteGroup
    order_id: int

    def files(self, rows: pa.Table) -> Iterator[DataFile]:
        """Writes the rows in their order, into files of about the target size. Nobody sees them yet."""
        if not rows.num_rows:
            return
        directory = replace(self.target, window=self.group.window).new_directory()
        properties = self.target.metadata.properties
        form = FileForm.of(properties)
        for part, data in _encoded(rows, self._row_bytes(), target_bytes(properties), form):
            yield self._put(directory, part, data)

    def _row_bytes(self) -> float:
        """What a row takes in the files as they are: the new ones are alike, and mostly shorter."""
        files = [planned.file for planned in self.group.files]
        return sum(file.size_bytes for file in files) / max(1, sum(file.record_count for file in files))

    def _put(self, directory: str, rows: pa.Table, data: bytes) -> DataFile:
        target, like = self.target, self.group.files[0].file
        name = target.driver.host.new_txid()
        uri = new_file(directory, target.metadata, like.spec_id, like.partition, name)
        target.driver.put(target.loader.key(uri), data)
        # The partition and its spec are those of the inputs, whatever the table has by now.
        described = replace(
            data_file(uri, len(data), footer_of(data), like.partition, target.metadata),
            spec_id=like.spec_id,
            sort_order_id=self.order_id,
        )
        return with_nan_counts(described, nan_counts(rows, target.metadata.schema))


def _encoded(
    rows: pa.Table, row_bytes: float, target: int, form: FileForm
) -> Iterator[tuple[pa.Table, bytes]]:
    """The rows in files of about the same length, as near to the target as can be told."""
    start = 0
    while start < rows.num_rows:
        count = _share(rows.num_rows - start, row_bytes, target)
        part = rows.slice(start, count)
        data = encode_parquet(part, form)
        row_bytes = len(data) / count
        if len(data) < target * ENOUGH_SHARE and start + count < rows.num_rows:
            # Rows are shorter than was thought: now it is known how short.
            count = _share(rows.num_rows - start, row_bytes, target)
            part = rows.slice(start, count)
            data = encode_parquet(part, form)
            row_bytes = len(data) / count
        yield part, data
        start += count


def _share(rows: int, row_bytes: float, target: int) -> int:
    """How many of the rows that are left become the next file, if all files are to be about as long."""
    files = max(1, round(rows * row_bytes / target))
    return -(-rows // files)
