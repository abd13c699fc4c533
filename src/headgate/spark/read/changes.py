"""Changed rows as a DataFrame. Each file is read once, however many versions changed its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType

from headgate.arrow.footers import require_rows
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.positions import positions_array
from headgate.iceberg.scan.change_feed import CHANGE_TYPE, VERSION, ChangedRows
from headgate.iceberg.scan.planning import PlannedFile
from headgate.spark.fitting import quoted
from headgate.spark.read.table import Scan
from headgate.spark.session import prepared
from headgate.spark.types import schema_to_spark

BROADCAST_ROWS = 200_000
_PATH, _POSITION = "_headgate_path", "_headgate_position"


def change_frame(
    spark: SparkSession,
    loader: TableLoader,
    changed: Sequence[ChangedRows],
    metadata: TableMetadata,
    schema: Schema,
) -> DataFrame:
    """The changed rows, with `_change_type` and `_version`."""
    prepared(spark)
    whole = [rows for rows in changed if rows.rows is None]
    some = [rows for rows in changed if rows.rows is not None]
    parts = [_joined(spark, loader, found, metadata, schema) for found in (whole, some) if found]
    if not parts:
        struct = schema_to_spark(schema).add(CHANGE_TYPE, StringType()).add(VERSION, LongType())
        return spark.createDataFrame([], struct)
    return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])


def _joined(
    spark: SparkSession,
    loader: TableLoader,
    changed: Sequence[ChangedRows],
    metadata: TableMetadata,
    schema: Schema,
) -> DataFrame:
    """The rows of the files, once per change: all rows of a file, or those at certain positions."""
    for rows in changed:
        if rows.rows is not None:
            require_rows(loader, rows.file, rows.rows)
    files: dict[str, DataFile] = {rows.file.path: rows.file for rows in changed}
    planned = tuple(PlannedFile(file, 0, False) for file in files.values())
    located = Scan(loader, planned, metadata, schema).located(spark)
    told = spark.createDataFrame(_change_table(changed, located.shown()))
    file, position = map(sf.col, located.columns())
    same = file == sf.col(_PATH)
    if changed[0].rows is not None:
        same &= position == sf.col(_POSITION)
    small = told.count() <= BROADCAST_ROWS
    found = located.rows.join(sf.broadcast(told) if small else told, same)
    return found.select(*(sf.col(quoted(field.name)) for field in schema.fields), CHANGE_TYPE, VERSION)


def _change_table(changed: Sequence[ChangedRows], shown: Mapping[str, tuple[str, ...]]) -> pa.Table:
    """The change to each file or row, by the names that Spark may use for the files."""
    tables = []
    for rows in changed:
        positions = pa.array([None], pa.int64()) if rows.rows is None else positions_array(rows.rows)
        count = len(positions)
        tables += [
            pa.table(
                {
                    _PATH: pa.repeat(pa.scalar(name), count),
                    _POSITION: positions,
                    CHANGE_TYPE: pa.repeat(pa.scalar(rows.change.value), count),
                    VERSION: pa.repeat(pa.scalar(rows.version, pa.int64()), count),
                }
            )
            for name in shown[rows.file.path]
        ]
    return pa.concat_tables(tables)
