"""Writing to tables inside a transaction. Data files are written immediately; the commit adds them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from headgate.arrow.data_files import ArrowRows, BatchRows, IncomingRows, read_rows
from headgate.core.conflict.footprint import Read
from headgate.core.conflict.isolation import isolation_of
from headgate.core.input.arguments import (
    checked_limit,
    found_table,
    public_properties,
    refuse_credential,
    texts,
)
from headgate.core.input.settings import OF_TABLES, check_settings
from headgate.core.plans.refresh import VIEW_SQL
from headgate.core.sql.merge_clauses import MergeSpec, assignments
from headgate.errors import InvalidInputError, NotFoundError, shown
from headgate.iceberg.format.directories import Target
from headgate.iceberg.format.metadata import TableMetadata, new_table
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.predicate.selection import selection_of
from headgate.iceberg.scan.engine import MergeEngine, Wanted
from headgate.iceberg.scan.planning import PlannedFile, plan
from headgate.iceberg.schema.arrow import schema_from_arrow
from headgate.iceberg.schema.columns import require_sound, with_clean_docs
from headgate.iceberg.schema.ddl import parse_columns
from headgate.iceberg.schema.evolution import Evolution, Step, Subject
from headgate.iceberg.schema.partitions import parse_partition_by, written_terms
from headgate.iceberg.schema.sort_orders import parse_sort_by
from headgate.model.record import PropertyChange
from headgate.model.reports import RowCounts
from headgate.model.table import TableName, TableRef
from headgate.transaction.announcing import announce_change
from headgate.transaction.changes import Alteration, NewTable, TableChange, TableRead
from headgate.transaction.engines import checked_query, engine_of, merge_engine, row_engine
from headgate.transaction.evolution import Evolvable
from headgate.transaction.merge_builder import Merge
from headgate.transaction.reads import chosen_columns, understood, visible
from headgate.transaction.rewrite import Rewriting, rewrite_files
from headgate.transaction.row_operations import Changed, Changing, Overwriting, rewrite_changed_files
from headgate.transaction.table_metadata import table_location, virtual_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headgate.transaction.builder import Work


Rows: TypeAlias = "pa.Table | pa.RecordBatchReader | DataFrame"
"""Rows to write: a Spark DataFrame, a pyarrow Table, or in a transaction also a pyarrow RecordBatchReader."""


_RULES = MappingProxyType({VIEW_SQL: checked_query})
"""Table properties whose values have their own rules: a query can compare a column named `token`."""


def require_table(tx: Work, name: str) -> None:
    """Raises an error unless the name is that of a table in the current state of the transaction."""
    TableName.parse(name)
    if name not in tx.changes().tables:
        _found_at_base(tx, name)


def _found_at_base(tx: Work, name: str) -> TableRef:
    """The table of the base with this name."""
    changed = tx.changes().tables.values()
    before = next((c.name for c in changed if c.alters.renamed_to == name and not c.alters.dropped), None)
    if before is not None and name not in tx.base.tables:
        raise NotFoundError(
            f"there is no table {name} yet: this transaction renames {before} to {name} when it commits",
            f"use the old name, {before}, in this transaction",
        )
    _refuse_gone_object(tx, name)
    return found_table(tx.base, name)


def _refuse_gone_object(tx: Work, name: str) -> None:
    """Raises an error if the base has a view or mount with this name, and the transaction no longer has."""
    gone = tx.changes().objects.get(name)
    if gone is None or gone.before is None:
        return
    if gone.after is None:
        raise NotFoundError(f"the view or mount {name} was dropped in this transaction")
    raise NotFoundError(
        f"this transaction renames {name} to {gone.name_after}",
        f"use the new name, {gone.name_after}, in this transaction",
    )


class TableWriter(Evolvable[None]):
    """A table inside a transaction. Each write uses the schema that the table has at that point."""

    def __init__(self, tx: Work, name: str) -> None:
        self._tx = tx
        self.name = name

    @property
    def schema(self) -> Schema:
        """The columns, including changes that this transaction has made so far."""
        return self._metadata(self._change()).schema

    @property
    def partition_by(self) -> tuple[str, ...]:
        """How new files are partitioned, in the form that `create_table` accepts."""
        metadata = self._metadata(self._change())
        return written_terms(metadata.schema, metadata.spec)

    def append(self, rows: Rows) -> None:
        """Adds rows: a Spark DataFrame, a pyarrow Table, or a pyarrow RecordBatchReader of any length.

        The batches of a reader are written as they arrive, so that the rows do not have to fit into memory.
        """
        change = self._change()
        added = (*change.added, *self._incoming(change, rows).write_files())
        self._note_rows(replace(change, added=added, verbs=change.verbs | {"append"}))

    def overwrite(self, rows: Rows, where: str | None = None) -> None:
        """Replaces all rows that the transaction sees, or exactly those that `where` selects.

        `where` must select each new row too. Files whose rows are all replaced are not read.
        """
        overwriting = self._overwriting(rows)
        self._note_rows(overwriting.all() if where is None else overwriting.some(where))

    def overwrite_partitions(self, rows: Rows) -> None:
        """Replaces the partitions of the current partition spec that `rows` belong to. Keeps all others.

        This includes rows of these partitions in files with an older spec; such files are rewritten.
        """
        self._note_rows(self._overwriting(rows).partitions())

    def delete(self, where: str | Column) -> RowCounts:
        """Deletes the rows that `where` selects, and returns how many there were.

        Uses Spark if a session is active, otherwise Arrow in this process.
        """
        return self._changing(lambda changing: changing.delete(self._wanted(where)))

    def update(self, values: Mapping[str, str | Column], where: str | Column | None = None) -> RowCounts:
        """Sets columns of the rows that `where` selects, or of all rows without `where`.

        Every expression sees the row as it was before the update. A row whose partition changes moves to the
        new partition.
        """
        checked = assignments(values)
        every = "true" if where is None else where
        return self._changing(lambda changing: changing.update(self._wanted(every), checked))

    def merge(self, source: Rows, on: str | Column) -> Merge[RowCounts]:
        """Merges a source. Call `commit` on the result; it returns how many rows the merge changes."""
        return Merge(MergeSpec(on), lambda spec: self._merge(source, spec))

    def upsert(self, rows: Rows, keys: Sequence[str]) -> RowCounts:
        """Updates the rows of the table that have the same keys as `rows`, and adds the other rows.

        Each key occurs at most once in `rows` and is never null. If several rows of the table have the same
        key, all of them are updated.
        """
        names = texts("keys", keys)
        if not names or len(set(names)) < len(names):
            raise InvalidInputError(
                f"{self.name}: an upsert needs one or more keys, each named once, but got {list(names)}",
                "name the columns that identify a row",
            )
        return self._merging(rows, lambda changing, engine: changing.upsert(engine, names))

    def read_arrow(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Reads rows as the transaction sees them: those of its base version, with its own changes.

        The commit depends on what you read. The isolation of the table, or of the transaction, determines
        whether it can commit after others changed these rows.
        """
        at_most = checked_limit(limit)
        schema = self.schema
        only = None if where is None else bind_text(where, schema)
        wanted = chosen_columns(schema, columns)
        tx = self._tx
        return read_rows(tx.driver, tx.loader(), self._read_files(only), wanted, only, at_most)

    def read(
        self,
        spark: SparkSession,
        *,
        where: str | Column | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """Does the same as `read_arrow`, but returns a Spark DataFrame.

        The DataFrame contains what the transaction saw at the time of this call, even if Spark reads the
        files later. A `where` that only Spark understands does not limit what the commit depends on.
        """
        from headgate.spark.read.table import Scan

        schema = self.schema
        only, condition = understood(where, schema)
        wanted = chosen_columns(schema, columns)
        metadata = self._metadata(self._change())
        scan = Scan(self._tx.loader(), self._read_files(only), metadata, wanted, only, condition, self._tx.id)
        return scan.frame(spark)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Sets table properties."""
        change, given = self._change(), public_properties(properties, _RULES)
        check_settings(given, OF_TABLES)
        merged = PropertyChange(
            {**change.alters.properties.set, **given}, change.alters.properties.removed - set(given)
        )
        self._tx.note(replace(change, alters=replace(change.alters, properties=merged)))

    def remove_properties(self, *names: str) -> None:
        """Removes table properties. Ignores names that are not set."""
        change, gone = self._change(), frozenset(texts("property names", names))
        for name in gone - self._metadata(change).properties.keys():
            refuse_credential("the name of a property", name)
        kept = {name: value for name, value in change.alters.properties.set.items() if name not in gone}
        merged = PropertyChange(kept, change.alters.properties.removed | gone)
        self._tx.note(replace(change, alters=replace(change.alters, properties=merged)))

    def _evolve(self, step: Step, *description: str) -> None:  # noqa: ARG002 - the transaction has its own
        change = self._change()
        table = Subject(self._metadata(change), self._specs_in_use(change))
        before = change.alters.evolution or Evolution()
        evolved = step(table, before.written if change.added else before)
        self._tx.note(replace(change, alters=replace(change.alters, evolution=evolved)))

    def _change(self) -> TableChange:
        noted = self._tx.changes().tables.get(self.name)
        if noted is not None and noted.alters.dropped:
            raise NotFoundError(f"the table {self.name} was dropped in this transaction")
        return noted or TableChange(self.name, base=_found_at_base(self._tx, self.name))

    def _note_rows(self, change: TableChange) -> None:
        """Notes a change of rows, with the virtual paths that it touches."""
        metadata = self._metadata(change)
        files = (*change.added, *(change.replaced or {}).values(), *change.own_deletes)
        # A position file is in the same partition as the files whose rows it marks.
        paths = frozenset(virtual_path(change.name, file, metadata) for file in files)
        self._tx.note(replace(change, paths=paths))

    def _read_files(self, only: Bound | None) -> tuple[PlannedFile, ...]:
        """The files that can contain the rows to read. Notes the read."""
        change = self._change()
        metadata = self._metadata(change)
        if change.base is not None:
            at_base = plan(self._tx.loader(), metadata, only).files
            read = Read.of(selection_of(only, metadata), (found.file.path for found in at_base))
            self._tx.note_read(TableRead(self.name, change.base, read, isolation_of(metadata.properties)))
        return visible(change, metadata, self._tx.loader(), only).files

    def _wanted(self, where: str | Column) -> Wanted:
        if not isinstance(where, str) and not is_from_spark(where):
            raise InvalidInputError(
                f"{self.name}: a predicate must be a string of SQL or a Spark column, not {shown(where)}",
                'write it as "id = 7"; "true" selects every row',
            )
        bound, condition = understood(where, self.schema)
        return Wanted(bound, condition, str(where))

    def _changing(self, operation: Callable[[Changing], Changed]) -> RowCounts:
        change = self._change()
        target = self._target(change)
        return self._noted(operation(Changing(change, target, row_engine(target), self._tx.announce)))

    def _merging(self, rows: Rows, operation: Callable[[Changing, MergeEngine], Changed]) -> RowCounts:
        change = self._change()
        target = self._target(change)
        engine = merge_engine(target, rows)
        return self._noted(operation(Changing(change, target, engine, self._tx.announce), engine))

    def _rewrite(self, work: Callable[[Target], Rewriting]) -> None:
        """Moves the rows of files into new files. Announces the files before the work begins."""
        change = self._change()
        target = self._target(change)
        asked = work(target)
        files = [planned.file for group in asked.groups for planned in group.files]
        service = "compaction" if asked.clustering is None else "clustering"
        announce_change(self._tx.announce, service, change, target.metadata, files)
        self._note_rows(rewrite_files(change, target, asked))

    def _merge(self, source: Rows, spec: MergeSpec) -> RowCounts:
        return self._merging(source, lambda changing, engine: changing.merge(engine, spec))

    def _noted(self, done: Changed) -> RowCounts:
        if done.counts:
            self._note_rows(done.change)
        elif done.read is not None:
            self._tx.note_read(done.read)
        self._tx.count(done.counts)
        return done.counts

    def _target(self, change: TableChange) -> Target:
        tx = self._tx
        return Target(tx.driver, tx.loader(), self._metadata(change), tx.id, self.name)

    def _overwriting(self, rows: Rows) -> Overwriting:
        change = self._change()
        target, given = self._target(change), self._incoming(change, rows)
        return Overwriting(change, target, given, partial(engine_of, target, rows), self._tx.announce)

    def _incoming(self, change: TableChange, rows: Rows) -> IncomingRows:
        target = self._target(change)
        if isinstance(rows, pa.Table):
            return ArrowRows(target, rows)
        if isinstance(rows, pa.RecordBatchReader):
            return BatchRows(target, rows)
        if is_from_spark(rows):
            from headgate.spark.write.table import SparkRows  # loads pyspark, which only Spark users need

            return SparkRows(target, rows)
        raise InvalidInputError(
            f"{self.name}: rows must be a Spark DataFrame, a pyarrow Table or a pyarrow RecordBatchReader, "
            f"not a {type(rows).__name__}"
        )

    def _metadata(self, change: TableChange) -> TableMetadata:
        """The table in the current state of the transaction, without its files."""
        metadata = self._metadata_before(change)
        return (
            metadata
            if change.alters.evolution is None
            else change.alters.evolution.applied(metadata, now_ms=0)
        )

    def _metadata_before(self, change: TableChange) -> TableMetadata:
        loader = self._tx.loader()
        if change.base is not None:
            return loader.metadata(change.base.metadata)
        assert change.new is not None
        new = change.new
        location = table_location(TableName.parse(change.name_after), new.uuid, self._tx.base)
        uri = loader.uri(location)
        return new_table(new.uuid, uri, new.schema, new.spec, new.sort_order, new.properties, now_ms=0)

    def _specs_in_use(self, change: TableChange) -> frozenset[int]:
        """The partition specs of the manifests that the table can have after `change`."""
        added = frozenset(file.spec_id for file in change.added)
        if change.base is None:
            return added
        loader = self._tx.loader()
        manifests = loader.manifests(loader.metadata(change.base.metadata))
        return added | {manifest.spec_id for manifest in manifests}


def create(
    tx: Work,
    name: str,
    schema: Any,
    partition_by: Sequence[str],
    sort_by: Sequence[str],
    properties: Mapping[str, str],
) -> TableWriter:
    """Notes that a table is created."""
    parsed = TableName.parse(name)
    refuse_credential("the name of a table", name)
    tx.changes().require_free(name, tx.base)
    noted = tx.changes().tables.get(name)
    if noted is not None and not noted.alters.dropped:
        raise InvalidInputError(
            f"this transaction renames the table {name}, so the name is taken until it commits",
            "create the new table in the next transaction",
        )
    columns = schema_of(schema)
    require_sound(columns, name)
    spec = parse_partition_by(texts("partition_by", partition_by), columns)
    order = parse_sort_by(texts("sort_by", sort_by), columns)
    # The same for every attempt of the transaction, and for no other transaction.
    digest = hashlib.sha256(f"{tx.id}/{parsed}".encode()).digest()
    uuid = str(UUID(bytes=digest[:16], version=4))
    given = public_properties(properties, _RULES)
    check_settings(given, OF_TABLES)
    new = NewTable(uuid, columns, spec, order, given)
    # A table with this name that was dropped before is still dropped: others may have renamed it meanwhile.
    tx.note(TableChange(name, new=new, instead_of=None if noted is None else noted.base))
    return TableWriter(tx, name)


def drop(tx: Work, name: str) -> None:
    """Notes that a table is dropped. Earlier searches in it still count as reads.

    A table that this transaction created is simply forgotten. The files that were written for it belong to no
    version, and vacuum deletes them.
    """
    TableName.parse(name)
    noted = tx.changes().tables.get(name)
    if noted is not None and noted.new is not None and noted.instead_of is None:
        tx.forget(name)
        return
    if noted is not None and noted.alters.dropped:
        raise NotFoundError(f"the table {name} was dropped in this transaction")
    base = _found_at_base(tx, name)
    if noted is not None and noted.new is None:
        for read in noted.reach.sought:
            tx.note_read(TableRead(name, base, read, noted.isolation, " and ".join(sorted(noted.verbs))))
    tx.note(TableChange(name, base=base, alters=Alteration(dropped=True)))


def rename(tx: Work, name: str, to: str) -> None:
    """Notes that a table is renamed. Its files stay where they are."""
    TableName.parse(name)
    TableName.parse(to)
    refuse_credential("the name of a table", to)
    tx.changes().require_free(to, tx.base)
    noted = tx.changes().tables.get(name)
    if noted is not None and noted.alters.dropped:
        raise NotFoundError(f"the table {name} was dropped in this transaction")
    change = noted or TableChange(name, base=_found_at_base(tx, name))
    tx.note(replace(change, alters=replace(change.alters, renamed_to=to)))


def finish(tx: Work) -> None:
    """Writes what the commit still needs: for copy-on-write, it rewrites the files with changed rows."""
    for change in tx.changes().tables.values():
        if change.to_rewrite or change.deletes:
            target = TableWriter(tx, change.name)._target(change)
            tx.note(rewrite_changed_files(change, target, row_engine(target)))


def schema_of(given: Any) -> Schema:
    """An Iceberg schema from an Arrow schema, from DDL, or from an Iceberg schema; with fresh field ids.

    Anything that looks like a credential in the description of a column is replaced.
    """
    try:
        return assign_fresh_schema_ids(with_clean_docs(_as_iceberg(given)))
    except RecursionError as error:
        raise InvalidInputError("the types of the schema are nested too deep") from error


def _as_iceberg(given: Any) -> Schema:
    if isinstance(given, str):
        return Schema(*parse_columns(given).fields)
    if isinstance(given, pa.Schema):
        return schema_from_arrow(given)
    if isinstance(given, Schema):
        return given
    if is_from_spark(given):
        from headgate.spark.types import schema_from_spark

        return schema_from_spark(given)
    raise InvalidInputError(
        "a schema must be DDL, a Spark schema, a pyarrow Schema or an Iceberg Schema, "
        f"not a {type(given).__name__}"
    )


def is_from_spark(given: object) -> bool:
    """Whether a value is an object of PySpark. Does not load PySpark."""
    return type(given).__module__.startswith("pyspark.sql.")
