"""A directory as a store: what holds when the disk fails, fills up, or changes under our feet."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.errors import InvalidInputError, NoAnswerError, StorageError, StorageRefusedError
from headgate.storage import local
from headgate.storage.capabilities import Stored
from headgate.storage.local import LocalStore
from headgate.testing.contracts import all_keys, race

Write = Callable[[LocalStore], object]

WRITES: dict[str, Write] = {
    "put": lambda store: store.put("a/key", b"new"),
    "put_if_absent": lambda store: store.put_if_absent("a/key", b"new"),
}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake")


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def is_directory(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def fail_sync(monkeypatch: pytest.MonkeyPatch, number: int, *, of_directories: bool) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if is_directory(descriptor) == of_directories:
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


# What is left behind.


def test_nothing_but_the_objects_is_left_behind(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/put", b"1")
    store.put("a/put", b"2")
    store.put_if_absent("a/created", b"1")
    store.put_if_absent("a/created", b"2")
    store.put("a/moved.tmp", b"1")
    store.rename_no_replace("a/moved.tmp", "a/moved")
    assert files(tmp_path / "lake") == ["a/created", "a/moved", "a/put"]


def test_half_written_files_are_invisible(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/key", b"1")
    (tmp_path / "lake" / "a" / ".headgate-0123.partial").write_bytes(b"half")
    assert all_keys(store) == ["a/key"]
    for call in (store.get, store.delete):
        with pytest.raises(InvalidInputError):
            call("a/.headgate-0123.partial")


def test_a_process_that_dies_before_the_step_that_counts_changes_nothing(
    store: LocalStore, tmp_path: Path
) -> None:
    store.put("a/put", b"old")
    for step, call in (("link", "put_if_absent('a/created', b'new')"), ("replace", "put('a/put', b'new')")):
        script = (
            "import os, pathlib; from headgate.storage.local import LocalStore\n"
            f"os.{step} = lambda *_, **__: os._exit(9)\n"
            f"LocalStore(pathlib.Path({str(tmp_path / 'lake')!r})).{call}"
        )
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert len(files(tmp_path / "lake")) == 3
    assert all_keys(store) == ["a/put"]
    assert store.get("a/put") == b"old"
    assert store.put_if_absent("a/created", b"second")


def test_delete_removes_directories_that_became_empty(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/b/c/1", b"")
    store.put("a/2", b"")
    store.delete("a/b/c/1")
    assert not (tmp_path / "lake" / "a" / "b").exists()
    store.delete("a/2")
    assert (tmp_path / "lake").exists()
    assert list((tmp_path / "lake").iterdir()) == []


def test_nothing_outside_the_directory_is_touched(store: LocalStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    store.put("key", b"")
    for key in ("../outside", "a/../../outside", str(outside)):
        calls: list[Callable[[], object]] = [
            partial(store.get, key),
            partial(store.put, key, b""),
            partial(store.put_if_absent, key, b""),
            partial(store.delete, key),
            partial(store.rename_no_replace, key, "stolen"),
            partial(store.rename_no_replace, "key", key),
        ]
        for call in calls:
            with pytest.raises(InvalidInputError):
                call()
    assert files(tmp_path) == ["lake/key", "outside"]
    assert outside.read_bytes() == b"precious"


# The order of steps, on which surviving a power failure rests.


def recorded_steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    steps: list[str] = []
    real_fsync, real_link, real_replace = os.fsync, os.link, os.replace

    def fsync(descriptor: int) -> None:
        steps.append("sync directory" if is_directory(descriptor) else "sync file")
        real_fsync(descriptor)

    def link(source: str, target: str, **where: Any) -> None:
        steps.append("link")
        real_link(source, target, **where)

    def replace(source: str, target: str, **where: Any) -> None:
        steps.append("replace")
        real_replace(source, target, **where)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "replace", replace)
    return steps


@pytest.mark.parametrize(("write", "step"), [("put", "replace"), ("put_if_absent", "link")])
def test_bytes_are_synced_before_the_name_and_the_name_before_success(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, write: str, step: str
) -> None:
    store.put("a/other", b"")
    steps = recorded_steps(monkeypatch)
    WRITES[write](store)
    assert steps == ["sync file", step, "sync directory"]


def test_new_directories_are_synced_into_their_parents(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("other", b"")
    steps = recorded_steps(monkeypatch)
    store.put("a/b/c", b"")
    assert steps == ["sync directory", "sync directory", "sync file", "replace", "sync directory"]


def test_without_fsync_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "lake", fsync=False)
    steps = recorded_steps(monkeypatch)
    store.put("a/b/put", b"")
    store.put_if_absent("a/b/created", b"")
    assert store.rename_no_replace("a/b/put", "c/moved")
    assert steps == ["replace", "link"]


# Failing disks. What comes before the step that counts is a refusal; what comes in or behind it is no answer,
# unless the kernel says for certain that nothing was done.


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_bytes_that_cannot_be_synced_are_refused(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str, number: int
) -> None:
    store.put("a/other", b"")
    fail_sync(monkeypatch, number, of_directories=False)
    with pytest.raises(StorageRefusedError, match=os.strerror(number)):
        WRITES[write](store)
    assert files(tmp_path / "lake") == ["a/other"]


@pytest.mark.parametrize("write", WRITES)
def test_a_name_that_cannot_be_synced_is_no_answer(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    store.put("a/other", b"")
    fail_sync(monkeypatch, errno.EIO, of_directories=True)
    with pytest.raises(NoAnswerError, match="could not be synced"):
        WRITES[write](store)
    assert files(tmp_path / "lake") == ["a/key", "a/other"]


@pytest.mark.parametrize("write", [*WRITES, "rename"])
def test_a_name_that_could_not_be_synced_gives_no_answer_any_more(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """Reading it back, or a second sync that succeeds, would prove nothing."""
    store.put("a/other", b"new")
    writes: dict[str, Write] = {**WRITES, "rename": lambda store: store.rename_no_replace("a/other", "a/key")}
    do: Write = writes[write]
    read: Write = lambda store: store.get("a/key")  # noqa: E731
    with monkeypatch.context() as broken:
        fail_sync(broken, errno.EIO, of_directories=True)
        with pytest.raises(NoAnswerError, match="could not be synced"):
            do(store)
    for again in (do, read):
        with pytest.raises(NoAnswerError, match="survive a power failure") as raised:
            again(store)
        assert "open the lake again" in raised.value.next_step
    store.put("a/third", b"")
    assert LocalStore(tmp_path / "lake").get("a/key") == b"new"


@pytest.mark.parametrize("write", WRITES)
def test_a_new_directory_that_cannot_be_synced_is_a_refusal(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    fail_sync(monkeypatch, errno.EIO, of_directories=True)
    with pytest.raises(StorageRefusedError, match="a/key"):
        WRITES[write](store)
    assert files(tmp_path) == []


@pytest.mark.parametrize("write", WRITES)
def test_a_file_system_that_cannot_sync_directories_is_good_enough(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    fail_sync(monkeypatch, errno.EINVAL, of_directories=True)
    WRITES[write](store)
    assert store.get("a/key") == b"new"


@pytest.mark.parametrize(("write", "step"), [("put", "replace"), ("put_if_absent", "link")])
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EIO, NoAnswerError),
        (errno.ETIMEDOUT, NoAnswerError),
        (errno.ESTALE, NoAnswerError),
        (errno.ENOENT, NoAnswerError),
        (errno.ENOSPC, StorageRefusedError),
        (errno.EROFS, StorageRefusedError),
        (errno.EACCES, StorageRefusedError),
    ],
    ids=lambda part: errno.errorcode[part] if isinstance(part, int) else None,
)
def test_the_step_that_counts_says_whether_it_can_have_been_done(
    store: LocalStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: str,
    step: str,
    number: int,
    expected: type[StorageError],
) -> None:
    store.put("a/other", b"")
    monkeypatch.setattr(os, step, failing(number))
    with pytest.raises(expected, match="a/key"):
        WRITES[write](store)
    assert files(tmp_path / "lake") == ["a/other"]


def test_a_failed_overwrite_leaves_the_old_object(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a/key", b"old")
    monkeypatch.setattr(os, "replace", failing(errno.ENOSPC))
    with pytest.raises(StorageRefusedError, match="No space left") as raised:
        store.put("a/key", b"new")
    assert raised.value.next_step == "free some space, then try again"
    assert store.get("a/key") == b"old"


@pytest.mark.parametrize("write", WRITES)
def test_a_half_written_file_that_cannot_be_removed_changes_no_outcome(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(os, "unlink", failing(errno.EIO))
        WRITES[write](store)
        broken.setattr(os, "link", failing(errno.ENOSPC))
        broken.setattr(os, "replace", failing(errno.ENOSPC))
        with pytest.raises(StorageRefusedError, match="No space left"):
            WRITES[write](store)
    assert all_keys(store) == ["a/key"]
    assert len(files(tmp_path / "lake")) > 1


def test_a_delete_without_an_answer_is_no_answer(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("key", b"")
    monkeypatch.setattr(os, "unlink", failing(errno.EIO))
    with pytest.raises(NoAnswerError, match="cannot delete"):
        store.delete("key")


def test_what_cannot_be_read_is_not_missing(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/key", b"")
    (tmp_path / "lake" / "loop").symlink_to("loop")
    with pytest.raises(StorageRefusedError, match="cannot read"):
        store.get("loop")


def test_a_directory_that_cannot_be_listed_is_not_empty(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/key", b"")
    monkeypatch.setattr(os, "scandir", failing(errno.EACCES))
    with pytest.raises(StorageRefusedError, match="cannot list"):
        store.list_page("a/")


# Real disks that are full or read-only.


def test_a_full_disk_refuses_and_stays_usable(tiny_disk: Path) -> None:
    store = LocalStore(tiny_disk / "lake")
    store.put("a/key", b"old")
    for write in (store.put, store.put_if_absent):
        for key in ("a/key", "a/large"):
            with pytest.raises(StorageRefusedError, match="No space left") as raised:
                write(key, b"x" * 1_000_000)
            assert raised.value.next_step == "free some space, then try again"
    assert files(tiny_disk / "lake") == ["a/key"]
    assert store.get("a/key") == b"old"
    store.put("a/key", b"new")
    assert store.get("a/key") == b"new"


def test_init_on_a_full_disk_does_not_blame_the_storage(tiny_disk: Path) -> None:
    (tiny_disk / "other").write_bytes(bytes(220 * 1024))
    with pytest.raises(StorageRefusedError, match="No space left") as raised:
        hg.Lake.init(tiny_disk / "lake")
    assert raised.value.next_step == "free some space, then try again"


def test_a_disk_without_room_for_names_refuses(tiny_disk: Path) -> None:
    store = LocalStore(tiny_disk / "lake")
    subprocess.run(["mount", "-o", "remount,nr_inodes=20", str(tiny_disk)], check=True)

    def fill() -> None:
        for number in range(30):
            store.put(f"{number}/key", b"")

    with pytest.raises(StorageRefusedError, match="No space left"):
        fill()
    keys = all_keys(store)
    assert 0 < len(keys) < 30
    store.delete(keys[0])
    assert all_keys(store) == keys[1:]


def test_a_read_only_disk_refuses_writes_and_serves_reads(tiny_disk: Path) -> None:
    store = LocalStore(tiny_disk / "lake")
    store.put("a/key", b"old")
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    writes: list[Callable[[], object]] = [
        lambda: store.put("a/key", b"new"),
        lambda: store.put("b/key", b"new"),
        lambda: store.put_if_absent("a/other", b"new"),
        lambda: store.rename_no_replace("a/key", "a/moved"),
        lambda: store.delete("a/key"),
    ]
    for write in writes:
        with pytest.raises(StorageRefusedError, match="Read-only file system") as raised:
            write()
        assert raised.value.next_step == "mount the file system writable, or choose another location"
    assert store.get("a/key") == b"old"
    assert all_keys(store) == ["a/key"]


def test_a_limit_on_file_sizes_refuses(tmp_path: Path) -> None:
    script = (
        "import pathlib, resource; from headgate.errors import StorageRefusedError\n"
        "from headgate.storage.local import LocalStore\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"store = LocalStore(pathlib.Path({str(tmp_path / 'lake')!r}))\n"
        "store.put('small', b'1')\n"
        "try: store.put('large', b'x' * 1_000_000)\n"
        "except StorageRefusedError as error: print(error.problem)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "File too large" in result.stdout
    assert files(tmp_path / "lake") == ["small"]


# Names that are directories.


def test_a_directory_in_the_way_is_a_refusal_not_an_object(store: LocalStore) -> None:
    store.put("a/b", b"")
    store.put("source", b"")
    writes: list[Callable[[], object]] = [
        lambda: store.put("a", b""),
        lambda: store.put_if_absent("a", b""),
        lambda: store.rename_no_replace("source", "a"),
        lambda: store.put("a/b/c", b""),
    ]
    for write in writes:
        with pytest.raises(StorageRefusedError):
            write()
    assert all_keys(store) == ["a/b", "source"]


# Listing while others write.


def on_reading(monkeypatch: pytest.MonkeyPatch, directory: Path, act: Callable[[], None]) -> None:
    """`act` happens once, at the moment when `directory` is about to be read."""
    real, wanted = os.scandir, directory.stat()
    pending = [act]

    def scandir(opened: int) -> Any:
        if os.path.samestat(os.fstat(opened), wanted) and pending:
            pending.pop()()
        return real(opened)

    monkeypatch.setattr(os, "scandir", scandir)


def test_a_directory_that_appears_behind_one_being_read_is_reported(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order that FileTracker's scan needs: the record appears, then the attempts go."""
    store.put("commit/1/0001/attempt", b"")

    def decide_and_clean_up() -> None:
        store.put("commit/1/sub-hint/COMMIT-HINT", b"")
        store.delete("commit/1/0001/attempt")

    on_reading(monkeypatch, tmp_path / "lake" / "commit" / "1" / "0001", decide_and_clean_up)
    assert all_keys(store, "commit/1/") == ["commit/1/sub-hint/COMMIT-HINT"]


