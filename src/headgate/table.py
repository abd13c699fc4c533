"""Tables: what is read from them and what is written to them, alone or as part of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema

from headgate.core.lookup import found_table, not_a_table
from headgate.core.merging import MergeSpec
from headgate.core.refresh_plan import VIEW_SQL
from headgate.errors import InvalidInputError, UnsupportedError
from headgate.iceberg.arrow_files import read_rows
from headgate.iceberg.binding import bind_text
from headgate.iceberg.change_feed import ChangeType, changed_rows
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.partitions import written_terms
from headgate.iceberg.planning import Plan, PlannedFile
from headgate.iceberg.snapshot import LIVE_RECORDS, TOTAL_RECORDS
from headgate.iceberg.sorting import written_sort_field
from headgate.merge import Merge
from headgate.model.named_object import CsvMount, Definition, Foreign, HostMount, View
from headgate.model.table import TableRef
from headgate.mounting import Mounted
from headgate.reading import checked_limit, chosen_columns, understood
from headgate.result import CommitResult
from headgate.row_history import RowHistory, require_free_names, table_versions
from headgate.structure import Evolvable
from headgate.table_view import TableView

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from headgate.iceberg.evolution import Step
    from headgate.lake import Lake
    from headgate.model.clustering import ClusteringReport
    from headgate.model.compaction import CompactionProgress
    from headgate.model.state import LakeState
    from headgate.transaction import Transaction
    from headgate.writing import Rows, TableWriter


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file of a table, as `Table.files` shows it. `version` is the one that added it.

    `rows` are those in the file; `delete_files` may tell of some that are deleted.
    """

    path: str
    rows: int
    size_bytes: int
    version: int
    partition: Mapping[str, Any]
    delete_files: int = 0


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table as one version left its rows. `size_bytes` is None if who wrote it did not say.

    `rows` are those that a read gives; `delete_files` tell of rows that are in files and are not read.
    """

    version: int
    snapshot_id: int
    committed_at: datetime
    operation: str
    rows: int
    files: int
    delete_files: int
    size_bytes: int | None
    rows_added: int
    files_added: int
    bytes_added: int
    files_removed: int

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> TableSnapshot:
        """From what the metadata of the table says."""
        summary: Mapping[str, str] = raw.get("summary", {})
        size = summary.get("total-files-size")
        return cls(
            version=raw["sequence-number"],
            snapshot_id=raw["snapshot-id"],
            committed_at=datetime.fromtimestamp(raw["timestamp-ms"] / 1000, UTC),
            operation=summary.get("operation", ""),
            rows=int(summary.get(LIVE_RECORDS, summary.get(TOTAL_RECORDS, 0))),
            files=int(summary.get("total-data-files", 0)),
            delete_files=int(summary.get("total-delete-files", 0)),
            size_bytes=None if size is None else int(size),
            rows_added=int(summary.get("added-records", 0)),
            files_added=int(summary.get("added-data-files", 0)),
            bytes_added=int(summary.get("added-files-size", 0)),
            files_removed=int(summary.get("deleted-data-files", 0)),
        )


class Table(Evolvable[CommitResult]):
    """A table of a lake.

    It is looked up by name at each call, so it always shows the newest version. One that was asked for as it
    was at a version shows that, and can only be read. `made` is the commit that made the table, if this is
    what the call that did so returned.
    """

    def __init__(
        self, lake: Lake, name: str, version: int | None = None, made: CommitResult | None = None
    ) -> None:
        self._lake = lake
        self._version = version
        self.name = name
        self.made = made

    def __repr__(self) -> str:
        return f"<Table {self.name} of {self._lake.place}>"

    @property
    def kind(self) -> str:
        """What has this name: `table`, `materialized view`, `view`, or `csv` and `host` for mounts."""
        source = self._source()
        if isinstance(source, TableView):
            return "materialized view" if VIEW_SQL in source.metadata.properties else "table"
        return source.definition.kind

    @property
    def definition(self) -> Definition | None:
        """What a view or a mount is; None for a table."""
        source = self._source()
        return None if isinstance(source, TableView) else source.definition

    @property
    def schema(self) -> Schema:
        """The columns, as Iceberg has them. Those of a view only Spark knows: `read(spark).schema`."""
        return self._source().schema

    @property
    def partition_by(self) -> tuple[str, ...]:
        """How new files are partitioned, as `create_table` takes it."""
        metadata = self._view().metadata
        return written_terms(metadata.schema, metadata.spec)

    @property
    def sort_by(self) -> tuple[str, ...]:
        """How the rows of new files are sorted, as `create_table` takes it."""
        metadata = self._view().metadata
        return tuple(written_sort_field(metadata.schema, field) for field in metadata.sort_order.fields)

    @property
    def location(self) -> str:
        """The directory of the table, as other engines name it."""
        return self._view().metadata.location

    @property
    def metadata_location(self) -> str:
        """The metadata file, as other engines name it."""
        view = self._view()
        return view.loader.uri(view.ref.metadata)

    @property
    def properties(self) -> Mapping[str, str]:
        return self._view().metadata.properties

    @property
    def snapshot(self) -> TableSnapshot | None:
        """The current snapshot, as its summary tells; None for a table that never had rows.

        Only the metadata of the table is read.
        """
        current = self._view().metadata.snapshot
        return None if current is None else TableSnapshot.of(current)

    def history(self) -> tuple[TableSnapshot, ...]:
        """The snapshots, newest first: those that the metadata of the table keeps, at most 100.

        Older ones stay reachable by their version, which `Lake.log` shows.
        """
        return tuple(map(TableSnapshot.of, reversed(self._view().metadata.fields["snapshots"])))

    def append(self, rows: Rows, *, args: Sequence[str] = ()) -> CommitResult:
        """Adds rows (a Spark DataFrame, or a pyarrow Table), in a transaction of its own."""
        _require_repeatable(rows)
        return self._run(args, lambda tx: tx.table(self.name).append(rows))

    def overwrite(self, rows: Rows, where: str | None = None, *, args: Sequence[str] = ()) -> CommitResult:
        """Replaces all rows that the table has now, or exactly those that `where` selects.

        In a transaction of its own, which is run again after a conflict. Each of the new rows must be one
        that `where` selects; otherwise `InvalidInputError` shows some that are not, and nothing is changed.
        """
        _require_repeatable(rows)
        return self._run(args, lambda tx: tx.table(self.name).overwrite(rows, where))

    def overwrite_partitions(self, rows: Rows, *, args: Sequence[str] = ()) -> CommitResult:
        """Replaces the partitions that `rows` belong to, in a transaction of its own; others stay."""
        _require_repeatable(rows)
        return self._run(args, lambda tx: tx.table(self.name).overwrite_partitions(rows))

    def delete(self, where: str | Column, *, args: Sequence[str] = ()) -> CommitResult:
        """Removes the rows for which `where` is true. The result counts them; if none, no version is made.

        In a transaction of its own on the newest version, which is run again after a conflict. With Spark if
        a session is active; without one, through Arrow in this process, for tables that are not large. Files
        of which all rows go are not read. `delete("true")` removes every row.
        """
        return self._change_rows(args, lambda table: table.delete(where))

    def update(
        self,
        values: Mapping[str, str | Column],
        where: str | Column | None = None,
        *,
        args: Sequence[str] = (),
    ) -> CommitResult:
        """Assigns expressions to columns of the rows that `where` selects; of all rows without it.

        `table.update({"status": "'paid'", "n": "n + 1"}, where="id = 7")`: all of them are about the row as
        it was. A row whose partition changes moves there. See docs/row-changes.md for what can be written
        without Spark. As `delete` otherwise.
        """
        return self._change_rows(args, lambda table: table.update(values, where))

    def merge(self, source: Rows, on: str | Column, *, args: Sequence[str] = ()) -> Merge[CommitResult]:
        """Merges a source: `table.merge(rows, on="t.id = s.id").when_matched_update().commit()`.

        Rows of the table are `t` and those of the source `s`. As `delete` otherwise.
        """
        _require_repeatable(source)
        self._refuse_earlier()
        return Merge(
            MergeSpec(on),
            lambda spec: self._change_rows(args, lambda table: table._merge(source, spec)),
        )

    def upsert(self, rows: Rows, keys: Sequence[str], *, args: Sequence[str] = ()) -> CommitResult:
        """Makes `rows` the rows with their keys: those that are there are updated, others are added.

        `rows` have every column; a key is neither null nor there twice. As `delete` otherwise.
        """
        _require_repeatable(rows)
        return self._change_rows(args, lambda table: table.upsert(rows, keys))

    def _change_rows(self, args: Sequence[str], change: Callable[[TableWriter], object]) -> CommitResult:
        self._refuse_earlier()
        return self._run(args, lambda tx: change(tx.table(self.name)), self._lake._refreshed())

    def _run(
        self, args: Sequence[str], change: Callable[[Transaction], object], base: LakeState | None = None
    ) -> CommitResult:
        self._refuse_earlier()
        return self._lake._run(args, change, base)

    def _refuse_earlier(self) -> None:
        """Refuses to write through a look at the past: it would go to the newest version, unseen."""
        if self._version is not None:
            raise InvalidInputError(
                f"this is {self.name} as it was at version {self._version}, which can only be read",
                f"write to the table as it is now: lake.table({self.name!r})",
            )

    def cluster(
        self,
        spark: SparkSession | None,
        by: Sequence[str],
        *,
        zorder: bool = False,
        where: str | None = None,
        progress: Callable[[CompactionProgress], None] | None = None,
        args: Sequence[str] = (),
    ) -> ClusteringReport:
        """Writes files anew with their rows sorted by columns, or near to each other in all of them at once.

        A read that selects by these columns then passes over most files; see docs/clustering.md. Each path
        is clustered within its complete windows; younger files are left, and `where` leaves out paths that
        cannot hold rows which it selects. No row changes. Scheduled, carried out and completed through the
        log: row changes of the files are refused meanwhile, or cancel it (`clustering.allow_updates`). With
        Spark if a session is given or active, else through Arrow in this process. If it fails or is
        interrupted, what it had not completed stays as it was.
        """
        from headgate.services.clustering import Clusterer

        self._refuse_earlier()
        told = progress or (lambda _: None)
        clusterer = Clusterer(self._lake, self.name, args or ("cluster", self.name), spark, told)
        self._view()
        return clusterer.run(by, zorder, where)

    def set_properties(self, properties: Mapping[str, str], *, args: Sequence[str] = ()) -> CommitResult:
        """Sets table properties, in a transaction of its own."""
        return self._run(args, lambda tx: tx.table(self.name).set_properties(properties))

    def remove_properties(self, *names: str, args: Sequence[str] = ()) -> CommitResult:
        """Removes table properties, in a transaction of its own."""
        return self._run(args, lambda tx: tx.table(self.name).remove_properties(*names))

    def _evolve(self, step: Step, *description: str) -> CommitResult:
        operation, *rest = description
        return self._run(
            [operation, self.name, *rest], lambda tx: tx.table(self.name)._evolve(step, *description)
        )

    def read_arrow(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        version: int | None = None,
        timestamp: str | date | datetime | None = None,
        tag: str | None = None,
    ) -> pa.Table:
        """Rows, without starting a JVM: for small results.

        `where` is a predicate (see docs/predicates.md): files without a matching row are not read as far as
        partitions and column bounds tell. `limit`: at most so many rows, any of them. `version`,
        `timestamp`, `tag`: as the table was then. A view needs Spark: `UnsupportedError`.
        """
        at_most = checked_limit(limit)
        view = self._source(version, timestamp, tag)
        if not isinstance(view, TableView):
            return view.arrow(where, columns, at_most)
        whole = view.metadata.schema
        schema = chosen_columns(whole, columns)
        only = None if where is None else bind_text(where, whole)
        return read_rows(self._lake._driver, view.loader, view.files(only), schema, only, at_most)

    def plan(self, where: str | None = None, *, version: int | None = None) -> Plan:
        """The files that a read with `where` looks at, and how many it passes over."""
        view = self._view(version)
        only = None if where is None else bind_text(where, view.metadata.schema)
        return view.plan(only)

    def read(
        self,
        spark: SparkSession,
        *,
        where: str | Column | None = None,
        columns: Sequence[str] | None = None,
        version: int | None = None,
        timestamp: str | date | datetime | None = None,
        tag: str | None = None,
    ) -> DataFrame:
        """The rows as a Spark DataFrame; `version`, `timestamp`, `tag`: as the table was then.

        Of a view, the tables behind it as they were then; of a mount, always the files as they are now.
        `where` is a predicate (see docs/predicates.md), by which files without a matching row are left out. A
        Spark column, or a text that only Spark can read, is a filter like any other: it leaves out no file
        here, but Spark still passes over what the statistics inside the files exclude.
        """
        from headgate.spark.read import Scan

        view = self._source(version, timestamp, tag)
        if not isinstance(view, TableView):
            return view.frame(spark, where, columns)
        schema = view.metadata.schema
        wanted = chosen_columns(schema, columns)
        only, condition = understood(where, schema)
        scan = Scan(view.loader, view.files(only), view.layout, wanted, only, condition)
        return scan.frame(spark)

    def changes(
        self,
        spark: SparkSession,
        since: int,
        until: int | None = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """The rows that changed after version `since`, up to `until` (by default the newest).

        With two more columns: `_change_type` is `insert`, `delete`, `update_before` or `update_after`;
        `_version` is the one that changed the row. A row that changed often is there as often. Compaction
        changes no row. The columns are those of the table at `until`.
        """
        return self._row_history(since, until, columns).frame(spark)

    def _added_rows(self, spark: SparkSession, since: int, until: int) -> DataFrame:
        """The rows that came after version `since`, up to `until`, if rows were only added between them."""
        from headgate.spark.read import Scan

        lake = self._lake
        before, after, records = lake._records_between(since, until)
        lake._travel.require_changes(self.name, since)
        view = lake._travel.table(self.name, found_table(after, self.name), after.version.number)
        changed = changed_rows(
            lake._driver, view.loader, table_versions(view.loader, records, view.ref, before)
        )
        assert all(rows.change is ChangeType.INSERT and rows.rows is None for rows in changed), self.name
        files = tuple(PlannedFile(rows.file, 0, False) for rows in changed)
        return Scan(view.loader, files, view.metadata, view.schema).frame(spark)

    def changes_arrow(
        self, since: int, until: int | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The same without starting a JVM, for small results; in the order of the versions."""
        return self._row_history(since, until, columns).arrow()

    def _row_history(self, since: int, until: int | None, columns: Sequence[str] | None) -> RowHistory:
        lake = self._lake
        before, after, records = lake._records_between(since, self._version if until is None else until)
        lake._travel.require_changes(self.name, since)
        view = lake._travel.table(self.name, found_table(after, self.name), after.version.number)
        schema = chosen_columns(view.metadata.schema, columns)
        require_free_names(schema)
        versions = table_versions(view.loader, records, view.ref, before)
        changed = changed_rows(lake._driver, view.loader, versions)
        return RowHistory(lake._driver, view.loader, tuple(changed), view.metadata, schema)

    def files(self, *, version: int | None = None) -> tuple[TableFile, ...]:
        """The data files, oldest first."""
        view = self._view(version)
        return tuple(
            TableFile(
                path=planned.file.path,
                rows=planned.file.record_count,
                size_bytes=planned.file.size_bytes,
                version=planned.sequence_number,
                partition=_partition_by_name(view.layout, planned.file),
                delete_files=len(planned.deletes),
            )
            for planned in view.files()
        )

    def _view(
        self,
        version: int | None = None,
        timestamp: str | date | datetime | None = None,
        tag: str | None = None,
    ) -> TableView:
        """The table, for what only tables have."""
        source = self._source(version, timestamp, tag)
        if isinstance(source, TableView):
            return source
        raise not_a_table(self.name, source.definition)

    def _source(
        self,
        version: int | None = None,
        timestamp: str | date | datetime | None = None,
        tag: str | None = None,
    ) -> TableView | Mounted | Viewed:
        """What has this name, to be read."""
        asked = self._lake._version_at(version, timestamp, tag)
        wanted = self._version if asked is None else asked
        found = self._lake._named(self.name, wanted)
        if isinstance(found, TableRef):
            return self._lake._travel.table(self.name, found, wanted)
        match found.definition:
            case CsvMount() | HostMount() as mount:
                return Mounted(self.name, mount)
            case View() | Foreign() as other:
                return Viewed(self._lake, self.name, other, wanted)


