"""Files of a table put together inside a transaction: no row changes, they only move.

Through Arrow, for files that this process can hold. Which files are worth it is not decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headgate.changes import TableChange
from headgate.errors import InternalError
from headgate.iceberg.arrow_files import read_located
from headgate.iceberg.directories import Role
from headgate.iceberg.origins import write_moved
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.target import Target
from headgate.reading import isolation_of

VERB = "compact"


def compacted(change: TableChange, target: Target, files: Sequence[PlannedFile]) -> TableChange:
    """The change with the live rows of `files` in new ones, which are as old as the youngest of them.

    Writes the new files; nobody sees them yet.
    """
    rows = read_located(target.driver, target.loader, files, target.metadata.schema)
    written = write_moved(replace(target, role=Role.CARRIED), rows)
    if sum(file.record_count for file in written) != rows.num_rows:
        raise InternalError(f"{target.table}: a compaction of {rows.num_rows} rows wrote another number")
    youngest = max(planned.sequence_number for planned in files)
    return replace(
        change,
        added=(*change.added, *written),
        replaced={**(change.replaced or {}), **{planned.file.path: planned.file for planned in files}},
        numbers={**change.numbers, **{file.path: youngest for file in written}},
        compaction=True,
        verbs=change.verbs | {VERB},
        isolation=isolation_of(target.metadata),
    )
