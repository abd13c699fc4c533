"""The live rows of a data file that a predicate selects, as Arrow, with the columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyroaring import BitMap64

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError
from headgate.host import Host
from headgate.iceberg.bound import Bound, fields_of
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.positions import Positions, position_columns, positions_array
from headgate.iceberg.projection import Projection, schema_of
from headgate.iceberg.row_filter import selected


@dataclass(frozen=True, slots=True)
class FileReading:
    """What is wanted of files: the columns of `schema`, of all rows or those that `only` selects."""

    driver: Driver
    loader: TableLoader
    schema: Schema
    only: Bound | None
    _all: Projection = field(init=False)
    _tested: Projection | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_all", Projection(self.schema))
        tested = None if self.only is None else Projection(_columns_of(self.only))
        object.__setattr__(self, "_tested", tested)

    def rows(self, planned: PlannedFile, dead: Positions) -> pa.Table:
        """The rows of a file without the deleted ones."""
        return self._chosen(planned, dead)[0]

    def located(self, planned: PlannedFile, dead: Positions) -> pa.Table:
        """The same, and of each row where it is."""
        rows, wanted = self._chosen(planned, dead)
        count = rows.num_rows if wanted is None else len(wanted)
        numbers = np.arange(count) if wanted is None else np.flatnonzero(wanted)
        return located(rows, self.schema, planned.file.path, pa.array(numbers, pa.int64()))

    def _chosen(self, planned: PlannedFile, dead: Positions) -> tuple[pa.Table, Mask | None]:
        """The rows, and of each of the file whether it is one of them; None if all are."""
        file = _OpenFile(planned.file, self._fetched(planned.file), self.driver.host)
        wanted = self._wanted(file, dead.in_file(planned.file.path))
        return file.rows(self._all, wanted), wanted

    def _wanted(self, file: _OpenFile, dead: BitMap64) -> Mask | None:
        if self.only is None and not dead:
            return None
        if self.only is None or self._tested is None:
            wanted = np.ones(file.num_rows, dtype=np.bool_)
        else:
            # Before all other columns: of these, what lies between selected rows need not be decoded.
            tested = file.rows(self._tested, None)
            wanted = selected(tested, self.only).to_numpy(zero_copy_only=False).copy()
        gone = positions_array(dead).to_numpy()
        wanted[gone[gone < len(wanted)]] = False
        return wanted

    def _fetched(self, file: DataFile) -> bytes:
        data = self.driver.get(self.loader.key(file.path))
        if data is None:
            raise self.loader.missing(self.loader.key(file.path))
        return data


Mask = npt.NDArray[np.bool_]


class _OpenFile:
    """A data file in memory. What it has in a shape that Arrow cannot read is an error of the lake.

    Files, and row groups of one, are read at once by threads of the host. By none of Arrow's: one that lets
    go of Python's bytes while the process ends would abort it.
    """

    def __init__(self, file: DataFile, data: bytes, host: Host) -> None:
        self._file, self._data, self._host = file, data, host
        try:
            self._parquet = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._unreadable(error) from error
        self.num_rows = int(self._parquet.metadata.num_rows)

    def rows(self, projection: Projection, wanted: Mask | None) -> pa.Table:
        """The wanted rows as a schema has them: columns are found by field id, as Iceberg wants it."""
        schema = projection.schema
        if wanted is None:
            table = self._read(range(self._parquet.num_row_groups), schema)
        else:
            groups = {number: part for number, part in self._by_group(wanted) if part.any()}
            masks = [*groups.values(), np.zeros(0, dtype=np.bool_)]
            table = self._read(list(groups), schema).filter(pa.array(np.concatenate(masks)))
        return projection.of(table, self._file.path) if schema.fields else table.select([])

    def _by_group(self, wanted: Mask) -> Iterator[tuple[int, Mask]]:
        """The row groups by their numbers, each with its part of the mask."""
        start = 0
        for number in range(self._parquet.num_row_groups):
            end = start + self._parquet.metadata.row_group(number).num_rows
            yield number, wanted[start:end]
            start = end

    def _read(self, groups: Any, schema: Schema) -> pa.Table:
        ids = {field.field_id for field in schema.fields}
        try:
            known = schema_of(self._parquet.schema_arrow).fields
            names = [field.name for field in known if field.field_id in ids]
            # Without any column the number of rows would be lost: those that were added later are null in
            # each.
            columns = names or self._parquet.schema_arrow.names[:1]
            wanted = list(groups)
            if len(wanted) <= 1:
                return self._parquet.read_row_groups(wanted, columns=columns, use_threads=False)
            return pa.concat_tables(
                self._host.together([partial(self._read_group, group, columns) for group in wanted])
            )
        except (pa.ArrowInvalid, OSError) as error:
            raise self._unreadable(error) from error

    def _read_group(self, group: int, columns: list[str]) -> pa.Table:
        # With a reader of its own: one is not made for several threads.
        own = pq.ParquetFile(pa.BufferReader(self._data), metadata=self._parquet.metadata, pre_buffer=False)
        return own.read_row_groups([group], columns=columns, use_threads=False)

    def _unreadable(self, error: Exception) -> CorruptLakeError:
        return CorruptLakeError(f"{self._file.path} cannot be read: {error}")


def located(rows: pa.Table, schema: Schema, path: str, positions: Any) -> pa.Table:
    """Rows with the path of their data file, as the manifest has it, and their positions there."""
    file_name, position_name = position_columns(schema)
    paths = pa.repeat(pa.scalar(path, pa.string()), len(positions))
    return rows.append_column(file_name, paths).append_column(position_name, positions)


def _columns_of(only: Bound) -> Schema:
    return Schema(*{field.column.field_id: field.column for field in fields_of(only)}.values())