@dataclass(frozen=True, slots=True)
class Viewed:
    """A view that is read, at a version or at the newest; or what only a later release can read."""

    lake: Lake
    name: str
    definition: View | Foreign
    version: int | None

    @property
    def schema(self) -> Schema:
        raise self._refusal()

    def arrow(
        self,
        where: str | None,  # noqa: ARG002
        columns: Sequence[str] | None,  # noqa: ARG002
        limit: int | None,  # noqa: ARG002
    ) -> pa.Table:
        raise self._refusal()

    def _refusal(self) -> UnsupportedError:
        if isinstance(self.definition, Foreign):
            problem = f"{self.name} is a {self.definition.kind}, which a later release made"
            return UnsupportedError(problem, "upgrade headgate")
        return UnsupportedError(f"{self.name} is a view, and only Spark runs its query", "use read(spark)")

    def frame(
        self, spark: SparkSession, where: str | Column | None, columns: Sequence[str] | None
    ) -> DataFrame:
        """The rows that are selected, with the columns that are wanted."""
        if isinstance(self.definition, Foreign):
            raise self._refusal()
        rows = self.lake.at(self.version)._rows_of(spark, self.name)
        if where is None and columns is None:
            return rows
        from headgate.spark.read import selected_rows
        from headgate.spark.types import schema_from_spark

        schema = schema_from_spark(rows.schema)
        only, condition = understood(where, schema)
        return selected_rows(rows, schema, chosen_columns(schema, columns), only, condition)


def _require_repeatable(rows: Any) -> None:
    """Refuses rows that come only once: after a conflict, these methods write them again."""
    if type(rows).__name__ == "RecordBatchReader":
        raise InvalidInputError(
            "the rows of a RecordBatchReader come once, and after a conflict they would be needed again",
            "append it in a transaction: with lake.transaction() as tx: tx.table(…).append(reader)",
        )


def _partition_by_name(metadata: TableMetadata, file: DataFile) -> dict[str, Any]:
    spec = metadata.specs[file.spec_id]
    return {field.name: value for field, value in zip(spec.fields, file.partition, strict=True)}
