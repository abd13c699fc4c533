"""A lake on a disk that is replaced, or whose disk fails, while handles are open."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import headgate as hg
from headgate.errors import StorageRefusedError
from headgate.log.layout import IDENTITY
from headgate.storage.local import LocalStore

STRATEGIES = ("conditional", "rename", "filetracker")


def remove(place: Path) -> None:
    shutil.rmtree(place)


def empty(place: Path) -> None:
    """The directory itself stays, and with it its inode."""
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("go", [remove, empty])
def test_a_handle_never_writes_into_another_lake_at_its_place(
    tmp_path: Path, strategy: str, go: Callable[[Path], None]
) -> None:
    place = tmp_path / "lake"
    made = hg.Lake.init(place, strategy=strategy)
    opened = hg.Lake.open(place)
    for number in range(3):
        made.set_properties({"n": str(number)})
    started = made.transaction()
    started.set_properties({"late": "1"})
    go(place)
    new = hg.Lake.init(place, strategy=strategy)
    before = contents(place)
    acts: list[Callable[[], object]] = [
        lambda: made.set_properties({"a": "1"}),
        lambda: opened.set_properties({"a": "1"}),
        lambda: opened.version,
        lambda: made.doctor(),
        started.commit,
    ]
    for act in acts:
        with pytest.raises(StorageRefusedError, match="nothing was changed") as raised:
            act()
        assert "open the lake again" in raised.value.next_step
    assert contents(place) == before
    assert [new.set_properties({"m": str(number)}).version for number in range(5)] == [1, 2, 3, 4, 5]
    assert hg.Lake.open(place).version == 5


def test_a_lake_that_was_restored_from_a_backup_is_opened_again(tmp_path: Path) -> None:
    place, backup = tmp_path / "lake", tmp_path / "backup"
    lake = hg.Lake.init(place)
    lake.set_properties({"n": "1"})
    shutil.copytree(place, backup)
    lake.set_properties({"n": "2"})
    shutil.rmtree(place)
    shutil.copytree(backup, place)
    with pytest.raises(StorageRefusedError):
        lake.set_properties({"n": "3"})
    assert hg.Lake.open(place).set_properties({"n": "3"}).version == 2


def test_a_handle_that_was_opened_without_the_copy_holds_the_record(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    hg.Lake.init(place)
    (place / IDENTITY).unlink()
    lake = hg.Lake.open(place)
    assert lake.set_properties({"n": "1"}).version == 1
    remove(place)
    hg.Lake.init(place)
    with pytest.raises(StorageRefusedError):
        lake.set_properties({"n": "2"})


def test_a_store_is_tied_to_the_first_lake_it_was_used_for(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    lake = hg.Lake.init(store)
    assert hg.Lake.open(store).id == lake.id
    remove(tmp_path / "lake")
    hg.Lake.init(tmp_path / "lake")
    with pytest.raises(StorageRefusedError):
        hg.Lake.open(store)
    with pytest.raises(StorageRefusedError):
        lake.set_properties({"n": "1"})


def test_the_losers_of_racing_inits_leave_the_winner_its_lake(tmp_path: Path) -> None:
    for attempt in range(10):
        place = tmp_path / str(attempt)
        ready = Barrier(3)

        def make(_: int, place: Path = place, ready: Barrier = ready) -> hg.Lake | None:
            try:
                return hg.Lake.init(place, on_probe=lambda report: (ready.wait(), None)[1])
            except hg.AlreadyExistsError:
                return None

        with ThreadPoolExecutor(3) as pool:
            (winner,) = (lake for lake in pool.map(make, range(3)) if lake is not None)
        assert winner.set_properties({"n": "1"}).version == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_record_whose_name_could_not_be_synced_is_unknown_until_the_lake_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    lake = hg.Lake.init(tmp_path / "lake", strategy=strategy)
    lake.set_properties({"n": "1"})
    tx = lake.transaction()
    tx.set_properties({"n": "2"})
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) and decisive(tmp_path / "lake", tx.txid):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real_fsync(descriptor)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fsync)
        with pytest.raises(hg.CommitUnknownError):
            tx.commit()
    # The disk is well again; but whoever saw the failure cannot tell.
    with pytest.raises(hg.CommitUnknownError):
        tx.commit()
    assert hg.Lake.open(tmp_path / "lake").resolve(tx.txid).version == 2


def decisive(place: Path, txid: str) -> bool:
    """Whether the decided record of version 2 has its name."""
    names = (f"log/{2:020d}.json", f"commit/{2:020d}/sub-hint/COMMIT-HINT.txt")
    found = [path for path in place.rglob("*") if str(path).endswith(names)]
    return any(txid.encode() in path.read_bytes() for path in found)
