"""The live files of a table as planning sees them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from headgate.core.compaction.policy import CompactionPolicy, policy_of
from headgate.core.compaction.segments import Group, Segment
from headgate.core.lookup import found_table
from headgate.iceberg.bound import partition_key
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import PlannedFile, plan
from headgate.iceberg.positions import read_positions
from headgate.iceberg.rewriting import RewriteGroup
from headgate.model.state import LakeState
from headgate.preparation import virtual_path


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table at one version of the lake: its files, each with its segment, and its rules."""

    name: str
    metadata: TableMetadata
    policy: CompactionPolicy
    files: tuple[PlannedFile, ...]
    segments: tuple[Segment, ...]

    def rewrite_groups(self, groups: Sequence[Group]) -> list[RewriteGroup]:
        """The groups with the files that their segments stand for, and all deletes of these."""
        by_path = {planned.file.path: planned for planned in self.files}
        return [
            RewriteGroup(group.path, group.window, tuple(by_path[segment.file] for segment in group.segments))
            for group in groups
        ]


def live_table(loader: TableLoader, state: LakeState, name: str, divisor: int) -> LiveTable:
    """The table of a name in a state; `NotFoundError` if there is none. Reads manifests and delete files."""
    metadata = loader.metadata(found_table(state, name).metadata)
    files = plan(loader, metadata, None).files
    # All at once; one by one below they are at hand.
    read_positions(loader.driver, loader, [delete for planned in files for delete in planned.deletes], ())
    paths = _Paths(name, metadata)
    return LiveTable(
        name,
        metadata,
        policy_of(metadata.properties, state.properties, divisor),
        files,
        tuple(_segment(loader, paths, planned) for planned in files),
    )


class _Paths(dict[Hashable, str]):
    """The virtual paths of the partitions of a table: each is made once, whatever the number of its files."""

    def __init__(self, table: str, metadata: TableMetadata) -> None:
        super().__init__()
        self._table, self._metadata = table, metadata

    def of(self, file: DataFile, place: Hashable) -> str:
        if place not in self:
            self[place] = virtual_path(self._table, file, self._metadata)
        return self[place]


def _segment(loader: TableLoader, paths: _Paths, planned: PlannedFile) -> Segment:
    file = planned.file
    place = (file.spec_id, partition_key(file.partition))
    return Segment(
        file=file.path,
        path=paths.of(file, place),
        covers=planned.covers,
        size_bytes=file.size_bytes,
        rows=file.record_count,
        dead=_dead(loader, planned),
        place=place,
    )


def _dead(loader: TableLoader, planned: PlannedFile) -> tuple[tuple[int, int], ...]:
    """How many rows each version deleted; a row that was deleted twice counts for the first."""
    gone = BitMap64()
    counts: list[tuple[int, int]] = []
    for delete, at in zip(planned.deletes, planned.deleted_at, strict=True):
        rows = loader.positions(delete).in_file(planned.file.path) - gone
        if rows:
            counts.append((int(at), len(rows)))
            gone |= rows
    return tuple(counts)
