"""The live rows of a data file that a predicate selects, as Arrow, with the columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError
from headgate.iceberg.arrow import concatenated, no_rows, without_columns
from headgate.iceberg.bound import Bound, fields_of
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metrics import FooterMetrics
from headgate.iceberg.parquet_parts import ParquetParts, open_parquet
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.positions import Positions, position_columns, positions_array
from headgate.iceberg.projection import Projection, schema_of
from headgate.iceberg.pruning import ColumnPruning
from headgate.iceberg.row_filter import selected

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

_NO_COLUMNS = pa.table({})
_DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError, UnsupportedPyArrowTypeException)
"""What reading a file can end in that is damaged, or that is not one of the table's."""


class FileReading:
    """What is wanted of files: the columns of `schema`, of all rows or those that `only` selects.

    Row groups are read at once, by threads of the host: each by itself, so that of one without a wanted row
    only the columns of the predicate are decoded, or none if its bounds tell.
    """

    def __init__(self, driver: Driver, loader: TableLoader, schema: Schema, only: Bound | None) -> None:
        self._driver, self._loader = driver, loader
        self._wanted = Projection(schema)
        self._test = None if only is None else _Test(only)

    def rows(self, planned: PlannedFile, dead: Positions) -> pa.Table:
        """The rows of a file without the deleted ones."""
        return concatenated([found.rows for found in self._found(planned, dead)], self._wanted.schema)

    def located(self, planned: PlannedFile, dead: Positions) -> pa.Table:
        """The same, and of each row where it is."""
        schema, path = self._wanted.schema, planned.file.path
        found = self._found(planned, dead)
        return pa.concat_tables([located(one.rows, schema, path, one.positions()) for one in found])

    def _found(self, planned: PlannedFile, dead: Positions) -> list[_Found]:
        """The rows by row groups: of each that has some, or of one if none has."""
        file, key = planned.file, self._loader.key(planned.file.path)
        gone = positions_array(dead.in_file(file.path)).to_numpy()
        try:
            parquet = open_parquet(self._driver, key, file.size_bytes)
            opened = _OpenFile(file, parquet, self._wanted, self._test)
            tasks = [partial(opened.found, group, gone) for group in opened.groups()]
            return [one for one in self._driver.read_at_once(tasks) if one is not None] or [opened.nothing()]
        except FileNotFoundError as error:
            raise self._loader.missing(key) from error
        except _DAMAGE as error:
            raise CorruptLakeError(f"{file.path} cannot be read: {error}") from error


class _Test:
    """A predicate, and the columns that it looks at."""

    def __init__(self, only: Bound) -> None:
        self.only = only
        self.columns = Projection(
            Schema(*{field.column.field_id: field.column for field in fields_of(only)}.values())
        )
        self._pruning = ColumnPruning(only)

    def could_match(self, file: DataFile) -> bool:
        return self._pruning.could_match(file)


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of a row group, and where they are in the file."""

    rows: pa.Table
    places: Numbers | range

    def positions(self) -> pa.Array:
        places = self.places
        return pa.array(np.arange(places.start, places.stop) if isinstance(places, range) else places)


@dataclass(frozen=True, slots=True)
class _Group:
    number: int
    positions: range


class _OpenFile:
    def __init__(self, file: DataFile, parquet: ParquetParts, wanted: Projection, test: _Test | None) -> None:
        self._file, self._parquet, self._wanted, self._test = file, parquet, wanted, test
        self._fields = {field.name: field for field in schema_of(parquet.schema).fields}

    def groups(self) -> Iterator[_Group]:
        """The row groups in which rows could be wanted."""
        # A file is planned because of its bounds, and those of its only group are the same.
        test = None if self._parquet.footer.num_row_groups == 1 else self._test
        if test is None:
            yield from self._all_groups()
            return
        metrics = FooterMetrics(Schema(*self._columns(test.columns.schema)), {})
        for group in self._all_groups():
            known = metrics.of(self._parquet.footer, [group.number])
            if test.could_match(replace(self._file, record_count=len(group.positions), metrics=known)):
                yield group

    def _all_groups(self) -> Iterator[_Group]:
        footer, start = self._parquet.footer, 0
        for number in range(footer.num_row_groups):
            group = _Group(number, range(start, start + footer.row_group(number).num_rows))
            yield group
            start = group.positions.stop

    def found(self, group: _Group, gone: Numbers) -> _Found | None:
        """The wanted rows of a group without those whose positions are `gone`; None if there are none."""
        tested, mask = self._tested(group)
        first, last = np.searchsorted(gone, (group.positions.start, group.positions.stop))
        if first < last:
            mask = np.ones(len(group.positions), dtype=np.bool_) if mask is None else mask
            mask[gone[first:last] - group.positions.start] = False
        if mask is not None and not mask.any():
            return None
        rows = self._read(group, self._wanted.schema, tested)
        if mask is None or mask.all():
            return _Found(self._as_in(self._wanted, rows), group.positions)
        # Arrow would lose how many they are, if they have no columns.
        chosen = rows.filter(pa.array(mask)) if rows.column_names else without_columns(int(mask.sum()))
        return _Found(self._as_in(self._wanted, chosen), np.flatnonzero(mask) + group.positions.start)

    def _tested(self, group: _Group) -> tuple[pa.Table, Mask | None]:
        """The columns of the predicate, and which rows it selects; None if there is no predicate."""
        if self._test is None:
            return _NO_COLUMNS, None
        columns = self._read(group, self._test.columns.schema)
        rows = self._as_in(self._test.columns, columns)
        return columns, selected(rows, self._test.only).to_numpy(zero_copy_only=False).copy()

    def nothing(self) -> _Found:
        return _Found(self._as_in(self._wanted, no_rows(self._parquet.schema)), range(0))

    def _as_in(self, projection: Projection, rows: pa.Table) -> pa.Table:
        """The rows as a schema has them: columns are found by field id, as Iceberg wants it."""
        return projection.of(rows, [self._fields[name] for name in rows.column_names], self._file.path)

    def _read(self, group: _Group, schema: Schema, known: pa.Table = _NO_COLUMNS) -> pa.Table:
        """The columns of the file that `schema` has; those that are known already are not read again."""
        names = [field.name for field in self._columns(schema)]
        at_hand = known.select([name for name in names if name in known.column_names])
        missing = [name for name in names if name not in at_hand.column_names]
        if not names:
            return without_columns(len(group.positions))
        if not missing:
            return at_hand
        rows = self._parquet.read(group.number, missing)
        for field, column in zip(at_hand.schema, at_hand.columns, strict=True):
            rows = rows.append_column(field, column)
        return rows

    def _columns(self, schema: Schema) -> list[NestedField]:
        ids = {field.field_id for field in schema.fields}
        return [field for field in self._fields.values() if field.field_id in ids]


def located(rows: pa.Table, schema: Schema, path: str, positions: Any) -> pa.Table:
    """Rows with the path of their data file, as the manifest has it, and their positions there."""
    file_name, position_name = position_columns(schema)
    paths = pa.repeat(pa.scalar(path, pa.string()), len(positions))
    return rows.append_column(file_name, paths).append_column(position_name, positions)
