"""Driving real writer processes: start, watch what they are told, kill, stop, and check the log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import headgate as hg

DEADLINE_SECONDS = 240.0


class Progress:
    """How many commits have been acknowledged to anybody; others can wait for a number."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def add(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            reached = self._changed.wait_for(lambda: self._count >= count, DEADLINE_SECONDS)
        assert reached, f"only {self._count} of {count} commits within {DEADLINE_SECONDS} s"


@dataclass
class WriterProcess:
    """One process, with a thread that reads what it prints and calls `on_commit` after each commit."""

    place: str
    name: str
    commits: int
    progress: Progress
    options: Mapping[str, str] = field(default_factory=dict)
    program: Sequence[str] = (str(Path(__file__).parent / "properties.py"),)
    on_commit: Callable[[WriterProcess, int], None] = lambda writer, count: None
    told: list[tuple[int, str]] = field(default_factory=list)

    def start(self) -> None:
        command = [sys.executable, *self.program, self.place, self.name, str(self.commits)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HEADGATE_STORE_OPTIONS": json.dumps(dict(self.options))},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", self.process.stderr and self.process.stderr.read()
        self._reader = threading.Thread(target=self._read)

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            version, _, txid = line.strip().partition(" ")
            if not line.endswith("\n") or len(txid) != 32:
                break  # killed in the middle of a line: it had been told, we were not
            self.told.append((int(version), txid))
            self.progress.add()
            self.on_commit(self, len(self.told))

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self, deadline_seconds: float = DEADLINE_SECONDS) -> int:
        """Waits for the end and returns the exit code (negative: the signal that killed it)."""
        code = self.process.wait(deadline_seconds)
        self._reader.join()
        assert self.process.stdin is not None and self.process.stdout is not None
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        return code


def check_log(lake: hg.Lake, writers: list[WriterProcess], before: int = 0) -> None:
    """Versions are contiguous, and every acknowledged commit is in the log once, where it was told to be.

    `before` is the version at which the writers began.
    """
    entries = [entry for entry in lake.log() if entry.version > before]
    assert [entry.version for entry in entries] == list(range(lake.version, before, -1))
    assert len({entry.txid for entry in entries}) == len(entries)
    by_version = {entry.version: entry.txid for entry in entries}
    told = [pair for writer in writers for pair in writer.told]
    for version, txid in told:
        assert by_version.get(version) == txid
    killed = sum(writer.process.returncode != 0 for writer in writers)
    # A killed writer may have had one commit that nobody was told of.
    assert len(told) <= len(entries) <= len(told) + 2 * killed
