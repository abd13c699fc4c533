"""Where actions write lines of JSON: a file that is appended to, or a stream of this process."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from headgate.core.secrets import clean_text
from headgate.errors import HookFailedError, InvalidInputError
from headgate.model.json_object import Json, encode
from headgate.steward.hooks.deadline import within

STREAMS = ("stdout", "stderr")
FILE_SECONDS = 30.0
"""How long to wait for a file: another process may have its lock, and a network drive may hang."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A file if one is given, else a stream of this process."""

    file: Path | None
    stream: str

    def write(self, values: Sequence[Json]) -> None:
        """Writes each value as a line, all of them at once.

        A file has them on disk then, and no line of another process in between. Whoever dies inside leaves
        all of them, none, or a last line that is cut; the next write begins on a new line.
        """
        data = b"".join(encode(value) + b"\n" for value in values)
        if self.file is None:
            _print(data.decode(), self.stream)
        else:
            within(FILE_SECONDS, partial(_append, self.file, data))

    def __str__(self) -> str:
        return self.stream if self.file is None else clean_text(str(self.file))


def lines_to(file: str | os.PathLike[str] | None, stream: str | None) -> Lines:
    """The destination that a caller named; standard output if none."""
    if file is not None and stream is not None:
        raise InvalidInputError("a file and a stream are given", "give one of them")
    if stream is not None and stream not in STREAMS:
        raise InvalidInputError(f"{stream!r} is not a stream", f"choose {' or '.join(STREAMS)}")
    if file is None:
        return Lines(None, stream or STREAMS[0])
    path = os.fspath(file) if isinstance(file, str | os.PathLike) else ""
    if not path or "\0" in path:
        raise InvalidInputError(f"{file!r} is not the name of a file", "give a path")
    if "://" in path:
        # Not shown: it may hold credentials, which would not be recognised in a path any more.
        raise InvalidInputError("a file is given as a URL", "give a path of this machine")
    # Now: the process may be in another directory when the hook runs.
    return Lines(Path.cwd() / path, STREAMS[0])


def _print(text: str, stream: str) -> None:
    out: TextIO = sys.stdout if stream == "stdout" else sys.stderr
    out.write(text)
    out.flush()


def _append(path: Path, data: bytes) -> None:
    try:
        # Without waiting: a named pipe that nobody reads would keep the commit for ever.
        number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        try:
            _append_to(number, data)
        finally:
            os.close(number)
    except OSError as error:
        raise HookFailedError(f"cannot append to {path}: {error.strerror or error}") from error


def _append_to(number: int, data: bytes) -> None:
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        raise HookFailedError("what is to be appended to is not a file", "name a file, or use a stream")
    # Only so that a write of another process that is under way is not taken for one that was cut.
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(number, fcntl.LOCK_EX)
    status = os.fstat(number)
    if status.st_size and os.pread(number, 1, status.st_size - 1) != b"\n":
        data = b"\n" + data
    written = os.write(number, data)
    os.fsync(number)
    if written < len(data):
        raise HookFailedError(f"only {written} of {len(data)} bytes could be written", "free some space")
