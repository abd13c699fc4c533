"""A directory that is taken away, or replaced, while a store holds one of its objects."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import StorageError, StorageRefusedError
from headgate.storage.local import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake")


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def requests_on(store: LocalStore) -> list[Callable[[], object]]:
    return [
        lambda: store.put("a/b", b"2"),
        lambda: store.put_if_absent("a/c", b"2"),
        lambda: store.rename_no_replace("a/b", "a/c"),
        lambda: store.delete("a/b"),
        lambda: store.get("a/b"),
        lambda: store.list_page("a/"),
        lambda: store.hold("held"),
    ]


@pytest.fixture
def holding(store: LocalStore) -> LocalStore:
    store.put("a/b", b"1")
    store.put("held", b"whose")
    assert store.hold("held")
    return store


def make_again(lake: Path) -> None:
    (lake / "a").mkdir(parents=True)
    (lake / "a" / "b").write_bytes(b"1")
    (lake / "held").write_bytes(b"whose")


def remove(lake: Path) -> None:
    shutil.rmtree(lake)


def empty(lake: Path) -> None:
    shutil.rmtree(lake / "a")
    (lake / "held").unlink()


def replace_all(lake: Path) -> None:
    remove(lake)
    make_again(lake)


def replace_what_is_inside(lake: Path) -> None:
    empty(lake)
    make_again(lake)


def restore(lake: Path) -> None:
    shutil.copytree(lake, lake.with_name("backup"))
    remove(lake)
    shutil.copytree(lake.with_name("backup"), lake)


@pytest.mark.parametrize("happens", [remove, empty, replace_all, replace_what_is_inside, restore])
def test_what_stands_in_the_place_of_a_held_object_is_not_touched(
    holding: LocalStore, tmp_path: Path, happens: Callable[[Path], None]
) -> None:
    lake = tmp_path / "lake"
    happens(lake)
    before = files(tmp_path)
    for request in requests_on(holding):
        with pytest.raises(StorageRefusedError, match="nothing was changed") as raised:
            request()
        assert "open the lake again" in raised.value.next_step
    assert files(tmp_path) == before


@pytest.mark.parametrize("moment", ["open", "fsync", "link", "replace"])
@pytest.mark.parametrize("write", ["put", "put_if_absent"])
def test_a_place_that_is_replaced_in_the_middle_of_a_write_is_not_touched(
    holding: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str, moment: str
) -> None:
    lake, call = tmp_path / "lake", getattr(os, moment)

    def replaced_first(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        lake.rename(tmp_path / "old")
        make_again(lake)
        return call(*args, **options)

    monkeypatch.setattr(os, moment, replaced_first)
    with suppress(StorageError):
        getattr(holding, write)("a/c", b"2")
    monkeypatch.undo()
    assert not lake.with_name("old").exists() or files(lake) == ["a/b", "held"]


def test_a_file_system_that_is_mounted_anew_is_not_touched(tiny_disk: Path) -> None:
    store = LocalStore(tiny_disk / "lake")
    store.put("held", b"whose")
    assert store.hold("held")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(tiny_disk)], check=True)
    try:
        for content in (None, b"whose"):
            if content is not None:
                (tiny_disk / "lake").mkdir()
                (tiny_disk / "lake" / "held").write_bytes(content)
            with pytest.raises(StorageRefusedError, match="unmounted"):
                store.put("a", b"1")
        assert files(tiny_disk) == ["lake/held"]
    finally:
        subprocess.run(["umount", str(tiny_disk)], check=True)
    store.put("a", b"1")
    assert store.get("a") == b"1"


def test_the_root_is_never_made_again(
    holding: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes between the look and the write."""
    real = os.open

    def opened(path: Path, flags: int, mode: int = 0o777, **where: Any) -> int:
        if (tmp_path / "lake").exists():
            (tmp_path / "lake").rename(tmp_path / "elsewhere")
        return real(path, flags, mode, **where)

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(StorageRefusedError, match="was removed"):
        holding.put("a/b", b"2")
    assert not (tmp_path / "lake").exists()
    assert files(tmp_path / "elsewhere") == ["a/b", "held"]


def test_there_is_nothing_to_hold(store: LocalStore, tmp_path: Path) -> None:
    assert not store.hold("held")
    store.put("held", b"")
    assert not store.hold("held/below")
    assert store.hold("held")


def test_a_copy_of_a_store_holds_nothing_yet(holding: LocalStore, tmp_path: Path) -> None:
    copied = pickle.loads(pickle.dumps(holding))
    assert copied.get("a/b") == b"1"
    replace_all(tmp_path / "lake")
    assert copied.hold("held")
    copied.put("a/b", b"2")
    del copied
    with pytest.raises(StorageRefusedError):
        holding.put("a/b", b"3")


def test_what_is_held_is_let_go_with_the_store(tmp_path: Path) -> None:
    def held() -> int:
        """How often this process has the object open."""
        return [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()].count(
            os.path.realpath(tmp_path / "held")
        )

    if not Path("/proc/self/fd").exists():
        pytest.skip("the system does not tell which files are open")
    LocalStore(tmp_path).put("held", b"")
    for _ in range(3):
        store = LocalStore(tmp_path)
        assert store.hold("held") and store.hold("held")
        assert held() == 1
        del store
        assert held() == 0


def test_a_forked_child_holds_the_same(holding: LocalStore, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            holding.put("a/child", b"1")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert holding.get("a/child") == b"1"
    replace_all(tmp_path / "lake")
    with pytest.raises(StorageRefusedError):
        holding.put("a/b", b"2")
