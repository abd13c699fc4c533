"""Symbolic links, pipes and devices inside a local lake: nothing leads out of it, and nothing hangs."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.errors import StorageError, StorageRefusedError
from headgate.storage import beneath
from headgate.storage.local import LocalStore

SECRET = b"precious"
TXID = "0" * 32


@pytest.fixture(params=["openat2", "walk"], autouse=True)
def way_of_opening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one call where the system has it, and component by component elsewhere."""
    if request.param == "walk":
        monkeypatch.setattr(beneath, "_openat2", lambda: None)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake", fsync=False)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory outside of the lake, with old files."""
    directory = tmp_path / "victim"
    (directory / "inner").mkdir(parents=True)
    for name in ("secret", "inner/secret", ".headgate-0.partial"):
        (directory / name).write_bytes(SECRET)
        os.utime(directory / name, (0, 0))
    return directory


def untouched(directory: Path) -> dict[str, tuple[bytes, float]]:
    found = {path: path.stat() for path in sorted(directory.rglob("*"))}
    return {
        str(path.relative_to(directory)): (path.read_bytes() if path.is_file() else b"", status.st_mtime)
        for path, status in found.items()
    }


def lake_with_rows(tmp_path: Path) -> hg.Lake:
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False))
    lake.create_table("t.t", "id BIGINT").append(pa.table({"id": [1, 2]}))
    return lake


# --- one store ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["absolute", "relative"])
def test_no_request_goes_through_a_link_to_a_directory(
    store: LocalStore, tmp_path: Path, victim: Path, link: str
) -> None:
    store.put("a/key", b"1")
    (tmp_path / "lake/a/out").symlink_to(victim if link == "absolute" else "../../victim")
    before = untouched(victim)
    calls: list[Callable[[], object]] = [
        partial(store.get, "a/out/secret"),
        partial(store.get, "a/out/inner/secret"),
        partial(store.tail, "a/out/secret", 3),
        partial(store.ranges, "a/out/secret", [range(2)]),
        partial(store.put, "a/out/secret", b""),
        partial(store.put, "a/out/new/secret", b""),
        partial(store.put_if_absent, "a/out/fresh", b""),
        partial(store.delete, "a/out/secret"),
        partial(store.rename_no_replace, "a/out/secret", "a/stolen"),
        partial(store.rename_no_replace, "a/key", "a/out/given"),
        partial(store.list_page, "a/out/"),
        partial(store.list_sizes, "a/out/inner/"),
        partial(store.list_times, "a/out/"),
        partial(store.leftovers, "a/out/"),
        partial(store.remove_leftover, "a/out/.headgate-0.partial"),
        partial(store.hold, "a/out/secret"),
        partial(LocalStore(tmp_path / "lake").make_durable, ["a/out/secret"]),
        partial(store.require_inside, ["a/key", "a/out/secret"]),
        partial(store.require_inside, ["a/out/is/not/there"]),
    ]
    for call in calls:
        with pytest.raises(StorageRefusedError, match="symbolic link") as raised:
            call()
        assert "a/out" in raised.value.problem
        assert "mount" in raised.value.next_step
    assert untouched(victim) == before
    assert store.get("a/key") == b"1"


def test_a_link_in_place_of_an_object_is_never_followed(
    store: LocalStore, tmp_path: Path, victim: Path
) -> None:
    store.put("a/key", b"1")
    link = tmp_path / "lake/a/link"
    link.symlink_to(victim / "secret")
    before = untouched(victim)
    for read in (store.get, partial(store.tail, length_bytes=3), partial(store.ranges, ranges=[range(2)])):
        with pytest.raises(StorageRefusedError, match="symbolic link"):
            read("a/link")
    with pytest.raises(StorageRefusedError, match="symbolic link"):
        store.rename_no_replace("a/link", "a/moved")
    assert not store.put_if_absent("a/link", b"")
    assert store.list_page("").keys == ("a/key", "a/link")
    assert dict(store.list_sizes("").sizes)["a/link"] == len(str(victim / "secret"))
    assert store.list_times("").objects[1].key == "a/link"
    store.delete("a/link")
    assert store.list_page("").keys == ("a/key",)
    link.symlink_to(victim / "secret")
    store.put("a/link", b"mine")
    assert store.get("a/link") == b"mine"
    assert untouched(victim) == before


def test_half_written_files_are_not_looked_for_behind_links(
    store: LocalStore, tmp_path: Path, victim: Path
) -> None:
    store.put("a/key", b"1")
    (tmp_path / "lake/a/out").symlink_to(victim)
    (tmp_path / "lake/a/.headgate-1.partial").symlink_to(victim / "secret")
    assert [one.key for one in store.leftovers("")] == ["a/.headgate-1.partial"]
    before = untouched(victim)
    store.remove_leftover("a/.headgate-1.partial")
    assert store.leftovers("") == ()
    assert untouched(victim) == before


def test_links_that_stay_inside_are_not_followed_either(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/key", b"1")
    (tmp_path / "lake/b").symlink_to("a")
    with pytest.raises(StorageRefusedError, match="symbolic link"):
        store.get("b/key")
    assert store.list_page("").keys == ("a/key", "b")


def test_the_root_may_be_reached_through_a_link(tmp_path: Path) -> None:
    LocalStore(tmp_path / "disk/lake").put("a/key", b"1")
    (tmp_path / "here").symlink_to(tmp_path / "disk", target_is_directory=True)
    (tmp_path / "lake").symlink_to("here/lake", target_is_directory=True)
    for root in (tmp_path / "lake", tmp_path / "here/lake"):
        store = LocalStore(root)
        assert store.get("a/key") == b"1"
        store.put("a/other", b"2")
        assert store.list_page("").keys == ("a/key", "a/other")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [fifo, bound_socket])
