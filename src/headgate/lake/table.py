"""Tables of a lake: reading them, and writing to each in its own transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema

from headgate.arrow.data_files import read_batches, read_rows
from headgate.core.input.arguments import checked_limit, found_table, not_a_table, only_spark_reads
from headgate.core.plans.refresh import VIEW_SQL
from headgate.core.sql.merge_clauses import MergeSpec
from headgate.errors import InvalidInputError
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.metadata import TableMetadata, told_number
from headgate.iceberg.format.snapshot import LIVE_RECORDS, TOTAL_RECORDS
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.scan.change_feed import ChangeType, read_changed_rows
from headgate.iceberg.scan.planning import Plan, PlannedFile
from headgate.iceberg.schema.partitions import written_terms
from headgate.iceberg.schema.sort_orders import written_sort_field
from headgate.lake.change_feed import RowHistory, require_free_names, require_same_table, table_versions
from headgate.lake.time_travel import TableView, TimeTravel
from headgate.model.json_object import JsonObject
from headgate.model.metrics import TableSize
from headgate.model.named_object import CsvMount, Definition, Foreign, HostMount, View
from headgate.model.table import TableRef
from headgate.transaction.evolution import Evolvable
from headgate.transaction.merge_builder import Merge
from headgate.transaction.reads import chosen_columns, narrowed, understood
from headgate.transaction.result import CommitResult
from headgate.transaction.views_and_mounts import Mounted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from headgate.iceberg.format.loader import TableLoader
    from headgate.iceberg.predicate.bound import Bound
    from headgate.iceberg.schema.evolution import Step
    from headgate.lake.lake import Lake
    from headgate.log.driver import Driver
    from headgate.model.reports import ClusteringReport, CompactionProgress
    from headgate.transaction.table_writer import Rows, TableWriter
    from headgate.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file of a table, as `Table.files` returns it. `version` is the one that added the file.

    `rows` counts all rows in the file, including rows that one of its `delete_files` marks as deleted.
    """

    path: str
    rows: int
    size_bytes: int
    version: int
    partition: Mapping[str, Any]
    delete_files: int = 0


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The rows and files of a table after one version.

    `rows` counts the live rows; rows that `delete_files` mark as deleted are still in the data files.
    `size_bytes` is None if the engine that wrote the snapshot did not record it.
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
        """The snapshot from its entry in the metadata of the table."""
        source = JsonObject(raw, "a snapshot of the table")
        summary: Mapping[str, str] = source.text_by_name("summary")
        number = partial(told_number, summary)
        return cls(
            version=source.number("sequence-number"),
            snapshot_id=source.number("snapshot-id"),
            committed_at=source.milliseconds("timestamp-ms"),
            operation=summary.get("operation", ""),
            rows=number(LIVE_RECORDS if LIVE_RECORDS in summary else TOTAL_RECORDS),
            files=number("total-data-files"),
            delete_files=number("total-delete-files"),
            size_bytes=number("total-files-size") if "total-files-size" in summary else None,
            rows_added=number("added-records"),
            files_added=number("added-data-files"),
            bytes_added=number("added-files-size"),
            files_removed=number("deleted-data-files"),
        )


