"""What a commit changed, in lines for an audit: one for each table and virtual path."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.model.commit_event import CommitEvent
from headgate.model.json_object import Json, JsonObject
from headgate.model.table import PathChange

_WHO = ("user", "host", "args", "committed_at", "app")
_WHAT = ("uuid", "action", "verbs", "renamed_from", "snapshot_id", "metadata")


def audit_lines(event: CommitEvent) -> tuple[dict[str, Json], ...]:
    """The lines of one commit; never none.

    A table of which no files changed has one line with the path of the whole table; a commit that changed no
    table has one line without either.
    """
    about: dict[str, Json] = {
        "event": event.id,
        "lake_id": event.lake_id,
        "version": event.version,
        "txid": event.txid,
        "kind": event.kind,
        **{name: event.descriptor[name] for name in _WHO if name in event.descriptor},
    }
    lines = [{**about, **line} for table in event.tables for line in _of_table(table, event.paths)]
    return tuple(lines or [{**about, "table": None, "path": None}])


def _of_table(table: Mapping[str, Json], paths: Mapping[str, Mapping[str, Json]]) -> list[dict[str, Json]]:
    whole = "/" + str(table["name"]).replace(".", "/")
    inside = {path: change for path, change in paths.items() if path == whole or path.startswith(f"{whole}/")}
    about: dict[str, Json] = {name: table[name] for name in _WHAT if name in table}
    return [
        {"table": table["name"], **about, "path": path, **_counts(change)}
        for path, change in (inside or {whole: {}}).items()
    ]


def _counts(change: Mapping[str, Json]) -> dict[str, Json]:
    """All counts, also those that are 0 and were left out."""
    known = PathChange.from_json(JsonObject(change, "a commit event"))
    return {
        "files_added": known.files_added,
        "rows_added": known.rows_added,
        "bytes_added": known.bytes_added,
        "files_removed": known.files_removed,
        "rows_removed": known.rows_removed,
        "bytes_removed": known.bytes_removed,
    }
