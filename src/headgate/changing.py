"""Deletes, updates, merges and upserts inside a transaction: which rows, and what becomes of their files.

Whole files of which every row goes are taken away without being read. Other rows are marked by position. That
is all for merge-on-read; for copy-on-write, `finished` writes their files anew without them, once for all
that a transaction has done, before it commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum

from pyroaring import BitMap64

from headgate.changes import TableChange, TableRead
from headgate.core.footprint import Read
from headgate.core.merging import Expression, Match, MergeSpec, require_sound
from headgate.errors import InvalidInputError
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role, role_of
from headgate.iceberg.planning import Plan, PlannedFile
from headgate.iceberg.positions import Kind, Positions, read_positions, write_positions
from headgate.iceberg.row_change import KeyRange, MergeEngine, RowChange, RowEngine, Wanted
from headgate.iceberg.selection import selection_of
from headgate.iceberg.target import Target
from headgate.intents import Announce, announce_change
from headgate.model.footprint import Upserted
from headgate.model.row_counts import RowCounts
from headgate.reading import isolation_of
from headgate.visibility import visible


class Mode(Enum):
    """How changed rows leave their files: the table properties `write.delete.mode` and so on."""

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"


@dataclass(frozen=True, slots=True)
class Changed:
    """The change with what an operation did to the table, and how many rows that were.

    If it found none, `change` is the one from before; what it looked for is `read`, unless the table is new.
    """

    change: TableChange
    counts: RowCounts
    read: TableRead | None = None


@dataclass(frozen=True, slots=True)
class Changing:
    """A table in a transaction, some rows of which are about to be changed.

    Each method writes what has to be there before a commit; nobody sees it yet.
    """

    change: TableChange
    target: Target
    engine: RowEngine
    announce: Announce

    def delete(self, wanted: Wanted) -> Changed:
        """Removes the rows that are wanted."""
        operation = self._operation("delete", wanted.bound)
        plan = operation.plan
        if wanted.bound is None:
            # Only the engine understands the condition, so only it can refuse it, whatever there is to read.
            return operation.changed(RowChange(deleted=self.engine.deleted(plan.files, wanted)))
        found = self.engine.deleted(plan.partial, wanted) if plan.partial else Positions()
        return operation.changed(RowChange(deleted=found), plan.whole)

    def update(self, wanted: Wanted, values: Mapping[str, Expression]) -> Changed:
        """Assigns to columns of the rows that are wanted."""
        operation = self._operation("update", wanted.bound)
        return operation.changed(self.engine.updated(operation.plan.files, wanted, values))

    def merge(self, engine: MergeEngine, spec: MergeSpec) -> Changed:
        """Merges the source of `engine` into the table."""
        require_sound(spec)
        keys = KeyRange()
        if not spec.of(Match.NOT_MATCHED_BY_SOURCE):
            keys = engine.keys(engine.matching(spec.on))
        operation = self._operation("merge", keys.place, decisive=spec.depends_on_rows_it_leaves)
        return operation.changed(engine.merged(operation.plan, spec))

    def upsert(self, engine: MergeEngine, keys: Sequence[str]) -> Changed:
        """Makes the rows of the source those of the table that have their keys."""
        held = engine.keys({key: key for key in keys})
        operation = self._operation("upsert", held.place)
        done = operation.changed(engine.upserted(operation.plan, keys))
        if not done.counts:
            return done
        looked = Upserted.of(held.partitions, held.bounds)
        # Where two upserts of one transaction have looked is not put together: it may have been anywhere.
        upserted = looked if self.change.upserted is None else Upserted()
        return replace(done, change=replace(done.change, upserted=upserted))

    def _operation(self, verb: str, bound: Bound | None, *, decisive: bool = False) -> RowOperation:
        target = self.target
        plan = visible(self.change, target.metadata, target.loader, bound)
        operation = RowOperation(self.change, target, verb, mode_of(target, verb), bound, plan, decisive)
        operation.announce(self.announce)
        return operation


def mode_of(target: Target, verb: str) -> Mode:
    """How the table wants rows to be changed by an operation."""
    name = f"write.{'merge' if verb == 'upsert' else verb}.mode"
    given = target.metadata.properties.get(name, Mode.MERGE_ON_READ.value)
    for mode in Mode:
        if given == mode.value:
            return mode
    raise InvalidInputError(
        f"{target.table}: the table property {name} is {given!r}",
        f"set it to {' or '.join(mode.value for mode in Mode)}",
    )


@dataclass(frozen=True, slots=True)
class RowOperation:
    """One operation on rows that `bound` can be about (None: any rows), in the files of `plan`.

    `decisive`: what it adds depends on rows that it leaves as they are.
    """

    change: TableChange
    target: Target
    verb: str
    mode: Mode
    bound: Bound | None
    plan: Plan
    decisive: bool = False

    def announce(self, announce: Announce) -> None:
        """Tells others which files the operation may change, before it looks into them."""
        files = [planned.file for planned in self.plan.files]
        if not files:
            return
        by_position = self.mode is Mode.MERGE_ON_READ
        announce_change(
            announce, self.verb, self._noted(), self.target.metadata, files, by_position=by_position
        )

    def changed(self, found: RowChange, whole: Sequence[PlannedFile] = ()) -> Changed:
        """The change with the rows that were found, and without the files that go as a `whole`."""
        staying = [planned for planned in whole if self._must_stay(planned.file.path)]
        whole = [planned for planned in whole if not self._must_stay(planned.file.path)]
        found = replace(found, deleted=found.deleted | self._live_positions(staying))
        counts = RowCounts(
            deleted=sum(self._live_rows(planned) for planned in whole) + len(found.deleted),
            updated=len(found.updated),
            inserted=sum(file.record_count for file in found.inserted),
        )
        if not counts:
            return Changed(self.change, counts, self._read())
        by_path = {planned.file.path: planned for planned in self.plan.files}
        touched = {**found.deleted.by_file, **found.updated.by_file}
        gone = (*whole, *(by_path[path] for path in touched if self._is_emptied(by_path[path], found)))
        paths = {planned.file.path for planned in gone}
        kept = replace(found, deleted=_without(found.deleted, paths), updated=_without(found.updated, paths))
        marked = self._marked(_taken_away(self._noted(), gone), kept, by_path)
        added = (*marked.added, *found.images, *found.inserted)
        return Changed(replace(marked, added=added), counts)

    def _noted(self) -> TableChange:
        """The change with what the operation was about."""
        before = self.change
        return replace(
            before,
            sought=(*before.sought, self._looked_for()),
            verbs=before.verbs | {self.verb},
            isolation=isolation_of(self.target.metadata),
        )

    def _read(self) -> TableRead | None:
        """That there was nothing to change is something that the transaction has read."""
        if self.change.base is None:
            return None
        isolation = isolation_of(self.target.metadata)
        return TableRead(self.change.name, self.change.base, self._looked_for(), isolation, self.verb)

    def _looked_for(self) -> Read:
        """The rows that the operation was about, and the files of the base that could hold them."""
        own = {file.path for file in self.change.added}
        paths = (planned.file.path for planned in self.plan.files)
        selection = selection_of(self.bound, self.target.metadata)
        return Read.of(selection, (path for path in paths if path not in own), decisive=self.decisive)

    def _marked(
        self, change: TableChange, found: RowChange, by_path: Mapping[str, PlannedFile]
    ) -> TableChange:
        """The change with the rows that were found marked by position."""
        own = {file.path for file in self.change.added}
        files = {path: planned.file for path, planned in by_path.items()}
        positions = (
            *self._position_files(found.deleted, files, own, "deleted"),
            *self._position_files(found.updated, files, own, "updated"),
        )
        if self.mode is Mode.MERGE_ON_READ:
            return replace(
                change,
                deletes=(*change.deletes, *positions),
                deleted=_joined(change.deleted, found.deleted, own),
                updated=_joined(change.updated, found.updated, own),
            )
        touched = {*found.deleted.by_file, *found.updated.by_file}
        return replace(
            change,
            positions=(*change.positions, *positions),
            to_rewrite={**{path: by_path[path] for path in touched}, **change.to_rewrite},
            rewritten=change.rewritten | (touched - own),
        )

    def _position_files(
        self, found: Positions, files: Mapping[str, DataFile], own: set[str], kind: Kind
    ) -> tuple[DataFile, ...]:
        """Position files; none of them tells of files of the transaction itself and of others too."""
        mine = {path: rows for path, rows in found.by_file.items() if path in own}
        others = {path: rows for path, rows in found.by_file.items() if path not in own}
        return tuple(
            file
            for part in (mine, others)
            if part
            for file in write_positions(self.target, Positions(part), files, kind)
        )

    def _is_emptied(self, planned: PlannedFile, found: RowChange) -> bool:
        """Whether no live row of a file is left: then the file goes."""
        path = planned.file.path
        if self._must_stay(path) or (path in found.updated.by_file and not _is_own(path, self.target)):
            return False
        left = self._live_rows(planned) - len(found.deleted.in_file(path)) - len(found.updated.in_file(path))
        return left == 0

    def _must_stay(self, path: str) -> bool:
        """Whether a file that others know stays, even if no row of it is left.

        The transaction has updated rows of it before: that they live on elsewhere must be told by position.
        """
        touched = path in self.change.updated or path in self.change.to_rewrite
        return touched and not _is_own(path, self.target)

    def _live_rows(self, planned: PlannedFile) -> int:
        return planned.file.record_count - len(self._dead(planned))

    def _live_positions(self, files: Sequence[PlannedFile]) -> Positions:
        return Positions.of(
            {
                planned.file.path: BitMap64(range(planned.file.record_count)) - self._dead(planned)
                for planned in files
            }
        )

    def _dead(self, planned: PlannedFile) -> BitMap64:
        told = read_positions(self.target.driver, self.target.loader, planned.deletes)
        return told.in_file(planned.file.path)


def finished(change: TableChange, target: Target, engine: RowEngine) -> TableChange:
    """The change as it is committed: files that copy-on-write changes are written anew, nothing is left over.

    If the process dies inside, new files stay in the directory of the transaction, unreferenced.
    """
    own = {file.path for file in change.added}
    # Some may have gone as a whole since.
    there = [planned for path, planned in change.to_rewrite.items() if _is_there(path, change, target)]
    anew: list[DataFile] = []
    for role, files in _by_role(there, own).items():
        without = [replace(planned, deletes=(*planned.deletes, *change.own_deletes)) for planned in files]
        anew += engine.written_again(without, role)
    after = _taken_away(replace(change, to_rewrite={}), there)
    after = replace(after, added=(*after.added, *anew))
    return replace(
        after,
        deletes=tuple(file for file in after.deletes if _is_needed(file, after, target)),
        positions=tuple(file for file in after.positions if _is_needed(file, after, target)),
    )


def _is_own(path: str, target: Target) -> bool:
    return f"/L0-{target.txid}/" in path


def _is_there(path: str, change: TableChange, target: Target) -> bool:
    """Whether a file that the transaction saw is still one that it leaves."""
    if _is_own(path, target):
        return any(file.path == path for file in change.added)
    return path not in (change.replaced or ())


def _by_role(files: Sequence[PlannedFile], own: set[str]) -> dict[Role, list[PlannedFile]]:
    """The files, by what they are once they are written again."""
    groups: dict[Role, list[PlannedFile]] = {}
    for planned in files:
        path = planned.file.path
        groups.setdefault(role_of(path) if path in own else Role.CARRIED, []).append(planned)
    return groups


def _is_needed(positions: DataFile, change: TableChange, target: Target) -> bool:
    """Whether a position file tells of more than files that the transaction leaves no row of.

    What it tells of a file whose other rows live on elsewhere is needed even if the file is gone.
    """
    told = target.loader.positions(positions).by_file
    moved = change.rewritten | change.compacted
    return any(path in moved or _is_there(path, change, target) for path in told)


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


def _without(positions: Positions, paths: Set[str]) -> Positions:
    return Positions({path: rows for path, rows in positions.by_file.items() if path not in paths})


def _joined(before: Mapping[str, BitMap64], found: Positions, own: set[str]) -> dict[str, BitMap64]:
    """Rows of files that others know too."""
    joined = dict(before)
    for path, positions in found.by_file.items():
        if path not in own:
            joined[path] = joined.get(path, BitMap64()) | positions
    return joined
