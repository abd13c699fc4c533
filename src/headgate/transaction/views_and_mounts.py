"""Mounts (directories of the host that you read as tables), and reads of views and mounts in a transaction.

The log stores the location of the directory and the columns of its files. The files do not belong to the
lake: you always read the current files, at every version of the lake.

Inside a transaction, the commit depends on the views and mounts that were read. The tables of a view are read
as the transaction sees them, with its own changes, and each read is noted as if the caller had named the
table. The definition of each view and mount that was used is noted too: the commit conflicts with commits
that replace, rename or drop one of them meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pydantic import ValidationError
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from headgate.arrow.projection import projected
from headgate.arrow.row_filter import selected
from headgate.core.input.arguments import checked_limit, not_a_table, only_spark_reads, require_unicode
from headgate.core.input.secrets import clean_text
from headgate.core.sql.query import Travel
from headgate.core.sql.view_rules import require_names, require_no_circle
from headgate.errors import CorruptLakeError, InvalidInputError, StorageError, shown
from headgate.files.csv_file import Dialect, checked_cell_lines, checked_delimiter
from headgate.files.csv_quotes import MAX_CELL_LINES
from headgate.files.rows import FileRows, infer_columns
from headgate.files.source import SourceFile, has_format
from headgate.files.text_file import SCHEMA as TEXT_SCHEMA
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.schema.arrow import concatenated, first_rows
from headgate.iceberg.schema.columns import require_sound
from headgate.log.layout import IDENTITY
from headgate.model.json_object import Json
from headgate.model.named_object import CsvMount, Foreign, Format, HostMount, Mount, NamedObject, View
from headgate.model.table import TableName
from headgate.storage.mount_roots import MountRoots
from headgate.transaction.reads import chosen_columns, narrowed, understood
from headgate.transaction.table_writer import TableWriter, schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headgate.transaction.builder import Work
    from headgate.transaction.changes import TableChange


CSV_OPTIONS = ("header", "delimiter", "max_cell_lines")


def csv_mount(
    name: str, directory: str | os.PathLike[str], schema: Any, options: Mapping[str, str], lake: str
) -> CsvMount:
    """A mount of a directory of CSV files. Without `schema`, the columns are inferred from the files.

    `lake` is the URI of the lake. Raises `InvalidInputError` unless the directory exists outside the lake and
    the columns are known.
    """
    TableName.parse(name)
    dialect = _dialect(options)
    path = _directory(directory, lake)
    columns = _columns(name, path, Format.CSV, schema, dialect)
    lines = dialect.max_cell_lines if options.get("max_cell_lines") is not None else None
    return CsvMount(str(path), columns, dialect.header, dialect.delimiter, lines)


def host_mount(
    name: str, directory: str | os.PathLike[str], format: str, schema: Any, lake: str
) -> HostMount:
    """A mount of a directory of files of one format. Otherwise the same as `csv_mount`."""
    TableName.parse(name)
    allowed = [known.value for known in Format if known is not Format.CSV]
    if format == Format.CSV.value:
        raise InvalidInputError("mount_directory does not support the format csv", "use mount_csv")
    if format not in allowed:
        raise InvalidInputError(
            f"{shown(format)} is not a format", f"choose one of csv, {', '.join(allowed)}"
        )
    path, kind = _directory(directory, lake), Format(format)
    if kind is Format.TEXT and schema is not None:
        raise InvalidInputError("text files always have the one column value STRING", "omit the schema")
    return HostMount(str(path), kind, _columns(name, path, kind, schema, Dialect()))


def _dialect(options: Mapping[str, str]) -> Dialect:
    if not isinstance(options, Mapping):
        raise InvalidInputError(f"options must be a mapping, not a {type(options).__name__}")
    unknown = sorted(str(name) for name in options if name not in CSV_OPTIONS)
    if unknown:
        # The values are not shown: they may be credentials.
        raise InvalidInputError(
            f"a CSV mount has no option {unknown[0]!r}", f"known: {', '.join(CSV_OPTIONS)}"
        )
    header = str(options.get("header", "true")).lower()
    if header not in ("true", "false"):
        raise InvalidInputError(f"the option header is {header!r}", "set it to true or false")
    return Dialect(
        header == "true",
        checked_delimiter(options.get("delimiter")),
        checked_cell_lines(options.get("max_cell_lines")),
    )


def _directory(given: str | os.PathLike[str], lake: str) -> Path:
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(text, str) or not text:
        raise InvalidInputError(f"a directory must be a path, not {shown(given)}")
    require_unicode("the path of the directory", text)
    if "://" in text or clean_text(text) != text:
        raise InvalidInputError(
            f"{clean_text(text)!r} is not a directory of this host", "pass a path without credentials"
        )
    try:
        path = Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100 — links stay what they are
        is_directory = path.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"{text!r} is not a directory: {error}") from error
    if not is_directory:
        raise InvalidInputError(f"there is no directory {path}", "create it first; you can add files later")
    if _is_inside(path, lake):
        raise InvalidInputError(f"{path} is inside the lake", "mount a directory outside of it")
    return path


def _is_inside(path: Path, lake: str) -> bool:
    parts = urlsplit(lake)
    if parts.scheme != "file":
        return False
    return path.resolve().is_relative_to(Path(unquote(parts.path)).resolve())


def _columns(name: str, path: Path, kind: Format, schema: Any, dialect: Dialect) -> dict[str, Json]:
    """The columns as they are stored: all of them are optional, because the files are not validated."""
    if schema is None:
        schema = (
            TEXT_SCHEMA if kind is Format.TEXT else infer_columns(_list_for_schema(name, path, kind), dialect)
        )
    columns = schema_of(schema)
    require_sound(columns, name)
    optional = [field.model_copy(update={"required": False}) for field in columns.fields]
    fields: dict[str, Json] = json.loads(assign_fresh_schema_ids(Schema(*optional)).model_dump_json())
    return fields


def _list_for_schema(name: str, path: Path, kind: Format) -> tuple[SourceFile, ...]:
    try:
        return list_files(name, path, kind)
    except StorageError as error:
        raise InvalidInputError(error.problem, "specify the columns with schema= or --schema") from error


def list_files(name: str, path: Path, kind: Format) -> tuple[SourceFile, ...]:
    """The files of a format in a directory, sorted by name, without hidden ones (`.x`, `_x`).

    A host mount includes all subdirectories except lakes; a CSV mount includes only the directory itself.
    Raises a `StorageError` that names what is missing: a missing disk must not look like an empty table.
    """
    step = "put it back, or replace or drop the mount"
    try:
        files = _files(path, below=kind is not Format.CSV)
        found = [SourceFile(each, kind, each.stat().st_size) for each in files if has_format(each, kind)]
    except OSError as error:
        place = error.filename or path
        raise StorageError(f"{name}: {place} cannot be read: {error.strerror or error}", step) from error
    if not found:
        raise StorageError(f"{name}: there is no {kind.value} file in {path}", step)
    return tuple(found)


def _files(path: Path, *, below: bool) -> Iterator[Path]:
    """The visible files in a directory, and in those `below` it, each directory sorted by name."""
    left = sorted(path.iterdir(), reverse=True)
    while left:  # not by recursion: a directory of drops may be nested as deeply as its users like
        each = left.pop()
        if each.name[0] in "._":
            continue
        if each.is_file():
            yield each
        elif below and _is_walked(each):
            left += sorted(each.iterdir(), reverse=True)


def _is_walked(directory: Path) -> bool:
    # A link can lead back, or out of the mount. The files of a lake are for Headgate to read, not rows.
    return directory.is_dir() and not directory.is_symlink() and not (directory / IDENTITY).is_file()


@dataclass(frozen=True, slots=True)
class Mounted:
    """A mount that is read. Errors name the file that does not match; they change nothing."""

    name: str
    definition: Mount
    roots: MountRoots

    @property
    def schema(self) -> Schema:
        try:
            return Schema.model_validate(dict(self.definition.columns))
        except ValidationError as error:
            raise CorruptLakeError(f"{self.name}: the log contains invalid columns: {error}") from error

    def sources(self) -> tuple[SourceFile, ...]:
        """The current files. Raises `InvalidInputError` unless this handle is allowed to read them."""
        directory = self.definition.directory
        self.roots.require(self.name, directory)
        found = list_files(self.name, Path(directory), self.definition.format)
        for file in found:
            self.roots.require_file(self.name, directory, file.path)
        return found

    def arrow(self, where: str | None, columns: Sequence[str] | None, limit: int | None) -> pa.Table:
        """Reads rows without starting a JVM. With `limit`, it stops when it has enough rows."""
        at_most, schema = checked_limit(limit), self.schema
        wanted = chosen_columns(schema, columns)
        only = None if where is None else bind_text(where, schema)
        found: list[pa.Table] = []
        missing = at_most
        for batch in FileRows(self.name, schema, self.sources(), self._dialect()).reader():
            rows = pa.Table.from_batches([batch])
            if only is not None:
                rows = rows.filter(selected(projected(rows, schema, self.name), only))
            found.append(projected(rows, wanted, self.name))
            missing = None if missing is None else missing - rows.num_rows
            if missing is not None and missing <= 0:
                break
        return first_rows(concatenated(found, wanted), at_most)

    def frame(
        self, spark: SparkSession, where: str | Column | None, columns: Sequence[str] | None
    ) -> DataFrame:
        """The rows as a DataFrame, read by Spark's own file readers."""
        from headgate.spark.read.files import file_frame
        from headgate.spark.read.table import selected_rows
        from headgate.spark.session import prepared

        schema = self.schema
        rows = file_frame(prepared(spark), self.name, self.sources(), self._dialect(), schema)
        only, condition = understood(where, schema)
        return selected_rows(rows, schema, chosen_columns(schema, columns), only, condition)

    def _dialect(self) -> Dialect:
        match self.definition:
            case CsvMount(_, _, header, delimiter, max_cell_lines):
                return Dialect(header, delimiter, max_cell_lines or MAX_CELL_LINES)
            case _:
                return Dialect()


