"""Views and mounts as the log knows them: named objects without rows of their own.

They share one namespace with tables. Their rows are computed when they are read; the log has only
definitions. Also the formats of files of other programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from headgate.errors import CorruptLakeError
from headgate.model.json_object import Json, JsonObject
from headgate.model.table import stored_name


@dataclass(frozen=True, slots=True)
class View:
    """The result of a query over other objects of the lake."""

    sql: str

    @property
    def kind(self) -> str:
        return "view"

    def to_json(self) -> dict[str, Json]:
        return {"sql": self.sql}


@dataclass(frozen=True, slots=True)
class CsvMount:
    """A directory of CSV files. `columns` is an Iceberg schema as JSON; without `header`, they go by
    position.

    Without a `delimiter` it is a comma, and a tab in files whose names end in `.tsv`. A quoted cell spans at
    most `max_cell_lines` lines; without it, as many as the release that reads it allows.
    """

    directory: str
    columns: Mapping[str, Json]
    header: bool = True
    delimiter: str | None = None
    max_cell_lines: int | None = None

    @property
    def kind(self) -> str:
        return "csv"

    @property
    def format(self) -> Format:
        return Format.CSV

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {"directory": self.directory, "columns": dict(self.columns)}
        if not self.header:
            fields["header"] = False
        if self.delimiter is not None:
            fields["delimiter"] = self.delimiter
        if self.max_cell_lines is not None:
            fields["max_cell_lines"] = self.max_cell_lines
        return fields


@dataclass(frozen=True, slots=True)
class HostMount:
    """A directory of the host with files of one format. `columns` is an Iceberg schema as JSON."""

    directory: str
    format: Format
    columns: Mapping[str, Json]

    @property
    def kind(self) -> str:
        return "host"

    def to_json(self) -> dict[str, Json]:
        return {
            "directory": self.directory,
            "format": self.format.value,
            "columns": dict(self.columns),
        }


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object that a later release created. You can list, rename, replace and drop it, but not read it."""

    kind: str
    fields: Mapping[str, Json]

    def to_json(self) -> dict[str, Json]:
        return dict(self.fields)


Mount: TypeAlias = CsvMount | HostMount
Definition: TypeAlias = View | CsvMount | HostMount | Foreign


@dataclass(frozen=True, slots=True)
class NamedObject:
    """A view or a mount. `uuid` stays the same when it is replaced or renamed."""

    uuid: str
    definition: Definition
    unknown: Mapping[str, Json] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.definition.kind

    def to_json(self) -> dict[str, Json]:
        return {**self.unknown, "uuid": self.uuid, "kind": self.kind, **self.definition.to_json()}

    @classmethod
    def from_json(cls, source: JsonObject) -> NamedObject:
        definition = _definition(source)
        if isinstance(definition, Foreign):
            return cls(source.text("uuid"), definition)
        unknown = source.unknown("uuid", "kind", *_KNOWN_FIELDS[definition.kind])
        return cls(source.text("uuid"), definition, unknown)


_KNOWN_FIELDS: Mapping[str, tuple[str, ...]] = {
    "view": ("sql",),
    "csv": ("directory", "columns", "header", "delimiter", "max_cell_lines"),
    "host": ("directory", "format", "columns"),
}


def _definition(source: JsonObject) -> Definition:
    kind = source.text("kind")
    match kind:
        case "view":
            return View(source.text("sql"))
        case "csv":
            return CsvMount(
                source.text("directory"),
                source.object("columns").fields,
                source.fields.get("header") is not False,
                source.optional_text("delimiter"),
                source.optional_number("max_cell_lines"),
            )
        case "host" if source.text("format") in {known.value for known in Format}:
            return HostMount(
                source.text("directory"), Format(source.text("format")), source.object("columns").fields
            )
        case _:
            return Foreign(kind, source.unknown("uuid", "kind"))


class ObjectAction(Enum):
    """What a commit does to a named object. The value is stored."""

    CREATE = "create"
    REPLACE = "replace"
    DROP = "drop"
    RENAME = "rename"


@dataclass(frozen=True, slots=True)
class ObjectCommit:
    """A named object in a record: its definition after the commit, or before it, if it is dropped.

    `name` is the name after the commit; `renamed_from` the one before, if it changed. An object that is
    renamed may be replaced at the same time.
    """

    name: str
    action: ObjectAction
    object: NamedObject
    renamed_from: str | None = None
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            **self.unknown,
            "name": self.name,
            "action": self.action.value,
            "object": self.object.to_json(),
        }
        if self.renamed_from is not None:
            fields["renamed_from"] = self.renamed_from
        return fields

    @classmethod
    def from_json(cls, source: JsonObject) -> ObjectCommit:
        action = source.text("action")
        if action not in {known.value for known in ObjectAction}:
            raise CorruptLakeError(f"{source.origin}: {action!r} is not a known action on an object")
        before = source.optional_text("renamed_from")
        return cls(
            name=stored_name(source.text("name"), source.origin),
            action=ObjectAction(action),
            object=NamedObject.from_json(source.object("object")),
            renamed_from=None if before is None else stored_name(before, source.origin),
            unknown=source.unknown("name", "action", "object", "renamed_from"),
        )


class Format(Enum):
    """A format of files. The value is stored."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    TEXT = "text"
