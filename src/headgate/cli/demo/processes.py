"""The writer processes of the demo: starts and watches them, kills one, and leaves none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headgate.errors import InternalError

WRITERS = 4
COMMITS = 3
KILLED = 2
KILLED_AFTER = 2
FIRST_ID = 1_000_000


@dataclass
class DemoWriter:
    """A writer process and its acknowledged commits; `errors` is its standard error."""

    name: str
    process: subprocess.Popen[str]
    errors: IO[str]
    told: list[tuple[int, str]] = field(default_factory=list)

    @property
    def killed(self) -> bool:
        return self.process.returncode == -signal.SIGKILL

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.close()

    def stop(self) -> None:
        """Ends it and its Spark, if it is still running."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.errors.close()

    def require_well(self) -> None:
        """Raises if it failed."""
        if self.process.returncode not in (0, -signal.SIGKILL):
            self.errors.seek(0)
            raise InternalError(f"{self.name} failed: {self.errors.read().strip()[-2000:]}")

    def read(self, on_commit: Callable[[DemoWriter], None]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            version, _, txid = line.strip().partition(" ")
            if len(txid) == 32:
                self.told.append((int(version), txid))
                on_commit(self)
        self.process.stdout.close()


def write_at_once(directory: Path, console: Console) -> list[DemoWriter]:
    """Lets all writers commit concurrently, and kills one of them in the middle."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress, _writers(directory) as writers:
        bars = {writer.name: progress.add_task(writer.name, total=COMMITS) for writer in writers}

        def on_commit(writer: DemoWriter) -> None:
            progress.advance(bars[writer.name])
            if writer.name == f"writer-{KILLED}" and len(writer.told) == KILLED_AFTER:
                writer.process.send_signal(signal.SIGKILL)
                progress.update(bars[writer.name], description=f"[red]{writer.name} (killed)[/]")

        threads = [threading.Thread(target=writer.read, args=(on_commit,)) for writer in writers]
        for writer, thread in zip(writers, threads, strict=True):
            writer.go()
            thread.start()
        for writer, thread in zip(writers, threads, strict=True):
            writer.process.wait()
            thread.join()
        for writer in writers:
            writer.require_well()
    return writers


@contextmanager
def _writers(directory: Path) -> Iterator[list[DemoWriter]]:
    """The processes, all ready. Stops all of them at the end of the block, however it ends."""
    writers: list[DemoWriter] = []
    try:
        for number in range(1, WRITERS + 1):
            writers.append(_start(directory, number))  # noqa: PERF401 — a Ctrl-C stops those that already run
        for writer in writers:
            writer.wait_until_ready()
        yield writers
    finally:
        for writer in writers:
            writer.stop()


def _start(directory: Path, number: int) -> DemoWriter:
    name, first_id = f"writer-{number}", FIRST_ID * number
    command = [
        sys.executable,
        "-m",
        "headgate.cli.demo.writer",
        str(directory),
        name,
        str(COMMITS),
        str(first_id),
    ]
    # The start-up messages of Spark do not belong in the demo.
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 — closed when the writer is stopped
    # In a session of its own: a Ctrl-C in the terminal reaches only this process, which stops the writers.
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
    return DemoWriter(name, process, errors)
