"""The origins of rows in compacted files: two columns in addition to those of the table.

No table has their field ids, so every reader ignores them. They are used to find rows again that another
commit deleted while they were moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema

from headgate.errors import CorruptLakeError
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.positions import FILE_PATH_ID, POS_ID, Positions, position_columns
from headgate.iceberg.schema.arrow import fitted
from headgate.log.driver import Driver

ORIGIN_FILE, ORIGIN_FILE_ID = "_headgate_origin_file", FILE_PATH_ID
ORIGIN_POSITION, ORIGIN_POSITION_ID = "_headgate_origin_position", POS_ID
"""The ids are those by which Iceberg's delete files identify a row: the path of a file, and a position in it.

They must be among the ids that Iceberg reserves (above 2147483447). ClickHouse rejects a data file with any
other id that the table has not assigned, and a table can assign all other ids.
"""
ORIGINS = ((ORIGIN_FILE, ORIGIN_FILE_ID), (ORIGIN_POSITION, ORIGIN_POSITION_ID))


def with_origins(located: pa.Table, schema: Schema, place: str) -> pa.Table:
    """Rows that were read with their locations, ready to be written: the locations become the two columns."""
    places = [located.column(name) for name in position_columns(schema)]
    rows = fitted(located.select([field.name for field in schema.fields]), schema, place)
    for (name, field_id), values in zip(ORIGINS, places, strict=True):
        column = pa.field(name, values.type, metadata={"PARQUET:field_id": str(field_id)})
        rows = rows.append_column(column, values)
    return rows


def locate_moved(
    driver: Driver, loader: TableLoader, files: Sequence[DataFile], places: Positions
) -> Positions | None:
    """The new locations in `files`, which were compacted, of the rows at `places`, as far as they exist.

    None if a file does not contain the origins of its rows.
    """
    found = Positions()
    for one in driver.read_at_once([partial(_locate_in, driver, loader, file, places) for file in files]):
        if one is None:
            return None
        found |= one
    return found


def _locate_in(driver: Driver, loader: TableLoader, file: DataFile, places: Positions) -> Positions | None:
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
    """The positions of the rows whose origins are among the locations."""
    origins = _one_array(rows.column(ORIGIN_FILE).unify_dictionaries())
    numbers = np.asarray(origins.indices.to_numpy(zero_copy_only=False))
    positions = np.asarray(rows.column(ORIGIN_POSITION).to_numpy())
    # Rows from the same file are contiguous in this order, so each file is handled once.
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
