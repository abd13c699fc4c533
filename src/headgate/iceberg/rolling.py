"""Rows that come in batches, as data files of the table's target size; in memory is never more than a bound.

A file is encoded as its rows arrive and put on storage when it is long enough. Each partition has a file of
its own that is still open; if all of them together become too long, the longest is ended early.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from headgate.errors import InvalidInputError
from headgate.iceberg.arrow import (
    data_file,
    footer_of,
    nan_counts,
    partitioned,
    require_partition,
    with_nan_counts,
)
from headgate.iceberg.data_file import DataFile, Partition
from headgate.iceberg.directories import new_file
from headgate.iceberg.encoding import ROW_GROUP_ROWS, FileForm, parquet_writer
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.sorting import in_order
from headgate.iceberg.target import Target

TARGET_SIZE = "write.target-file-size-bytes"
TARGET_BYTES = 128 * 1024 * 1024
BUFFERED_BYTES = 512 * 1024 * 1024
"""What all open files together may hold: encoded, and rows that still wait."""
ROW_GROUP_BYTES = 32 * 1024 * 1024
"""How many bytes of rows, as Arrow has them, become a row group."""
COMPRESSED_SHARE = 0.5
"""How many bytes of Parquet a byte of Arrow becomes, as long as nothing is encoded yet. A guess on the high
side: files become a little shorter than the target, not longer."""


def target_bytes(properties: Mapping[str, str]) -> int:
    """How long the table wants its data files to be."""
    given = properties.get(TARGET_SIZE, str(TARGET_BYTES))
    if not given.isdigit() or int(given) == 0:
        raise InvalidInputError(f"{TARGET_SIZE} is {given!r}", "set it to a number of bytes")
    return int(given)


def pieces(rows: pa.Table, target: int) -> Iterator[pa.Table]:
    """The rows, cut so that none of the pieces becomes a file that is longer than `target` bytes."""
    share = target / (rows.nbytes * COMPRESSED_SHARE or 1)
    step = max(1, min(rows.num_rows, int(rows.num_rows * share)))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


class RollingFiles:
    """The data files of a table that are being written, one open for each partition.

    Nobody sees them yet. If the process dies, those that were written stay in the directory of the
    transaction, unreferenced.
    """

    def __init__(self, target: Target) -> None:
        self._driver = target.driver
        self._metadata = target.metadata
        self._directory = target.new_directory()
        self._target = target_bytes(target.metadata.properties)
        self._open: dict[Partition, _OpenFile] = {}
        self._done: list[DataFile] = []

    def add(self, rows: pa.Table) -> None:
        """Adds rows that have exactly the columns of the table."""
        for partition, part in partitioned(rows, self._metadata.schema, self._metadata.spec):
            for piece in pieces(part, self._target):
                file = self._open.setdefault(partition, _OpenFile(self._metadata))
                file.add(piece)
                if file.expected_bytes >= self._target:
                    self._end(partition)
        while sum(file.held_bytes for file in self._open.values()) > BUFFERED_BYTES:
            self._end(max(self._open, key=lambda partition: self._open[partition].held_bytes))

    def finish(self) -> tuple[DataFile, ...]:
        """Ends all files, and returns what the manifest says of each."""
        for partition in list(self._open):
            self._end(partition)
        return tuple(self._done)

    def _end(self, partition: Partition) -> None:
        require_partition(partition, self._metadata)
        file = self._open.pop(partition)
        data = file.encoded()
        spec_id, name = self._metadata.spec.spec_id, self._driver.host.new_txid()
        uri = new_file(self._directory, self._metadata, spec_id, partition, name)
        self._driver.put(uri.removeprefix(self._driver.store.uri() + "/"), data)
        described = data_file(uri, len(data), footer_of(data), partition, self._metadata)
        self._done.append(with_nan_counts(described, file.nans))


class _OpenFile:
    """A Parquet file in memory. Rows of a sorted table wait until all of them are there."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._sorted = bool(metadata.sort_order.fields)
        self._out = pa.BufferOutputStream()
        self._writer: Any = None
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self.nans: Counter[int] = Counter()

    @property
    def held_bytes(self) -> int:
        return int(self._out.tell()) + self._waiting_bytes

    @property
    def expected_bytes(self) -> float:
        """How long the file would be if it ended now."""
        return int(self._out.tell()) + self._waiting_bytes * COMPRESSED_SHARE

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self.nans.update(nan_counts(rows, self._metadata.schema))
        if self._waiting_bytes >= ROW_GROUP_BYTES and not self._sorted:
            self._encode()

    def encoded(self) -> bytes:
        """The whole file."""
        if self._waiting:
            self._encode()
        self._writer.close()
        return bytes(self._out.getvalue())

    def _encode(self) -> None:
        rows = in_order(pa.concat_tables(self._waiting), self._metadata.schema, self._metadata.sort_order)
        if self._writer is None:
            self._writer = parquet_writer(self._out, rows, FileForm.of(self._metadata.properties))
        self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._waiting_bytes = [], 0
