"""The story of the demonstration: several processes write to one lake, one of them dies, nothing is lost."""

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
from rich.table import Table

from headgate.errors import InternalError
from headgate.lake import Lake
from headgate.model.probe import ProbeReport

WRITERS = 4
COMMITS = 25
KILLED = 2
KILLED_AFTER = 10


@dataclass
class DemoWriter:
    """A writer process and what it was told."""

    name: str
    process: subprocess.Popen[str]
    told: list[tuple[int, str]] = field(default_factory=list)

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


def tell(directory: Path, console: Console) -> None:
    """Tells the story on a new lake in `directory`."""
    lake = _make_lake(directory, console)
    console.rule(f"[bold]2. {WRITERS} processes commit to it at once, and one of them is killed")
    writers = _write(directory, console)
    _show_writers(lake, writers, console)
    _show_versions(lake, console)
    _check(lake, writers)
    console.print(
        f"\nEvery commit that a process was told of is in the log once; versions 1 to {lake.version} have no "
        "gap.\nNobody held a lock, and no server was asked.\n"
    )


def _make_lake(directory: Path, console: Console) -> Lake:
    console.rule("[bold]1. A lake is made, and the storage is tried out")
    reports: list[ProbeReport] = []
    lake = Lake.init(directory, on_probe=reports.append)
    for finding in reports[0].findings:
        console.print(f"  {'[green]yes[/]' if finding.held else '[red]no[/] '}  {finding.promise.value}")
    console.print(f"So versions are claimed with the strategy [bold]{lake.strategy}[/bold].\n")
    return lake


def _write(directory: Path, console: Console) -> list[DemoWriter]:
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
    return writers


@contextmanager
def _writers(directory: Path) -> Iterator[list[DemoWriter]]:
    """The processes, all ready. None is left at the end of the block, however it ends."""
    writers: list[DemoWriter] = []
    try:
        for number in range(1, WRITERS + 1):
            writers.append(_start(directory, f"writer-{number}"))  # noqa: PERF401 — a Ctrl-C stops those so far
        for writer in writers:
            writer.wait_until_ready()
        yield writers
    finally:
        for writer in writers:
            writer.stop()


def _start(directory: Path, name: str) -> DemoWriter:
    command = [sys.executable, "-m", "headgate.demo.writer", str(directory), name, str(COMMITS)]
    # Out of reach of the terminal's Ctrl-C: it is for us, and we stop them.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    return DemoWriter(name, process)


def _show_writers(lake: Lake, writers: list[DemoWriter], console: Console) -> None:
    table = Table(title="Who was told what", title_justify="left", header_style="bold cyan")
    for column in ("writer", "told of", "in the log", ""):
        table.add_column(column, justify="left" if column in ("writer", "") else "right")
    entries = lake.log()
    for writer in writers:
        there = sum(entry.args[:1] == (writer.name,) for entry in entries)
        killed = writer.process.returncode == -signal.SIGKILL
        remark = "killed in the middle of its work" if killed else ""
        table.add_row(writer.name, str(len(writer.told)), str(there), remark)
    console.print(table)


def _show_versions(lake: Lake, console: Console) -> None:
    table = Table(title="The last versions, and who won each", title_justify="left", header_style="bold cyan")
    for column in ("version", "winner", "versions tried", "based on"):
        table.add_column(column)
    for entry in lake.log(limit=10):
        table.add_row(str(entry.version), entry.args[0], str(entry.attempts), str(entry.base))
    console.print(table)


def _check(lake: Lake, writers: list[DemoWriter]) -> None:
    by_version = {entry.version: entry.txid for entry in lake.log()}
    wrong = [told for writer in writers for told in writer.told if by_version.get(told[0]) != told[1]]
    if wrong or sorted(by_version) != list(range(1, lake.version + 1)):
        raise InternalError(f"the log does not agree with what the writers were told: {wrong[:3]}")
