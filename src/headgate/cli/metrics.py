"""How commands print the metrics of a lake, and the counters of a command for Prometheus."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import InvalidInputError

if TYPE_CHECKING:
    from headgate.lake.lake import Lake
    from headgate.model.metrics import Activity, LakeMetrics, Size, TableSize


SIZE_COLUMNS = ("table", "rows", "files", "delete files", "bytes")


def metrics_fields(found: LakeMetrics) -> dict[str, str]:
    """The metrics of a lake as lines of `headgate metrics`."""
    done = found.activity
    hooks = {f"hook {name}": f"{each.done} done, {each.failed} failed" for name, each in done.hooks.items()}
    return {
        "on storage": _size_text(found.lake),
        "log": _size_text(found.log),
        "history": _size_text(found.history),
        "commits": f"{done.commits:,} in {done.attempts:,} attempts",
        "failed commits": _failed_text(done),
        "recovered": f"{done.recovered:,}, and {done.without_entry:,} without a control entry",
        "rows": f"{done.rows_added:,} added, {done.rows_removed:,} removed",
        "data": f"{done.bytes_added:,} bytes added, {done.bytes_removed:,} removed",
        "time": f"{done.commit_seconds:.1f} s, of which {done.waited_seconds:.1f} s waiting",
        **hooks,
    }


def _failed_text(done: Activity) -> str:
    kinds = [f"{number:,} {kind}" for kind, number in sorted(done.failures.items())]
    return ", ".join([*kinds, f"{done.unknown_outcomes:,} with an unknown outcome"])


def _size_text(size: Size | None) -> str:
    if size is None:
        return "unknown: the storage lists no sizes"
    return f"{size.objects:,} objects, {size.bytes:,} bytes"


def size_row(name: str, size: TableSize) -> tuple[str, ...]:
    return (name, *(f"{number:,}" for number in (size.rows, size.files, size.delete_files, size.bytes)))


_WATCHED: ContextVar[list[Lake] | None] = ContextVar("watched", default=None)


def begin_watching(file: Path) -> Callable[[], None]:
    """Starts counting on every lake that the command opens. The result writes the counters to `file`."""
    if not file.parent.is_dir():
        raise InvalidInputError(
            f"--metrics-file: the directory {file.parent} does not exist", "create it, or name another file"
        )
    watched: list[Lake] = []
    _WATCHED.set(watched)
    return lambda: _write(file, watched)


def watch(lake: Lake) -> None:
    """Counts what the command does through `lake`, if it has a metrics file."""
    watched = _WATCHED.get()
    if watched is not None:
        watched.append(lake)


def _write(file: Path, watched: list[Lake]) -> None:
    if not watched:
        return
    from headgate.core.history.metrics import prometheus_text

    text = "".join(prometheus_text(lake.metrics(), lake.id) for lake in watched[-1:])
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        # Atomically: the collector must not read half a file.
        part.write_text(text)
        part.replace(file)
    except OSError as error:
        # The command itself succeeded; only the counters are lost.
        sys.stderr.write(f"headgate: --metrics-file: {error}\n")
