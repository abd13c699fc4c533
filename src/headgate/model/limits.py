"""How much of a lake Headgate reads: more than any lake needs, but never more than memory can hold.

Anybody who can write into a lake can put anything there: a record of 20 GB that takes no space on the disk,
or a manifest of 4 MB that expands to 4 GB. An object that is larger than these limits is not read at all, and
is a `CorruptLakeError`.
"""

from __future__ import annotations

from headgate.errors import CorruptLakeError
from headgate.model.identifiers import TABLES

MIB = 1 << 20
GIB = 1 << 30

RECORD_BYTES = 64 * MIB
"""Of a record, and of everything else that decides about the lake.

What grows in a record is bounded, except the counts of its partitions: with 100 bytes each there is room for
more than 600,000 in one commit.
"""
CHECKPOINT_BYTES = 256 * MIB
"""Of a checkpoint, which names all tables, views and tags: with 300 bytes each, more than 800,000."""
METADATA_BYTES = 64 * MIB
"""Of the metadata file of a table. Every commit writes it again, with about 900 bytes for each snapshot: a
table that reaches this limit has written two petabytes of metadata files before."""
SNAPSHOTS = 100_000
"""In a metadata file; see `METADATA_BYTES`."""
MANIFEST_BYTES = 64 * MIB
"""Of a manifest or a manifest list, as stored. Writers begin a new manifest at 8 MB."""
EXPANDED_BYTES = 512 * MIB
"""Of a manifest or a manifest list, with all its blocks expanded. Entries shrink to a third or a tenth."""
ENTRIES = 1_000_000
"""In one manifest, or manifests in one list: 2 GB in memory. A manifest of 8 MB has some 30,000."""
BLOCKS = 250_000
"""In one manifest. Headgate writes a block for each partition, and for every 16 entries of it."""
BLOCK_BYTES = 128 * MIB
"""Of one block, expanded: it is decompressed as a whole. Most are shorter than 100 KB."""
ITEMS = 16_000_000
"""In all entries of a manifest: numbers and bounds of columns, partition values, offsets. 1.5 GB in memory.

An entry with 100 columns has some 600, and a manifest of 8 MB has room for some 8,000 of these.
"""
ITEMS_IN_AN_ENTRY = 1_000_000
"""While an entry is decoded, each takes 300 bytes. One with 100,000 columns has some 600,000."""
COUNTED_BYTES = 4 * MIB
"""Of a block: the items in a longer one are counted before they are decoded, since they may be tiny."""
HEADER_FIELDS = 1_000
"""In the header of a manifest, which has about ten."""
SCHEMA_BYTES = 1 * MIB
"""Of the Avro schema of a manifest, which has 8 KB, and about 150 bytes for each partition field."""
SCHEMA_TYPES = 10_000
"""In the same schema: it has about 60, and two or three for each partition field."""
SCHEMA_DEPTH = 16
"""In the same schema, which is nested seven deep."""
JSON_VALUES = 10_000_000
"""In a JSON object, by its commas. Metadata of 100,000 snapshots has 3,000,000, of 10,000 columns 50,000 more
for each schema."""
JSON_LISTS = 2_000_000
"""Lists and objects in a JSON object, by their opening brackets: each takes up to 200 bytes in memory."""
ROWS_IN_A_FILE = 1 << 36
"""In a data file, as its manifest says: a set of all of them takes 140 MB."""
POSITIONS = 128_000_000
"""In a position delete file: 900 MB in memory. Writers begin another file."""
POSITIONS_BYTES = 512 * MIB
"""Of a position delete file, which is read as a whole. A position takes two or three bytes."""
FOOTER_BYTES = 256 * MIB
"""Of the footer of a Parquet file, with about 100 bytes for each column of each row group."""
DATA_FILE_BYTES = 16 * GIB
"""Of a data file or delete file that is read as a whole, or that replication copies; of a longer one, parts
can be read."""


def most_bytes(key: str) -> int:
    """How long the object `key` may be, if it is read as a whole."""
    if not key.startswith(TABLES):
        return CHECKPOINT_BYTES if key.startswith("control/checkpoint/") else RECORD_BYTES
    if key.endswith(".avro"):
        return MANIFEST_BYTES
    return METADATA_BYTES if key.endswith((".json", ".text")) else DATA_FILE_BYTES


def require_size(key: str, size_bytes: int) -> None:
    """Raises `CorruptLakeError` if the object `key` is longer than allowed; called before it is read."""
    limit = most_bytes(key)
    if size_bytes > limit:
        raise CorruptLakeError(f"{key} has {size_bytes:,} bytes; the limit for such an object is {limit:,}")