class Table(Evolvable[CommitResult]):
    """A table of a lake.

    Each call looks the table up by name, so you always see the newest version. A table that you got for a
    version always shows that version and is read-only. `made` is the commit that created the table, if
    `create_table` or `create_materialized_view` returned this object.
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
        """`table`, `materialized view` or `view`; for mounts `csv` or `host`."""
        source = self._source()
        if isinstance(source, TableView):
            return "materialized view" if VIEW_SQL in source.metadata.properties else "table"
        return source.definition.kind

    @property
    def definition(self) -> Definition | None:
        """The definition of a view or a mount; None for a table."""
        source = self._source()
        return None if isinstance(source, TableView) else source.definition

    @property
    def schema(self) -> Schema:
        """The columns, as an Iceberg schema. For a view, use `read(spark).schema`: only Spark knows it."""
        return self._source().schema

    @property
    def partition_by(self) -> tuple[str, ...]:
        """How new files are partitioned, in the form that `create_table` accepts."""
        metadata = self._view().metadata
        return written_terms(metadata.schema, metadata.spec)

    @property
    def sort_by(self) -> tuple[str, ...]:
        """How the rows of new files are sorted, in the form that `create_table` accepts."""
        metadata = self._view().metadata
        return tuple(written_sort_field(metadata.schema, field) for field in metadata.sort_order.fields)

    @property
    def location(self) -> str:
        """The URI of the directory of the table, for other engines."""
        return self._view().metadata.location

    @property
    def metadata_location(self) -> str:
        """The URI of the metadata file, for other engines."""
        view = self._view()
        return view.loader.uri(view.ref.metadata)

    @property
    def properties(self) -> Mapping[str, str]:
        return self._view().metadata.properties

    @property
    def snapshot(self) -> TableSnapshot | None:
        """The current snapshot; None for a table that never had rows. Reads only the table's metadata."""
        current = self._view().metadata.snapshot
        return None if current is None else TableSnapshot.of(current)

    @property
    def size(self) -> TableSize:
        """The number of rows, files and bytes of the table. Reads only metadata."""
        snapshot = self.snapshot
        if snapshot is None:
            return TableSize()
        size = snapshot.size_bytes
        if size is None:  # another engine wrote the summary, but the manifests have the sizes too
            size = sum(file.size_bytes for file in self.files())
        return TableSize(snapshot.rows, snapshot.files, snapshot.delete_files, size)

    def history(self) -> tuple[TableSnapshot, ...]:
        """The snapshots that the metadata of the table keeps, at most 100, newest first.

        You can still read older ones by their version, which `Lake.log` lists.
        """
        return tuple(map(TableSnapshot.of, reversed(self._view().metadata.fields["snapshots"])))

    def append(self, rows: Rows, *, args: Sequence[str] = ()) -> CommitResult:
        """Adds rows (a Spark DataFrame or a pyarrow Table) in its own transaction."""
        _require_repeatable(rows)
        return self._run(args, lambda tx: tx.table(self.name).append(rows), blind=True)

    def overwrite(self, rows: Rows, where: str | None = None, *, args: Sequence[str] = ()) -> CommitResult:
        """Replaces all rows of the table, or exactly those that `where` selects.

        Runs in its own transaction, which is retried after a conflict. `where` must select each new row too;
        otherwise this raises an `InvalidInputError` that shows some of the other rows, and nothing changes.
        """
        _require_repeatable(rows)
        return self._run(args, lambda tx: tx.table(self.name).overwrite(rows, where))

    def overwrite_partitions(self, rows: Rows, *, args: Sequence[str] = ()) -> CommitResult:
        """Replaces the partitions that `rows` belong to, in its own transaction. Keeps all others."""
        _require_repeatable(rows)
        return self._run(args, lambda tx: tx.table(self.name).overwrite_partitions(rows))

    def delete(self, where: str | Column, *, args: Sequence[str] = ()) -> CommitResult:
        """Deletes the rows for which `where` is true; `delete("true")` deletes every row.

        The result counts the rows. If there are none, no version is created. Runs in its own transaction on
        the newest version, which is retried after a conflict. Uses Spark if a session is active. Otherwise
        it uses Arrow in this process, which suits tables that are not large. It does not read files whose
        rows are all deleted.
        """
        return self._change_rows(args, lambda table: table.delete(where))

    def update(
        self,
        values: Mapping[str, str | Column],
        where: str | Column | None = None,
        *,
        args: Sequence[str] = (),
    ) -> CommitResult:
        """Sets columns of the rows that `where` selects, or of all rows without `where`.

        `table.update({"status": "'paid'", "n": "n + 1"}, where="id = 7")`: every expression sees the row as
        it was before the update. A row whose partition changes moves to the new partition. Transactions and
        engines work as in `delete`; docs/row-changes.md lists the expressions that work without Spark.
        """
        return self._change_rows(args, lambda table: table.update(values, where))

    def merge(self, source: Rows, on: str | Column, *, args: Sequence[str] = ()) -> Merge[CommitResult]:
        """Merges a source: `table.merge(rows, on="t.id = s.id").when_matched_update().commit()`.

        Expressions call a row of the table `t` and a row of the source `s`. Transactions and engines work as
        in `delete`.
        """
        _require_repeatable(source)
        self._refuse_earlier()
        return Merge(
            MergeSpec(on),
            lambda spec: self._change_rows(args, lambda table: table._merge(source, spec)),
        )

    def upsert(self, rows: Rows, keys: Sequence[str], *, args: Sequence[str] = ()) -> CommitResult:
        """Updates the rows of the table that have the same keys as `rows`, and adds the other rows.

        `rows` must have every column, and each key at most once and never null. Transactions and engines
        work as in `delete`.
        """
        _require_repeatable(rows)
        return self._change_rows(args, lambda table: table.upsert(rows, keys))

    def _change_rows(self, args: Sequence[str], change: Callable[[TableWriter], object]) -> CommitResult:
        self._refuse_earlier()
        return self._run(args, lambda tx: change(tx.table(self.name)))

    def _run(
        self, args: Sequence[str], change: Callable[[Transaction], object], *, blind: bool = False
    ) -> CommitResult:
        self._refuse_earlier()
        return self._lake._handle.run(args, change, blind=blind)

    def _refuse_earlier(self) -> None:
        """Rejects a write through a table at a version, because it would change the newest version."""
        if self._version is not None:
            raise InvalidInputError(
                f"{self.name} at version {self._version} is read-only",
                f"write to the newest version: lake.table({self.name!r})",
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
        """Rewrites files so that their rows are sorted by columns, or by all of them at once (`zorder`).

        A read that selects by these columns can then skip most files; see docs/clustering.md. Within each
        path, this clusters the complete windows and leaves newer files as they are. `where` leaves out paths
        that cannot contain rows that it selects. No row changes. The work is planned and completed through
        the log: until then, changes of rows in these files are rejected, or they cancel the clustering
        (`clustering.allow_updates`). Uses Spark if a session is given or active, otherwise Arrow in this
        process. If it fails or is interrupted, only the work that it had completed takes effect.
        """
        from headgate.maintenance.clustering import Clusterer

        self._refuse_earlier()
        told = progress or (lambda _: None)
        clusterer = Clusterer(self._lake._handle, self.name, args or ("cluster", self.name), spark, told)
        self._view()
        return clusterer.run(by, zorder, where)

    def set_properties(self, properties: Mapping[str, str], *, args: Sequence[str] = ()) -> CommitResult:
        """Sets table properties in its own transaction."""
        return self._run(args, lambda tx: tx.table(self.name).set_properties(properties))

    def remove_properties(self, *names: str, args: Sequence[str] = ()) -> CommitResult:
        """Removes table properties in its own transaction."""
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
        """Reads rows without starting a JVM, for small results.

        `where` is a predicate (see docs/predicates.md). Files are skipped if their partitions and column
        bounds show that no row matches. `limit` is the maximum number of rows; which ones you get is not
        defined. `version`, `timestamp` or `tag` selects an earlier state of the table. Raises
        `UnsupportedError` for a view, which needs Spark.
        """
        at_most = checked_limit(limit)
        view = self._source(version, timestamp, tag)
        if not isinstance(view, TableView):
            return view.arrow(where, columns, at_most)
        return read_rows(*self._chosen(view, where, columns), at_most)

    def read_batches(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        version: int | None = None,
        timestamp: str | date | datetime | None = None,
        tag: str | None = None,
    ) -> pa.RecordBatchReader:
        """Reads the same rows as `read_arrow`, but only while you ask for them, in bounded memory.

        The reader shows the version that it began with. DuckDB, Polars and pyarrow take it as it is, and so
        does the `append` of a table in a transaction. Raises `InvalidInputError` if `columns` is empty.
        """
        at_most = checked_limit(limit)
        view = self._source(version, timestamp, tag)
        if not isinstance(view, TableView):
            return view.arrow(where, columns, at_most).to_reader()
        return read_batches(*self._chosen(view, where, columns), at_most)

    def _chosen(
        self, view: TableView, where: str | None, columns: Sequence[str] | None
    ) -> tuple[Driver, TableLoader, Sequence[PlannedFile], Schema, Bound | None]:
        """What reading through Arrow needs: the files that may have wanted rows, and what to take of them."""
        whole = view.metadata.schema
        schema = chosen_columns(whole, columns)
        only = None if where is None else bind_text(where, whole)
        return self._lake._handle.driver, view.loader, view.files(only), schema, only

    def plan(self, where: str | None = None, *, version: int | None = None) -> Plan:
        """The files that a read with `where` opens, and the number of files that it skips."""
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
        """The rows as a Spark DataFrame. `version`, `timestamp` or `tag` selects an earlier state.

        A view then reads its tables in that state; a mount always reads the current files. `where` is a
        predicate (see docs/predicates.md), and files without a matching row are skipped. It can also be a
        Spark column, or a string that only Spark understands. These are ordinary filters: they skip no
        files, but Spark still skips what the statistics inside the files exclude.
        """
        from headgate.spark.read.table import Scan

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
        """The rows that changed after version `since`, up to version `until` (by default the newest).

        The result has the columns of the table at `until` and two more: `_change_type` is `insert`,
        `delete`, `update_before` or `update_after`, and `_version` is the version that changed the row. A
        row that changed several times appears once for each change. Compaction changes no rows. If the name
        belonged to another table at `since`, this raises a `NotFoundError` that names the version to start
        from.
        """
        return self._row_history(since, until, columns).frame(spark)

    def _added_rows(self, spark: SparkSession, since: int, until: int) -> DataFrame:
        """The rows added after version `since`, up to `until`. The versions between must only add rows."""
        from headgate.spark.read.table import Scan

        lake = self._lake
        before, after, records = lake._handle.records_between(since, until)
        self._travel.require_changes(self.name, since)
        view = self._travel.table(self.name, found_table(after, self.name), after.version.number)
        changed = read_changed_rows(
            lake._handle.driver, view.loader, table_versions(view.loader, records, view.ref, before)
        )
        assert all(rows.change is ChangeType.INSERT and rows.rows is None for rows in changed), self.name
        files = tuple(PlannedFile(rows.file, 0, False) for rows in changed)
        return Scan(view.loader, files, view.metadata, view.schema).frame(spark)

    def changes_arrow(
        self, since: int, until: int | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Does the same as `changes` without a JVM, for small results; ordered by version."""
        return self._row_history(since, until, columns).arrow()

    def _row_history(self, since: int, until: int | None, columns: Sequence[str] | None) -> RowHistory:
        lake = self._lake
        last = self._version if until is None else until
        before, after, records = lake._handle.records_between(since, last)
        self._travel.require_changes(self.name, since)
        view = self._travel.table(self.name, found_table(after, self.name), after.version.number)
        require_same_table(self.name, view.ref, before, records)
        schema = chosen_columns(view.metadata.schema, columns)
        require_free_names(schema)
        versions = table_versions(view.loader, records, view.ref, before)
        changed = read_changed_rows(lake._handle.driver, view.loader, versions)
        return RowHistory(lake._handle.driver, view.loader, tuple(changed), view.metadata, schema)

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
        """The table; raises an error if the name is that of a view or a mount."""
        source = self._source(version, timestamp, tag)
        if isinstance(source, TableView):
            return source
        raise not_a_table(self.name, source.definition)

    @property
    def _travel(self) -> TimeTravel:
        lake = self._lake._handle
        return TimeTravel(lake.checkpoints, lake.loader)

    def _source(
        self,
        version: int | None = None,
        timestamp: str | date | datetime | None = None,
        tag: str | None = None,
    ) -> TableView | Mounted | Viewed:
        """The table, view or mount with this name, for reading."""
        asked = self._lake._history.version_at(version, timestamp, tag)
        wanted = self._version if asked is None else asked
        found = self._lake._names.find(self.name, wanted)
        if isinstance(found, TableRef):
            return self._travel.table(self.name, found, wanted)
        match found.definition:
            case CsvMount() | HostMount() as mount:
                return Mounted(self.name, mount, self._lake._handle.mounts)
            case View() | Foreign() as other:
                return Viewed(self._lake, self.name, other, wanted)


@dataclass(frozen=True, slots=True)
class Viewed:
    """A view at a version or at the newest one; or an object that only a later release can read."""

    lake: Lake
    name: str
    definition: View | Foreign
    version: int | None

    @property
    def schema(self) -> Schema:
        raise only_spark_reads(self.name, self.definition)

    def arrow(
        self,
        where: str | None,  # noqa: ARG002
        columns: Sequence[str] | None,  # noqa: ARG002
        limit: int | None,  # noqa: ARG002
    ) -> pa.Table:
        raise only_spark_reads(self.name, self.definition)

    def frame(
        self, spark: SparkSession, where: str | Column | None, columns: Sequence[str] | None
    ) -> DataFrame:
        """The rows that `where` selects, with the columns in `columns`."""
        if isinstance(self.definition, Foreign):
            raise only_spark_reads(self.name, self.definition)
        return narrowed(self.lake.at(self.version)._rows_of(spark, self.name), where, columns)


def _require_repeatable(rows: Any) -> None:
    """Rejects rows that can be read only once, because a retry after a conflict writes them again."""
    if type(rows).__name__ == "RecordBatchReader":
        raise InvalidInputError(
            "a RecordBatchReader can be read only once, but a retry after a conflict reads the rows again",
            "append it in a transaction: with lake.transaction() as tx: tx.table(…).append(reader)",
        )


def _partition_by_name(metadata: TableMetadata, file: DataFile) -> dict[str, Any]:
    spec = metadata.specs[file.spec_id]
    return {field.name: value for field, value in zip(spec.fields, file.partition, strict=True)}
