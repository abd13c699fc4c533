"""The live files of a table as planning sees them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from headgate.core.compaction.eligible import CompactionPolicy, Group, Segment, policy_of
from headgate.core.input.arguments import found_table
from headgate.iceberg.format.data_file import DataFile, partition_key
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.positions import read_positions
from headgate.iceberg.scan.engine import RewriteGroup
from headgate.iceberg.scan.planning import PlannedFile, plan
from headgate.model.state import LakeState
from headgate.transaction.table_metadata import virtual_path


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table at one version of the lake: its files, each with its segment, and its settings."""

    name: str
    metadata: TableMetadata
    policy: CompactionPolicy
    files: tuple[PlannedFile, ...]
    segments: tuple[Segment, ...]

    def rewrite_groups(self, groups: Sequence[Group]) -> list[RewriteGroup]:
        """The groups with the files of their segments, and all deletes that apply to these files."""
        by_path = {planned.file.path: planned for planned in self.files}
        return [
            RewriteGroup(group.path, group.window, tuple(by_path[segment.file] for segment in group.segments))
            for group in groups
        ]


def live_table(
    loader: TableLoader, state: LakeState, name: str, divisor: int, only: Collection[str] | None = None
) -> LiveTable:
    """The table with this name in a state. Raises `NotFoundError` if there is none.

    Reads manifests and delete files. `only`: the virtual paths whose files are needed; delete files of other
    paths are not read.
    """
    metadata = loader.metadata(found_table(state, name).metadata)
    paths = _Paths(name, metadata)
    found = plan(loader, metadata, None).files
    files = found if only is None else tuple(one for one in found if paths.of(one.file) in only)
    # Loads them all at once, so that the loop below finds them in memory.
    read_positions(loader.driver, loader, [delete for planned in files for delete in planned.deletes], ())
    return LiveTable(
        name,
        metadata,
        policy_of(metadata.properties, state.properties, divisor),
        files,
        tuple(_segment(loader, paths, planned) for planned in files),
    )


class _Paths(dict[Hashable, str]):
    """The virtual paths of the partitions of a table, each built once for all its files."""

    def __init__(self, table: str, metadata: TableMetadata) -> None:
        super().__init__()
        self._table, self._metadata = table, metadata

    def of(self, file: DataFile) -> str:
        place = _place(file)
        if place not in self:
            self[place] = virtual_path(self._table, file, self._metadata)
        return self[place]


def _segment(loader: TableLoader, paths: _Paths, planned: PlannedFile) -> Segment:
    file = planned.file
    return Segment(
        file=file.path,
        path=paths.of(file),
        covers=planned.covers,
        size_bytes=file.size_bytes,
        rows=file.record_count,
        dead=_dead(loader, planned),
        place=_place(file),
    )


def _place(file: DataFile) -> Hashable:
    """A key that identifies the partition of a file within its table."""
    return (file.spec_id, partition_key(file.partition))


def _dead(loader: TableLoader, planned: PlannedFile) -> tuple[tuple[int, int], ...]:
    """How many rows each version deleted; a row that was deleted twice counts for the first version."""
    gone = BitMap64()
    counts: list[tuple[int, int]] = []
    for delete, at in zip(planned.deletes, planned.deleted_at, strict=True):
        rows = loader.positions(delete).in_file(planned.file.path) - gone
        if rows:
            counts.append((int(at), len(rows)))
            gone |= rows
    return tuple(counts)
