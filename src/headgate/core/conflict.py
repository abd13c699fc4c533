"""Whether a transaction still holds on top of what was committed since it began.

The rules are a table. Each looks at the transaction and at one committed record and answers with a reason
or with None; the numbers are those of the conflict matrix in the design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from headgate.model.identifiers import TxId
from headgate.model.record import PropertyChange, Record
from headgate.model.table import TableAction, TableCommit


class Isolation(Enum):
    """How much of what others did meanwhile a change may overlook: the table property `isolation`."""

    SNAPSHOT = "snapshot"
    WRITE_SERIALIZABLE = "write-serializable"
    SERIALIZABLE = "serializable"


Selects: TypeAlias = Callable[[int, tuple[Any, ...]], bool]
"""Whether a predicate can select rows of a partition, given the id of its spec and its values."""


@dataclass(frozen=True, slots=True)
class TableFootprint:
    """What a transaction does to one table. `uuid` is None for a table that it creates.

    `selects` is given by an overwrite of some rows: which ones. `removed` are marks of the files it removes.
    `structure` names the parts of the structure that it changes; `written_fields` are the ids of the columns
    for which its new files have values.
    """

    name: str
    uuid: str | None
    takes_name: str | None = None
    replaces_all: bool = False
    property_names: frozenset[str] = frozenset()
    selects: Selects | None = None
    removed: frozenset[str] = frozenset()
    isolation: Isolation = Isolation.WRITE_SERIALIZABLE
    structure: frozenset[str] = frozenset()
    written_fields: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a transaction read and changes, as far as the rules need to know."""

    txid: TxId
    properties: PropertyChange
    tag_names: frozenset[str] = frozenset()
    tables: tuple[TableFootprint, ...] = ()
    strategy_change: bool = False
    cancels: frozenset[TxId] = frozenset()


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why a transaction cannot be committed.

    `rerun_helps` says whether the same operation, run again on the new head by a fresh transaction, can
    succeed.
    """

    rule: int
    name: str
    other: Record
    reason: str
    rerun_helps: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the matrix: `check` returns the reason in plain words, or None."""

    number: int
    name: str
    check: Callable[[Footprint, Record], str | None]
    rerun_helps: bool = True


def _same_property(ours: Footprint, other: Record) -> str | None:
    names = sorted(ours.properties.names() & other.lake_properties.names())
    return f"both change the lake properties {', '.join(names)}" if names else None


def _same_tag(ours: Footprint, other: Record) -> str | None:
    names = sorted(ours.tag_names & other.tags.names())
    return f"both change the tags {', '.join(names)}" if names else None


def _cancelled(ours: Footprint, other: Record) -> str | None:
    return "it cancels this transaction" if ours.txid in other.cancels else None


def _both_switch(ours: Footprint, other: Record) -> str | None:
    return "both choose the commit strategy" if ours.strategy_change and other.kind == "switch" else None


def _too_late_to_cancel(ours: Footprint, other: Record) -> str | None:
    return "it is the transaction to be cancelled" if other.txid in ours.cancels else None


def _pairs(ours: Footprint, other: Record) -> Iterator[tuple[TableFootprint, TableCommit]]:
    """Our tables and theirs, where they are the same table."""
    for mine in ours.tables:
        yield from ((mine, theirs) for theirs in other.tables if theirs.table.uuid == mine.uuid)


def _same_name(ours: Footprint, other: Record) -> str | None:
    taken = {t.name for t in other.tables if t.action in (TableAction.CREATE, TableAction.RENAME)}
    wanted = sorted({t.takes_name for t in ours.tables if t.takes_name is not None} & taken)
    return f"both make the table {', '.join(wanted)}" if wanted else None