def test_what_is_no_file_is_an_error_and_no_hang(
    store: LocalStore, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    store.put("a/key", b"1")
    make(tmp_path / "lake/a/odd")
    reads: list[Callable[[], object]] = [
        lambda: store.get("a/odd"),
        lambda: store.tail("a/odd", 3),
        lambda: store.ranges("a/odd", [range(2)]),
        lambda: store.rename_no_replace("a/odd", "a/moved"),
        lambda: store.hold("a/odd"),
        lambda: LocalStore(tmp_path / "lake").make_durable(["a/odd"]),
    ]
    for read in reads:
        with pytest.raises(StorageRefusedError, match=r"not a regular file|No such device"):
            read()
    assert store.list_page("").keys == ("a/key", "a/odd")
    store.delete("a/odd")
    assert store.list_page("").keys == ("a/key",)


def test_a_directory_that_becomes_a_link_in_the_middle_of_a_write(
    store: LocalStore, tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked once and held: who swaps the directory later changes nothing."""
    store.put("a/b/key", b"1")
    directory, before = tmp_path / "lake/a/b", untouched(victim)
    for step in ("open", "replace", "unlink"):
        real = getattr(os, step)

        def swapped(
            *args: object, step: str = step, real: Callable[..., object] = real, **how: object
        ) -> object:
            if args[0] != str(tmp_path / "lake"):
                monkeypatch.setattr(os, step, real)
                directory.rename(tmp_path / "lake/a/old")
                directory.symlink_to(victim)
            return real(*args, **how)

        monkeypatch.setattr(os, step, swapped)
        with suppress(StorageError):
            store.put("a/b/secret", b"2") if step != "unlink" else store.delete("a/b/key")
        assert untouched(victim) == before
        monkeypatch.setattr(os, step, real)
        if directory.is_symlink():
            directory.unlink()
            (tmp_path / "lake/a/old").rename(directory)


# --- whole lakes --------------------------------------------------------------------------------------------


def dead_directory(tmp_path: Path) -> Path:
    """Where a transaction that never committed would have written."""
    directory = tmp_path / "lake/data/t/t/data" / f"L0-{TXID}"
    directory.mkdir(parents=True)
    return directory


def test_vacuum_deletes_nothing_behind_a_link(tmp_path: Path, victim: Path) -> None:
    lake = lake_with_rows(tmp_path)
    directory = dead_directory(tmp_path)
    (directory / "attempt").symlink_to(victim)
    (directory / "file.parquet").symlink_to(victim / "secret")
    (tmp_path / "lake/data/t/t/data" / f"L0-{'1' * 32}").symlink_to(victim)
    before = untouched(victim)
    lake.vacuum()
    lake.vacuum(older_than=timedelta(0))
    assert untouched(victim) == before
    assert not directory.exists(), "the links themselves are litter"
    assert lake.table("t.t").read_arrow().num_rows == 2


def test_loops_stop_neither_fsck_nor_vacuum(tmp_path: Path) -> None:
    lake = lake_with_rows(tmp_path)
    directory = dead_directory(tmp_path)
    (directory / "up").symlink_to("..")
    (directory / "root").symlink_to(tmp_path / "lake")
    (directory / "self").symlink_to("self")
    (tmp_path / "lake/control/loop").symlink_to("../control")
    assert lake.fsck(deep=True).version == 2
    assert lake.vacuum(older_than=timedelta(0)).objects == 3
    assert not directory.exists()


def test_a_data_directory_that_is_a_link_is_refused_and_explained(tmp_path: Path) -> None:
    lake = lake_with_rows(tmp_path)
    (tmp_path / "lake/data").rename(tmp_path / "disk")
    (tmp_path / "lake/data").symlink_to(tmp_path / "disk")
    opened = hg.Lake.open(tmp_path / "lake")
    calls: list[Callable[[], object]] = [
        lambda: opened.table("t.t").read_arrow(),
        lambda: opened.table("t.t").append(pa.table({"id": [3]})),
        lambda: opened.vacuum(),
    ]
    before = untouched(tmp_path / "disk")
    for call in calls:
        with pytest.raises(StorageRefusedError, match="symbolic link") as raised:
            call()
        assert "mount" in raised.value.next_step
    assert untouched(tmp_path / "disk") == before
    assert lake is not None


@pytest.mark.timeout(60)
def test_fsck_reports_pipes_and_links_in_place_of_objects(tmp_path: Path, victim: Path) -> None:
    lake = lake_with_rows(tmp_path)
    (data,) = (tmp_path / "lake/data/t/t/data").rglob("*.parquet")
    data.unlink()
    os.mkfifo(data)
    (hint,) = (tmp_path / "lake/data/t/t/metadata").glob("version-hint.text")
    hint.unlink()
    hint.symlink_to(victim / "secret")
    report = lake.fsck(deep=True)
    assert not report.ok
    key = data.relative_to(tmp_path / "lake").as_posix()
    assert key in {finding.where for finding in report.damage}
    assert any("symbolic link" in finding.problem for finding in report.findings)
    with pytest.raises(hg.HeadgateError, match="not a regular file"):
        hg.Lake.open(tmp_path / "lake").table("t.t").read_arrow()
