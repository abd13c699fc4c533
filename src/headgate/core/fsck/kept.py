"""Which versions of tables must still be there, once some are expired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headgate.core.fsck.log import TableVersion
from headgate.core.retention import held
from headgate.model.retention import Retention


@dataclass(frozen=True, slots=True)
class KeptTable:
    """A version of a table whose metadata must be there; with `files`, all that it consists of."""

    table: TableVersion
    files: bool


def kept_tables(
    versions: Sequence[TableVersion], retention: Retention, divisor: int, head: int
) -> Iterator[KeptTable]:
    """Of the versions of one table, in order, those that something is kept of."""
    changes = [(one.version.number, one.dropped) for one in versions]
    for one in held(changes, versions[0].ref.uuid, retention, divisor, head):
        yield KeptTable(versions[one.place], one.files)
