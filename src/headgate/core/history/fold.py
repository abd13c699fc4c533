"""The state of the lake as a fold of its records.

The digest chain: each record names the bytes of the one before it, so no record can change unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from headgate.core.history.commit_time import set_backs_after
from headgate.errors import CorruptLakeError
from headgate.model.identifiers import GENESIS, TxId, Version
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import digest
from headgate.model.named_object import NamedObject, ObjectAction
from headgate.model.plan import PendingPlan
from headgate.model.record import Record
from headgate.model.state import AppProgress, LakeState
from headgate.model.table import TableAction, TableRef

T = TypeVar("T")

MAX_CANCELLED = 1000
"""How many cancelled transactions a state remembers: only the newest, so that checkpoints stay small.

It is safe to forget the others. A transaction reads every record above its base before it commits, and a
record that cancels it is always above its base, because its id was drawn after the base was read. The state
only saves a search in the log.
"""


def empty_state(identity: LakeIdentity, identity_bytes: bytes) -> LakeState:
    """The state before the first commit. The digest chain starts at the identity."""
    own = digest(identity_bytes)
    return LakeState(GENESIS, own, identity.first_strategy, own)


def apply(state: LakeState, record: Record, record_bytes: bytes) -> LakeState:
    """The state after `record`, whose bytes in the log are `record_bytes`.

    The caller has checked that the record follows `state`: see `chain.follow`.
    """
    assert record.version == state.version.next(), (record.version, state.version)
    return LakeState(
        version=record.version,
        digest=digest(record_bytes),
        next_strategy=record.next_strategy,
        identity=state.identity,
        properties=_properties(state, record),
        tables=_tables(state, record),
        apps=_apps(state, record),
        tags=_tags(state, record),
        committed_at=record.committed_at,
        cancelled=_cancelled(state, record),
        plans=_plans(state, record),
        objects=_objects(state, record),
        retention=state.retention if record.expires is None else record.expires,
        fence=record.version if record.fences else state.fence,
        set_backs=set_backs_after(
            state.set_backs, state.committed_at, record.version.number, record.committed_at
        ),
    )


def _cancelled(state: LakeState, record: Record) -> Mapping[TxId, Version]:
    if not record.cancels:
        return state.cancelled
    known = {**state.cancelled, **dict.fromkeys(record.cancels, record.version)}
    if len(known) <= MAX_CANCELLED:
        return known
    # Deterministic for every process that folds the same records, so that all write the same checkpoint.
    newest = sorted(known, key=lambda txid: (known[txid], txid), reverse=True)
    return {txid: known[txid] for txid in newest[:MAX_CANCELLED]}


def _plans(state: LakeState, record: Record) -> Mapping[TxId, PendingPlan]:
    ended = {*record.completes, *record.cancels}
    gone = {commit.table.uuid for commit in record.tables if commit.action is TableAction.DROP}
    if record.plan is None and not (state.plans and (ended or gone)):
        return state.plans
    kept = {
        txid: plan
        for txid, plan in state.plans.items()
        if txid not in ended and plan.table not in gone  # a plan for a dropped table cannot be carried out
    }
    return kept if record.plan is None else {**kept, record.txid: record.plan}


def _properties(state: LakeState, record: Record) -> Mapping[str, str]:
    change = record.lake_properties
    if not change:
        # Unchanged parts are shared between states, so a commit only costs what it changes.
        return state.properties
    kept = {name: value for name, value in state.properties.items() if name not in change.removed}
    return {**kept, **change.set}


def _tags(state: LakeState, record: Record) -> Mapping[str, Version]:
    change = record.tags
    if not change:
        return state.tags
    return {**{name: at for name, at in state.tags.items() if name not in change.removed}, **change.set}


def _tables(state: LakeState, record: Record) -> Mapping[str, TableRef]:
    changes = [
        (commit.name, commit.renamed_from, None if commit.action is TableAction.DROP else commit.table)
        for commit in record.tables
    ]
    return _named(state.tables, changes)


def _objects(state: LakeState, record: Record) -> Mapping[str, NamedObject]:
    changes = [
        (commit.name, commit.renamed_from, None if commit.action is ObjectAction.DROP else commit.object)
        for commit in record.objects
    ]
    return _named(state.objects, changes)


def _named(before: Mapping[str, T], changes: Sequence[tuple[str, str | None, T | None]]) -> Mapping[str, T]:
    """What each name stands for after `changes`.

    A change is a name, the previous one, and the new object, if any.
    """
    if not changes:
        return before
    # First release all names that become free, then assign the new ones: two objects may swap their names.
    freed = {name if now is None else earlier for name, earlier, now in changes}
    kept = {name: one for name, one in before.items() if name not in freed}
    return {**kept, **{name: now for name, _, now in changes if now is not None}}


def _apps(state: LakeState, record: Record) -> Mapping[str, AppProgress]:
    if record.app is None:
        return state.apps
    return {**state.apps, record.app.app: AppProgress(record.app.batch, record.version)}


def follow(state: LakeState, data: bytes, origin: str) -> tuple[Record, LakeState]:
    """The record in `data` and the state after it; `CorruptLakeError` if it does not follow `state`."""
    record = Record.decode(data, state.version.next(), origin)
    if record.previous != state.digest:
        raise CorruptLakeError(
            f"the record of version {record.version} ({origin}) follows a record with digest "
            f"{record.previous}, but that of version {state.version} is {state.digest}",
            f"one of the two objects was changed after it was written; compare versions {state.version} "
            f"and {record.version} with a backup",
        )
    return record, apply(state, record, data)
