"""Opens what is below a directory, without following a symbolic link on the way.

A person who can write into a lake can put a link into it, and the person who opens the lake may have other
rights. So below the root nothing is opened by its whole path: each directory is opened in its parent, and a
link is an error. The root itself may be reached through links: its path comes from the user.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""For a directory in which others are opened. Needs no right to list it, where the system allows that."""
LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""For a directory that is listed or synced."""
# Opening does not wait for a pipe without a writer, and takes no terminal. Regular files are unaffected.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class UnfitError(OSError):
    """There is something in the lake that Headgate does not open. Nothing was changed."""

    next_step: str


class LinkError(UnfitError):
    """A symbolic link inside the lake."""

    next_step = (
        "replace it by the directory or file itself; to keep data on another disk, mount the disk there (a "
        "bind mount works), or move the whole lake"
    )

    def __init__(self, name: str) -> None:
        super().__init__(
            errno.ELOOP, f"{name} is a symbolic link, and Headgate does not follow links in a lake"
        )


class NotAFileError(UnfitError):
    """A pipe, a socket or a device in place of an object."""

    next_step = "remove it, then run headgate fsck"

    def __init__(self, name: str) -> None:
        super().__init__(errno.EINVAL, f"{name} is not a regular file")


Root: TypeAlias = str | int
"""The directory below which everything is: its path, or a descriptor that is kept open."""


@contextmanager
def opened_directory(root: Root, below: str, flags: int = DIRECTORY) -> Iterator[int]:
    """A descriptor of the directory `below` the root, or of the root if that is empty."""
    descriptor = open_directory(root, below, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_directory(root: Root, below: str, flags: int = DIRECTORY) -> int:
    return _open_below(root, below or ".", flags)


@contextmanager
def opened_file(root: Root, below: str) -> Iterator[int]:
    """A descriptor to read a regular file; `IsADirectoryError` if it is a directory."""
    descriptor = open_file(root, below)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(root: Root, below: str) -> int:
    descriptor = _open_below(root, below, _FILE)
    try:
        require_file(os.fstat(descriptor), below)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_file(found: os.stat_result, below: str) -> None:
    """Raises unless `found`, the status of the entry itself, is that of a regular file."""
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), below)
    if stat.S_ISLNK(found.st_mode):
        raise LinkError(below)
    raise NotAFileError(below)


def _open_below(root: Root, below: str, flags: int) -> int:
    if isinstance(root, int):
        return _open(root, below, flags)
    top = os.open(root, DIRECTORY)
    try:
        return _open(top, below, flags)
    finally:
        os.close(top)


def _open(top: int, below: str, flags: int) -> int:
    """Opens in one call if the system can, and otherwise step by step.

    The one call only saves time: whatever it does not open is left to the steps, and they say why.
    """
    in_one = _openat2()
    if in_one is not None:
        descriptor = in_one(top, below, flags)
        if descriptor >= 0:
            return descriptor
        if ctypes.get_errno() == errno.ENOENT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), below)
    return _open_by_steps(top, below, flags)


def _open_by_steps(top: int, below: str, flags: int) -> int:
    *above, name = below.split("/")
    here, passed = top, ""
    try:
        for part in above:
            inner = _step(here, passed, part, DIRECTORY)
            here, passed = _instead(here, inner, top), f"{passed}{part}/"
        return _step(here, passed, name, flags)
    finally:
        if here != top:
            os.close(here)


def _instead(here: int, inner: int, top: int) -> int:
    if here != top:
        os.close(here)
    return inner


def _step(here: int, passed: str, name: str, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=here)
    except FileNotFoundError:
        raise
    except OSError as error:
        # Systems report a link differently: "too many links", or "not a directory".
        if _is_link(here, name):
            raise LinkError(passed + name) from error
        if error.errno == errno.ENXIO:  # a socket cannot be opened at all
            raise NotAFileError(passed + name) from error
        raise


def _is_link(here: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
    except OSError:  # gone meanwhile, or no permission: the error of the opening stands
        return False


# --- Linux 5.6 and later ---------------------------------------------------------------------------------

_OPENAT2 = 437
"""The number of the system call, on every machine; the C library has no function for it."""
_NO_SYMLINKS, _BENEATH = 0x04, 0x08


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_SIZE_OF_HOW = ctypes.sizeof(_How)


@functools.cache
def _openat2() -> Callable[[int, str, int], int] | None:
    """Opens below a descriptor without following links; -1 if it failed. None without such a call."""
    if os.uname().sysname != "Linux":
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t]
    call.restype = ctypes.c_long

    @functools.cache
    def how(flags: int) -> Any:
        return ctypes.byref(_How(flags, 0, _NO_SYMLINKS | _BENEATH))

    def open_(top: int, below: str, flags: int) -> int:
        return int(call(_OPENAT2, top, os.fsencode(below), how(flags), _SIZE_OF_HOW))

    return open_
