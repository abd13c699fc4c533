"""The actions `notify` and `audit`, which write lines of JSON to a file or to a stream of this process.

`notify` writes the event. `audit` writes what changed, table by table and path by path.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TextIO

from headgate.core.history.descriptor import audit_lines
from headgate.core.input.secrets import clean_text
from headgate.errors import HookFailedError, InvalidInputError, shown
from headgate.model.commit_event import CommitEvent
from headgate.model.json_object import Json, encode
from headgate.steward.hooks.deadline import within

STREAMS = ("stdout", "stderr")
FILE_SECONDS = 30.0
"""How long to wait for a file: another process may have locked it, and a network drive may hang."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A file if one is given, else a stream of this process."""

    file: Path | None
    stream: str

    def write(self, values: Sequence[Json]) -> None:
        """Writes each value as a line, all of them at once.

        In a file, the lines are on disk afterwards, without lines of other processes in between. If the
        process dies in between, the file has all of them, none, or a truncated last line; the next write
        starts a new line.
        """
        data = b"".join(encode(value) + b"\n" for value in values)
        if self.file is None:
            _print(data.decode(), self.stream)
        else:
            within(FILE_SECONDS, partial(_append, self.file, data))

    def __str__(self) -> str:
        return self.stream if self.file is None else clean_text(str(self.file))


def lines_to(file: str | os.PathLike[str] | None, stream: str | None) -> Lines:
    """The given destination; standard output if none is given."""
    if file is not None and stream is not None:
        raise InvalidInputError("file and stream cannot be combined", "give only one of them")
    if stream is not None and stream not in STREAMS:
        raise InvalidInputError(f"{shown(stream)} is not a stream", f"choose {' or '.join(STREAMS)}")
    if file is None:
        return Lines(None, stream or STREAMS[0])
    path = os.fspath(file) if isinstance(file, str | os.PathLike) else ""
    if not path or "\0" in path:
        raise InvalidInputError(f"{shown(file)} is not a file name", "give a path")
    if "://" in path:
        # Not shown: it may contain credentials, which cannot be recognised in a path.
        raise InvalidInputError("file must be a path, not a URL", "give a path on this machine")
    # Resolved now: the process may be in another directory when the hook runs.
    return Lines(Path.cwd() / path, STREAMS[0])


def _print(text: str, stream: str) -> None:
    out: TextIO = sys.stdout if stream == "stdout" else sys.stderr
    out.write(text)
    out.flush()


def _append(path: Path, data: bytes) -> None:
    try:
        # Without waiting: a named pipe without a reader would block the commit forever.
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
        raise HookFailedError("the path to append to is not a file", "name a file, or use a stream")
    # So that a write of another process that is still in progress is not treated as truncated.
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(number, fcntl.LOCK_EX)
    status = os.fstat(number)
    if status.st_size and os.pread(number, 1, status.st_size - 1) != b"\n":
        data = b"\n" + data
    written = os.write(number, data)
    os.fsync(number)
    if written < len(data):
        raise HookFailedError(f"only {written} of {len(data)} bytes were written", "free some space")


@dataclass(frozen=True, slots=True)
class Notify:
    """Appends each event as one line of JSON to `file`, or prints it to `stream` (`stdout` or `stderr`).

    Readers of the file can recognise repeated events by their `id`.
    """

    file: str | os.PathLike[str] | None = None
    stream: str | None = None
    _lines: Lines = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lines", lines_to(self.file, self.stream))

    def run(self, event: CommitEvent) -> None:
        self._lines.write([event.to_json()])

    def describe(self) -> str:
        return f"writes events to {self._lines}"


@dataclass(frozen=True, slots=True)
class Audit:
    """Writes a line of JSON for each table and virtual path that a commit changed.

    Appends the lines to `file`, or prints them to `stream` (`stdout` or `stderr`). All lines of a commit are
    written at once. Each contains the id of the `event`, by which readers can recognise repeated lines.
    """

    file: str | os.PathLike[str] | None = None
    stream: str | None = None
    _lines: Lines = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lines", lines_to(self.file, self.stream))

    def run(self, event: CommitEvent) -> None:
        self._lines.write([*audit_lines(event)])

    def describe(self) -> str:
        return f"writes changes to {self._lines}"
