"""The writer processes of the demonstration: started, watched, one of them killed, none left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

WRITERS = 3
COMMITS = 12
KILLED = 2
KILLED_AFTER = 5
FIRST_ID = 1_000_000
SPARK = "spark"


@dataclass
class DemoWriter:
    """A writer process and what it was told."""

    name: str
    process: subprocess.Popen[str]
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
        self.process.kill()
        self.process.wait()

    def read(self, on_commit: Callable[[DemoWriter], None]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            version, _, txid = line.strip().partition(" ")
            if len(txid) == 32:
                self.told.append((int(version), txid))
                on_commit(self)
        self.process.stdout.close()


def write_at_once(
    directory: Path, console: Console, beside: Callable[[Callable[[], None]], None], beside_commits: int
) -> list[DemoWriter]:
    """Lets all writers commit, and `beside` in this process; it says when it has committed."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress, _writers(directory) as writers:
        bars = {writer.name: progress.add_task(writer.name, total=COMMITS) for writer in writers}
        own = progress.add_task(SPARK, total=beside_commits)

        def on_commit(writer: DemoWriter) -> None:
            progress.advance(bars[writer.name])
            if writer.name == f"writer-{KILLED}" and len(writer.told) == KILLED_AFTER:
                writer.process.send_signal(signal.SIGKILL)
                progress.update(bars[writer.name], description=f"[red]{writer.name} (killed)[/]")

        threads = [threading.Thread(target=writer.read, args=(on_commit,)) for writer in writers]
        for writer, thread in zip(writers, threads, strict=True):
            writer.go()
            thread.start()
        beside(lambda: progress.advance(own))
        for writer, thread in zip(writers, threads, strict=True):
            writer.process.wait()
            thread.join()
    return writers


@contextmanager
def _writers(directory: Path) -> Iterator[list[DemoWriter]]:
    """The processes, all ready. None is left at the end of the block, however it ends."""
    writers: list[DemoWriter] = []
    try:
        for number in range(1, WRITERS + 1):
            writers.append(_start(directory, number))  # noqa: PERF401 — a Ctrl-C stops those so far
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
        "headgate.demo.writer",
        str(directory),
        name,
        str(COMMITS),
        str(first_id),
    ]
    # Out of reach of the terminal's Ctrl-C: it is for us, and we stop them.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    return DemoWriter(name, process)
