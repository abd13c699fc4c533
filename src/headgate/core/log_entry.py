"""Commits as the log shows them to people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headgate.core.descriptor import totals
from headgate.model.json_object import Json
from headgate.model.record import Record
from headgate.model.table import NOTHING_CHANGED, PathChange


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One commit, as `Lake.log` shows it.

    `verbs` are what was done to rows (`append`, `delete`, …), `changed` how many files, rows and bytes that
    added and removed.
    """

    version: int
    txid: str
    kind: str
    committed_at: datetime
    started_at: datetime
    user: str
    host: str
    args: tuple[str, ...]
    base: int
    attempts: int
    app: tuple[str, int] | None
    lake_properties: Mapping[str, str | None]
    tags: Mapping[str, int | None]
    properties: Mapping[str, str]
    tables: tuple[str, ...]
    objects: tuple[str, ...]
    plans: tuple[str, ...]
    cancels: tuple[str, ...]
    next_strategy: str
    record: Mapping[str, Json]
    table_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    changed: PathChange = NOTHING_CHANGED


def log_entry(record: Record) -> LogEntry:
    """A record as people see it."""
    change = record.lake_properties
    return LogEntry(
        version=record.version.number,
        txid=record.txid.text,
        kind=record.kind,
        committed_at=record.committed_at,
        started_at=record.started_at,
        user=record.command.user,
        host=record.command.host,
        args=record.command.args,
        base=record.base.number,
        attempts=record.attempts,
        app=None if record.app is None else (record.app.app, record.app.batch),
        lake_properties={**change.set, **dict.fromkeys(sorted(change.removed))},
        tags={
            **{name: version.number for name, version in record.tags.set.items()},
            **dict.fromkeys(sorted(record.tags.removed)),
        },
        properties=dict(record.properties),
        tables=tuple(f"{table.action.value} {table.name}" for table in record.tables),
        objects=tuple(f"{each.action.value} {each.object.kind} {each.name}" for each in record.objects),
        plans=(
            *(() if record.plan is None else (f"plan {record.plan.service}",)),
            *(f"complete {txid}" for txid in record.completes),
            *(() if record.expires is None else (f"expire up to {record.expires.until}",)),
        ),
        cancels=tuple(txid.text for txid in record.cancels),
        next_strategy=record.next_strategy,
        record=record.to_json(),
        table_names=tuple(table.name for table in record.tables),
        verbs=tuple(sorted({verb for table in record.tables for verb in table.verbs})),
        changed=totals(record),
    )
