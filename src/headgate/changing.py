"""Deletes, updates, merges and upserts inside a transaction: which rows, and what becomes of their files.

Whole files of which every row goes are taken away without being read. Other rows are marked by position
(merge-on-read), or their files are written anew without them (copy-on-write), as the table asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pyroaring import BitMap64

from headgate.changes import TableChange
from headgate.core.footprint import Read
from headgate.core.merging import Expression, Match, MergeSpec, key_columns, require_sound
from headgate.errors import InvalidInputError
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role
from headgate.iceberg.planning import Plan, PlannedFile
from headgate.iceberg.positions import Positions, read_positions, write_positions
from headgate.iceberg.row_change import KeyRange, MergeEngine, RowChange, RowEngine, Wanted
from headgate.iceberg.selection import selection_of
from headgate.iceberg.target import Target
from headgate.model.footprint import Upserted, file_mark
from headgate.model.row_counts import RowCounts
from headgate.reading import isolation_of
from headgate.visibility import visible


class Mode(Enum):
    """How changed rows leave their files: the table properties `write.delete.mode` and so on."""

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"


@dataclass(frozen=True, slots=True)
class Changed:
    """The change with what an operation did to the table, and how many rows that were."""

    change: TableChange
    counts: RowCounts


@dataclass(frozen=True, slots=True)
class Changing:
    """A table in a transaction, some rows of which are about to be changed.

    Each method writes what has to be there before a commit; nobody sees it yet.
    """

    change: TableChange
    target: Target
    engine: RowEngine

    def delete(self, wanted: Wanted) -> Changed:
        """Removes the rows that are wanted."""
        plan = self._plan(wanted.bound)
        whole = plan.whole if wanted.condition is None and wanted.bound is not None else ()
        rest = [found for found in plan.files if found not in whole]
        found = RowChange(deleted=self.engine.deleted(rest, wanted) if rest else Positions())
        return self._changed("delete", plan, wanted.bound, found, whole)

    def update(self, wanted: Wanted, values: Mapping[str, Expression]) -> Changed:
        """Assigns to columns of the rows that are wanted."""
        plan = self._plan(wanted.bound)
        found = self.engine.updated(plan.files, wanted, values) if plan.files else RowChange()
        return self._changed("update", plan, wanted.bound, found)

    def merge(self, engine: MergeEngine, spec: MergeSpec) -> Changed:
        """Merges the source of `engine` into the table."""
        require_sound(spec)
        keys = KeyRange()
        if not spec.of(Match.NOT_MATCHED_BY_SOURCE):
            keys = engine.keys(key_columns(spec.on))
        plan = self._plan(keys.bound)
        return self._changed("merge", plan, keys.bound, engine.merged(plan, spec))

    def upsert(self, engine: MergeEngine, keys: Sequence[str]) -> Changed:
        """Makes the rows of the source those of the table that have their keys."""
        held = engine.keys({key: key for key in keys})
        plan = self._plan(held.bound)
        done = self._changed("upsert", plan, held.bound, engine.upserted(plan, keys))
        looked = Upserted(None, held.bounds)
        if held.partitions is not None:
            looked = Upserted.of(held.partitions, held.bounds)
        before = self.change.upserted
        # Where two upserts of one transaction have looked is not put together: it may have been anywhere.
        return replace(done, change=replace(done.change, upserted=looked if before is None else Upserted()))

    def _plan(self, bound: Bound | None) -> Plan:
        return visible(self.change, self.target.metadata, self.target.loader, bound)

    def _changed(
        self,
        verb: str,
        plan: Plan,
        bound: Bound | None,
        found: RowChange,
        whole: Sequence[PlannedFile] = (),
    ) -> Changed:
        """The change with the rows that were found, whose files are among those of `plan`."""
        by_path = {planned.file.path: planned for planned in plan.files}
        emptied = [by_path[path] for path in found.deleted.by_file if self._is_emptied(by_path[path], found)]
        gone = (*whole, *emptied)
        paths = {planned.file.path for planned in gone}
        left = {path: rows for path, rows in found.deleted.by_file.items() if path not in paths}
        kept = replace(found, deleted=Positions(left))
        counts = RowCounts(
            deleted=sum(self._live_rows(planned) for planned in gone) + len(kept.deleted),
            updated=len(found.updated),
            inserted=sum(file.record_count for file in found.inserted),
        )
        before = self.change
        sought = Read(selection_of(bound, self.target.metadata), self._marks_at_base(plan))
        noted = replace(
            before,
            sought=(*before.sought, sought),
            verbs=before.verbs | {verb},
            isolation=isolation_of(self.target.metadata),
        )
        if not counts:
            return Changed(noted if before.changes_files else before, counts)
        taken = _taken_away(noted, gone)
        marked = self._on_read if self._mode(verb) is Mode.MERGE_ON_READ else self._on_write
        after = marked(taken, kept, by_path)
        return Changed(replace(after, added=(*after.added, *found.images, *found.inserted)), counts)

    def _on_read(
        self, change: TableChange, found: RowChange, by_path: Mapping[str, PlannedFile]
    ) -> TableChange:
        """Marks rows by position."""
        own = {file.path for file in self.change.added}
        return replace(
            change,
            deletes=(*change.deletes, *self._position_files(found, by_path)),
            deleted=_joined(change.deleted, found.deleted, own),
            updated=_joined(change.updated, found.updated, own),
        )

    def _on_write(
        self, change: TableChange, found: RowChange, by_path: Mapping[str, PlannedFile]
    ) -> TableChange:
        """Writes the files anew, without the rows."""
        positions = self._position_files(found, by_path)
        changed = {*found.deleted.by_file, *found.updated.by_file}
        own = {file.path for file in self.change.added}
        without = [
            replace(planned, deletes=(*planned.deletes, *positions))
            for path, planned in by_path.items()
            if path in changed
        ]
        rewritten = [planned for planned in without if planned.file.path not in own]
        new = [planned for planned in without if planned.file.path in own]
        again = (
            *(self.engine.written_again(rewritten, Role.CARRIED) if rewritten else ()),
            *(self.engine.written_again(new, Role.NEW) if new else ()),
        )
        taken = _taken_away(change, without)
        return replace(
            taken,
            added=(*taken.added, *again),
            rewritten=taken.rewritten | {planned.file.path for planned in rewritten},
            positions=(*taken.positions, *(file.path for file in positions)),
        )

    def _position_files(self, found: RowChange, by_path: Mapping[str, PlannedFile]) -> tuple[DataFile, ...]:
        files = {path: planned.file for path, planned in by_path.items()}
        return (
            *write_positions(self.target, found.deleted, files, "deleted"),
            *write_positions(self.target, found.updated, files, "updated"),
        )

    def _is_emptied(self, planned: PlannedFile, found: RowChange) -> bool:
        """Whether all live rows of a file are deleted: then the file goes. None of them may be updated."""
        path = planned.file.path
        return path not in found.updated.by_file and len(found.deleted.in_file(path)) == self._live_rows(
            planned
        )

    def _live_rows(self, planned: PlannedFile) -> int:
        dead = read_positions(self.target.driver, self.target.loader, planned.deletes)
        return planned.file.record_count - len(dead.in_file(planned.file.path))

    def _marks_at_base(self, plan: Plan) -> frozenset[str]:
        own = {file.path for file in self.change.added}
        return frozenset(file_mark(p.file.path) for p in plan.files if p.file.path not in own)

    def _mode(self, verb: str) -> Mode:
        name = f"write.{'merge' if verb == 'upsert' else verb}.mode"
        given = self.target.metadata.properties.get(name, Mode.MERGE_ON_READ.value)
        for mode in Mode:
            if given == mode.value:
                return mode
        raise InvalidInputError(
            f"the table property {name} is {given!r}", f"set it to {' or '.join(mode.value for mode in Mode)}"
        )


def _taken_away(change: TableChange, gone: Sequence[PlannedFile]) -> TableChange:
    """Without these files: those of the transaction itself are forgotten, those of its base are replaced."""
    if not gone:
        return change
    paths = {planned.file.path for planned in gone}
    own = {file.path for file in change.added}
    replaced = {planned.file.path: planned.file for planned in gone if planned.file.path not in own}
    return replace(
        change,
        added=tuple(file for file in change.added if file.path not in paths),
        replaced={**(change.replaced or {}), **replaced} if replaced or change.replaced is not None else None,
    )


def _joined(before: Mapping[str, BitMap64], found: Positions, own: set[str]) -> dict[str, BitMap64]:
    """Rows of files that others know too."""
    joined = dict(before)
    for path, positions in found.by_file.items():
        if path not in own:
            joined[path] = joined.get(path, BitMap64()) | positions
    return joined
