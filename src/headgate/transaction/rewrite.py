"""Rewrites files of a table inside a transaction. No row changes; rows only move to other files.

The output of the engine is verified before the commit: it must contain exactly the rows that were live. Other
modules choose which files to rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from headgate.arrow.footers import require_positions, row_count
from headgate.arrow.origins import locate_moved
from headgate.core.conflict.isolation import isolation_of
from headgate.errors import CorruptLakeError, InternalError
from headgate.iceberg.format.data_file import DataFile, partition_key
from headgate.iceberg.format.directories import Role, Target, role_of, window_covered
from headgate.iceberg.format.positions import Kind, Positions, read_positions, write_positions
from headgate.iceberg.scan.engine import Clustering, RewriteGroup, Rewriter, Rewritten
from headgate.iceberg.scan.planning import PlannedFile
from headgate.transaction.changes import TableChange

COMPACT, CLUSTER = "compact", "cluster"

OnGroup: TypeAlias = Callable[[RewriteGroup, Rewritten], None]
"""Is called for each group that was written and verified."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The groups of files to rewrite in one transaction, and the engine; `clustering` is another order."""

    groups: Sequence[RewriteGroup]
    rewriter: Rewriter
    clustering: Clustering | None = None
    on_group: OnGroup = lambda group, done: None  # noqa: ARG005


def rewrite_files(change: TableChange, target: Target, work: Rewriting) -> TableChange:
    """The change with the live rows of all groups in new files, dated at the last version of their window.

    Groups contain all deletes of their files. Deletes up to the end of a window are applied. Rows that were
    deleted later are marked again in the new files, at the versions that deleted them. The new files are not
    visible yet. Raises `InternalError` if the content would change; then nothing may be committed.
    """
    applied = [_as_of_its_end(group) for group in work.groups]
    for group, past, done in zip(
        work.groups, applied, work.rewriter.rewrite(target, applied, work.clustering), strict=True
    ):
        _require_unchanged(target, past, done)
        change = _noted(change, group, done, _mark_later_deletes(target, group, done.files))
        work.on_group(group, done)
    verb = COMPACT if work.clustering is None else CLUSTER
    return replace(
        change,
        compaction=True,
        verbs=change.verbs | {verb},
        isolation=isolation_of(target.metadata.properties),
    )


def _as_of_its_end(group: RewriteGroup) -> RewriteGroup:
    return replace(group, files=tuple(planned.as_of(group.window.last) for planned in group.files))


def _noted(
    change: TableChange, group: RewriteGroup, done: Rewritten, deletes: Mapping[str, tuple[DataFile, int]]
) -> TableChange:
    return replace(
        change,
        added=(*change.added, *done.files),
        replaced={**(change.replaced or {}), **{planned.file.path: planned.file for planned in group.files}},
        deletes=(*change.deletes, *(file for file, _ in deletes.values())),
        numbers={
            **change.numbers,
            **{file.path: group.window.last for file in done.files},
            **{path: version for path, (_, version) in deletes.items()},
        },
    )


# --- deletes that came after the window -------------------------------------------------------------------


def _mark_later_deletes(
    target: Target, group: RewriteGroup, files: Sequence[DataFile]
) -> dict[str, tuple[DataFile, int]]:
    """Position files for the rows that were deleted after the window, by path, with their versions."""
    outputs = {file.path: file for file in files}
    written: dict[str, tuple[DataFile, int]] = {}
    before = Positions()
    for (version, kind), deletes in sorted(_later(group).items()):
        paths = [planned.file.path for planned in group.files]
        places = read_positions(target.driver, target.loader, deletes, paths) - before
        before |= places
        now = locate_moved(target.driver, target.loader, files, places) if len(places) else Positions()
        if now is None:
            raise InternalError(f"{target.table}: {group.path}: new files do not record where rows came from")
        if len(now):
            for file in write_positions(target, now, outputs, kind):
                written[file.path] = file, version
    return written


def _later(group: RewriteGroup) -> dict[tuple[int, Kind], list[DataFile]]:
    found: dict[tuple[int, Kind], list[DataFile]] = {}
    for planned in group.files:
        later = planned.since(group.window.last)
        for delete, at in zip(later.deletes, later.deleted_at, strict=True):
            found.setdefault((int(at), _kind(delete)), []).append(delete)
    return found


def _kind(delete: DataFile) -> Kind:
    return "updated" if role_of(delete.path) is Role.POSITIONS_UPDATED else "deleted"


# --- what was written -------------------------------------------------------------------------------------


def _require_unchanged(target: Target, group: RewriteGroup, done: Rewritten) -> None:
    """Raises an error if the rewrite would change a row, or move one to a wrong partition."""
    live = live_rows(target, group.files)
    kept = sum(file.record_count for file in done.files)
    if not live == kept == done.before.rows == done.after.rows:
        for planned in group.files:
            _require_own_rows(target, planned)
        raise _changed(target, group, f"{kept} of {live} rows are left, {done.after.rows} when read back")
    if done.before != done.after:
        raise _changed(target, group, f"its {live} rows are not the original ones")
    first = group.files[0].file
    place = (first.spec_id, partition_key(first.partition))
    for file in done.files:
        if (file.spec_id, partition_key(file.partition)) != place:
            raise _changed(target, group, f"{file.path} is in another partition")
        if window_covered(file.path, 0) != group.window:
            raise _changed(target, group, f"{file.path} is not named after the versions {group.window}")


def _require_own_rows(target: Target, planned: PlannedFile) -> None:
    """Raises `CorruptLakeError` if the manifest says something else of a file than its footer.

    Then the lake is damaged, and the rewrite is right.
    """
    loader, file = target.loader, planned.file
    present = row_count(target.driver, loader.key(file.path), file.path)
    if present != file.record_count:
        raise CorruptLakeError(
            f"{file.path} has {present:,} rows, but the manifest of {target.table} says {file.record_count:,}"
        )
    dead = read_positions(target.driver, loader, planned.deletes, [file.path])
    require_positions(file, dead.in_file(file.path), present)


def _changed(target: Target, group: RewriteGroup, reason: str) -> InternalError:
    return InternalError(
        f"{target.table}: rewriting {group.path} (versions {group.window}) would change it: {reason}; "
        "nothing was committed"
    )


def live_rows(target: Target, files: Sequence[PlannedFile]) -> int:
    """How many rows of files are not deleted."""
    deletes = [delete for planned in files for delete in planned.deletes]
    paths = [planned.file.path for planned in files]
    dead = read_positions(target.driver, target.loader, deletes, paths)
    return sum(planned.file.record_count for planned in files) - len(dead)
