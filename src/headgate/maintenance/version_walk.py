"""Iterates over a range of versions: which metadata file each table had, from the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate.errors import CorruptLakeError
from headgate.log.checkpoints import Checkpoints, state_at
from headgate.log.head import RECORDS_AT_ONCE
from headgate.model.identifiers import Version
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.model.table import TableAction, TableRef


@dataclass
class Walk:
    """Iterates over the versions of a lake, up to the state `newest`.

    Caches the states that were requested.
    """

    checkpoints: Checkpoints
    newest: LakeState
    _states: dict[int, dict[str, TableRef]] = field(default_factory=dict)

    def tables_at(self, version: int) -> dict[str, TableRef]:
        """The tables by uuid. Costs one checkpoint at a boundary, and some records at other versions."""
        if version not in self._states:
            found = state_at(self.checkpoints, self.newest, Version(version))
            self._states[version] = {ref.uuid: ref for ref in found.tables.values()}
        return self._states[version]

    def between(self, after: int, last: int) -> Iterator[tuple[Record, dict[str, TableRef]]]:
        """The records above `after` up to `last`, each with the tables by uuid after it.

        All items share one mapping, which changes from record to record.
        """
        state = state_at(self.checkpoints, self.newest, Version(after))
        tables = {ref.uuid: ref for ref in state.tables.values()}
        while state.version.number < last:
            left = last - state.version.number
            progress = self.checkpoints.log.advance(state, min(left, RECORDS_AT_ONCE))
            for record in progress.records:
                apply_record(tables, record)
                yield record, tables
            state = progress.state
            if progress.ended:
                raise CorruptLakeError(f"the record of version {state.version.next()} is missing")


def apply_record(tables: dict[str, TableRef], record: Record) -> None:
    """Applies a record to tables by uuid."""
    for commit in record.tables:
        if commit.action is TableAction.DROP:
            tables.pop(commit.table.uuid, None)
        else:
            tables[commit.table.uuid] = commit.table
