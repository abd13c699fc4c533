"""Which files a read or a change has to look at, found without reading a row."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.iceberg.avro import Wanted
from headgate.iceberg.bound import Always, Bound
from headgate.iceberg.data_file import Content, DataFile, Manifest, Status
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.pruning import Pruning


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A data file that may hold rows that match. `all_match`: certainly all of them do."""

    file: DataFile
    sequence_number: int
    all_match: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The files to look at, oldest first, and how many were passed over for which reason.

    Files of manifests that were passed over are counted by their lists, not read.
    """

    files: tuple[PlannedFile, ...]
    manifests: int = 0
    manifests_skipped: int = 0
    files_skipped: int = 0

    @property
    def whole(self) -> tuple[DataFile, ...]:
        """Files of which all rows match: a change that removes them need not read them."""
        return tuple(planned.file for planned in self.files if planned.all_match)

    @property
    def partial(self) -> tuple[DataFile, ...]:
        """Files that may hold rows that match, beside others."""
        return tuple(planned.file for planned in self.files if not planned.all_match)

    def describe(self) -> str:
        """One line for people."""
        return (
            f"{len(self.files)} files, of {len(self.whole)} all rows match; skipped {self.files_skipped} "
            f"files, and {self.manifests_skipped} of {self.manifests} manifests unread"
        )


def plan(loader: TableLoader, metadata: TableMetadata, predicate: Bound | None) -> Plan:
    """The files of a table that can hold rows that match; all of them without a predicate.

    Never leaves out a file with a row that matches. Manifests are passed over by their summaries, files by
    their partition and then by the bounds and counts of their columns.
    """
    listed = [manifest for manifest in loader.manifests(metadata) if manifest.content is Content.DATA]
    pruning = Pruning(predicate or Always(True), metadata.schema, metadata.specs)
    kept = [manifest for manifest in listed if _is_live(manifest) and pruning.manifest_could_match(manifest)]

    def wanted(manifest: Manifest) -> Wanted | None:
        if predicate is None:
            return None
        return lambda partition: pruning.partition_could_match(manifest.spec_id, partition)

    found = []
    for group in loader.entries(kept, wanted):
        for entry in group:
            if entry.status is not Status.DELETED and pruning.could_match(entry.file):
                number = entry.sequence_number or 0
                found.append(PlannedFile(entry.file, number, pruning.all_match(entry.file)))
    found.sort(key=lambda planned: (planned.sequence_number, planned.file.path))
    total = sum(manifest.added_files + manifest.existing_files for manifest in listed)
    return Plan(tuple(found), len(listed), len(listed) - len(kept), total - len(found))


def planned(files: tuple[DataFile, ...], metadata: TableMetadata, predicate: Bound) -> Plan:
    """The same decision for files that are at hand, such as those that a transaction has just written."""
    pruning = Pruning(predicate, metadata.schema, metadata.specs)
    kept = [file for file in files if pruning.could_match(file)]
    return Plan(
        tuple(PlannedFile(file, 0, pruning.all_match(file)) for file in kept),
        files_skipped=len(files) - len(kept),
    )


def _is_live(manifest: Manifest) -> bool:
    return bool(manifest.added_files or manifest.existing_files)
