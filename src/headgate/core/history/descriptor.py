"""The descriptor of a record, which is what a lake shows to observers, and the event that hooks get.

Also the lines of an audit: one for each table and virtual path that a commit changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add

from headgate.model.commit_event import CommitEvent
from headgate.model.json_object import Json, JsonObject, timestamp
from headgate.model.record import Record
from headgate.model.table import NOTHING_CHANGED, PathChange, TableCommit


def descriptor(record: Record) -> dict[str, Json]:
    """Who committed what, from where and when, and how much it changed. Computed from the record alone."""
    fields: dict[str, Json] = {
        "kind": record.kind,
        **record.command.to_json(),
        "started_at": timestamp(record.started_at),
        "committed_at": timestamp(record.committed_at),
        "base": record.base.number,
        "attempts": record.attempts,
        "tables": [
            {"name": table.name, "action": table.action.value, "verbs": [*sorted(table.verbs)]}
            for table in record.tables
        ],
        "changed": totals(record).to_json(),
    }
    if record.objects:
        fields["objects"] = [
            {"name": change.name, "action": change.action.value, "kind": change.object.kind}
            for change in record.objects
        ]
    if record.app is not None:
        fields["app"] = record.app.to_json()
    if record.properties:
        fields["properties"] = dict(record.properties)
    return fields


def totals(record: Record) -> PathChange:
    """What a commit added and removed, over all virtual paths."""
    return reduce(add, record.paths.values(), NOTHING_CHANGED)


def commit_event(record: Record, lake_id: str, place: str, root: str) -> CommitEvent:
    """The event that hooks get for `record`.

    `root` is the prefix of the keys of objects, for other engines.
    """
    return CommitEvent(
        id=f"{lake_id}-{record.version}",
        lake_id=lake_id,
        place=place,
        version=record.version.number,
        txid=record.txid.text,
        kind=record.kind,
        descriptor=descriptor(record),
        tables=tuple(_described(table, root) for table in record.tables),
        paths={path: change.to_json() for path, change in record.paths.items()},
    )


def _described(table: TableCommit, root: str) -> dict[str, Json]:
    told: dict[str, Json] = {
        "name": table.name,
        "uuid": table.table.uuid,
        "action": table.action.value,
        "verbs": [*sorted(table.verbs)],
        "metadata": f"{root}/{table.table.metadata}",
    }
    if table.renamed_from is not None:
        told["renamed_from"] = table.renamed_from
    if table.snapshot_id is not None:
        told |= {"snapshot_id": table.snapshot_id, "operation": table.operation}
    return told


_WHO = ("user", "host", "args", "committed_at", "app")
_WHAT = ("uuid", "action", "verbs", "renamed_from", "snapshot_id", "metadata")


def audit_lines(event: CommitEvent) -> tuple[dict[str, Json], ...]:
    """The lines of one commit; there is at least one.

    A table whose files did not change has one line with the path of the whole table. A commit that changed no
    table has one line without table and path.
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
    """All counts, including those that were left out because they are 0."""
    known = PathChange.from_json(JsonObject(change, "a commit event"))
    return {
        "files_added": known.files_added,
        "rows_added": known.rows_added,
        "bytes_added": known.bytes_added,
        "files_removed": known.files_removed,
        "rows_removed": known.rows_removed,
        "bytes_removed": known.bytes_removed,
    }
