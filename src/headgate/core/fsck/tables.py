"""Checks tables: compares metadata, manifests and files with the log and with each other.

Also says which versions of tables must still exist after some have expired.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.fsck.kinds import finding
from headgate.core.fsck.log import TableVersion
from headgate.core.retention.kept_versions import held
from headgate.model.fsck import Finding
from headgate.model.identifiers import TxId
from headgate.model.retention import Retention

_VERSION, _TXID = "headgate.version", "headgate.txid"


# --- metadata -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """The current snapshot of a metadata file."""

    snapshot_id: int
    sequence_number: int
    manifest_list: str
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SeenMetadata:
    """The content of a metadata file. `location` is a whole URI."""

    uuid: str
    location: str
    last_sequence_number: int
    snapshot: SeenSnapshot | None


def judge_metadata(table: TableVersion, seen: SeenMetadata, root: str) -> list[Finding]:
    """Compares a metadata file with the log. `root` is the prefix of the keys of objects."""
    key = table.ref.metadata
    if seen.uuid != table.ref.uuid:
        told = f"{_named(table)} has the uuid {table.ref.uuid}, but the file has {seen.uuid}"
        return [finding("metadata-of-another-table", key, told)]
    found = []
    if seen.location != f"{root}/{table.ref.location}":
        told = f"{_named(table)} is at {root}/{table.ref.location}, but the file says {seen.location}"
        found.append(finding("metadata-of-another-place", key, told))
    wrong = _wrong_snapshot(table, seen) if table.certain else None
    return found if wrong is None else [*found, finding("snapshot-differs", key, f"{_named(table)}: {wrong}")]


def _wrong_snapshot(table: TableVersion, seen: SeenMetadata) -> str | None:
    made, snapshot = table.made, seen.snapshot
    if made is None or snapshot is None:
        there, expected = snapshot and snapshot.snapshot_id, made and made.snapshot_id
        return None if there == expected else f"its snapshot is {there}, but should be {expected}"
    number = made.version.number
    parts = (
        ("its snapshot", snapshot.snapshot_id, made.snapshot_id),
        ("the sequence number of its snapshot", snapshot.sequence_number, number),
        ("its last sequence number", seen.last_sequence_number, number),
        ("the version in its summary", snapshot.summary.get(_VERSION), str(number)),
        ("the transaction in its summary", snapshot.summary.get(_TXID), made.txid.text),
    )
    return next(
        (f"{what} is {is_}, but should be {should}" for what, is_, should in parts if is_ != should), None
    )


def _named(table: TableVersion) -> str:
    return f"{table.name} at version {table.version}"


# --- manifests ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counts:
    """Files and rows of a manifest by status."""

    added_files: int = 0
    existing_files: int = 0
    deleted_files: int = 0
    added_rows: int = 0
    existing_rows: int = 0
    deleted_rows: int = 0

    @property
    def live_files(self) -> int:
        return self.added_files + self.existing_files

    @property
    def live_rows(self) -> int:
        return self.added_rows + self.existing_rows


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A live file of a table, as its manifest says."""

    path: str
    size_bytes: int
    rows: int
    is_data: bool = True


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A line of a manifest list."""

    path: str
    length: int
    is_data: bool
    counts: Counts


@dataclass(frozen=True, slots=True)
class SeenManifest:
    """What a manifest holds."""

    size_bytes: int
    counts: Counts
    live: tuple[SeenFile, ...]


def judge_manifest(key: str, listed: ListedManifest, seen: SeenManifest) -> list[Finding]:
    """Compares a manifest with its line in the manifest list."""
    if seen.size_bytes != listed.length:
        told = f"it has {seen.size_bytes:,} bytes, but its list says {listed.length:,}"
        return [finding("manifest-size", key, told)]
    if seen.counts != listed.counts:
        return [finding("manifest-differs", key, f"it has {seen.counts}, but its list says {listed.counts}")]
    if any(file.is_data != listed.is_data for file in seen.live):
        return [
            finding("manifest-differs", key, "it mixes data files and delete files, or has the wrong kind")
        ]
    return []


def judge_totals(
    where: str, summary: Mapping[str, str], listed: Iterable[ListedManifest], live: Iterable[SeenFile] | None
) -> list[Finding]:
    """Compares the totals of a snapshot with its manifests. `live` are its files, if all could be read."""
    manifests = list(listed)
    data = [manifest.counts for manifest in manifests if manifest.is_data]
    deletes = [manifest.counts for manifest in manifests if not manifest.is_data]
    totals = {
        "total-data-files": sum(counts.live_files for counts in data),
        "total-records": sum(counts.live_rows for counts in data),
        "total-delete-files": sum(counts.live_files for counts in deletes),
        "total-position-deletes": sum(counts.live_rows for counts in deletes),
    }
    # Delete files name paths, so those of a replica have other sizes than its summaries say.
    if live is not None and not deletes:
        totals["total-files-size"] = sum(file.size_bytes for file in live)
    wrong = [
        f"{name} is {summary[name]}, but should be {total}"
        for name, total in totals.items()
        if name in summary and summary[name] != str(total)
    ]
    return [finding("summary-differs", where, "; ".join(wrong))] if wrong else []


# --- files --------------------------------------------------------------------------------------------------


def judge_twice(table: TableVersion, live: Iterable[SeenFile]) -> list[Finding]:
    """Data files that the manifests of a snapshot name more than once."""
    seen: set[str] = set()
    twice: list[str] = []
    for file in live:
        if file.path in seen:
            twice.append(file.path)
        seen.add(file.path)
    return [finding("file-twice", path, f"{_named(table)} names it twice") for path in dict.fromkeys(twice)]


def judge_file(key: str, file: SeenFile, size_bytes: int | None) -> list[Finding]:
    """Compares a data or delete file with its manifest; `size_bytes` is None if it is gone."""
    what = "a data file" if file.is_data else "a delete file"
    if size_bytes is None:
        return [finding("file-missing", key, f"{what} with {file.rows:,} rows is gone")]
    if size_bytes != file.size_bytes:
        told = f"{what} has {size_bytes:,} bytes, but its manifest says {file.size_bytes:,}"
        return [finding("file-size", key, told)]
    return []


def judge_rows(key: str, file: SeenFile, rows: int) -> list[Finding]:
    """Compares the rows of a file with its manifest."""
    if rows == file.rows:
        return []
    return [finding("file-rows", key, f"it has {rows:,} rows, but its manifest says {file.rows:,}")]


@dataclass(frozen=True, slots=True)
class SeenDeletes:
    """What a delete file lists: the highest position by data file. `bounds` of its paths: see manifest."""

    highest: Mapping[str, int]
    bounds: tuple[str | None, str | None] = (None, None)


def judge_deletes(
    key: str, seen: SeenDeletes, rows: Mapping[str, int], is_there: Collection[str]
) -> list[Finding]:
    """Compares a delete file with data files.

    `rows` are those of live files; `is_there`: files on storage.
    """
    paths = sorted(seen.highest, key=str.encode)
    low, high = seen.bounds
    if paths and (low not in (None, paths[0]) or high not in (None, paths[-1])):
        told = f"its data files start at {paths[0]}, but its manifest says from {low} to {high}"
        return [finding("delete-differs", key, told)]
    beyond = [path for path in paths if path in rows and seen.highest[path] >= rows[path]]
    if beyond:
        told = f"it names row {seen.highest[beyond[0]]:,} of {beyond[0]}, which has {rows[beyond[0]]:,} rows"
        return [finding("delete-differs", key, told)]
    gone = [path for path in paths if path not in rows and path not in is_there]
    if gone:
        return [finding("delete-dangling", key, f"{gone[0]} and others like it are gone, which is harmless")]
    return []


# --- published ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hint:
    """The hint of a published table: `newest` is the version to publish.

    `versions` are those of the table, and of earlier tables at the same location.
    """

    key: str
    newest: int
    versions: frozenset[int] = field(default_factory=frozenset)


def hinted_version(data: bytes) -> int | None:
    """The version that `version-hint.text` names; None if it is not a number."""
    text = data.decode("ascii", "replace").strip()
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None


def judge_hint(hint: Hint, data: bytes | None, head: int) -> list[Finding]:
    """Compares the hint of a table with the log."""
    if data is None:
        return [finding("hint-missing", hint.key, f"the table should be published at version {hint.newest}")]
    number = hinted_version(data)
    if number is None:
        return [finding("hint-unreadable", hint.key, f"it contains {data[:40]!r}")]
    if number > head:
        return [finding("hint-beyond-head", hint.key, f"it names version {number}, but the newest is {head}")]
    if number not in hint.versions:
        return [finding("hint-wrong", hint.key, f"version {number} did not change this table")]
    if number < hint.newest:
        return [finding("hint-old", hint.key, f"it names version {number}, but the table has {hint.newest}")]
    return []


# --- files that nothing needs -------------------------------------------------------------------------------

_OWNER = re.compile(
    r"/data/L\d+-(?:\d+-\d+-)?([0-9a-f]{32})/|/(?:attempts|metadata)/[^/]*-([0-9a-f]{32})[-.][^/]*$"
)
_POSITIONS = re.compile(r"/data/L0-[0-9a-f]{32}/[0-9a-f]{8}-positions-[a-z]+/")
_PUBLISHED = re.compile(r"/metadata/(v\d+\.metadata\.json|version-hint\.text)$")


def owner_of(key: str) -> TxId | None:
    """The transaction that an object of a table belongs to, inferred from its name."""
    found = _OWNER.search(key)
    return None if found is None else TxId(found[1] or found[2])


def summed(key: str) -> str:
    """The file that a checksum of Hadoop's client belongs to, in the same directory; else the key itself."""
    directory, _, name = key.rpartition("/")
    is_sum = name.startswith(".") and name.endswith(".crc")
    return f"{directory}/{name[1:-4]}" if is_sum else key


