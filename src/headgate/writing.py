"""Writing to tables inside a transaction: data files are written at once, the change is noted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from headgate.carrying import over_compaction, over_row_changes
from headgate.changes import Changes, NewTable, TableChange, TableRead
from headgate.changing import Changed, Changing, finished
from headgate.compacting import Rewriting, rewritten
from headgate.core.arguments import public_properties, refuse_credential, texts
from headgate.core.evidence import Evidence
from headgate.core.footprint import Read
from headgate.core.lookup import found_table, not_a_table
from headgate.core.merging import MergeSpec, assignments
from headgate.core.refresh_plan import VIEW_SQL
from headgate.core.settings import OF_TABLES, check_settings
from headgate.core.view_rules import checked_sql
from headgate.engines import engine_of, merge_engine, row_engine
from headgate.errors import InvalidInputError, NotFoundError
from headgate.iceberg.arrow import schema_from_arrow
from headgate.iceberg.arrow_files import read_rows
from headgate.iceberg.binding import bind_text
from headgate.iceberg.bound import Bound
from headgate.iceberg.columns import require_sound, with_clean_docs
from headgate.iceberg.ddl import parse_columns
from headgate.iceberg.evolution import Evolution, Step, Subject
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata, new_table
from headgate.iceberg.partitions import parse_partition_by, written_terms
from headgate.iceberg.planning import PlannedFile, plan
from headgate.iceberg.row_change import MergeEngine, Wanted
from headgate.iceberg.rows import ArrowRows, BatchRows, IncomingRows
from headgate.iceberg.selection import AddedFile, selection_of
from headgate.iceberg.sorting import parse_sort_by
from headgate.iceberg.target import Target
from headgate.intents import announce_change
from headgate.merge import Merge
from headgate.model.announcement import Intent
from headgate.model.footprint import file_mark
from headgate.model.identifiers import TxId
from headgate.model.record import PropertyChange, Record
from headgate.model.row_counts import RowCounts
from headgate.model.state import LakeState
from headgate.model.table import TableCommit, TableName
from headgate.overwriting import Overwriting
from headgate.preparation import table_location, virtual_path
from headgate.reading import checked_limit, chosen_columns, isolation_of, understood
from headgate.structure import Evolvable
from headgate.visibility import visible

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headgate.commit.driver import Driver


Rows: TypeAlias = "pa.Table | pa.RecordBatchReader | DataFrame"
"""What a table takes: a Spark DataFrame, a pyarrow Table for small data, in a transaction also batches."""


_RULES = MappingProxyType({VIEW_SQL: checked_sql})
"""Of table properties whose values have rules of their own: a query may compare a column named `token`."""


class OpenTransaction(Protocol):
    """What writing needs of a transaction."""

    @property
    def base(self) -> LakeState: ...

    @property
    def id(self) -> TxId: ...

    @property
    def driver(self) -> Driver: ...

    def loader(self) -> TableLoader: ...

    def changes(self) -> Changes:
        """What was noted so far; raises if the transaction is over."""
        ...

    def announce(self, intent: Intent, change: TableChange) -> None:
        """Tells others what is about to be done; may raise the conflict that it would end in."""
        ...

    def note(self, change: TableChange) -> None: ...

    def note_read(self, read: TableRead) -> None: ...

    def count(self, rows: RowCounts) -> None:
        """Adds to the rows that the transaction has changed."""
        ...


def require_table(tx: OpenTransaction, name: str) -> None:
    """Refuses a name that is not that of a table, as the transaction has them by now."""
    if name in tx.changes().tables:
        return
    made = tx.changes().objects_on(tx.base).get(name)
    if made is not None:
        raise not_a_table(name, made.definition)
    found_table(tx.base, name)


class TableWriter(Evolvable[None]):
    """A table inside a transaction. Rows are written with the structure that it has at that point."""

    def __init__(self, tx: OpenTransaction, name: str) -> None:
        self._tx = tx
        self.name = name

    @property
    def schema(self) -> Schema:
        """The columns, as the transaction has them by now."""
        return self._metadata(self._change()).schema

    @property
    def partition_by(self) -> tuple[str, ...]:
        """How the files that are written now are partitioned, as `create_table` takes it."""
        metadata = self._metadata(self._change())
        return written_terms(metadata.schema, metadata.spec)

    def append(self, rows: Rows) -> None:
        """Adds rows: a Spark DataFrame, a pyarrow Table, or a pyarrow RecordBatchReader of any length.

        The batches of a reader are written as they come, so what it reads need not fit into memory.
        """
        change = self._change()
        added = (*change.added, *self._incoming(change, rows).written())
        self._note_rows(replace(change, added=added, verbs=change.verbs | {"append"}))

    def overwrite(self, rows: Rows, where: str | None = None) -> None:
        """Replaces all rows that the transaction sees, or exactly those that `where` selects.

        Each of the new rows must be one that `where` selects. Files of which all rows go are not read.
        """
        overwriting = self._overwriting(rows)
        self._note_rows(overwriting.all() if where is None else overwriting.some(where))

    def overwrite_partitions(self, rows: Rows) -> None:
        """Replaces the partitions, by the table's present spec, that `rows` belong to; others stay.

        Rows of these partitions in files of older specs are replaced too: such files are written anew.
        """
        self._note_rows(self._overwriting(rows).partitions())

    def delete(self, where: str | Column) -> RowCounts:
        """Removes the rows that `where` selects, and tells how many that were.

        With Spark if a session is active; without one, through Arrow in this process.
        """
        return self._changing(lambda changing: changing.delete(self._wanted(where)))

    def update(self, values: Mapping[str, str | Column], where: str | Column | None = None) -> RowCounts:
        """Assigns expressions to columns of the rows that `where` selects; of all rows without it.

        All expressions are about the rows as they were. A row whose partition changes moves there.
        """
        checked = assignments(values)
        every = "true" if where is None else where
        return self._changing(lambda changing: changing.update(self._wanted(every), checked))

    def merge(self, source: Rows, on: str | Column) -> Merge[RowCounts]:
        """Merges a source; `commit` of what is returned notes it, and tells how many rows it changes."""
        return Merge(MergeSpec(on), lambda spec: self._merge(source, spec))

    def upsert(self, rows: Rows, keys: Sequence[str]) -> RowCounts:
        """Makes `rows` the rows with their keys: those that are there are updated, others are added.

        Each key is one of the rows, at most once and never null. Of several rows of the table with a key, all
        become the given one.
        """
        names = texts("keys", keys)
        if not names or len(set(names)) < len(names):
            raise InvalidInputError(
                f"{self.name}: an upsert needs keys, each once, but got {list(names)}",
                "name the columns that tell rows apart",
            )
        return self._merging(rows, lambda changing, engine: changing.upsert(engine, names))

    def read_arrow(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows as the transaction sees them: those of its base, with what it has changed itself.

        They become part of what the commit depends on: whether it may be committed after others changed them
        is up to the isolation of the table, or of the transaction.
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
        """The same rows as a Spark DataFrame. Only a `where` that Headgate understands narrows what counts.

        It shows what the transaction saw at this point, whenever Spark reads the files.
        """
        from headgate.spark.read import Scan

        schema = self.schema
        only, condition = understood(where, schema)
        wanted = chosen_columns(schema, columns)
        metadata = self._metadata(self._change())
        scan = Scan(self._tx.loader(), self._read_files(only), metadata, wanted, only, condition)
        return scan.frame(spark)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Sets table properties."""
        change, given = self._change(), public_properties(properties, _RULES)
        check_settings(given, OF_TABLES)
        merged = PropertyChange({**change.properties.set, **given}, change.properties.removed - set(given))
        self._tx.note(replace(change, properties=merged))

    def remove_properties(self, *names: str) -> None:
        """Removes table properties; one that is not there is no error."""
        change, gone = self._change(), frozenset(texts("property names", names))
        for name in gone - self._metadata(change).properties.keys():
            refuse_credential("the name of a property", name)
        kept = {name: value for name, value in change.properties.set.items() if name not in gone}
        merged = PropertyChange(kept, change.properties.removed | gone)
        self._tx.note(replace(change, properties=merged))

    def _evolve(self, step: Step, *description: str) -> None:  # noqa: ARG002 - the transaction has its own
        change = self._change()
        table = Subject(self._metadata(change), self._specs_in_use(change))
        before = change.evolution or Evolution()
        evolved = step(table, before.written if change.added else before)
        self._tx.note(replace(change, evolution=evolved))

    def _change(self) -> TableChange:
        noted = self._tx.changes().tables.get(self.name)
        if noted is not None and noted.dropped:
            raise NotFoundError(f"the table {self.name} was dropped in this transaction")
        return noted or TableChange(self.name, base=found_table(self._tx.base, self.name))

    def _note_rows(self, change: TableChange) -> None:
        """Notes a change of rows, with the virtual paths that it touches."""
        metadata = self._metadata(change)
        files = (*change.added, *(change.replaced or {}).values(), *change.own_deletes)
        # A position file is in the partition of the files that it tells of.
        paths = frozenset(virtual_path(change.name, file, metadata) for file in files)
        self._tx.note(replace(change, paths=paths))

    def _read_files(self, only: Bound | None) -> tuple[PlannedFile, ...]:
        """The files that can hold rows that are read, and a note that they are."""
        change = self._change()
        metadata = self._metadata(change)
        if change.base is not None:
            at_base = plan(self._tx.loader(), metadata, only).files
            read = Read.of(selection_of(only, metadata), (found.file.path for found in at_base))
            self._tx.note_read(TableRead(self.name, change.base, read, isolation_of(metadata)))
        return visible(change, metadata, self._tx.loader(), only).files

    def _wanted(self, where: str | Column) -> Wanted:
        if not isinstance(where, str) and not is_from_spark(where):
            raise InvalidInputError(
                f"{self.name}: a predicate is SQL or a column of Spark, but got {where!r}",
                'write it as "id = 7"; "true" is every row',
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

    def _live_files(self) -> tuple[PlannedFile, ...]:
        """The data files that the transaction sees, with the deletes that apply to each."""
        change = self._change()
        return visible(change, self._metadata(change), self._tx.loader(), None).files

    def _rewrite(self, work: Callable[[Target], Rewriting]) -> None:
        """Puts the rows of files into new ones. Others are told which, before the work begins."""
        change = self._change()
        target = self._target(change)
        asked = work(target)
        files = [planned.file for group in asked.groups for planned in group.files]
        service = "compaction" if asked.clustering is None else "clustering"
        announce_change(self._tx.announce, service, change, target.metadata, files)
        self._note_rows(rewritten(change, target, asked))

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
            from headgate.spark.rows import SparkRows  # only those who use Spark need pyspark loaded

            return SparkRows(target, rows)
        raise InvalidInputError(
            f"{self.name}: rows must be a Spark DataFrame, a pyarrow Table or a pyarrow RecordBatchReader, "
            f"not a {type(rows).__name__}"
        )

    def _metadata(self, change: TableChange) -> TableMetadata:
        """The table as the transaction has it by now, without its files."""
        metadata = self._metadata_before(change)
        return metadata if change.evolution is None else change.evolution.applied(metadata, now_ms=0)

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
    tx: OpenTransaction,
    name: str,
    schema: Any,
    partition_by: Sequence[str],
    sort_by: Sequence[str],
    properties: Mapping[str, str],
) -> TableWriter:
    """Notes that a table is to be made."""
    parsed = TableName.parse(name)
    refuse_credential("the name of a table", name)
    tx.changes().require_free(name, tx.base)
    noted = tx.changes().tables.get(name)
    if noted is not None and not noted.dropped:
        raise InvalidInputError(
            f"the table {name} gets another name in this transaction, and until it ends this is its name",
            "make the new table in the next transaction",
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
    # A table of this name that was dropped before still goes: others may have it under another name by now.
    tx.note(TableChange(name, new=new, instead_of=None if noted is None else noted.base))
    return TableWriter(tx, name)


def carry(tx: OpenTransaction, record: Record, evidence: Evidence) -> bool:
    """Carries what was noted of rows over a compaction in `record`, or a compaction over its row changes.

    False if it cannot be told where rows are now. Nothing is noted then.
    """
    carried: list[TableChange] = []
    for commit in record.tables:
        for change in tx.changes().tables.values():
            if change.base is None or change.base.uuid != commit.table.uuid:
                continue
            after = _carried(tx, change, record, commit, evidence)
            if after is None:
                return False
            carried.append(after)
    for change in carried:
        tx.note(change)
    return True


def _carried(
    tx: OpenTransaction, change: TableChange, record: Record, commit: TableCommit, evidence: Evidence
) -> TableChange | None:
    loader = tx.loader()
    # As they left it: their files may be of a partition spec that we have not seen.
    target = Target(tx.driver, loader, loader.metadata(commit.table.metadata), tx.id, change.name)
    if change.compaction:
        marks = frozenset(file_mark(path) for path in change.compacted)
        rows = evidence.rows(record, commit, marks)
        return None if rows is None else over_row_changes(change, target, record.version.number, rows)
    added = evidence.added(record, commit)
    if added is None or commit.footprint is None:
        return None
    outputs = [file.file for file in added.values() if isinstance(file, AddedFile)]
    return over_compaction(change, target, commit.footprint.compacted, outputs)


def drop(tx: OpenTransaction, name: str) -> None:
    """Notes that a table is to be dropped."""
    tx.note(TableChange(name, base=found_table(tx.base, name), dropped=True))


def rename(tx: OpenTransaction, name: str, to: str) -> None:
    """Notes that a table is to get another name. Its files stay where they are."""
    TableName.parse(to)
    refuse_credential("the name of a table", to)
    tx.changes().require_free(to, tx.base)
    noted = tx.changes().tables.get(name)
    if noted is not None and noted.dropped:
        raise NotFoundError(f"the table {name} was dropped in this transaction")
    tx.note(replace(noted or TableChange(name, base=found_table(tx.base, name)), renamed_to=to))


def finish(tx: OpenTransaction) -> None:
    """Writes what is due before the commit: for copy-on-write, the files of changed rows anew."""
    for change in tx.changes().tables.values():
        if change.to_rewrite or change.deletes:
            target = TableWriter(tx, change.name)._target(change)
            tx.note(finished(change, target, row_engine(target)))


def schema_of(given: Any) -> Schema:
    """An Iceberg schema from an Arrow schema, from DDL, or from an Iceberg schema; with fresh field ids.

    What looks like a credential in the description of a column is replaced.
    """
    return assign_fresh_schema_ids(with_clean_docs(_as_iceberg(given)))


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
        "a schema is DDL, a Spark schema, a pyarrow Schema or an Iceberg Schema, "
        f"not a {type(given).__name__}"
    )


def is_from_spark(given: object) -> bool:
    """Whether a value is one of PySpark's, told without loading it."""
    return type(given).__module__.startswith("pyspark.sql.")
