"""Which versions of tables must still be there, once some are expired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headgate.core.fsck.log import TableVersion
from headgate.core.retention import kept_until
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
    kept = kept_until(retention, retention.until, divisor)
    following = [one.version.number for one in versions[1:]] + [head + 1]
    for table, end in zip(versions, following, strict=True):
        if table.dropped:
            continue
        number = table.version.number
        if end > retention.until + 1 or number in retention.files.get(table.ref.uuid, ()):
            yield KeptTable(table, files=True)
        elif any(number <= one < end for one in kept):
            yield KeptTable(table, files=False)