def judge_unreferenced(
    sizes: Mapping[str, int | None], txids: Collection[TxId], referenced: Collection[str] | None
) -> list[Finding]:
    """Files that no version needs.

    `referenced` are the files of all versions. None: not all of these are known, and then only files of
    transactions that are not in the log count.
    """

    def is_needed(key: str) -> bool:
        if _PUBLISHED.search(key):
            return True
        # No manifest names the position files of copy-on-write; the feed of changes reads them.
        if referenced is None or _POSITIONS.search(key):
            return owner_of(key) in txids
        return key in referenced

    left = sorted(key for key in sizes if not is_needed(summed(key)))
    if not left:
        return []
    total = sum(sizes[key] or 0 for key in left)
    told = f"no version needs {len(left):,} files with {total:,} bytes, such as this one"
    return [finding("files-unreferenced", left[0], told)]


@dataclass(frozen=True, slots=True)
class KeptTable:
    """A version of a table whose metadata must exist; with `files`, all its files must."""

    table: TableVersion
    files: bool


def kept_tables(
    versions: Sequence[TableVersion], retention: Retention, divisor: int, head: int
) -> Iterator[KeptTable]:
    """Of the versions of one table, in order, those of which something is kept."""
    changes = [(one.version.number, one.dropped) for one in versions]
    for one in held(changes, versions[0].ref.uuid, retention, divisor, head):
        yield KeptTable(versions[one.place], one.files)
