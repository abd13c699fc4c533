"""Progress on standard error, for a terminal: bars where the amount of work is known, else a spinner.

A pipe shows none, and does not even load rich. All of them disappear when the work is done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from headgate.model.reports import CompactionProgress


def shown() -> bool:
    """Whether standard error is a terminal, so that progress is visible."""
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
    """A bar for each kind of work. Call the result with the kind, the amount that is done, and the total."""
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
    """A bar for the bytes that were read, with their number of rows."""
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
    """A bar for the bytes that a table service has rewritten, with their number of files."""
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
    """Ignores progress when nobody can see it."""