def _table_gone(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        if theirs.action is TableAction.DROP:
            return f"it dropped the table {mine.name}"
        if theirs.action is TableAction.RENAME:
            return f"it renamed the table {mine.name} to {theirs.name}"
    return None


def _both_replace(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        if mine.replaces_all and theirs.replaces_all:
            return f"both replace all rows of {mine.name}"
    return None


def _replaced_before(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        if mine.selects is not None and theirs.replaces_all:
            return f"it replaced all rows of {mine.name}"
    return None


def _same_files(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        if theirs.operation != "overwrite" or theirs.replaces_all or not mine.removed:
            continue
        gone = None if theirs.footprint is None else theirs.footprint.removed
        if gone is None:
            return f"both remove files of {mine.name}, and it removed too many to name"
        if mine.removed & gone:
            return f"both remove the same files of {mine.name} ({len(mine.removed & gone)} of them)"
    return None


def _rows_inside(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        if theirs.operation == "overwrite" and not theirs.replaces_all and _adds_inside(mine, theirs):
            return f"it replaced rows of {mine.name} that this overwrite is about"
    return None


def _append_inside(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        serial = mine.isolation is Isolation.SERIALIZABLE
        if serial and theirs.operation == "append" and _adds_inside(mine, theirs):
            return f"it added rows of {mine.name} that this overwrite is about"
    return None


def _append_to_all(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        serial = mine.isolation is Isolation.SERIALIZABLE
        if serial and mine.replaces_all and theirs.snapshot_id is not None:
            return f"it added rows of {mine.name}, all of which this replaces"
    return None


def _adds_inside(mine: TableFootprint, theirs: TableCommit) -> bool:
    """Whether they can have added rows that our overwrite selects."""
    if mine.selects is None or theirs.snapshot_id is None:
        return False
    added = None if theirs.footprint is None else theirs.footprint.added
    return added is None or any(mine.selects(spec_id, partition) for spec_id, partition in added)


def _same_table_property(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        names = sorted(mine.property_names & theirs.property_names)
        if names:
            return f"both change the properties {', '.join(names)} of {mine.name}"
    return None


def _written_column_dropped(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        lost = sorted(mine.written_fields & theirs.dropped_fields)
        if lost:
            ids = ", ".join(str(field_id) for field_id in lost)
            return f"it dropped columns of {mine.name} that your rows have values for (field ids {ids})"
    return None


def _both_change_structure(ours: Footprint, other: Record) -> str | None:
    for mine, theirs in _pairs(ours, other):
        if mine.structure and theirs.structure:
            parts = ", ".join(sorted(theirs.structure))
            return f"both change the structure of {mine.name}; it changed: {parts}"
    return None


MATRIX: tuple[Rule, ...] = (
    Rule(3, "rows against a dropped column", _written_column_dropped),
    Rule(14, "overwrite of some rows against overwrite of all", _replaced_before),
    Rule(25, "overwrite of some rows against append, serializable", _append_inside),
    Rule(27, "overwrite against overwrite", _both_replace),
    Rule(27, "overwrite against overwrite, same files", _same_files),
    Rule(27, "overwrite against overwrite, same rows", _rows_inside),
    Rule(28, "overwrite of all rows against append, serializable", _append_to_all),
    Rule(29, "structure change against structure change", _both_change_structure),
    Rule(31, "property change against property change", _same_property),
    Rule(31, "table property change against table property change", _same_table_property),
    Rule(31, "tag against tag", _same_tag),
    Rule(31, "strategy change against strategy change", _both_switch),
    Rule(36, "cancelled by a record", _cancelled, rerun_helps=False),
    Rule(36, "cancelling a committed transaction", _too_late_to_cancel, rerun_helps=False),
    Rule(40, "create against create", _same_name, rerun_helps=False),
    Rule(41, "table dropped or renamed", _table_gone, rerun_helps=False),
)


def find_conflicts(ours: Footprint, candidates: Iterable[Record]) -> tuple[Conflict, ...]:
    """Every reason why `ours` cannot be committed on top of `candidates`, oldest first.

    An empty result is permission to rebase.
    """
    return tuple(
        Conflict(rule.number, rule.name, other, reason, rule.rerun_helps)
        for other in candidates
        for rule in MATRIX
        if (reason := rule.check(ours, other)) is not None
    )
