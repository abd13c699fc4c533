"""Mounts: directories of the host as tables. What the log says of them, and their rows.

The log has where the directory is and which columns its files have. The files are not the lake's: they are
read as they are at that moment, whichever version of the lake is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pydantic import ValidationError
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from headgate.core.arguments import require_unicode
from headgate.core.secrets import clean_text
from headgate.errors import CorruptLakeError, InvalidInputError, StorageError
from headgate.files.csv_file import Dialect, checked_delimiter
from headgate.files.rows import FileRows, inferred
from headgate.files.source import SourceFile, has_format
from headgate.files.text_file import SCHEMA as TEXT_SCHEMA
from headgate.iceberg.arrow import concatenated, first_rows
from headgate.iceberg.binding import bind_text
from headgate.iceberg.columns import require_sound
from headgate.iceberg.projection import projected
from headgate.iceberg.row_filter import selected
from headgate.model.file_format import Format
from headgate.model.json_object import Json
from headgate.model.named_object import CsvMount, HostMount, Mount
from headgate.reading import checked_limit, chosen_columns, understood
from headgate.writing import schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CSV_OPTIONS = ("header", "delimiter")


def csv_mount(
    name: str, directory: str | os.PathLike[str], schema: Any, options: Mapping[str, str], lake: str
) -> CsvMount:
    """A directory of CSV files; without `schema`, its files tell the columns. `lake` is the URI of the lake.

    Raises `InvalidInputError` unless the directory is there, outside of the lake, and the columns are known.
    """
    dialect = _dialect(options)
    path = _directory(directory, lake)
    columns = _columns(name, path, Format.CSV, schema, dialect)
    return CsvMount(str(path), columns, dialect.header, dialect.delimiter)


def host_mount(
    name: str, directory: str | os.PathLike[str], format: str, schema: Any, lake: str
) -> HostMount:
    """A directory of files of one format; as `csv_mount` otherwise."""
    allowed = [known.value for known in Format if known is not Format.CSV]
    if format == Format.CSV.value:
        raise InvalidInputError("a directory of CSV files has options of its own", "use mount_csv")
    if format not in allowed:
        raise InvalidInputError(f"{format!r} is not a format", f"choose one of csv, {', '.join(allowed)}")
    path, kind = _directory(directory, lake), Format(format)
    if kind is Format.TEXT and schema is not None:
        raise InvalidInputError("text files have one column, value STRING", "leave the schema out")
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
    return Dialect(header == "true", checked_delimiter(options.get("delimiter")))


def _directory(given: str | os.PathLike[str], lake: str) -> Path:
    text = os.fspath(given)
    if not isinstance(text, str) or not text:
        raise InvalidInputError(f"a directory is a path, but got {given!r}")
    require_unicode("the path of the directory", text)
    if "://" in text or clean_text(text) != text:
        raise InvalidInputError(
            f"{clean_text(text)!r} is not a directory of this host", "give a path, without credentials in it"
        )
    try:
        path = Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100 — links stay what they are
        is_directory = path.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"{text!r} is not a directory: {error}") from error
    if not is_directory:
        raise InvalidInputError(f"there is no directory {path}", "make it first; its files may come later")
    if _is_inside(path, lake):
        raise InvalidInputError(f"{path} is inside of the lake", "mount a directory outside of it")
    return path


def _is_inside(path: Path, lake: str) -> bool:
    parts = urlsplit(lake)
    if parts.scheme != "file":
        return False
    return path.resolve().is_relative_to(Path(unquote(parts.path)).resolve())


def _columns(name: str, path: Path, kind: Format, schema: Any, dialect: Dialect) -> dict[str, Json]:
    """The columns as they are kept: any value may be null, whatever was said, for nobody guards the files."""
    if schema is None:
        schema = TEXT_SCHEMA if kind is Format.TEXT else inferred(_told_by(name, path, kind), dialect)
    columns = schema_of(schema)
    require_sound(columns, name)
    optional = [field.model_copy(update={"required": False}) for field in columns.fields]
    fields: dict[str, Json] = json.loads(assign_fresh_schema_ids(Schema(*optional)).model_dump_json())
    return fields


def _told_by(name: str, path: Path, kind: Format) -> tuple[SourceFile, ...]:
    try:
        return listed(name, path, kind)
    except StorageError as error:
        raise InvalidInputError(error.problem, "say what the columns are: schema=, or --schema") from error


def listed(name: str, path: Path, kind: Format) -> tuple[SourceFile, ...]:
    """The files of a format that lie in a directory, sorted by name; hidden ones (`.x`, `_x`) are not seen.

    `StorageError` names what is missing: a disk that is not there must not look like an empty table.
    """
    step = "put it back, or replace or drop the mount"
    try:
        files = [each for each in sorted(path.iterdir()) if each.name[0] not in "._" and each.is_file()]
        found = [SourceFile(each, kind, each.stat().st_size) for each in files if has_format(each, kind)]
    except OSError as error:
        place = error.filename or path
        raise StorageError(f"{name}: {place} cannot be read: {error.strerror or error}", step) from error
    if not found:
        raise StorageError(f"{name}: there is no {kind.value} file in {path}", step)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Mounted:
    """A mount that is read. Errors name the file that does not fit; nothing is changed by them."""

    name: str
    definition: Mount

    @property
    def schema(self) -> Schema:
        try:
            return Schema.model_validate(dict(self.definition.columns))
        except ValidationError as error:
            raise CorruptLakeError(f"{self.name}: the log has columns that are none: {error}") from error

    def sources(self) -> tuple[SourceFile, ...]:
        """The files as they are now."""
        return listed(self.name, Path(self.definition.directory), self.definition.format)

    def arrow(self, where: str | None, columns: Sequence[str] | None, limit: int | None) -> pa.Table:
        """Rows, without starting a JVM. `limit`: files are read until there are enough."""
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
        """The rows as a DataFrame, read by Spark's own readers of files."""
        from headgate.spark.file_read import file_frame
        from headgate.spark.read import selected_rows
        from headgate.spark.session import prepared

        schema = self.schema
        rows = file_frame(prepared(spark), self.name, self.sources(), self._dialect(), schema)
        only, condition = understood(where, schema)
        return selected_rows(rows, schema, chosen_columns(schema, columns), only, condition)

    def _dialect(self) -> Dialect:
        match self.definition:
            case CsvMount(_, _, header, delimiter):
                return Dialect(header, delimiter)
            case _:
                return Dialect()
