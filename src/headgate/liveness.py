"""How many live rows a change takes away: exact, though files tell only how many rows they have.

A position can be listed twice, by two writers that deleted the same row, and a delete file can tell of a data
file that is gone. Neither counts. Tables without delete files cost nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headgate.changes import TableChange
from headgate.iceberg.data_file import Content, DataFile, Manifest, Status
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import DeleteIndex
from headgate.iceberg.positions import Positions, read_positions
from headgate.iceberg.snapshot import Dead


def count_dead(loader: TableLoader, change: TableChange, metadata: TableMetadata) -> Dead:
    """What a change of the table `metadata`, as it is now, means for rows that are deleted by position."""
    if not change.replaced and not change.deletes:
        return Dead()
    current = () if change.new is not None else loader.manifests(metadata)
    index = _index(loader, current)

    def dead_in(file: DataFile) -> Positions:
        return read_positions(loader.driver, loader, index.applying_to(file, 0), [file.path])

    removed = change.replaced or {}
    before = {path: len(dead_in(file)) for path, file in removed.items()}
    gone = {*removed, *_gone(loader, change, current)} if change.deletes else set()
    now: dict[str, int] = {}
    counted = Positions()
    for delete in change.deletes:
        listed = loader.positions(delete)
        alive = Positions({path: listed.by_file[path] for path in listed.by_file.keys() - gone})
        for path in alive.by_file:
            counted |= dead_in(replace(delete, path=path))
        now[delete.path] = len(alive - counted)
        counted |= alive
    return Dead(before, now)


def idle_deletes(loader: TableLoader, change: TableChange, current: Sequence[Manifest]) -> frozenset[str]:
    """The position delete files, by path, that tell of no data file that is left after a change.

    Looked for where data files are removed, whose delete files were read to count their rows; and among
    those that name a single data file in the manifest, for which nothing is read at all.
    """
    if not change.replaced or not any(manifest.content is not Content.DATA for manifest in current):
        return frozenset()
    index = _index(loader, current)
    told = (file for gone in change.replaced.values() for file in index.applying_to(gone, 0))
    left = _live_paths(loader, current) - set(change.replaced)
    alone = (file for path, file in index.of_single_files() if path not in left)
    return frozenset(
        file.path
        for file in {file.path: file for file in (*alone, *told)}.values()
        if left.isdisjoint(loader.positions(file).by_file)
    )


def _index(loader: TableLoader, manifests: Iterable[Manifest]) -> DeleteIndex:
    deletes = [manifest for manifest in manifests if manifest.content is Content.POSITION_DELETES]
    entries = (entry for group in loader.entries(deletes) for entry in group)
    live = (entry for entry in entries if entry.status is not Status.DELETED)
    return DeleteIndex((entry.file, entry.sequence_number or 0) for entry in live)


def _gone(loader: TableLoader, change: TableChange, current: Iterable[Manifest]) -> set[str]:
    """The data files that the deletes tell of and that others have removed."""
    if change.base is None:
        return set()
    then, now = set(loader.manifests(loader.metadata(change.base.metadata))), set(current)
    made = _live_paths(loader, now - then)
    gone = _live_paths(loader, then - now) - made
    # Files that were there in the beginning are in one of these, or in manifests that are still the same.
    # Only what a delete was carried to may have come and gone since.
    told = {path for delete in change.deletes for path in loader.positions(delete).by_file}
    sought = {path for read in change.sought for path in read.files.values()}
    unsure = told - sought - gone - made - {file.path for file in change.added}
    return gone | (unsure - _live_paths(loader, then & now) if unsure else set())


def _live_paths(loader: TableLoader, manifests: Iterable[Manifest]) -> set[str]:
    data = [manifest for manifest in manifests if manifest.content is Content.DATA]
    entries = (entry for group in loader.entries(data) for entry in group)
    return {entry.file.path for entry in entries if entry.status is not Status.DELETED}
