"""A table at an earlier version, read from the files of a later snapshot: see `core.boundaries`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyiceberg.schema import Schema, index_by_id

from headgate.core.boundaries import Coverage
from headgate.core.windows import largest_complete_window
from headgate.errors import CorruptLakeError
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import Content, DataFile, Entry, Status
from headgate.iceberg.directories import window_covered
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import Plan, plan
from headgate.model.window import Window

READABLE_SINCE = "headgate.readable-since"
"""In the summary of a snapshot: the oldest version that its files can tell of.

Since then, rows have left the files by position deletes and by compaction alone. Whatever else takes rows or
values away (overwrites, files that are deleted, copy-on-write, a dropped or widened column) makes it the own
version of the snapshot. A snapshot without it tells of its own version only.
"""
_COMPACTION = "replace"


# --- when a snapshot is made ------------------------------------------------------------------------------


def readable_since(
    metadata: TableMetadata,
    operation: str,
    added: Iterable[DataFile],
    removed: Collection[Entry],
    version: int,
    divisor: int,
) -> int:
    """What a new snapshot says for `READABLE_SINCE`; `metadata` is the table without it."""
    before = metadata.snapshot
    if before is None:
        return 0
    said = before.get("summary", {}).get(READABLE_SINCE)
    if said is None or not _keeps_values(metadata, before):
        return version
    if not removed:
        return int(said)
    outputs = frozenset(window_covered(file.path, version) for file in added)
    if operation != _COMPACTION or not outputs or any(window.level == 0 for window in outputs):
        return version
    emptied = (window for window in map(_window, removed) if not any(o.holds(window) for o in outputs))
    # All rows of such a file were deleted within its window, which was complete: nothing is left of it that
    # would tell a version inside from what came after.
    ends = (largest_complete_window(window.last, version, divisor).last for window in emptied)
    return max([int(said), *ends])


def _window(entry: Entry) -> Window:
    return window_covered(entry.file.path, entry.sequence_number or 0)


def _keeps_values(metadata: TableMetadata, snapshot: Mapping[str, Any]) -> bool:
    """Whether files that are written now have every value that they had in the schema of `snapshot`.

    Told of the first snapshot after the change, whatever it does: so later compactions need not ask.
    """
    known = snapshot.get("schema-id")
    if known == metadata.schema.schema_id:
        return True
    then = metadata.schemas.get(known) if isinstance(known, int) else None
    return then is not None and _has_all(metadata.schema, then)


def _has_all(now: Schema, before: Schema) -> bool:
    present = index_by_id(now)
    return all(
        field_id in present
        and (not field.field_type.is_primitive or present[field_id].field_type == field.field_type)
        for field_id, field in index_by_id(before).items()
    )


# --- when it is read --------------------------------------------------------------------------------------


def coverage(loader: TableLoader, metadata: TableMetadata) -> Coverage:
    """What the current snapshot can tell of earlier versions. Reads the manifests of its data files."""
    snapshot = metadata.snapshot
    if snapshot is None:
        return Coverage(0, frozenset())
    manifests = [manifest for manifest in loader.manifests(metadata) if manifest.content is Content.DATA]
    windows = frozenset(
        _window(entry)
        for entries in loader.entries(manifests)
        for entry in entries
        if entry.status is not Status.DELETED
    )
    said = snapshot.get("summary", {}).get(READABLE_SINCE)
    return Coverage(int(snapshot["sequence-number"]) if said is None else int(said), windows)


def with_files_of(own: TableMetadata, source: TableMetadata) -> TableMetadata:
    """The table as `own` says, with the files of `source`, which is the same table later on.

    The structure is that of `own`. What only later files need to be read comes from `source`: their specs,
    and every name that a column had.
    """
    names = ("snapshots", "current-snapshot-id", "partition-specs", "schemas")
    return TableMetadata({**own.fields, **{name: source.fields[name] for name in names}})


def plan_as_of(loader: TableLoader, metadata: TableMetadata, version: int, predicate: Bound | None) -> Plan:
    """The files of `metadata` as they tell the table at `version`, which the caller knows to be exact."""
    found = plan(loader, metadata, predicate)
    straddling = next((one for one in found.files if one.covers.straddles(version)), None)
    if straddling is not None:
        raise CorruptLakeError(f"{straddling.file.path} does not tell version {version} from later ones")
    then = tuple(one.as_of(version) for one in found.files if one.covers.last <= version)
    return replace(found, files=then, files_skipped=found.files_skipped + len(found.files) - len(then))
