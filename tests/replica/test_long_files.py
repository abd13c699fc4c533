"""Files that are longer than memory are copied in parts, whatever their manifests say about their length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import MemoryStore as ObstoreMemory

import headgate as hg
from headgate.errors import CorruptLakeError, StorageError
from headgate.model import limits
from headgate.steward.replica import copying
from headgate.storage.capabilities import Store, Tail
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.object import ObjectStore
from tests.hostile.crafting import change_avro, manifests

PART = 10_000
ROWS = 20_000


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "PART_BYTES", PART)


class Watched(LocalStore):
    """Notes how much of data files one request reads."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, fsync=False)
        self.read: list[int] = []

    def get(self, key: str) -> bytes | None:
        data = super().get(key)
        self._note(key, data)
        return data

    def tail(self, key: str, length_bytes: int) -> Tail | None:
        found = super().tail(key, length_bytes)
        self._note(key, None if found is None else found.data)
        return found

    def ranges(self, key: str, ranges: Sequence[range]) -> list[bytes] | None:
        found = super().ranges(key, ranges)
        self._note(key, b"".join(found or []))
        return found

    def _note(self, key: str, data: bytes | None) -> None:
        if key.endswith(".parquet"):
            self.read.append(len(data or b""))


def fill(store: Store) -> hg.Lake:
    lake = hg.Lake.init(store)
    table = lake.create_table("t.t", "id BIGINT")
    table.append(pa.table({"id": pa.array([number * 2654435761 % 2**40 for number in range(ROWS)])}))
    table.append(pa.table({"id": [1]}))
    return lake


def require_whole(replica: Store) -> None:
    copy = hg.Lake.open(replica)
    assert copy.table("t.t").read_arrow().num_rows == ROWS + 1
    assert copy.fsck(deep=True).ok


def test_no_request_reads_more_than_a_part(tmp_path: Path) -> None:
    fill(LocalStore(tmp_path / "lake", fsync=False))
    source = Watched(tmp_path / "lake")
    report = hg.Lake.open(source).replicate(LocalStore(tmp_path / "replica", fsync=False))
    assert max(source.read) == PART
    assert sum(source.read) == report.bytes > 10 * PART
    require_whole(LocalStore(tmp_path / "replica"))


def test_between_stores_of_any_kind(tmp_path: Path) -> None:
    makes: list[Any] = [
        lambda: LocalStore(tmp_path / "replica", fsync=False),
        lambda: ObjectStore(ObstoreMemory(), "memory://replica"),
        MemoryStore,  # has no parts
    ]
    for source in (ObjectStore(ObstoreMemory(), "memory://lake"), LocalStore(tmp_path / "lake")):
        for make in makes:
            lake = hg.Lake.open(source) if source.get("headgate.json") else fill(source)
            target = make()
            lake.replicate(target)
            require_whole(target)
        for path in sorted((tmp_path / "replica").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("left", [0, 1, None])
def test_a_file_that_changes_while_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int | None
) -> None:
    lake = fill(LocalStore(tmp_path / "lake", fsync=False))
    monkeypatch.setattr(LocalStore, "ranges", lambda *_: None if left is None else [b"x" * left])
    with pytest.raises(StorageError, match="was removed or changed while it was copied"):
        lake.replicate(tmp_path / "replica")
    monkeypatch.undo()
    lake.replicate(tmp_path / "replica")
    require_whole(LocalStore(tmp_path / "replica"))


def test_a_manifest_that_makes_a_long_file_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file takes no space on the disk, and a manifest may say that it has a byte."""
    fill(LocalStore(tmp_path / "lake", fsync=False))
    for path in manifests(tmp_path / "lake"):
        change_avro(path, lambda entry: entry["data_file"].update(file_size_in_bytes=1))
    source = Watched(tmp_path / "lake")
    hg.Lake.open(source).replicate(LocalStore(tmp_path / "replica", fsync=False))
    assert max(source.read) == PART
    for path in (tmp_path / "lake").rglob("*.parquet"):
        with path.open("r+b") as file:
            file.truncate(20 * limits.GIB)
    with pytest.raises(CorruptLakeError, match="21,474,836,480 bytes"):
        hg.Lake.open(tmp_path / "lake").replicate(tmp_path / "other")
