"""Tables as people and programs see them, from their metadata alone: no data file is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.cli import output
from headgate.model.named_object import Foreign, View

if TYPE_CHECKING:
    from headgate.lake.lake_view import LakeView
    from headgate.lake.table import Table, TableSnapshot

SHOWN_HISTORY = 10
TABLE_COLUMNS = ("table", "kind", "rows", "files", "bytes", "columns")
COLUMN_COLUMNS = ("id", "column", "type", "", "description")
HISTORY_COLUMNS = ("version", "committed (UTC)", "operation", "rows added", "rows", "files", "bytes")


def listed_json(view: LakeView, name: str) -> dict[str, Any]:
    """A JSON entry of `headgate tables`: a table, view or mount."""
    table = view.table(name)
    if name in view.objects:
        return {"name": name, "kind": table.kind, "columns": _column_lines(table)}
    return {
        "name": name,
        "kind": table.kind,
        **_size(table),
        "location": table.location,
        "metadata": table.metadata_location,
        "columns": [f"{field.name} {field.field_type}" for field in table.schema.fields],
    }


def listed_row(table: dict[str, Any]) -> tuple[str, ...]:
    """A line of `headgate tables`: a table, view or mount. Only a table has a known size."""
    numbers = (f"{table[name]:,}" if name in table else "" for name in ("rows", "files", "bytes"))
    return (table["name"], table["kind"], *numbers, ", ".join(table["columns"] or ()))


def _column_lines(table: Table) -> list[str] | None:
    """The columns of a table or mount; None for a view, whose columns only Spark knows."""
    if isinstance(table.definition, View | Foreign):
        return None
    return [f"{field.name} {field.field_type}" for field in table.schema.fields]


def table_json(view: LakeView, name: str) -> dict[str, Any]:
    """Everything about a table, for programs. `metadata` is the file that other engines can open.

    For a view or mount: its definition in the log.
    """
    if name in view.objects:
        return {"name": name, "version": view.version, **view.objects[name].to_json()}
    table = view.table(name)
    return {
        "name": name,
        "kind": table.kind,
        "version": view.version,
        "location": table.location,
        "metadata": table.metadata_location,
        "columns": _columns(table),
        "partition_by": list(table.partition_by),
        "sort_by": list(table.sort_by),
        "properties": dict(table.properties),
        **_size(table),
        "history": [_snapshot_json(snapshot) for snapshot in table.history()],
    }


def print_table(view: LakeView, name: str) -> None:
    """Prints everything about a table, view or mount, for people."""
    if name in view.objects:
        _print_object(view, name)
        return
    shown = table_json(view, name)
    fields = {
        "kind": shown["kind"],
        "version": str(view.version),
        "rows": f"{shown['rows']:,}",
        "files": f"{shown['files']:,}",
        "bytes": f"{shown['bytes']:,}",
        "partitioned by": ", ".join(shown["partition_by"]) or "nothing",
        "sorted by": ", ".join(shown["sort_by"]) or "nothing",
        "location": shown["location"],
        "metadata": shown["metadata"],
    }
    properties = {f"property {key}": value for key, value in sorted(shown["properties"].items())}
    output.print_fields(name, fields | properties)
    _print_columns(shown["columns"])
    history = view.table(name).history()[:SHOWN_HISTORY]
    output.print_rows("Latest changes to rows", HISTORY_COLUMNS, [_history_row(each) for each in history])


def _print_object(view: LakeView, name: str) -> None:
    definition = view.objects[name].definition.to_json()
    plain = {key: str(value) for key, value in definition.items() if key != "columns"}
    output.print_fields(name, {"kind": view.objects[name].kind, "version": str(view.version), **plain})
    if "columns" in definition:
        _print_columns(_columns(view.table(name)))


def _print_columns(columns: list[dict[str, Any]]) -> None:
    rows = [
        (str(c["id"]), c["name"], c["type"], "required" if c["required"] else "", c["doc"] or "")
        for c in columns
    ]
    output.print_rows("Columns", COLUMN_COLUMNS, rows)


def _columns(table: Table) -> list[dict[str, Any]]:
    return [
        {
            "id": field.field_id,
            "name": field.name,
            "type": str(field.field_type),
            "required": field.required,
            "doc": field.doc,
        }
        for field in table.schema.fields
    ]


def _size(table: Table) -> dict[str, int]:
    size = table.size
    return {"rows": size.rows, "files": size.files, "bytes": size.bytes}


def _snapshot_json(snapshot: TableSnapshot) -> dict[str, Any]:
    return {
        "version": snapshot.version,
        "snapshot_id": snapshot.snapshot_id,
        "committed_at": snapshot.committed_at.isoformat(),
        "operation": snapshot.operation,
        "rows": snapshot.rows,
        "files": snapshot.files,
        "delete_files": snapshot.delete_files,
        "bytes": snapshot.size_bytes,
        "rows_added": snapshot.rows_added,
        "files_added": snapshot.files_added,
        "files_removed": snapshot.files_removed,
    }


def _history_row(snapshot: TableSnapshot) -> tuple[str, ...]:
    return (
        str(snapshot.version),
        f"{snapshot.committed_at:%Y-%m-%d %H:%M:%S}",
        snapshot.operation,
        f"{snapshot.rows_added:,}",
        f"{snapshot.rows:,}",
        f"{snapshot.files:,}",
        "" if snapshot.size_bytes is None else f"{snapshot.size_bytes:,}",
    )
