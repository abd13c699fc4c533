"""A directory as a store: a laptop's disk, NFS, any mounted file system.

An object is a file. It is written completely and synced under a hidden name first, and gets its own name
in one step, so readers see all of it or nothing, also after a power failure. A process that dies in between
leaves a hidden `.partial` file that no listing shows.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import uuid
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, TypeVar

from headgate.errors import InvalidInputError, NoAnswerError, StorageError, StorageRefusedError
from headgate.storage.capabilities import Page, SizedPage, Stored, Tail, TimedPage
from headgate.storage.keys import checked_key, checked_prefix
from headgate.storage.mounts import is_on_this_machine
from headgate.storage.walking import EMPTY, Entries, keys_below

T = TypeVar("T")

_PARTIAL_START, _PARTIAL_END = ".headgate-", ".partial"

TRIES_TO_ENTER_DIRECTORY = 100
"""How often a write makes its directory again when clean-up removes it at the same moment."""

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
    errno.EROFS: "mount the file system writable, or choose another place",
    errno.EACCES: "get the right to read and write there, or choose another place",
    errno.EPERM: "get the right to read and write there, or choose another place",
}

# A file system that answers so has no way to sync a directory; its renames and links are as durable as it
# makes them.
_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})


def storage_error(doing: str, error: OSError) -> StorageError:
    """The error of our tree for an `OSError` that came from the step that makes a change visible."""
    problem = f"{doing}: {error.strerror or error}"
    if error.errno in _CERTAIN:
        return StorageRefusedError(problem, _NEXT_STEPS.get(error.errno or 0))
    return NoAnswerError(problem)


@contextmanager
def _nothing_visible_yet(doing: str) -> Iterator[None]:
    """Whatever fails inside has changed nothing that anybody can see."""
    try:
        yield
    except OSError as error:
        step = _NEXT_STEPS.get(error.errno or 0)
        raise StorageRefusedError(f"{doing}: {error.strerror or error}", step) from error


@contextmanager
def _the_visible_step(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(doing, error) from error


@dataclass(frozen=True, slots=True)
class _Held:
    """An object that we keep open: so its inode number is not given to another file meanwhile."""

    path: Path
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
    """Gives every promise, with POSIX means: replace by rename, create by hard link.

    Listings are in key order, directory by directory: whatever lies in a directory that sorts later is
    observed later. With `fsync=False`, commits are faster and survive a killed process, but not a power
    failure.

    Limits: a key cannot be an object and a directory of objects at once, and the names of half-written
    files (`.headgate-….partial`) are not for keys. In a directory of many thousand files, a listing can
    miss an object that is replaced at this moment.

    Once an object is held, the directory must stay: if it is removed, unmounted, restored or made anew,
    requests are refused rather than carried out in whatever stands in its place, and the directory itself is
    never made again. The file that is kept open for it is closed with the store; a copy of the store
    (pickled, for another process) holds nothing until it is asked to.

    An object whose directory entry could not be synced gives no answer any more, for the life of the store.
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
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise storage_error(doing, error) from error
        # A forked child has its own copy of the descriptor, and closes that one. At the end of a process the
        # system closes it: other threads may be at work until then.
        weakref.finalize(self, os.close, descriptor).atexit = False
        self._held = _Held(path, descriptor)
        return True

    def place(self) -> Hashable | None:
        # Only of what is held: a path alone can lead to something else tomorrow.
        if self._held is None:
            return None
        held = os.fstat(self._held.descriptor)
        return (str(self._root), self._fsync, held.st_dev, held.st_ino)

    def is_near(self) -> bool:
        if self._near is None:
            self._near = is_on_this_machine(self._root)
        return self._near

    def describe(self) -> str:
        return str(self._root)

    def uri(self) -> str:
        # Not percent-encoded: Hadoop, DuckDB and others take such names literally.
        return f"file://{self._root}"

    def get(self, key: str) -> bytes | None:
        path = self._path(key)
        doing = f"cannot read {path}"
        self._require_same_place(doing)
        self._require_synced(key, doing)
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise storage_error(doing, error) from error

    def tail(self, key: str, length_bytes: int) -> Tail | None:
        def end(file: BinaryIO) -> Tail:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - length_bytes))
            return Tail(file.read(), size)

        return self._read_from(key, end)

    def ranges(self, key: str, ranges: Sequence[range]) -> list[bytes] | None:
        def parts(file: BinaryIO) -> list[bytes]:
            found = []
            for part in ranges:
                file.seek(part.start)
                found.append(file.read(len(part)))
            return found

        return self._read_from(key, parts)

    def _read_from(self, key: str, read: Callable[[BinaryIO], T]) -> T | None:
        path = self._path(key)
        doing = f"cannot read {path}"
        self._require_same_place(doing)
        try:
            with path.open("rb") as file, _the_visible_step(doing):
                return read(file)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise storage_error(doing, error) from error

    def make_durable(self, keys: Sequence[str]) -> None:
        if not self._fsync:
            return
        directories = set[Path]()
        for key in keys:
            path = self._path(key)
            with _the_visible_step(f"cannot sync {path}"), path.open("rb") as file:
                os.fsync(file.fileno())
            directories.update(parent for parent in path.parents if parent.is_relative_to(self._root))
        for directory in sorted(directories, reverse=True):
            with _the_visible_step(f"cannot sync {directory}"):
                self._sync(directory)

    def put(self, key: str, data: bytes) -> None:
        target = self._path(key)
        doing = f"cannot write {target}"
        self._require_same_place(doing)
        self._require_synced(key, doing)
        with self._partial(target, data) as partial, _the_visible_step(doing):
            partial.replace(target)
        self._sync_entry(key, target.parent, doing)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        # A hard link refuses to replace, on every POSIX file system and on NFS; rename does not.
        target = self._path(key)
        doing = f"cannot create {target}"
        self._require_same_place(doing)
        self._require_synced(key, doing)
        with self._partial(target, data) as partial, _the_visible_step(doing):
            try:
                os.link(partial, target)
            except FileExistsError:
                _refuse_directory(target, doing)
                return False
        self._sync_entry(key, target.parent, doing)
        return True

    def rename_no_replace(self, source: str, target: str) -> bool:
        old, new = self._path(source), self._path(target)
        doing = f"cannot rename {old} to {new}"
        self._require_same_place(doing)
        self._require_synced(target, doing)
        made = self._moved(old, new, doing)
        if made is None:
            return False
        for directory in dict.fromkeys((*made, new.parent, old.parent)):
            self._sync_entry(target, directory, doing)
        return True

    def delete(self, key: str) -> None:
        path = self._path(key)
        self._require_same_place(f"cannot delete {path}")
        # A directory has this name, or a file the name of a directory above: there is no such object.
        with _the_visible_step(f"cannot delete {path}"), suppress(IsADirectoryError, NotADirectoryError):
            path.unlink(missing_ok=True)
        self._remove_empty_directories(path.parent)

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        checked_prefix(prefix)
        top = self._root / prefix if prefix else self._root
        self._require_same_place(f"cannot list {top}")
        with _the_visible_step(f"cannot list {top}"):
            keys = keys_below(lambda below: _entries(self._root / below), prefix, after or "")
            return Page(tuple(sorted(keys)), complete=True)

    def list_sizes(self, prefix: str, after: str | None = None) -> SizedPage:
        page = self.list_page(prefix, after)
        with _the_visible_step(f"cannot list {self._root / prefix}"):
            found = [(key, _size(self._root / key)) for key in page.keys]
        return SizedPage(tuple((key, size) for key, size in found if size is not None), page.complete)

    def list_times(self, prefix: str, after: str | None = None) -> TimedPage:
        page = self.list_page(prefix, after)
        with _the_visible_step(f"cannot list {self._root / prefix}"):
            found = [_stored(key, self._root / key) for key in page.keys]
        return TimedPage(tuple(one for one in found if one is not None), page.complete)

    def leftovers(self, prefix: str) -> tuple[Stored, ...]:
        top = self._root / checked_prefix(prefix)
        self._require_same_place(f"cannot list {top}")
        with _the_visible_step(f"cannot list {top}"):
            paths = sorted(path for path in top.rglob(f"{_PARTIAL_START}*{_PARTIAL_END}") if path.is_file())
            found = [_stored(path.relative_to(self._root).as_posix(), path) for path in paths]
        return tuple(one for one in found if one is not None)

    def remove_leftover(self, key: str) -> None:
        path = self._root / checked_key(key)
        if not _is_partial(path.name):
            raise InvalidInputError(f"{key!r} is not a half-written file")
        self._require_same_place(f"cannot delete {path}")
        with _the_visible_step(f"cannot delete {path}"):
            path.unlink(missing_ok=True)
        self._remove_empty_directories(path.parent)

    def _require_same_place(self, doing: str) -> None:
        if self._held is None:
            return
        with _nothing_visible_yet(doing):
            same = self._held.is_there()
        if not same:
            raise StorageRefusedError(
                f"{doing}: {self._root} was removed, unmounted or replaced since it was opened; nothing was "
                "changed",
                "open the lake again, if it is the right one that is there now",
            )

    def _require_synced(self, key: str, doing: str) -> None:
        if key in self._unsynced:
            raise NoAnswerError(
                f"{doing}: its directory could not be synced before, so nobody can tell whether it will "
                "survive a power failure",
                "check the disk; then open the lake again and settle what is unknown with Lake.resolve",
            )

    def _path(self, key: str) -> Path:
        if _is_partial(checked_key(key).rpartition("/")[2]):
            raise InvalidInputError(f"{key!r} is a name for half-written files")
        return self._root / key

    @contextmanager
    def _partial(self, target: Path, data: bytes) -> Iterator[Path]:
        """A synced hidden file with `data` beside `target`, gone at the end."""
        partial = target.parent / f"{_PARTIAL_START}{uuid.uuid4().hex}{_PARTIAL_END}"
        try:
            with _nothing_visible_yet(f"cannot write {target}"):
                self._write(partial, data)
            # Again, now that the file is there: if the place was replaced before, this tells; if it is from
            # now on, the file went with it, and cannot get its name in the new one.
            self._require_same_place(f"cannot write {target}")
            yield partial
        finally:
            # One that cannot be removed stays, invisible: the outcome of the write does not depend on it.
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        descriptor, parents = self._open_new(path)
        with os.fdopen(descriptor, "wb") as file:
            for parent in parents:
                self._sync(parent)
            file.write(data)
            file.flush()
            if self._fsync:
                os.fsync(file.fileno())

    def _open_new(self, path: Path) -> tuple[int, list[Path]]:
        """A new file, and the directories above it that got a new entry and are to be synced.

        Once the file is there, clean-up cannot remove its directory any more; so nothing slow comes before.
        """
        parents: list[Path] = []
        for _ in range(TRIES_TO_ENTER_DIRECTORY):
            try:
                return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666), parents
            except FileNotFoundError:
                parents = self._make_directory(path.parent)
        raise OSError(errno.ENOENT, "its directory is removed again and again")

    def _moved(self, old: Path, new: Path, doing: str) -> list[Path] | None:
        """The directories above `new` that got a new entry; None if `old` was not moved."""
        parents: list[Path] = []
        for _ in range(TRIES_TO_ENTER_DIRECTORY):
            moved = _move(old, new, doing)
            if moved is not None:
                return parents if moved else None
            with _nothing_visible_yet(doing):
                parents = self._make_directory(new.parent)
        raise StorageRefusedError(f"{doing}: its directory is removed again and again")

    def _remove_empty_directories(self, directory: Path) -> None:
        while directory != self._root and directory.is_relative_to(self._root):
            try:
                directory.rmdir()
            except OSError:  # not empty, or gone already, or not ours to remove: it may stay
                return
            directory = directory.parent

    def _make_directory(self, directory: Path) -> list[Path]:
        """Makes `directory` and those above it, as far as they are missing; returns where entries were made.

        Clean-up may remove one of them at the same moment; the caller looks, and tries again. The root is
        made only as long as nothing is held: later, one that is missing was taken away from us.
        """
        if directory == self._root and self._held is not None:
            raise FileNotFoundError(errno.ENOENT, "the directory of the lake is gone")
        parents: list[Path] = []
        if not _entered(directory):
            parents = self._make_directory(directory.parent)
            _entered(directory)
        return [*parents, directory.parent]

    def _sync_entry(self, key: str, directory: Path, doing: str) -> None:
        try:
            self._sync(directory)
        except OSError as error:
            # The change is visible, but a power failure could undo it: nobody can tell. Reading it back would
            # prove nothing, nor would a second sync that succeeds: the kernel reports a failed write once and
            # may have dropped it. So the key gives no answer from here on, and whoever asks ends in doubt.
            self._unsynced.add(key)
            raise NoAnswerError(f"{doing}: the directory could not be synced: {error.strerror}") from error

    def _sync(self, directory: Path) -> None:
        if not self._fsync:
            return
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # removed by clean-up meanwhile: there is nothing left to keep
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise
        finally:
            os.close(descriptor)


