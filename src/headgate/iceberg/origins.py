"""Where rows of compacted files came from: two columns beside those of the table.

Their field ids are those of no table, so every reader passes over them. By them, rows that somebody deleted
while they were moved are found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError
from headgate.iceberg.arrow import fitted
from headgate.iceberg.arrow_files import write_fitting
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.positions import Positions, position_columns
from headgate.iceberg.target import Target

ORIGIN_FILE, ORIGIN_FILE_ID = "_headgate_origin_file", 2147483400
ORIGIN_POSITION, ORIGIN_POSITION_ID = "_headgate_origin_position", 2147483401
"""Iceberg keeps the ids above 2147483447 to itself."""


def write_moved(target: Target, located: pa.Table) -> tuple[DataFile, ...]:
    """Writes rows, each with its place so far, into new data files. Nobody sees them yet."""
    metadata = target.metadata
    places = [located.column(name) for name in position_columns(metadata.schema)]
    rows = fitted(
        located.select([field.name for field in metadata.schema.fields]), metadata.schema, target.table
    )
    ids = ((ORIGIN_FILE, ORIGIN_FILE_ID), (ORIGIN_POSITION, ORIGIN_POSITION_ID))
    for (name, field_id), values in zip(ids, places, strict=True):
        column = pa.field(name, values.type, metadata={"PARQUET:field_id": str(field_id)})
        rows = rows.append_column(column, values)
    return write_fitting(target, rows)


def moved(
    driver: Driver, loader: TableLoader, files: Sequence[DataFile], places: Positions
) -> Positions | None:
    """Where in `files`, which were compacted, the rows are that were at `places`; without those not there.

    None if a file does not tell where its rows came from.
    """
    found = Positions()
    for one in driver.host.together([partial(_moved_to, driver, loader, file, places) for file in files]):
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
    here = pa.array(range(rows.num_rows), pa.int64())
    kept = [_at(rows, path, positions) for path, positions in places.by_file.items()]
    chosen = pc.and_(pc.is_valid(here), _any_of(kept, rows.num_rows))
    positions = here.filter(chosen).to_pylist()
    return Positions.of({file.path: positions}) if positions else Positions()


def _at(rows: pa.Table, path: str, positions: Iterable[int]) -> Any:
    same_file = pc.equal(rows.column(ORIGIN_FILE).cast(pa.string()), path)
    return pc.and_(same_file, pc.is_in(rows.column(ORIGIN_POSITION), pa.array(list(positions), pa.int64())))


def _any_of(masks: Sequence[Any], count: int) -> Any:
    chosen = pa.array([False] * count)
    for mask in masks:
        chosen = pc.or_(chosen, mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask)
    return chosen
