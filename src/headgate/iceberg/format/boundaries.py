"""A table at an earlier version, read from the files of a later snapshot: see `core.compaction.windows`."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.compaction.windows import Coverage
from headgate.errors import CorruptLakeError
from headgate.iceberg.format.data_file import Content, Status
from headgate.iceberg.format.directories import window_covered
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata, told_number
from headgate.iceberg.format.snapshot import READABLE_SINCE
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.scan.planning import Plan, plan


def coverage(loader: TableLoader, metadata: TableMetadata) -> Coverage:
    """Which earlier versions the current snapshot still contains. Reads the manifests of its data files."""
    snapshot = metadata.snapshot
    if snapshot is None:
        return Coverage(0, frozenset())
    manifests = [manifest for manifest in loader.manifests(metadata) if manifest.content is Content.DATA]
    windows = frozenset(
        window_covered(entry.file.path, entry.sequence_number or 0)
        for entries in loader.entries(manifests)
        for entry in entries
        if entry.status is not Status.DELETED
    )
    own = int(snapshot["sequence-number"])
    return Coverage(told_number(snapshot.get("summary", {}), READABLE_SINCE, own), windows)


def with_files_of(own: TableMetadata, source: TableMetadata) -> TableMetadata:
    """The table with the structure of `own` and the files of `source`, the same table at a later version.

    Only what is needed to read later files comes from `source`: their specs, and every name that a column
    had.
    """
    names = ("snapshots", "current-snapshot-id", "partition-specs", "schemas")
    return TableMetadata({**own.fields, **{name: source.fields[name] for name in names}})


def plan_as_of(loader: TableLoader, metadata: TableMetadata, version: int, predicate: Bound | None) -> Plan:
    """The files of `metadata` for reading the table at `version`, which the caller knows to be exact."""
    found = plan(loader, metadata, predicate)
    straddling = next((one for one in found.files if one.covers.straddles(version)), None)
    if straddling is not None:
        raise CorruptLakeError(
            f"{straddling.file.path} does not distinguish version {version} from later ones"
        )
    then = tuple(one.as_of(version) for one in found.files if one.covers.last <= version)
    return replace(found, files=then, files_skipped=found.files_skipped + len(found.files) - len(then))
