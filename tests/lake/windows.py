"""Compaction of windows in tests: files of a table put together, as a compactor would do it."""

from __future__ import annotations

from dataclasses import replace

import headgate as hg
from headgate.changes import TableChange
from headgate.core.windows import window_of
from headgate.iceberg.arrow_files import read_located
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role, role_of
from headgate.iceberg.origins import moved, write_moved
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.positions import Kind, read_positions, write_positions
from headgate.iceberg.target import Target
from headgate.model.window import Window
from headgate.visibility import visible


def compact_window(lake: hg.Lake, table: str, level: int, last: int) -> int | None:
    """Compacts the files that lie in the window of `level` that ends at `last`; None if there are too few."""
    window = window_of(last, level, lake.divisor)
    tx = lake.transaction()
    writer = tx.table(table)
    change = writer._change()
    target = replace(writer._target(change), role=Role.NEW, window=window)
    live = visible(change, target.metadata, target.loader, None).files
    inside = [one for one in live if _fits(one, window)]
    if len(inside) < 2 and not any(one.as_of(window.last).deletes for one in inside):
        tx.abort()
        return None
    for group in _by_partition(inside):
        change = _rewritten(change, target, group, window)
    writer._note_rows(replace(change, compaction=True, verbs=frozenset({"compact"})))
    return tx.commit().version


def _fits(planned: PlannedFile, window: Window) -> bool:
    return window.holds(planned.covers) and planned.covers.level < window.level


def _by_partition(files: list[PlannedFile]) -> list[list[PlannedFile]]:
    groups: dict[object, list[PlannedFile]] = {}
    for planned in files:
        groups.setdefault((planned.file.spec_id, planned.file.partition), []).append(planned)
    return list(groups.values())


def _rewritten(change: TableChange, target: Target, files: list[PlannedFile], window: Window) -> TableChange:
    past = [planned.as_of(window.last) for planned in files]
    rows = read_located(target.driver, target.loader, past, target.metadata.schema)
    written = write_moved(target, rows)
    numbers = {file.path: window.last for file in written}
    deletes: list[DataFile] = []
    outputs = {file.path: file for file in written}
    for planned in files:
        later = planned.since(window.last)
        for delete, at in zip(later.deletes, later.deleted_at, strict=True):
            places = read_positions(target.driver, target.loader, [delete], [planned.file.path])
            now = moved(target.driver, target.loader, written, places)
            assert now is not None
            if not len(now):
                continue
            kind: Kind = "updated" if role_of(delete.path) is Role.POSITIONS_UPDATED else "deleted"
            for file in write_positions(replace(target, window=None), now, outputs, kind):
                deletes.append(file)
                numbers[file.path] = int(at)
    return replace(
        change,
        added=(*change.added, *written),
        replaced={**(change.replaced or {}), **{planned.file.path: planned.file for planned in files}},
        deletes=(*change.deletes, *deletes),
        numbers={**change.numbers, **numbers},
    )