def _entered(directory: Path) -> bool:
    """Makes `directory`; False if the one above is missing."""
    try:
        # Also if somebody else was faster: they may not have synced it yet.
        with suppress(FileExistsError):
            directory.mkdir()
    except FileNotFoundError:
        return False
    return True


def _move(old: Path, new: Path, doing: str) -> bool | None:
    """Tries to move once. None: the directory of `new` is missing."""
    with _the_visible_step(doing):
        if not old.is_file():
            return False
        try:
            _rename_no_replace(old, new)
        except FileExistsError:
            _refuse_directory(new, doing)
            return False
        except FileNotFoundError:
            return None
    return True


def _refuse_directory(path: Path, doing: str) -> None:
    """`path` is taken; that means "an object is there" only if it is not a directory."""
    if path.is_dir():
        raise StorageRefusedError(f"{doing}: a directory has this name")


def _is_partial(name: str) -> bool:
    return name.startswith(_PARTIAL_START) and name.endswith(_PARTIAL_END)


def _size(path: Path) -> int | None:
    """The size of a file; None if it was deleted meanwhile, or is a link that leads nowhere."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _stored(key: str, path: Path) -> Stored | None:
    """A file in a listing; None if it was deleted meanwhile."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Stored(key, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))


def _entries(directory: Path) -> Entries:
    files: list[str] = []
    directories: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir():
                    directories.append(entry.name)
                elif not _is_partial(entry.name):
                    files.append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return EMPTY
    return Entries(frozenset(files), frozenset(directories))


_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


def _rename_no_replace(source: Path, target: Path) -> None:
    """Renames in one step; `FileExistsError` if `target` exists."""
    rename = _renameat2()
    if rename is not None:
        if rename(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
            raise OSError(number, os.strerror(number), str(target))
    # Without the system call (other systems, older file systems): a link refuses to replace as well. The link
    # is the step that counts; whatever stops us behind it leaves the old name beside the new one.
    os.link(source, target)
    with suppress(OSError):
        source.unlink()
