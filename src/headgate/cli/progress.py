"""Signs of life on standard error, for a terminal: bars where the amount of work is known, else a spinner.

In a pipe there are none, and rich is not even loaded. All of them are gone when the work is done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from headgate.model.compaction import CompactionProgress


def shown() -> bool:
    """Whether anybody sees them."""
    return sys.stderr.isatty()


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner for the block."""
    if not shown():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextmanager
def counting(unit: str = "") -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each kind of work: the result is told what is done, how much of it, and of how much."""
    if not shown():
        yield _unseen
        return
    from rich.progress import MofNCompleteColumn, TextColumn

    with _bars(MofNCompleteColumn(), TextColumn(unit)) as bars:
        tasks: dict[str, Any] = {}

        def on_progress(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=of)
            bars.update(tasks[what], completed=done, total=of)

        yield on_progress


@contextmanager
def loading(table: str) -> Iterator[Callable[[int, int, int], None]]:
    """A bar for bytes that are read, with the rows that were in them."""
    if not shown():
        yield _unseen
        return
    from rich.progress import DownloadColumn, TextColumn

    with _bars(DownloadColumn(), TextColumn("{task.fields[rows]:,} rows")) as bars:
        task = bars.add_task(table, total=None, rows=0)

        def on_progress(bytes_read: int, bytes_total: int, rows_read: int) -> None:
            bars.update(task, completed=bytes_read, total=bytes_total, rows=rows_read)

        yield on_progress


@contextmanager
def rewriting(table: str) -> Iterator[Callable[[CompactionProgress], None]]:
    """A bar for bytes that a table service has rewritten, with the files that they were in."""
    if not shown():
        yield _unseen
        return
    from rich.progress import DownloadColumn, TextColumn

    with _bars(DownloadColumn(), TextColumn("{task.fields[files]}")) as bars:
        task = bars.add_task(table, total=None, files="")

        def on_progress(at: CompactionProgress) -> None:
            files = f"{at.files_done:,} of {at.files:,} files"
            bars.update(task, description=at.table, completed=at.bytes_done, total=at.bytes, files=files)

        yield on_progress


def _bars(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _unseen(*_: object) -> None:
    """What is told when nobody looks."""