class ObjectReader(TableWriter):
    """A view or mount inside a transaction. It is read-only."""

    def __init__(self, tx: Work, name: str, found: NamedObject) -> None:
        super().__init__(tx, name)
        self._found = found

    @property
    def schema(self) -> Schema:
        """The columns of a mount. For a view, use `read(spark).schema`: only Spark knows them."""
        return self._mounted().schema

    def read_arrow(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Reads rows from the current files of a mount. Raises `UnsupportedError` for a view."""
        mounted = self._mounted()
        self._tx.note_object_read(self.name)
        return mounted.arrow(where, columns, limit)

    def read(
        self,
        spark: SparkSession,
        *,
        where: str | Column | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """The rows, computed from the tables as the transaction sees them.

        The commit depends on everything that this reads: all rows of each table, whatever `where` selects.
        """
        return narrowed(_Rows(self._tx, spark).of(self.name), where, columns)

    def _mounted(self) -> Mounted:
        match self._found.definition:
            case CsvMount() | HostMount() as mount:
                return Mounted(self.name, mount, self._tx.mounts)
            case View() | Foreign() as other:
                raise only_spark_reads(self.name, other)

    def _change(self) -> TableChange:
        raise not_a_table(self.name, self._found.definition)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Looks up names inside the transaction. `trail` lists the views that a read is part of."""

    tx: Work
    spark: SparkSession

    def of(self, name: str, trail: tuple[str, ...] = ()) -> DataFrame:
        TableName.parse(name)
        found = self.tx.changes().objects_on(self.tx.base).get(name)
        if found is None:
            return self._table(name).read(self.spark)
        self.tx.note_object_read(name)
        match found.definition:
            case View(sql):
                return self._result(name, sql, (*trail, name))
            case CsvMount() | HostMount() as mount:
                return Mounted(name, mount, self.tx.mounts).frame(self.spark, None, None)
            case Foreign() as other:
                raise only_spark_reads(name, other)

    def _table(self, name: str) -> TableWriter:
        """The table that has this name now; a renamed table is noted under its old name."""
        changed = self.tx.changes().tables.values()
        renamed = (
            each.name for each in changed if each.alters.renamed_to == name and not each.alters.dropped
        )
        return TableWriter(self.tx, next(renamed, name))

    def _result(self, name: str, sql: str, trail: tuple[str, ...]) -> DataFrame:
        from headgate.spark.sql.run import StoredQuery

        require_no_circle(trail)
        query = StoredQuery.of(self.spark, name, sql)
        changes, base = self.tx.changes(), self.tx.base
        require_names(name, query.relations, {*changes.tables_on(base), *changes.objects_on(base)})

        def read(table: str, travel: Travel | None) -> DataFrame:
            if travel is None:
                return self.of(table, trail)
            return self.tx.earlier(travel)._rows_of(self.spark, table, trail)

        return query.frame(read)
