"""Directories that are nested deeper than those of any lake: an error of ours, within bounded time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

import headgate as hg
from headgate.errors import StorageRefusedError
from headgate.model.identifiers import MAX_LEVELS, is_key
from headgate.storage.local import LocalStore
from headgate.storage.walking import Entries, keys_below
from tests.hostile.crafting import make_lake


def chain(levels: int) -> Callable[[str], Entries]:
    """A tree of one directory in each other, with a file at the bottom."""

    def look(prefix: str) -> Entries:
        if prefix.count("/") < levels:
            return Entries(frozenset(), frozenset({"a"}))
        return Entries(frozenset({"x"}), frozenset())

    return look


def test_as_deep_as_a_lake_can_be() -> None:
    assert list(keys_below(chain(MAX_LEVELS), "", "")) == ["a/" * MAX_LEVELS + "x"]


def test_deeper_than_a_lake_can_be() -> None:
    with pytest.raises(StorageRefusedError, match="more than 1,000 deep"):
        list(keys_below(chain(MAX_LEVELS + 1), "", ""))


def test_no_key_is_deeper() -> None:
    assert is_key("a/" * (MAX_LEVELS - 1) + "x")
    assert not is_key("a/" * MAX_LEVELS + "x")


@contextmanager
def nested(top: Path, levels: int) -> Iterator[None]:
    """Directories in each other below `top`, which are removed at the end: no other program could."""
    parts = [top / ("a/" * level) for level in range(1, levels + 1)]
    for part in parts:
        part.mkdir()
    (parts[-1] / "x.parquet").write_bytes(b"")
    try:
        yield
    finally:
        (parts[-1] / "x.parquet").unlink()
        for part in reversed(parts):
            part.rmdir()


def test_a_local_store_lists_deep_directories(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with nested(tmp_path, 998):
        assert store.list_page("").keys == ("a/" * 998 + "x.parquet",)
        (found,) = store.list_times("").objects
        assert found.key == "a/" * 998 + "x.parquet"
        assert store.leftovers("") == ()


USES: dict[str, Callable[[hg.Lake], object]] = {
    "fsck": lambda lake: lake.fsck(deep=True),
    "vacuum": lambda lake: lake.vacuum(older_than=timedelta(0)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("where", ["data/t/t/data", "control/log"])
def test_fsck_and_vacuum_say_where_directories_are_too_deep(tmp_path: Path, use: str, where: str) -> None:
    make_lake(tmp_path / "lake")
    lake = hg.Lake.open(tmp_path / "lake")
    with nested(tmp_path / "lake" / where, 1_100):
        if use == "vacuum" and where.startswith("control/"):
            USES[use](lake)  # it cleans up tables only
            return
        with pytest.raises(StorageRefusedError, match=rf"cannot list {where}/a/a/") as caught:
            USES[use](lake)
    assert "remove these directories" in caught.value.next_step
