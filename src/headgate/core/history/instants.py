"""The timeline of a lake, from its records, pending plans, and announcements of running transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from headgate.model.announcement import Announcement
from headgate.model.identifiers import TxId
from headgate.model.instant import Instant
from headgate.model.plan import PendingPlan
from headgate.model.record import Record
from headgate.model.state import LakeState


def timeline(
    records: Sequence[Record],
    plans: Iterable[Record],
    running: Sequence[Announcement],
    state: LakeState,
    now: datetime,
) -> tuple[Instant, ...]:
    """Pending instants first, then those that ended, newest first.

    `records` are the newest of the log, downwards from that of `state`. `plans` are the records that
    scheduled the plans that are pending in `state`.
    """
    committed = {record.txid for record in records}
    alive = [one for one in running if one.txid not in committed]
    names = {table.uuid: name for name, table in state.tables.items()}
    carried_out = {one.plan: _age(one, now) for one in alive if one.plan is not None}
    pending = [_pending_plan(record, names, carried_out) for record in plans]
    return (*(_running(one, now) for one in alive), *pending, *_ended(records, state, names))


def _running(one: Announcement, now: datetime) -> Instant:
    return Instant(
        txid=one.txid.text,
        kind=_words(intent.kind for intent in one.intents),
        state="inflight",
        tables=tuple(sorted(intent.name for intent in one.intents)),
        paths=tuple(sorted(path for intent in one.intents for path in intent.paths)),
        started_at=one.started_at,
        base=one.base.number,
        user=one.user,
        host=one.host,
        heartbeat_age_seconds=_age(one, now),
    )


def _age(one: Announcement, now: datetime) -> float:
    return (now - one.heartbeat_at).total_seconds()


def _pending_plan(record: Record, names: Mapping[str, str], carried_out: Mapping[TxId, float]) -> Instant:
    age = carried_out.get(record.txid)
    scheduled = replace(_completed(record, names), ended_at=None, heartbeat_age_seconds=age)
    return replace(scheduled, state="requested" if age is None else "inflight")


def _ended(records: Sequence[Record], state: LakeState, names: Mapping[str, str]) -> list[Instant]:
    """The commits and what they ended.

    A plan is shown at the commit that scheduled it, if that is included.
    """
    found: list[Instant] = []
    completed_by: dict[TxId, Record] = {}
    cancelled_by: dict[TxId, Record] = {}
    in_sight = {record.txid for record in records}
    for record in records:
        found.append(_completed(record, names))
        completed_by |= dict.fromkeys(record.completes, record)
        cancelled_by |= dict.fromkeys(record.cancels, record)
        found += [_cancelled(txid, record) for txid in record.cancels if txid not in in_sight]
        if record.plan is None:
            continue
        plan = found.pop()
        if record.txid in completed_by:
            found.append(replace(plan, ended_at=completed_by[record.txid].committed_at))
        elif record.txid in cancelled_by:
            ended_at = cancelled_by[record.txid].committed_at
            found.append(replace(plan, state="cancelled", ended_at=ended_at))
        elif record.txid not in state.plans:  # its table was dropped
            found.append(replace(plan, state="cancelled", ended_at=None))
    return found


def _cancelled(txid: TxId, by: Record) -> Instant:
    return Instant(txid.text, "unknown", "cancelled", ended_at=by.committed_at)


def _completed(record: Record, names: Mapping[str, str]) -> Instant:
    plan = record.plan
    return Instant(
        txid=record.txid.text,
        kind=_kind(record),
        state="completed",
        tables=tuple(table.name for table in record.tables) if plan is None else _table_of(plan, names),
        paths=tuple(sorted(record.paths if plan is None else plan.paths)),
        started_at=record.started_at,
        ended_at=record.committed_at,
        version=record.version.number,
        base=record.base.number,
        user=record.command.user,
        host=record.command.host,
    )


def _table_of(plan: PendingPlan, names: Mapping[str, str]) -> tuple[str, ...]:
    # A dropped table no longer has a name.
    return (names.get(plan.table, plan.table),)


def _kind(record: Record) -> str:
    if record.plan is not None:
        return f"{record.plan.service} plan"
    if record.kind != "commit":
        return record.kind
    if record.completes:
        return "completion"
    return _words(table.operation or table.action.value for table in record.tables) or "commit"


def _words(kinds: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(kinds))
