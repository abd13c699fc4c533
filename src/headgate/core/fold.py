"""The state of the lake as a fold of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

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
"""How many cancelled transactions a state remembers: the newest, so that a checkpoint stays small.

Forgetting the others is safe. A transaction reads every record above its base before it commits, and one that
cancels it is always above its base: its id was drawn after the base was read. What the state remembers only
saves a search in the log.
"""


def empty_state(identity: LakeIdentity, identity_bytes: bytes) -> LakeState:
    """The state before the first commit. The digest chain starts at the identity."""
    own = digest(identity_bytes)
    return LakeState(GENESIS, own, identity.first_strategy, own)


def apply(state: LakeState, record: Record, record_bytes: bytes) -> LakeState:
    """The state after `record`, whose decided bytes are `record_bytes`.

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
    )


def _cancelled(state: LakeState, record: Record) -> Mapping[TxId, Version]:
    if not record.cancels:
        return state.cancelled
    known = {**state.cancelled, **dict.fromkeys(record.cancels, record.version)}
    if len(known) <= MAX_CANCELLED:
        return known
    # The same for whoever folds the same records, so that all write the same checkpoint.
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
        if txid not in ended and plan.table not in gone  # nobody can do anything for a dropped table
    }
    return kept if record.plan is None else {**kept, record.txid: record.plan}


def _properties(state: LakeState, record: Record) -> Mapping[str, str]:
    change = record.lake_properties
    if not change:
        # Unchanged parts are shared between states, so a commit costs what it changes.
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
    """What names stand for after `changes`: a name, the one before, and what it is now, if anything."""
    if not changes:
        return before
    # First all names that become free, then all that are taken: two may exchange their names.
    freed = {name if now is None else earlier for name, earlier, now in changes}
    kept = {name: one for name, one in before.items() if name not in freed}
    return {**kept, **{name: now for name, _, now in changes if now is not None}}


def _apps(state: LakeState, record: Record) -> Mapping[str, AppProgress]:
    if record.app is None:
        return state.apps
    return {**state.apps, record.app.app: AppProgress(record.app.batch, record.version)}
