"""The state of the lake as a fold of its records."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.model.identifiers import GENESIS, Version
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import digest
from headgate.model.record import Record
from headgate.model.state import AppProgress, LakeState
from headgate.model.table import TableAction, TableRef


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
        cancelled=state.cancelled
        if not record.cancels
        else {**state.cancelled, **dict.fromkeys(record.cancels, record.version)},
    )


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
    if not record.tables:
        return state.tables
    # First all names that become free, then all that are taken: two tables may exchange their names.
    tables = dict(state.tables)
    for commit in record.tables:
        freed = commit.name if commit.action is TableAction.DROP else commit.renamed_from
        if freed is not None:
            tables.pop(freed, None)
    changed = {c.name: c.table for c in record.tables if c.action is not TableAction.DROP}
    return {**tables, **changed}


def _apps(state: LakeState, record: Record) -> Mapping[str, AppProgress]:
    if record.app is None:
        return state.apps
    return {**state.apps, record.app.app: AppProgress(record.app.batch, record.version)}
