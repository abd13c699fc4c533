"""The changes of a table's rows between two versions, as rows: for consumers that follow a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema

from headgate.commit.driver import Driver
from headgate.errors import InvalidInputError
from headgate.iceberg.arrow import concatenated
from headgate.iceberg.arrow_files import read_located
from headgate.iceberg.change_feed import CHANGE_TYPE, VERSION, ChangedRows, TableVersion
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.positions import position_columns, positions_array
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.model.table import TableRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RowHistory:
    """Changed rows of a table, which now is as `metadata` says, read with the columns of `schema`."""

    driver: Driver
    loader: TableLoader
    changed: tuple[ChangedRows, ...]
    metadata: TableMetadata
    schema: Schema

    def arrow(self) -> pa.Table:
        """The rows with `_change_type` and `_version`, in the order of the versions."""
        tables = [self._arrow_of(rows) for rows in self.changed]
        if tables:
            return pa.concat_tables(tables)
        return _told(concatenated([], self.schema), "", 0)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The same as a DataFrame, in any order."""
        from headgate.spark.change_read import change_frame

        return change_frame(spark, self.loader, self.changed, self.metadata, self.schema)

    def _arrow_of(self, changed: ChangedRows) -> pa.Table:
        file = PlannedFile(changed.file, 0, False)
        rows = read_located(self.driver, self.loader, [file], self.schema)
        if changed.rows is not None:
            rows = rows.take(positions_array(changed.rows))
        return _told(
            rows.drop_columns(list(position_columns(self.schema))), changed.change.value, changed.version
        )


def table_versions(
    loader: TableLoader, records: Iterable[Record], table: TableRef, before: LakeState
) -> list[TableVersion]:
    """Those of `records`, which follow on `before`, that changed rows of a table, whatever its name was."""
    known = next((ref for ref in before.tables.values() if ref.uuid == table.uuid), None)
    found: list[TableVersion] = []
    for record in records:
        for commit in record.tables:
            if commit.table.uuid != table.uuid:
                continue
            if commit.snapshot_id is not None:
                metadata = None if known is None else loader.metadata(known.metadata)
                after = loader.metadata(commit.table.metadata)
                found.append(TableVersion(record.version.number, commit, after, metadata))
            known = commit.table
    return found


def _told(rows: pa.Table, change: str, version: int) -> pa.Table:
    def column(value: Any, kind: pa.DataType) -> Any:
        return pa.repeat(pa.scalar(value, kind), rows.num_rows)

    return rows.append_column(CHANGE_TYPE, column(change, pa.string())).append_column(
        VERSION, column(version, pa.int64())
    )


def require_free_names(schema: Schema, columns: Sequence[str] = (CHANGE_TYPE, VERSION)) -> None:
    """Refuses a table with columns of these names: one could not be told from the other."""
    names = {field.name.lower(): field.name for field in schema.fields}
    taken = [names[column] for column in columns if column in names]
    if taken:
        raise InvalidInputError(
            f"the table has columns {', '.join(taken)}, which the changes have too",
            "rename them, or ask for other columns only",
        )
