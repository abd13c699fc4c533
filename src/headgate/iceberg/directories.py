"""Where the files of a table lie: a directory for each write, whose name tells what its files are.

`data/L0-<txid>/<attempt>/…` holds new rows. Files of another role are in `<attempt>-<role>`: so whoever reads
the manifests of a version knows which of its rows are new, which are updated and which have only moved.
`data/L<level>-<first>-<last>-<txid>/<attempt>/…` holds what was compacted, with the versions that it covers.
Directories below that are for people; the manifest has the partition.
"""

from __future__ import annotations

import hashlib
import re
from enum import Enum

from pyiceberg.typedef import Record as PartitionRecord

from headgate.iceberg.data_file import Partition
from headgate.iceberg.metadata import TableMetadata
from headgate.model.identifiers import TxId
from headgate.model.window import Window

LONGEST_NAME = 200
"""Most disks take 255 bytes; the names are percent-encoded, so a character is a byte."""
ATTEMPT_DIGITS = 8


class Role(Enum):
    """What the files of a directory are. The value is what stands on storage."""

    NEW = ""
    UPDATED = "updated"
    """New images of updated rows."""
    CARRIED = "carried"
    """Rows that were there before, written again unchanged."""
    POSITIONS_DELETED = "positions-deleted"
    POSITIONS_UPDATED = "positions-updated"


_ROLES = "|".join(role.value for role in Role if role.value)
_IN_A_DIRECTORY = re.compile(
    rf"/data/L(\d+)-(?:(\d+)-(\d+)-)?([0-9a-f]{{32}})(?=/)(?:/[0-9a-f]{{{ATTEMPT_DIGITS}}}(?:-({_ROLES}))?(?=/))?"
)


def new_directory(
    metadata: TableMetadata, txid: TxId, attempt: TxId, role: Role, window: Window | None = None
) -> str:
    """The URI of a directory for one write of a transaction, which may write to a table more than once.

    `window` are the versions that compacted rows are of.
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


def role_of(path: str) -> Role:
    """What a file of a table is, told from its path alone.

    The rows of a compacted file (`data/L1-…` and higher) have only moved.
    """
    found = _in_a_directory(path)
    if found is None:
        return Role.NEW
    return Role.CARRIED if int(found[1]) > 0 else Role(found[5] or "")


def window_covered(path: str, sequence_number: int) -> Window:
    """The versions that the rows of a data file are of: its own one, unless it was compacted."""
    found = _in_a_directory(path)
    if found is None or found[2] is None:
        return Window(sequence_number, sequence_number)
    return Window(int(found[2]), int(found[3]), int(found[1]))


def written_by(path: str) -> TxId | None:
    """The transaction that wrote a file of a table; None if its path does not say."""
    found = _in_a_directory(path)
    return None if found is None else TxId(found[4])


def _in_a_directory(path: str) -> re.Match[str] | None:
    # The last one: what is above the table may be called anything.
    return next(reversed(list(_IN_A_DIRECTORY.finditer(path))), None)


def image_role(path: str, txid: TxId) -> Role:
    """What the new image of a row is that was in a file: still a new row, if this transaction added it."""
    own = f"/data/L0-{txid}/" in path
    return Role.NEW if own and role_of(path) is Role.NEW else Role.UPDATED


def _short(name: str) -> str:
    """A name that disks take; long ones are cut and told apart by a digest. The manifest has the value."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME // 2]}~{hashlib.sha256(name.encode()).hexdigest()[:32]}"
