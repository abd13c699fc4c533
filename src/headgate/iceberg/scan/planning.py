"""Decides which files a read or a change needs, without reading a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.iceberg.format.avro import Wanted
from headgate.iceberg.format.data_file import Content, DataFile, Entry, Manifest, Status, partition_key
from headgate.iceberg.format.directories import window_covered
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.positions import FILE_PATH_ID
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.predicate.pruning import Pruning
from headgate.model.identifiers import Window


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A data file that may contain matching rows. `all_match`: certainly all of its rows match.

    `deletes` are the position delete files that may list rows of this file: those rows no longer exist.
    `deleted_at` has the version of each; for a delete file that is not committed yet it is infinite.
    """

    file: DataFile
    sequence_number: int
    all_match: bool
    deletes: tuple[DataFile, ...] = ()
    deleted_at: tuple[float, ...] = ()

    @property
    def covers(self) -> Window:
        """The versions that its rows come from."""
        return window_covered(self.file.path, self.sequence_number)

    def as_of(self, version: int) -> PlannedFile:
        """The same file, with only the deletes up to a version."""
        return self._with_deletes(lambda at: at <= version)

    def since(self, version: int) -> PlannedFile:
        """The same file, with only the deletes after a version."""
        return self._with_deletes(lambda at: at > version)

    def _with_deletes(self, wanted: Callable[[float], bool]) -> PlannedFile:
        numbered = [found for found in zip(self.deletes, self.deleted_at, strict=True) if wanted(found[1])]
        return replace(
            self,
            deletes=tuple(file for file, _ in numbered),
            deleted_at=tuple(number for _, number in numbered),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The files to read, oldest first, and how many were skipped for which reason.

    Files of skipped manifests are counted from the manifest list, without reading the manifests.
    """

    files: tuple[PlannedFile, ...]
    manifests: int = 0
    manifests_skipped: int = 0
    files_skipped: int = 0

    @property
    def whole(self) -> tuple[PlannedFile, ...]:
        """Files whose rows all match: a change that removes them need not read them."""
        return tuple(planned for planned in self.files if planned.all_match)

    @property
    def partial(self) -> tuple[PlannedFile, ...]:
        """Files that may contain both matching rows and others."""
        return tuple(planned for planned in self.files if not planned.all_match)

    @property
    def delete_files(self) -> int:
        """The number of position delete files for these files."""
        return len({file.path for planned in self.files for file in planned.deletes})

    def describe(self) -> str:
        """A summary on one line."""
        deletes = f" with {self.delete_files} delete files" if self.delete_files else ""
        return (
            f"{len(self.files)} files{deletes} (all rows match in {len(self.whole)}); skipped "
            f"{self.files_skipped} files, and {self.manifests_skipped} of {self.manifests} manifests unread"
        )


def plan(
    loader: TableLoader, metadata: TableMetadata, predicate: Bound | None, own: Sequence[DataFile] = ()
) -> Plan:
    """The files of a table that can contain matching rows; without a predicate, all of them.

    Never leaves out a file with a matching row. Manifests are skipped by their summaries, files by their
    partition and then by the bounds and counts of their columns. `own` are position delete files that are not
    committed yet; they apply to all files.
    """
    pruning = None if predicate is None else Pruning(predicate, metadata.schema, metadata.specs)
    manifests = loader.manifests(metadata)
    kept = [
        manifest
        for manifest in manifests
        if _is_live(manifest) and (pruning is None or pruning.manifest_could_match(manifest))
    ]

    def wanted(manifest: Manifest) -> Wanted | None:
        if pruning is None:
            return None
        return Wanted(
            lambda partition: pruning.partition_could_match(manifest.spec_id, partition),
            # The bounds of delete files are those of positions, not of columns.
            pruning.could_match_within if manifest.content is Content.DATA else None,
        )

    entries: list[Entry] = []
    deletes: list[Entry] = []
    for manifest, group in zip(kept, loader.entries(kept, wanted), strict=True):
        live = (entry for entry in group if entry.status is not Status.DELETED)
        (entries if manifest.content is Content.DATA else deletes).extend(live)
    index = DeleteIndex([*((entry.file, entry.sequence_number or 0) for entry in deletes), *_unnumbered(own)])
    found = [
        _planned(entry.file, entry.sequence_number or 0, pruning, index)
        for entry in entries
        if (entry.file.record_count if pruning is None else pruning.could_match(entry.file))
    ]
    found.sort(key=lambda planned: (planned.sequence_number, planned.file.path))
    listed = [manifest for manifest in manifests if manifest.content is Content.DATA]
    read = [manifest for manifest in kept if manifest.content is Content.DATA]
    total = sum(manifest.added_files + manifest.existing_files for manifest in listed)
    return Plan(tuple(found), len(listed), len(listed) - len(read), total - len(found))


def planned(
    files: tuple[DataFile, ...], metadata: TableMetadata, predicate: Bound, own: Sequence[DataFile] = ()
) -> Plan:
    """The same decision for given files, such as those that a transaction has just written."""
    pruning = Pruning(predicate, metadata.schema, metadata.specs)
    index = DeleteIndex(_unnumbered(own))
    kept = [file for file in files if pruning.could_match(file)]
    return Plan(
        tuple(_planned(file, 0, pruning, index) for file in kept),
        files_skipped=len(files) - len(kept),
    )


def _planned(file: DataFile, number: int, pruning: Pruning | None, index: DeleteIndex) -> PlannedFile:
    applying = index.numbered(file, number)
    return PlannedFile(
        file,
        number,
        pruning is None or pruning.all_match(file),
        tuple(delete for delete, _ in applying),
        tuple(at for _, at in applying),
    )


def _is_live(manifest: Manifest) -> bool:
    return bool(manifest.added_files or manifest.existing_files)


def _unnumbered(files: Iterable[DataFile]) -> list[tuple[DataFile, float]]:
    """Files that are not committed yet: their number will be higher than all existing ones."""
    return [(file, math.inf) for file in files]


class DeleteIndex:
    """Position delete files with their sequence numbers, indexed by data file."""

    def __init__(self, numbered: Iterable[tuple[DataFile, float]]) -> None:
        self._by_path: dict[bytes, list[tuple[DataFile, float]]] = {}
        self._by_partition: dict[tuple[Any, ...], list[tuple[DataFile, float]]] = {}
        for file, number in numbered:
            lower, upper = _path_bounds(file)
            if lower is not None and lower == upper:
                self._by_path.setdefault(lower, []).append((file, number))
            else:
                self._by_partition.setdefault(place_of(file), []).append((file, number))

    def applying_to(self, file: DataFile, sequence_number: int) -> tuple[DataFile, ...]:
        """The delete files that may list rows of a data file, oldest first."""
        return tuple(delete for delete, _ in self.numbered(file, sequence_number))

    def numbered(self, file: DataFile, sequence_number: int) -> tuple[tuple[DataFile, float], ...]:
        """The same, with their sequence numbers.

        As the specification requires: they have the same spec and partition, are not older than the data
        file, and the bounds of their paths do not exclude it.
        """
        if not self._by_path and not self._by_partition:
            return ()
        path, place = file.path.encode(), place_of(file)
        alone = [found for found in self._by_path.get(path, ()) if place_of(found[0]) == place]
        shared = [found for found in self._by_partition.get(place, ()) if _within(path, found[0])]
        numbered = [found for found in (*alone, *shared) if found[1] >= sequence_number]
        return tuple(sorted(numbered, key=lambda found: (found[1], found[0].path)))

    def of_single_files(self) -> Iterator[tuple[str, DataFile]]:
        """The delete files that apply to a single data file, with its path."""
        for path, found in self._by_path.items():
            for file, _ in found:
                yield path.decode(), file


def place_of(file: DataFile) -> tuple[Any, ...]:
    """The spec and the partition of a file: position files apply only to data files with the same ones."""
    return file.spec_id, partition_key(file.partition)


def _path_bounds(file: DataFile) -> tuple[bytes | None, bytes | None]:
    return file.metrics.lower.get(FILE_PATH_ID), file.metrics.upper.get(FILE_PATH_ID)


def _within(path: bytes, delete: DataFile) -> bool:
    lower, upper = _path_bounds(delete)
    # Other engines may truncate bounds; a truncated upper bound is raised, so the comparison still holds.
    return (lower is None or lower <= path) and (upper is None or path <= upper)