def test_a_directory_that_appears_in_the_last_one_is_reported(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/1", b"")
    store.put("b/1", b"")
    on_reading(monkeypatch, tmp_path / "lake" / "b", lambda: store.put("c/1", b""))
    assert all_keys(store) == ["a/1", "b/1", "c/1"]


def test_a_directory_that_goes_while_it_is_read_is_no_error(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/b/1", b"")
    store.put("c/1", b"")
    on_reading(monkeypatch, tmp_path / "lake" / "a" / "b", lambda: store.delete("a/b/1"))
    assert all_keys(store) == ["c/1"]


def test_directories_are_read_in_key_order(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "a", "a-b", "a.b", "a0"):
        store.put(f"{name}/1", b"")
    read: list[str] = []
    real = os.scandir

    names = {(tmp_path / "lake" / name).stat().st_ino: name for name in ("b", "a", "a-b", "a.b", "a0")}

    def scandir(opened: int) -> Any:
        read.append(names.get(os.fstat(opened).st_ino, "lake"))
        return real(opened)

    monkeypatch.setattr(os, "scandir", scandir)
    store.list_page("")
    assert [name for name in read if name != "lake"] == ["a-b", "a.b", "a", "a0", "b"]


def test_directories_below_the_start_of_a_page_are_not_read(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "b0", "c"):
        store.put(f"{name}/1", b"")
        store.put(f"{name}/2", b"")
    for old in ("a", "b"):
        on_reading(monkeypatch, tmp_path / "lake" / old, lambda: pytest.fail("was read"))
    assert store.list_page("", "b0/1").keys == ("b0/2", "c/1", "c/2")
    assert store.list_page("", "b1").keys == ("c/1", "c/2")
    assert store.list_page("", "b0").keys == ("b0/1", "b0/2", "c/1", "c/2")


# Directories that come and go while others write into them.


def test_writing_beside_clean_up_never_fails(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake", fsync=False)

    def come_and_go(client: int) -> None:
        for number in range(300):
            key = f"a/b/{client}-{number}"
            match number % 3:
                case 0:
                    store.put(key, b"1")
                case 1:
                    assert store.put_if_absent(key, b"1")
                case _:
                    store.put(f"t/{client}/{number}", b"1")
                    assert store.rename_no_replace(f"t/{client}/{number}", key)
            assert store.get(key) == b"1"
            assert key in store.list_page("a/").keys
            store.delete(key)

    race([partial(come_and_go, client) for client in range(6)])
    assert files(tmp_path / "lake") == []


def test_readers_never_miss_or_mix_an_object_that_is_replaced(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake", fsync=False)
    versions = [bytes([letter]) * 300_000 for letter in b"abc"]
    store.put("a/key", versions[0])
    done = threading.Event()

    def overwrite() -> None:
        try:
            for number in range(150):
                store.put("a/key", versions[number % 3])
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            assert store.get("a/key") in versions
            assert store.list_page("").keys == ("a/key",)

    race([overwrite, read, read])


# Systems without renameat2.


@pytest.fixture
def no_renameat2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_renameat2", lambda: None)


@pytest.mark.usefixtures("no_renameat2")
def test_rename_by_link_never_replaces(store: LocalStore) -> None:
    store.put("old", b"old")
    store.put("new", b"new")
    assert not store.rename_no_replace("old", "new")
    assert not store.rename_no_replace("missing", "fresh")
    assert store.rename_no_replace("old", "a/fresh")
    assert all_keys(store) == ["a/fresh", "new"]


@pytest.mark.usefixtures("no_renameat2")
def test_of_racing_renames_by_link_one_wins(store: LocalStore) -> None:
    for racer in range(8):
        store.put(f"source/{racer}", str(racer).encode())
    won = race([partial(store.rename_no_replace, f"source/{racer}", "target/1") for racer in range(8)])
    assert won.count(True) == 1
    assert store.get("target/1") == str(won.index(True)).encode()


@pytest.mark.usefixtures("no_renameat2")
def test_an_old_name_that_cannot_be_removed_does_not_undo_a_rename(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("old", b"data")
    monkeypatch.setattr(os, "unlink", failing(errno.EACCES))
    assert store.rename_no_replace("old", "new")
    assert store.get("new") == b"data"


@pytest.mark.usefixtures("no_renameat2")
@pytest.mark.parametrize(
    ("number", "expected"), [(errno.EIO, NoAnswerError), (errno.EROFS, StorageRefusedError)]
)
def test_a_rename_that_fails_says_whether_it_can_have_been_done(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[StorageError]
) -> None:
    store.put("old", b"data")
    monkeypatch.setattr(os, "link", failing(number))
    with pytest.raises(expected, match="cannot rename"):
        store.rename_no_replace("old", "new")
    assert all_keys(store) == ["old"]


def test_a_store_of_a_place_that_does_not_exist_yet_makes_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "new" / "lake")
    assert store.get("a") is None
    assert store.list_page("").keys == ()
    store.put("a", b"1")
    assert store.get("a") == b"1"


@pytest.mark.parametrize("seconds", [2**40, -(2**40), 0])
def test_a_file_whose_time_is_outside_of_the_calendar_is_listed(store: LocalStore, seconds: int) -> None:
    store.put("a/key", b"1")
    path = next(path for path in Path(store.describe()).rglob("key"))
    os.utime(path, (seconds, seconds))  # some file systems keep the nearest time that they know
    (found,) = store.list_times("").objects
    assert found.key == "a/key"
    assert Stored.of("a/key", 1, seconds).written_at.year in (1, 1970, 9999)
