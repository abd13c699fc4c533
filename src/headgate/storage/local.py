"""A directory as a store: a laptop's disk, NFS, any mounted file system.

An object is a file. It is first written completely and synced under a hidden name, and then gets its own name
in one step, so readers see all of it or nothing, even after a power failure. A process that dies in between
leaves a hidden `.partial` file that no listing shows.

Symbolic links below the directory are never followed (see `beneath`): a listing shows them as objects,
`delete` and `put` remove the link itself, and every other request for one is rejected.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import io
import itertools
import os
import stat
import uuid
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from headgate.errors import InvalidInputError, NoAnswerError, StorageError, StorageRefusedError
from headgate.model.limits import require_size
from headgate.storage.beneath import (
    DIRECTORY,
    LISTED,
    Root,
    UnfitError,
    open_directory,
    open_file,
    opened_directory,
    opened_file,
    require_file,
)
from headgate.storage.capabilities import Page, SizedPage, Stored, Tail, TimedPage
from headgate.storage.mounts import is_on_this_machine
from headgate.storage.requests import checked_key, checked_prefix
from headgate.storage.walking import EMPTY, Entries, keys_below

T = TypeVar("T")

_PARTIAL_START, _PARTIAL_END = ".headgate-", ".partial"

TRIES_TO_ENTER_DIRECTORY = 100
"""How often a write creates its directory again when clean-up removes it at the same time."""

# After these, the kernel has certainly not carried out the call; after others (EIO, ETIMEDOUT, ESTALE, …)
# a network file system may have. ENOENT is one of the others: NFS can repeat a rename whose answer was lost,
# and then does not find what it moved itself.
_CERTAIN = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EMLINK,
        errno.EXDEV,
        errno.EMFILE,
        errno.ENFILE,
        errno.ELOOP,
        errno.EOPNOTSUPP,
        errno.ENOSYS,
    }
)
_NEXT_STEPS = {
    errno.ENOSPC: "free some space, then try again",
    errno.EDQUOT: "free some space or raise the quota, then try again",
    errno.EROFS: "mount the file system writable, or choose another location",
    errno.EACCES: "get permission to read and write there, or choose another location",
    errno.EPERM: "get permission to read and write there, or choose another location",
}

# A file system with these answers cannot sync a directory; its renames and links are as durable as it makes
# them.
_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})


class _Reading(NamedTuple):
    """What a request is about. Most requests succeed, so its text is only built when one fails."""

    root: Path
    key: str

    def __str__(self) -> str:
        return f"cannot read {self.root / self.key}"


def storage_error(doing: str | _Reading, error: OSError) -> StorageError:
    """The error for an `OSError` that came from the step that makes a change visible."""
    if error.errno in _CERTAIN or isinstance(error, UnfitError):
        return _refused(doing, error)
    return NoAnswerError(f"{doing}: {error.strerror or error}")


def _refused(doing: str | _Reading, error: OSError) -> StorageRefusedError:
    step = error.next_step if isinstance(error, UnfitError) else _NEXT_STEPS.get(error.errno or 0)
    return StorageRefusedError(f"{doing}: {error.strerror or error}", step)


@contextmanager
def _nothing_visible_yet(doing: str) -> Iterator[None]:
    """Any failure inside has changed nothing that others can see."""
    try:
        yield
    except OSError as error:
        raise _refused(doing, error) from error


@contextmanager
def _the_visible_step(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(doing, error) from error


@dataclass(frozen=True, slots=True)
class _Held:
    """An object that is kept open, so that its inode number is not given to another file meanwhile.

    As long as it is there, the root that it was found in is the right one, so that is kept open as well.
    """

    path: Path
    root: int
    descriptor: int

    def is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.descriptor), self.path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno == errno.ESTALE:  # a network file system's word for "removed"
                return False
            raise


class LocalStore:
    """Keeps every promise, with POSIX means: replace by rename, create by hard link.

    Listings are in key order, directory by directory: whatever is in a directory that sorts later is observed
    later. With `fsync=False`, commits are faster and survive a killed process, but not a power failure.

    Nothing outside the directory is read, listed, written or deleted, regardless of symbolic links in it;
    pipes, sockets and devices are not opened as objects. Only the directory itself may be a link.

    Limits: a key cannot be both an object and a directory of objects, and the names of half-written files
    (`.headgate-….partial`) cannot be keys. In a directory of many thousand files, a listing can miss an
    object that is replaced at the same time.

    Once an object is held, the directory must stay: if it is removed, unmounted, restored or recreated,
    requests are rejected rather than carried out in the new directory, and the directory itself is never
    created again. The file that is kept open for this is closed with the store; a copy of the store (pickled,
    for another process) holds nothing until it is asked to.

    If the directory entry of an object could not be synced, requests for it fail for the life of the store.
    """

    def __init__(self, root: Path, *, fsync: bool = True) -> None:
        self._root = Path(os.path.abspath(root))  # noqa: PTH100 — symbolic links stay as the user wrote them
        self._fsync = fsync
        self._held: _Held | None = None
        self._unsynced: set[str] = set()
        self._near: bool | None = None

    def __getstate__(self) -> dict[str, object]:
        # Descriptors mean nothing in another process.
        return {**self.__dict__, "_held": None}

    def elsewhere(self) -> LocalStore:
        return self

    def hold(self, key: str) -> bool:
        path = self._path(key)
        doing = f"cannot hold {path}"
        if self._held is not None:
            self._require_same_place(doing)
            return True
        try:
            self._held = _hold(self._root, key)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise storage_error(doing, error) from error
        # A forked child has its own copies of the descriptors, and closes those. At the end of a process the
        # system closes them: other threads may be working until then.
        for descriptor in (self._held.descriptor, self._held.root):
            weakref.finalize(self, os.close, descriptor).atexit = False
        return True

    def _top(self) -> Root:
        """Where requests begin: the root that is held, or else whatever its path leads to now."""
        return str(self._root) if self._held is None else self._held.root

    def place(self) -> Hashable | None:
        # Only if something is held: a path alone can lead to something else tomorrow.
        if self._held is None:
            return None
        held = os.fstat(self._held.descriptor)
        return (str(self._root), self._fsync, held.st_dev, held.st_ino)

    def is_near(self) -> bool:
        if self._near is None:
            self._near = _is_near(self._root, _device(self._root))
        return self._near

    def describe(self) -> str:
        return str(self._root)

    def uri(self) -> str:
        # Not percent-encoded: Hadoop, DuckDB and others take such names literally.
        return f"file://{self._root}"

    def get(self, key: str) -> bytes | None:
        if key in self._unsynced:
            self._require_synced(key, f"cannot read {self._path(key)}")
        return self._read_from(key, partial(_whole, key))

    def tail(self, key: str, length_bytes: int) -> Tail | None:
        def end(descriptor: int) -> Tail:
            with io.FileIO(descriptor, closefd=False) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - length_bytes))
                return Tail(file.readall(), size)

        return self._read_from(key, end)

    def ranges(self, key: str, ranges: Sequence[range]) -> list[bytes] | None:
        def parts(descriptor: int) -> list[bytes]:
            # At most what is there, regardless of the range: so memory is not allocated in advance.
            size = os.fstat(descriptor).st_size
            with io.FileIO(descriptor, closefd=False) as file:
                return [_part(file, part.start, min(part.stop, size)) for part in ranges]

        return self._read_from(key, parts)

    def _read_from(self, key: str, read: Callable[[int], T]) -> T | None:
        _require_whole(key)
        doing = _Reading(self._root, key)
        self._require_same_place(doing)
        try:
            with opened_file(self._top(), key) as descriptor:
                return read(descriptor)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise storage_error(doing, error) from error

    def require_inside(self, keys: Sequence[str]) -> None:
        for directory, names in itertools.groupby(sorted(filter(None, keys)), _above):
            with (
                _nothing_visible_yet(f"cannot read {self._root / directory}"),
                suppress(FileNotFoundError, NotADirectoryError),
                opened_directory(self._top(), directory) as opened,
            ):
                for key in names:
                    with suppress(FileNotFoundError, IsADirectoryError):
                        require_file(_status(key, opened), checked_key(key))

    def make_durable(self, keys: Sequence[str]) -> None:
        if not self._fsync:
            return
        directories = set[str]()
        for key in keys:
            path = self._path(key)
            with _the_visible_step(f"cannot sync {path}"), opened_file(self._top(), key) as descriptor:
                os.fsync(descriptor)
            directories.update(_all_above(key))
        for directory in sorted(directories, reverse=True):
            with _the_visible_step(f"cannot sync {self._root / directory}"):
                self._sync(self._root / directory)

    def put(self, key: str, data: bytes) -> None:
        self.put_in_parts(key, (data,))

    def put_in_parts(self, key: str, parts: Iterable[bytes]) -> None:
        target = self._path(key)
        doing = f"cannot write {target}"
        self._require_same_place(doing)
        self._require_synced(key, doing)
        with self._partial(target, parts) as hidden:
            with _the_visible_step(doing):
                os.replace(hidden.name, target.name, src_dir_fd=hidden.directory, dst_dir_fd=hidden.directory)
            self._sync_entry(key, hidden.directory, doing)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        # A hard link refuses to replace, on every POSIX file system and on NFS; rename does not.
        target = self._path(key)
        doing = f"cannot create {target}"
        self._require_same_place(doing)
        self._require_synced(key, doing)
        with self._partial(target, (data,)) as hidden:
            with _the_visible_step(doing):
                try:
                    _link(hidden, _Entry(hidden.directory, target.name))
                except FileExistsError:
                    _refuse_directory(_Entry(hidden.directory, target.name), doing)
                    return False
            self._sync_entry(key, hidden.directory, doing)
        return True

    def rename_no_replace(self, source: str, target: str) -> bool:
        old, new = self._path(source), self._path(target)
        doing = f"cannot rename {old} to {new}"
        self._require_same_place(doing)
        self._require_synced(target, doing)
        made = self._move_into_place(source, target, doing)
        if made is None:
            return False
        for directory in dict.fromkeys((*made, new.parent, old.parent)):
            with self._recorded_unless_synced(target, doing):
                self._sync(directory)
        return True

    def delete(self, key: str) -> None:
        path = self._path(key)
        self._require_same_place(f"cannot delete {path}")
        # The name is a directory, or a parent is a file: there is no such object.
        with _the_visible_step(f"cannot delete {path}"), suppress(IsADirectoryError, NotADirectoryError):
            self._unlink(key)
        self._remove_empty_directories(_above(key))

    def _unlink(self, key: str) -> None:
        with suppress(FileNotFoundError), opened_directory(self._top(), _above(key)) as directory:
            os.unlink(_name(key), dir_fd=directory)

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        checked_prefix(prefix)
        top = self._root / prefix if prefix else self._root
        self._require_same_place(f"cannot list {top}")
        with _the_visible_step(f"cannot list {top}"):
            keys = keys_below(partial(self._entries, _is_whole), prefix, after or "")
            return Page(tuple(sorted(keys)), complete=True)

    def list_sizes(self, prefix: str, after: str | None = None) -> SizedPage:
        page = self.list_page(prefix, after)
        with _the_visible_step(f"cannot list {self._root / prefix}"):
            found = tuple((key, status.st_size) for key, status in self._statuses(page.keys))
        return SizedPage(found, page.complete)

    def list_times(self, prefix: str, after: str | None = None) -> TimedPage:
        page = self.list_page(prefix, after)
        with _the_visible_step(f"cannot list {self._root / prefix}"):
            return TimedPage(tuple(self._describe(page.keys)), page.complete)

    def leftovers(self, prefix: str) -> tuple[Stored, ...]:
        top = self._root / checked_prefix(prefix)
        self._require_same_place(f"cannot list {top}")
        with _the_visible_step(f"cannot list {top}"):
            keys = keys_below(partial(self._entries, _is_partial), prefix, "")
            return tuple(self._describe(sorted(keys)))

    def remove_leftover(self, key: str) -> None:
        path = self._root / checked_key(key)
        if not _is_partial(path.name):
            raise InvalidInputError(f"{key!r} is not the name of a half-written file")
        self._require_same_place(f"cannot delete {path}")
        with _the_visible_step(f"cannot delete {path}"):
            self._unlink(key)
        self._remove_empty_directories(_above(key))

    def _entries(self, is_wanted: Callable[[str], bool], prefix: str) -> Entries:
        """The names in a directory. A link counts as a file, wherever it leads."""
        files: list[str] = []
        directories: list[str] = []
        try:
            with (
                opened_directory(self._top(), prefix.rstrip("/"), LISTED) as descriptor,
                os.scandir(descriptor) as entries,
            ):
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    elif is_wanted(entry.name):
                        files.append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return EMPTY
        return Entries(frozenset(files), frozenset(directories))

    def _describe(self, keys: Sequence[str]) -> Iterator[Stored]:
        for key, status in self._statuses(keys):
            yield Stored.of(key, status.st_size, status.st_mtime)

    def _statuses(self, keys: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
        """The status of files, or of links themselves, without those that are deleted by now."""
        for directory, of_directory in itertools.groupby(keys, _above):
            with (
                suppress(FileNotFoundError, NotADirectoryError),
                opened_directory(self._top(), directory) as descriptor,
            ):
                for key in of_directory:
                    with suppress(FileNotFoundError):
                        yield key, _status(key, descriptor)

    def _require_same_place(self, doing: str | _Reading) -> None:
        if self._held is None:
            return
        try:
            same = self._held.is_there()
        except OSError as error:
            raise _refused(doing, error) from error
        if not same:
            raise StorageRefusedError(
                f"{doing}: {self._root} was removed, unmounted or replaced since it was opened; nothing was "
                "changed",
                "check that the right directory is there now, then open the lake again",
            )

    def _require_synced(self, key: str, doing: str) -> None:
        if key in self._unsynced:
            raise NoAnswerError(
                f"{doing}: its directory could not be synced before, so it is unknown whether it will "
                "survive a power failure",
                "check the disk; then open the lake again and resolve unknown outcomes with Lake.resolve",
            )

    def _path(self, key: str) -> Path:
        _require_whole(key)
        return self._root / key

    @contextmanager
    def _partial(self, target: Path, parts: Iterable[bytes]) -> Iterator[_Entry]:
        """A synced hidden file with `parts` next to `target`, removed at the end.

        Its directory is kept open.
        """
        name = f"{_PARTIAL_START}{uuid.uuid4().hex}{_PARTIAL_END}"
        with _nothing_visible_yet(f"cannot write {target}"):
            hidden, file, parents = self._open_new(target.parent, name)
        try:
            with _nothing_visible_yet(f"cannot write {target}"):
                self._fill(file, parts, parents)
            # Again, now that the file is there: this detects a replacement before. After a replacement from
            # now on, the file is gone too, and gets its name in the old directory.
            self._require_same_place(f"cannot write {target}")
            yield hidden
        finally:
            # A file that cannot be removed stays, invisible: the outcome of the write does not depend on it.
            with suppress(OSError):
                os.unlink(name, dir_fd=hidden.directory)
            os.close(hidden.directory)

    def _fill(self, descriptor: int, parts: Iterable[bytes], parents: Sequence[Path]) -> None:
        with os.fdopen(descriptor, "wb") as file:
            for parent in parents:
                self._sync(parent)
            for part in parts:
                file.write(part)
            file.flush()
            if self._fsync:
                os.fsync(file.fileno())

    def _open_new(self, directory: Path, name: str) -> tuple[_Entry, int, list[Path]]:
        """A new file in a directory that is kept open, and the directories above that got a new entry.

        Once the file is there, clean-up can no longer remove its directory; so nothing slow comes before.
        """
        parents: list[Path] = []
        for _ in range(TRIES_TO_ENTER_DIRECTORY):
            try:
                opened = open_directory(self._top(), self._below(directory), LISTED)
            except FileNotFoundError:
                parents = self._make_directory(directory)
                continue
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                return _Entry(opened, name), os.open(name, flags, 0o666, dir_fd=opened), parents
            except FileNotFoundError:  # removed since it was opened
                os.close(opened)
            except BaseException:
                os.close(opened)
                raise
        raise OSError(errno.ENOENT, "another process keeps removing its directory")

    def _move_into_place(self, source: str, target: str, doing: str) -> list[Path] | None:
        """The directories above `target` that got a new entry; None if `source` was not moved."""
        parents: list[Path] = []
        for _ in range(TRIES_TO_ENTER_DIRECTORY):
            with _the_visible_step(doing):
                moved = self._move(source, target, doing)
            if moved is not None:
                return parents if moved else None
            with _nothing_visible_yet(doing):
                parents = self._make_directory((self._root / target).parent)
        raise StorageRefusedError(f"{doing}: another process keeps removing its directory")

    def _move(self, source: str, target: str, doing: str) -> bool | None:
        """Tries to move once. None: the directory of `target` is missing."""
        try:
            old_directory = open_directory(self._top(), _above(source))
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            require_file(_status(source, old_directory), source)
            with opened_directory(self._top(), _above(target)) as new_directory:
                return _move_entry(
                    _Entry(old_directory, _name(source)), _Entry(new_directory, _name(target)), doing
                )
        except IsADirectoryError:
            return False
        except FileNotFoundError:
            return None if self._is_there(source) else False
        finally:
            os.close(old_directory)

    def _is_there(self, key: str) -> bool:
        try:
            with opened_directory(self._top(), _above(key)) as directory:
                _status(key, directory)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _remove_empty_directories(self, below: str) -> None:
        while below:
            try:
                with opened_directory(self._top(), _above(below)) as directory:
                    os.rmdir(_name(below), dir_fd=directory)
            except OSError:  # not empty, or gone already, or no permission: it may stay
                return
            below = _above(below)

    def _make_directory(self, directory: Path) -> list[Path]:
        """Creates `directory` and missing parents; returns where entries were made.

        Clean-up may remove one of them at the same time; the caller checks, and tries again. The root is
        created only while nothing is held: later, a missing root was removed by somebody else.
        """
        if directory == self._root and self._held is not None:
            raise FileNotFoundError(errno.ENOENT, "the directory of the lake is gone")
        parents: list[Path] = []
        if not self._try_make_directory(directory):
            parents = self._make_directory(directory.parent)
            self._try_make_directory(directory)
        return [*parents, directory.parent]

    def _try_make_directory(self, directory: Path) -> bool:
        """Creates `directory`; False if its parent is missing."""
        try:
            # Also if another process was faster: it may not have synced it yet.
            with suppress(FileExistsError):
                if directory.parent.is_relative_to(self._root):
                    with opened_directory(self._top(), self._below(directory.parent)) as above:
                        os.mkdir(directory.name, dir_fd=above)
                else:
                    directory.mkdir()
        except FileNotFoundError:
            return False
        return True

    def _below(self, directory: Path) -> str:
        """The name of a directory of the lake, relative to its root, which has the empty name."""
        return "" if directory == self._root else directory.relative_to(self._root).as_posix()

    def _sync_entry(self, key: str, directory: int, doing: str) -> None:
        with self._recorded_unless_synced(key, doing):
            self._sync_opened(directory)

    @contextmanager
    def _recorded_unless_synced(self, key: str, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # The change is visible, but a power failure could undo it: the outcome is unknown. Reading it
            # back would prove nothing, nor would a second sync that succeeds: the kernel reports a failed
            # write once and may have dropped it. So from here on, requests for the key fail, and their
            # outcome stays unknown.
            self._unsynced.add(key)
            raise NoAnswerError(f"{doing}: the directory could not be synced: {error.strerror}") from error

    def _sync(self, directory: Path) -> None:
        if not self._fsync:
            return
        try:
            if directory.is_relative_to(self._root):
                descriptor = open_directory(self._top(), self._below(directory), LISTED)
            else:
                descriptor = os.open(directory, LISTED)
        except FileNotFoundError:
            return  # removed by clean-up meanwhile: there is nothing left to keep
        try:
            self._sync_opened(descriptor)
        finally:
            os.close(descriptor)

    def _sync_opened(self, directory: int) -> None:
        if not self._fsync:
            return
        try:
            os.fsync(directory)
        except OSError as error:
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise


@functools.lru_cache(maxsize=256)
def _is_near(root: Path, _device_there: int | None) -> bool:
    """Computed once for each directory: a file system that is mounted there instead is another device."""
    return is_on_this_machine(root)


def _device(directory: Path) -> int | None:
    try:
        return directory.stat().st_dev
    except OSError:  # does not exist yet, or no permission
        return None


def _hold(root: Path, key: str) -> _Held:
    opened = os.open(root, DIRECTORY)
    try:
        return _Held(root / key, opened, open_file(opened, key))
    except BaseException:
        os.close(opened)
        raise


@dataclass(frozen=True, slots=True)
class _Entry:
    """A name in a directory that is open: if the directory is moved, the entry moves with it."""

    directory: int
    name: str


def _above(key: str) -> str:
    return key.rpartition("/")[0]


def _all_above(key: str) -> Iterator[str]:
    while key:
        key = _above(key)
        yield key


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _status(key: str, directory: int) -> os.stat_result:
    """The status of an entry itself, even if it is a link."""
    return os.stat(_name(key), dir_fd=directory, follow_symlinks=False)


def _whole(key: str, descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    require_size(key, size)
    data = os.read(descriptor, size)
    if len(data) == size:
        return data
    # One call reads 2 GiB at most.
    with io.FileIO(descriptor, closefd=False) as file:
        return data + file.readall()


def _part(file: io.FileIO, start: int, stop: int) -> bytes:
    file.seek(start)
    return file.read(max(0, stop - start))


def _move_entry(old: _Entry, new: _Entry, doing: str) -> bool:
    """Moves once; False if the new name is taken. `FileNotFoundError` if a file or directory is missing."""
    try:
        _rename_no_replace(old, new)
    except FileExistsError:
        _refuse_directory(new, doing)
        return False
    return True


def _refuse_directory(entry: _Entry, doing: str) -> None:
    """The name is taken, which means "an object is there" only if it is not a directory."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(_status(entry.name, entry.directory).st_mode):
            raise StorageRefusedError(f"{doing}: there is a directory with this name")


