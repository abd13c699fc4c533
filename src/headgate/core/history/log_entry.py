"""Commits as the log shows them to people and programs, and the selection of the commits to show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from headgate.core.history.descriptor import totals
from headgate.core.input.arguments import texts
from headgate.core.plans.hooks import ANY_COMMIT, When
from headgate.model.identifiers import GENESIS
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import Json, timestamp
from headgate.model.record import Record
from headgate.model.table import NOTHING_CHANGED, PathChange

INIT = "init"
"""The kind of version 0."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One commit, as `Lake.log` shows it.

    `verbs` say what was done to rows (`append`, `delete`, …), `changed` how many files, rows and bytes that
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
    """A record as `Lake.log` shows it."""
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


def init_entry(identity: LakeIdentity) -> LogEntry:
    """Version 0, which created the lake. In lakes of earlier releases, its author is unknown."""
    command = identity.command
    return LogEntry(
        version=GENESIS.number,
        txid=identity.lake_id,
        kind=INIT,
        committed_at=identity.created_at,
        started_at=identity.created_at,
        user="" if command is None else command.user,
        host="" if command is None else command.host,
        args=() if command is None else command.args,
        base=GENESIS.number,
        attempts=1,
        app=None,
        lake_properties={},
        tags={},
        properties={},
        tables=(),
        objects=(),
        plans=(),
        cancels=(),
        next_strategy=identity.first_strategy,
        record={
            # The fields that every record has, for programs that read logs, and the content of version 0.
            "version": GENESIS.number,
            "txid": identity.lake_id,
            "kind": INIT,
            "started_at": timestamp(identity.created_at),
            "committed_at": timestamp(identity.created_at),
            "base": GENESIS.number,
            "attempts": 1,
            "next_strategy": identity.first_strategy,
            **identity.to_json(),
        },
    )


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Commits that match `which` (tables and kinds, as for hooks), by `user`, not before `since`."""

    which: When = ANY_COMMIT
    user: str | None = None
    since: datetime | None = None

    @classmethod
    def of(cls, table: str | None, kind: str | None, user: str | None, since: datetime | None) -> LogQuery:
        """The criteria of a caller; None matches everything."""
        given = {"table": table, "kind": kind, "user": user}
        tables, kinds, users = (texts(name, () if one is None else (one,)) for name, one in given.items())
        return cls(When(tables, kinds), next(iter(users), None), since)

    def chosen(self, records: Iterable[Record]) -> Iterator[Record]:
        """The matching entries of `entries`, which run from some version downwards."""
        for record in records:
            if self.since is not None and record.committed_at < self.since:
                return  # no earlier version was committed later
            if self.which.holds(record) and self.user in (None, record.command.user):
                yield record

    def chooses_init(self, made_at: datetime, user: str) -> bool:
        """Whether version 0, created by `user`, matches: it changed no table."""
        is_late_enough = self.since is None or made_at >= self.since
        return self.which == ANY_COMMIT and self.user in (None, user) and is_late_enough
