"""Deletes, updates, merges, upserts and overwrites inside a transaction.

Files whose rows are all deleted are removed without being read. Other rows are marked by position. That is
all for merge-on-read. For copy-on-write, `rewrite_changed_files` rewrites their files without these rows,
once for all operations of a transaction, before it commits. Overwrites replace all rows, the rows that a
predicate selects, or whole partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum

from pyroaring import BitMap64

from headgate.arrow.data_files import IncomingRows
from headgate.arrow.footers import require_rows
from headgate.core.conflict.footprint import Read
from headgate.core.conflict.isolation import isolation_of
from headgate.core.sql.merge_clauses import Expression, Match, MergeSpec, require_sound
from headgate.errors import InvalidInputError
from headgate.iceberg.format.data_file import DataFile, Partition
from headgate.iceberg.format.directories import Role, Target, role_of
from headgate.iceberg.format.positions import Kind, Positions, read_positions, write_positions
from headgate.iceberg.predicate.binding import bind_text, in_partitions
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.predicate.selection import selection_of
from headgate.iceberg.scan.engine import KeyRange, MergeEngine, RowChange, RowEngine, Wanted
from headgate.iceberg.scan.planning import Plan, PlannedFile
from headgate.model.footprint import Upserted
from headgate.model.reports import RowCounts
from headgate.transaction.announcing import Announce, announce_change
from headgate.transaction.changes import TableChange, TableRead
from headgate.transaction.reads import visible, visible_at_base


class Mode(Enum):
    """How changed rows are removed from their files: the table properties `write.delete.mode` and others."""

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"


@dataclass(frozen=True, slots=True)
class Changed:
    """The change after an operation, and the number of rows that it changed.

    If it found no rows, `change` is the previous one, and `read` is what it searched for, unless the table is
    new.
    """

    change: TableChange
    counts: RowCounts
    read: TableRead | None = None


@dataclass(frozen=True, slots=True)
class Changing:
    """A table in a transaction whose rows are about to change.

    Each method writes the files that the commit needs. They are not visible yet.
    """

    change: TableChange
    target: Target
    engine: RowEngine
    announce: Announce

    def delete(self, wanted: Wanted) -> Changed:
        """Deletes the wanted rows."""
        operation = self._operation("delete", wanted.bound)
        plan = operation.plan
        if wanted.bound is None:
            # Only the engine understands the condition, so only it can reject it, even without files to read.
            return operation.apply(RowChange(deleted=self.engine.find_rows(plan.files, wanted)))
        found = self.engine.find_rows(plan.partial, wanted) if plan.partial else Positions()
        return operation.apply(RowChange(deleted=found), plan.whole)

    def update(self, wanted: Wanted, values: Mapping[str, Expression]) -> Changed:
        """Sets columns of the wanted rows."""
        operation = self._operation("update", wanted.bound)
        return operation.apply(self.engine.update_rows(operation.plan.files, wanted, values))

    def merge(self, engine: MergeEngine, spec: MergeSpec) -> Changed:
        """Merges the source of `engine` into the table."""
        require_sound(spec)
        keys = KeyRange()
        if not spec.of(Match.NOT_MATCHED_BY_SOURCE):
            keys = engine.keys(engine.matching(spec.on))
        upserted = Upserted.of(keys.partitions, keys.bounds) if spec.of(Match.NOT_MATCHED) else None
        decisive = spec.depends_on_rows_it_leaves
        operation = self._operation("merge", keys.place, decisive=decisive, upserted=upserted)
        done = operation.apply(engine.merge_rows(operation.plan, spec))
        if not spec.of(Match.NOT_MATCHED):
            return done
        # Like two upserts, two merges that insert missing rows must not insert the same ones.
        return self._by_key(done, engine.keys(engine.matching(spec.on)))

    def upsert(self, engine: MergeEngine, keys: Sequence[str]) -> Changed:
        """Updates the rows that have the keys of the source, and adds the others."""
        held = engine.keys({key: key for key in keys})
        operation = self._operation("upsert", held.place, upserted=Upserted.of(held.partitions, held.bounds))
        return self._by_key(operation.apply(engine.upsert_rows(operation.plan, keys)), held)

    def _by_key(self, done: Changed, held: KeyRange) -> Changed:
        """The change with the range in which keys were searched, if anything was changed."""
        if not done.counts:
            return done
        looked = Upserted.of(held.partitions, held.bounds)
        # The ranges of two upserts in one transaction are not merged: together they cover everything.
        upserted = looked if self.change.reach.upserted is None else Upserted()
        reach = replace(done.change.reach, upserted=upserted)
        return replace(done, change=replace(done.change, reach=reach))

    def _operation(
        self, verb: str, bound: Bound | None, *, decisive: bool = False, upserted: Upserted | None = None
    ) -> RowOperation:
        target = self.target
        plan = visible(self.change, target.metadata, target.loader, bound)
        operation = RowOperation(self.change, target, verb, mode_of(target, verb), bound, plan, decisive)
        operation.announce(self.announce, upserted)
        return operation


def mode_of(target: Target, verb: str) -> Mode:
    """The mode in which an operation changes rows of the table."""
    name = f"write.{'merge' if verb == 'upsert' else verb}.mode"
    given = target.metadata.properties.get(name, Mode.MERGE_ON_READ.value)
    for mode in Mode:
        if given == mode.value:
            return mode
    raise InvalidInputError(
        f"{target.table}: the table property {name} cannot be {given!r}",
        f"set it to {' or '.join(mode.value for mode in Mode)}",
    )


@dataclass(frozen=True, slots=True)
class RowOperation:
    """One operation on rows that `bound` can select (None: any rows), in the files of `plan`.

    With `decisive`, the rows that it adds depend on rows that it does not change.
    """

    change: TableChange
    target: Target
    verb: str
    mode: Mode
    bound: Bound | None
    plan: Plan
    decisive: bool = False

    def announce(self, announce: Announce, upserted: Upserted | None) -> None:
        """Announces which files and keys the operation may change, before it reads them."""
        files = [planned.file for planned in self.plan.files]
        if not files and upserted is None:
            return
        announce_change(
            announce,
            self.verb,
            self._noted(),
            self.target.metadata,
            files,
            by_position=self.mode is Mode.MERGE_ON_READ,
            upserted=upserted,
        )

    def apply(self, found: RowChange, whole: Sequence[PlannedFile] = ()) -> Changed:
        """The change with the rows that were found, and without the files that are removed as a `whole`."""
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
        marked = self._mark_rows(_taken_away(self._noted(), gone), kept, by_path)
        added = (*marked.added, *found.images, *found.inserted)
        return Changed(replace(marked, added=added), counts)

    def _noted(self) -> TableChange:
        """The change with a note of the operation."""
        before = self.change
        return replace(
            before,
            reach=replace(before.reach, sought=(*before.reach.sought, self._looked_for())),
            verbs=before.verbs | {self.verb},
            isolation=isolation_of(self.target.metadata.properties),
        )

    def _read(self) -> TableRead | None:
        """The read that the operation amounts to if there was nothing to change."""
        if self.change.base is None:
            return None
        isolation = isolation_of(self.target.metadata.properties)
        return TableRead(self.change.name, self.change.base, self._looked_for(), isolation, self.verb)

    def _looked_for(self) -> Read:
        """The rows that the operation searched for, and the files of the base that could contain them."""
        own = {file.path for file in self.change.added}
        paths = (planned.file.path for planned in self.plan.files)
        selection = selection_of(self.bound, self.target.metadata)
        return Read.of(selection, (path for path in paths if path not in own), decisive=self.decisive)

    def _mark_rows(
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
        """Position files. None of them refers both to files of this transaction and to other files."""
        mine = {path: rows for path, rows in found.by_file.items() if path in own}
        others = {path: rows for path, rows in found.by_file.items() if path not in own}
        return tuple(
            file
            for part in (mine, others)
            if part
            for file in write_positions(self.target, Positions(part), files, kind)
        )

    def _is_emptied(self, planned: PlannedFile, found: RowChange) -> bool:
        """Whether no live row of a file is left, so that the file is removed."""
        path = planned.file.path
        if self._must_stay(path) or (path in found.updated.by_file and not _is_own(path, self.target)):
            return False
        left = self._live_rows(planned) - len(found.deleted.in_file(path)) - len(found.updated.in_file(path))
        return left == 0

    def _must_stay(self, path: str) -> bool:
        """Whether a file of the base must stay, even if no row of it is left.

        The transaction has updated rows of it before, and their positions must show that they moved.
        """
        touched = path in self.change.updated or path in self.change.to_rewrite
        return touched and not _is_own(path, self.target)

    def _live_rows(self, planned: PlannedFile) -> int:
        return planned.file.record_count - len(self._dead(planned))

    def _live_positions(self, files: Sequence[PlannedFile]) -> Positions:
        found: dict[str, BitMap64] = {}
        for planned in files:
            every = BitMap64(range(planned.file.record_count))
            require_rows(self.target.loader, planned.file, every)
            found[planned.file.path] = every - self._dead(planned)
        return Positions.of(found)

    def _dead(self, planned: PlannedFile) -> BitMap64:
        told = read_positions(self.target.driver, self.target.loader, planned.deletes)
        return told.in_file(planned.file.path)


def rewrite_changed_files(change: TableChange, target: Target, engine: RowEngine) -> TableChange:
    """The change in its final form: copy-on-write files are rewritten, and unneeded files are dropped.

    If the process dies, the new files stay unreferenced in the directory of the transaction.
    """
    own = {file.path for file in change.added}
    # Some files may have been removed as a whole since.
    there = [planned for path, planned in change.to_rewrite.items() if _is_there(path, change, target)]
    anew: list[DataFile] = []
    for role, files in _by_role(there, own).items():
        without = [replace(planned, deletes=(*planned.deletes, *change.own_deletes)) for planned in files]
        anew += engine.write_again(without, role)
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
    """Whether the transaction keeps a file that it saw."""
    if _is_own(path, target):
        return any(file.path == path for file in change.added)
    return path not in (change.replaced or ())


def _by_role(files: Sequence[PlannedFile], own: set[str]) -> dict[Role, list[PlannedFile]]:
    """The files, grouped by the role of their rewritten versions."""
    groups: dict[Role, list[PlannedFile]] = {}
    for planned in files:
        path = planned.file.path
        groups.setdefault(role_of(path) if path in own else Role.CARRIED, []).append(planned)
    return groups


def _is_needed(positions: DataFile, change: TableChange, target: Target) -> bool:
    """Whether a position file refers to a file that the transaction keeps or whose other rows it moved.

    The positions of moved files are needed even if the file itself is gone.
    """
    told = target.loader.positions(positions).by_file
    moved = change.rewritten | change.compacted
    return any(path in moved or _is_there(path, change, target) for path in told)


def _taken_away(change: TableChange, gone: Sequence[PlannedFile]) -> TableChange:
    """The change without these files: own files are dropped, and files of the base are replaced."""
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
    """The positions of rows in files of the base, with those found."""
    joined = dict(before)
    for path, positions in found.by_file.items():
        if path not in own:
            joined[path] = joined.get(path, BitMap64()) | positions
    return joined


VERB = "overwrite"


@dataclass(frozen=True, slots=True)
class Overwriting:
    """A table in a transaction that is about to be overwritten.

    Each method writes the new data files and returns the change with them. They are not visible yet.
    """

    change: TableChange
    target: Target
    rows: IncomingRows
    engine: Callable[[Bound], RowEngine]
    announce: Announce

    def all(self) -> TableChange:
        """Replaces every row that the transaction sees, including its own."""
        metadata = self.target.metadata
        at_base = visible_at_base(replace(self.change, replaced=None), metadata, self.target.loader, None)
        change = replace(
            self.change,
            added=(),
            replaced={planned.file.path: planned.file for planned in at_base.files},
            reach=replace(
                self.change.reach,
                overwritten=frozenset(planned.file.path for planned in at_base.files),
                replaces_all=True,
            ),
            positions=(),
            to_rewrite={},
            rewritten=frozenset(),
            deletes=(),
            verbs=self.change.verbs | {VERB},
            isolation=isolation_of(metadata.properties),
        )
        self._announce(change, at_base)
        return replace(change, added=self.rows.write_files())

    def some(self, where: str) -> TableChange:
        """Replaces the rows that `where` selects with the new ones. It must select each of these too."""
        matching = bind_text(where, self.target.metadata.schema)
        at_base = visible_at_base(self.change, self.target.metadata, self.target.loader, matching)
        self._announce(self._selecting(self.change, matching), at_base)
        written = self.rows.write_matching(matching, where)
        return self._replacing(written, Wanted(matching, None, where))

    def partitions(self) -> TableChange:
        """Replaces the partitions of the current spec that the new rows belong to."""
        self._announce(self.change, None)  # the partitions are known only after the rows were read
        written = self.rows.write_files()
        metadata = self.target.metadata
        touched: frozenset[Partition] = frozenset(file.partition for file in written)
        matching = in_partitions(metadata.spec, metadata.schema, touched)
        done = self._replacing(written, Wanted(matching, None, "the partitions of the rows"))
        return replace(done, reach=replace(done.reach, relies_on_spec=True))

    def _replacing(self, written: tuple[DataFile, ...], wanted: Wanted) -> TableChange:
        """Removes the wanted rows by copy-on-write, and adds the written files."""
        target, matching = self.target, wanted.bound
        assert matching is not None
        plan = visible(self.change, target.metadata, target.loader, matching)
        operation = RowOperation(self.change, target, VERB, Mode.COPY_ON_WRITE, matching, plan)
        partial = plan.partial
        found = self.engine(matching).find_rows(partial, wanted) if partial else Positions()
        gone = operation.apply(RowChange(deleted=found), plan.whole).change
        taken = frozenset(gone.replaced or ()) - frozenset(self.change.replaced or ())
        as_before = replace(gone, reach=replace(gone.reach, sought=self.change.reach.sought))
        selecting = self._selecting(as_before, matching)
        return replace(
            selecting,
            added=(*selecting.added, *written),
            reach=replace(selecting.reach, overwritten=selecting.reach.overwritten | taken),
        )

    def _selecting(self, change: TableChange, matching: Bound) -> TableChange:
        """The change with an overwrite of some rows."""
        metadata = self.target.metadata
        return replace(
            change,
            replaced=change.replaced or {},
            reach=replace(
                change.reach, overwrites=(*change.reach.overwrites, selection_of(matching, metadata))
            ),
            verbs=change.verbs | {VERB},
            isolation=isolation_of(metadata.properties),
        )

    def _announce(self, change: TableChange, at_base: Plan | None) -> None:
        """Announces the overwrite before its rows are written."""
        files = None if at_base is None else [planned.file for planned in at_base.files]
        announce_change(self.announce, VERB, change, self.target.metadata, files)