def _require_whole(key: str) -> None:
    if _is_partial(checked_key(key).rpartition("/")[2]):
        raise InvalidInputError(f"{key!r} is reserved for half-written files")


def _is_partial(name: str) -> bool:
    return name.startswith(_PARTIAL_START) and name.endswith(_PARTIAL_END)


def _is_whole(name: str) -> bool:
    return not _is_partial(name)


_RENAME_NOREPLACE = 1


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


def _rename_no_replace(source: _Entry, target: _Entry) -> None:
    """Renames in one step; `FileExistsError` if `target` exists."""
    rename = _renameat2()
    if rename is not None:
        names = os.fsencode(source.name), os.fsencode(target.name)
        if rename(source.directory, names[0], target.directory, names[1], _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
            raise OSError(number, os.strerror(number), target.name)
    # Without the system call (other systems, older file systems): a link refuses to replace as well. The link
    # is the step that counts; if we are stopped after it, the old name stays next to the new one.
    _link(source, target)
    with suppress(OSError):
        os.unlink(source.name, dir_fd=source.directory)


def _link(source: _Entry, target: _Entry) -> None:
    os.link(
        source.name,
        target.name,
        src_dir_fd=source.directory,
        dst_dir_fd=target.directory,
        follow_symlinks=False,
    )
