"""The changes of a table between two versions, as rows, for consumers that follow the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema

from headgate.arrow.data_files import read_located
from headgate.arrow.footers import require_positions
from headgate.errors import CorruptLakeError, InvalidInputError, NotFoundError
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.positions import position_columns, positions_array
from headgate.iceberg.scan.change_feed import CHANGE_TYPE, VERSION, ChangedRows, TableVersion
from headgate.iceberg.scan.planning import PlannedFile
from headgate.iceberg.schema.arrow import concatenated
from headgate.log.driver import Driver
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.model.table import TableAction, TableRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RowHistory:
    """Changed rows of a table with the current `metadata`, read with the columns of `schema`."""

    driver: Driver
    loader: TableLoader
    changed: tuple[ChangedRows, ...]
    metadata: TableMetadata
    schema: Schema

    def arrow(self) -> pa.Table:
        """The rows with `_change_type` and `_version`, ordered by version."""
        tables = [self._arrow_of(rows) for rows in self.changed]
        if tables:
            return pa.concat_tables(tables)
        return _with_change(concatenated([], self.schema), "", 0)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The same as a DataFrame, in any order."""
        from headgate.spark.read.changes import change_frame

        return change_frame(spark, self.loader, self.changed, self.metadata, self.schema)

    def _arrow_of(self, changed: ChangedRows) -> pa.Table:
        file = PlannedFile(changed.file, 0, False)
        rows = read_located(self.driver, self.loader, [file], self.schema)
        if changed.rows is not None:
            require_positions(changed.file, changed.rows, rows.num_rows)
            rows = rows.take(positions_array(changed.rows))
        return _with_change(
            rows.drop_columns(list(position_columns(self.schema))), changed.change.value, changed.version
        )


def table_versions(
    loader: TableLoader, records: Iterable[Record], table: TableRef, before: LakeState
) -> list[TableVersion]:
    """The `records` after `before` that changed rows of a table, under any name."""
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


def require_same_table(name: str, table: TableRef, before: LakeState, records: Iterable[Record]) -> None:
    """Raises an error if another table, view or mount had this name in the state `before`.

    A consumer that read the other one and applies the changes of `table` would keep its rows forever. The
    two have different columns, so the old rows cannot be returned as deleted rows of `table`.
    """
    earlier = before.tables.get(name) or before.objects.get(name)
    if earlier is None or earlier.uuid == table.uuid:
        return
    since = before.version.number
    named = [record.version.number for record in records if _names(record, name, table)]
    if not named:
        raise CorruptLakeError(
            f"{name} belonged to another table, view or mount at version {since}, but no version since then "
            "has given the name to this table"
        )
    raise NotFoundError(
        f"{name}: at version {since} the name belonged to another table, view or mount; it belongs to this "
        f"table since version {named[-1]}",
        f"read the table at version {named[-1]}, and then the changes since that version",
    )


def _names(record: Record, name: str, table: TableRef) -> bool:
    """Whether a record gave this name to a table."""
    named = (TableAction.CREATE, TableAction.RENAME)
    return any(
        commit.name == name and commit.table.uuid == table.uuid and commit.action in named
        for commit in record.tables
    )


def _with_change(rows: pa.Table, change: str, version: int) -> pa.Table:
    def column(value: Any, kind: pa.DataType) -> Any:
        return pa.repeat(pa.scalar(value, kind), rows.num_rows)

    return rows.append_column(CHANGE_TYPE, column(change, pa.string())).append_column(
        VERSION, column(version, pa.int64())
    )


def require_free_names(schema: Schema, columns: Sequence[str] = (CHANGE_TYPE, VERSION)) -> None:
    """Rejects a table that has columns with these names, which the result would contain twice."""
    names = {field.name.lower(): field.name for field in schema.fields}
    taken = [names[column] for column in columns if column in names]
    if taken:
        raise InvalidInputError(
            f"the columns {', '.join(taken)} of the table have names that the change feed uses itself",
            "rename them, or select other columns",
        )
