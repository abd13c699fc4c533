"""What a record says to those who watch a lake: its descriptor, and the event that hooks get."""

from __future__ import annotations

from functools import reduce
from operator import add

from headgate.model.commit_event import CommitEvent
from headgate.model.json_object import Json, timestamp
from headgate.model.record import Record
from headgate.model.table import NOTHING_CHANGED, PathChange, TableCommit


def descriptor(record: Record) -> dict[str, Json]:
    """Who did what, from where and when, and how much it changed. Made from the record alone."""
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
    """What hooks are told of `record`. `root` is what stands before the keys of objects for other engines."""
    return CommitEvent(
        id=f"{lake_id}-{record.version}",
        lake_id=lake_id,
        place=place,
        version=record.version.number,
        txid=record.txid.text,
        kind=record.kind,
        descriptor=descriptor(record),
        tables=tuple(_told(table, root) for table in record.tables),
        paths={path: change.to_json() for path, change in record.paths.items()},
    )


def _told(table: TableCommit, root: str) -> dict[str, Json]:
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
