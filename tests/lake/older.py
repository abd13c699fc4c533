"""A lake as an earlier release left it on storage: its attempts wrote their metadata into `metadata/`.

Table `t.t` (`n BIGINT, p INT`, by `p`): made, four appends of two rows, one delete. A seventh version was
never committed, and left its files. Divisor 4, January 2026.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyarrow as pa

from headgate.storage.memory import MemoryStore

NAME = "older"
"""Of the store. Its objects name each other by URIs, so the lake can be opened nowhere else."""
COMMITTED = [0, 1, 2, 4, 5, 6, 7]
_ARCHIVE = Path(__file__).parent / "lakes" / "attempts-in-metadata.zip"


def older_lake() -> MemoryStore:
    """A new store with the lake in it."""
    store = MemoryStore(NAME)
    with zipfile.ZipFile(_ARCHIVE) as archive:
        for name in archive.namelist():
            store.put(name, archive.read(name))
    return store


def rows(*numbers: int) -> pa.Table:
    parities = [number % 2 for number in numbers]
    return pa.table({"n": pa.array(numbers, pa.int64()), "p": pa.array(parities, pa.int32())})
