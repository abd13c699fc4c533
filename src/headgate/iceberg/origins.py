"""Where rows of compacted files came from: two columns beside those of the table.

Their field ids are those of no table, so every reader passes over them. By them, rows that somebody deleted
while they were moved are found again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError
from headgate.iceberg.arrow import fitted
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.positions import FILE_PATH_ID, POS_ID, Positions, position_columns

ORIGIN_FILE, ORIGIN_FILE_ID = "_headgate_origin_file", FILE_PATH_ID
ORIGIN_POSITION, ORIGIN_POSITION_ID = "_headgate_origin_position", POS_ID
"""The ids are those by which Iceberg's delete files name a row: the path of a file, and a position in it.

They must be among those that Iceberg keeps to itself (above 2147483447). ClickHouse refuses a data file with
another id that the table has not given away, and a table can give away all others.
"""
ORIGINS = ((ORIGIN_FILE, ORIGIN_FILE_ID), (ORIGIN_POSITION, ORIGIN_POSITION_ID))


def with_origins(located: pa.Table, schema: Schema, place: str) -> pa.Table:
    """Rows that were read with their places, ready to be written: their places become the two columns."""
    places = [located.column(name) for name in position_columns(schema)]
    rows = fitted(located.select([field.name for field in schema.fields]), schema, place)
    for (name, field_id), values in zip(ORIGINS, places, strict=True):
        column = pa.field(name, values.type, metadata={"PARQUET:field_id": str(field_id)})
        rows = rows.append_column(column, values)
    return rows


def moved(
    driver: Driver, loader: TableLoader, files: Sequence[DataFile], places: Positions
) -> Positions | None:
    """Where in `files`, which were compacted, the rows are that were at `places`; without those not there.

    None if a file does not tell where its rows came from.
    """
    found = Positions()
    for one in driver.read_at_once([partial(_moved_to, driver, loader, file, places) for file in files]):
        if one is None:
            return None
        found |= one
    return found


def _moved_to(driver: Driver, loader: TableLoader, file: DataFile, places: Positions) -> Positions | None:
    data = driver.get(loader.key(file.path))
    if data is None:
        raise loader.missing(loader.key(file.path))
    try:
        parquet = pq.ParquetFile(pa.BufferReader(data), read_dictionary=[ORIGIN_FILE], pre_buffer=False)
        if not {ORIGIN_FILE, ORIGIN_POSITION} <= set(parquet.schema_arrow.names):
            return None
        rows = parquet.read(columns=[ORIGIN_FILE, ORIGIN_POSITION], use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptLakeError(f"{file.path} cannot be read: {error}") from error
    return Positions.of({file.path: _found(rows, places)})


def _found(rows: pa.Table, places: Positions) -> list[int]:
    """Which rows were at one of the places."""
    origins = _one_array(rows.column(ORIGIN_FILE).unify_dictionaries())
    numbers = np.asarray(origins.indices.to_numpy(zero_copy_only=False))
    positions = np.asarray(rows.column(ORIGIN_POSITION).to_numpy())
    # Rows of one origin stand together in this order, so each is looked at once.
    order = np.argsort(numbers, kind="stable")
    found: list[int] = []
    for number, path in enumerate(origins.dictionary.to_pylist()):
        wanted = places.in_file(path)
        if wanted:
            first, end = np.searchsorted(numbers, [number, number + 1], sorter=order)
            here = order[first:end]
            found += here[np.isin(positions[here], np.asarray(wanted.to_array(), np.int64))].tolist()
    return found


def _one_array(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if not column.num_chunks:
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    return column.combine_chunks() if column.num_chunks > 1 else column.chunk(0)
