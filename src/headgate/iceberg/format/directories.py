"""The locations of a table's files: one directory per write, whose name identifies what its files contain.

`data/L0-<txid>/<attempt>/…` contains new rows. Files with another role are in `<attempt>-<role>`: so the
manifests of a version show which of its rows are new, which were updated and which were only moved.
`data/L<level>-<first>-<last>-<txid>/<attempt>/…` contains compacted rows, with the versions that they cover.
Directories below that are for people; the partition is in the manifest.

`attempts/<version>-<txid>.metadata.json` is the table as one attempt at a version would leave it. The record
of the version names the attempt that was committed. These files are not in `metadata/`, because engines that
open a table by its path treat the highest number there as the newest version, even if it was never committed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pyiceberg.typedef import Record as PartitionRecord

from headgate.errors import CorruptLakeError
from headgate.iceberg.format.data_file import Partition
from headgate.iceberg.format.metadata import TableMetadata
from headgate.model.identifiers import ATTEMPTS, TxId, Version, Window, is_location

if TYPE_CHECKING:
    from headgate.iceberg.format.loader import TableLoader
    from headgate.log.driver import Driver

LONGEST_NAME = 200
"""Most disks allow 255 bytes; the names are percent-encoded, so a character is one byte."""
ATTEMPT_DIGITS = 8


class Role(Enum):
    """What the files of a directory contain. The value is part of the directory's name."""

    NEW = ""
    UPDATED = "updated"
    """New images of updated rows."""
    CARRIED = "carried"
    """Existing rows, written again unchanged."""
    POSITIONS_DELETED = "positions-deleted"
    POSITIONS_UPDATED = "positions-updated"


_ROLES = "|".join(role.value for role in Role if role.value)
_IN_A_DIRECTORY = re.compile(
    rf"/data/L([0-9]{{1,2}})-(?:([0-9]{{1,19}})-([0-9]{{1,19}})-)?([0-9a-f]{{32}})(?=/)(?:/[0-9a-f]{{{ATTEMPT_DIGITS}}}(?:-({_ROLES}))?(?=/))?"
)


def new_directory(
    metadata: TableMetadata, txid: TxId, attempt: TxId, role: Role, window: Window | None = None
) -> str:
    """The URI of a directory for one write of a transaction, which may write to a table more than once.

    `window` is the range of versions that compacted rows come from.
    """
    name = attempt.text[:ATTEMPT_DIGITS]
    named = f"{name}-{role.value}" if role.value else name
    covered = "L0" if window is None else f"L{window.level}-{window.first}-{window.last}"
    return f"{metadata.location}/data/{covered}-{txid}/{named}"


def new_file(directory: str, metadata: TableMetadata, spec_id: int, partition: Partition, name: TxId) -> str:
    """The URI of a new Parquet file in a directory, by its partition."""
    spec = metadata.specs[spec_id]
    path = spec.partition_to_path(PartitionRecord(*partition), metadata.schema_of(spec))
    inner = [_short(part) for part in path.split("/") if part]
    return "/".join((directory, *inner, f"{name}.parquet"))


def manifest_list(location: str, snapshot: int, version: int | Version, txid: TxId) -> str:
    """The manifest list of a snapshot, for the table at `location`, a URI or a key."""
    return f"{location}/metadata/snap-{snapshot}-{version}-{txid}.avro"


def attempt_metadata(location: str, version: Version, txid: TxId) -> str:
    """The key of the metadata file of one attempt at a version, for the table at `location`."""
    return f"{location}/{ATTEMPTS}/{version.padded()}-{txid}.metadata.json"


@dataclass(frozen=True, slots=True)
class Target:
    """The table that rows are written to, inside of one transaction.

    `role` says what the rows are; `window`, of compacted rows, which versions they are of.
    """

    driver: Driver
    loader: TableLoader
    metadata: TableMetadata
    txid: TxId
    table: str
    role: Role = Role.NEW
    window: Window | None = None

    def new_directory(self) -> str:
        """The URI of a directory that one write has to itself."""
        # The metadata file says where the table lies, and may say anything.
        if not is_location(self.loader.key(self.metadata.location)):
            raise CorruptLakeError(f"{self.metadata.location!r} is not the directory of a table")
        return new_directory(self.metadata, self.txid, self.driver.host.new_txid(), self.role, self.window)


def role_of(path: str) -> Role:
    """What a file of a table contains, derived only from its path.

    The rows of a compacted file (`data/L1-…` and higher) were only moved.
    """
    found = _in_a_directory(path)
    if found is None:
        return Role.NEW
    return Role.CARRIED if int(found[1]) > 0 else Role(found[5] or "")


def window_covered(path: str, sequence_number: int) -> Window:
    """The versions that the rows of a data file come from: its own version, unless it was compacted."""
    found = _in_a_directory(path)
    if found is None or found[2] is None:
        return Window(sequence_number, sequence_number)
    first, last = int(found[2]), int(found[3])
    if not 1 <= first <= last <= (sequence_number or last):
        raise CorruptLakeError(f"{path} is not named after versions up to {sequence_number or last}")
    return Window(first, last, int(found[1]))


def written_by(path: str) -> TxId | None:
    """The transaction that wrote a file of a table; None if its path does not contain it."""
    found = _in_a_directory(path)
    return None if found is None else TxId(found[4])


def _in_a_directory(path: str) -> re.Match[str] | None:
    # The last match: directories above the table can have any name.
    return next(reversed(list(_IN_A_DIRECTORY.finditer(path))), None)


def image_role(path: str, txid: TxId) -> Role:
    """The role of a row's new image: still a new row if this transaction added the original."""
    own = f"/data/L0-{txid}/" in path
    return Role.NEW if own and role_of(path) is Role.NEW else Role.UPDATED


def _short(name: str) -> str:
    """A name that disks allow; long names are cut and get a digest. The manifest has the full value."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME // 2]}~{hashlib.sha256(name.encode()).hexdigest()[:32]}"
