"""The counters of a command, for Prometheus."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import InvalidInputError

if TYPE_CHECKING:
    from headgate.lake import Lake

_WATCHED: ContextVar[list[Lake] | None] = ContextVar("watched", default=None)


def begin_watching(file: Path) -> Callable[[], None]:
    """From now on lakes that the command opens are watched; the result writes down what they did."""
    if not file.parent.is_dir():
        raise InvalidInputError(
            f"--metrics-file: there is no directory {file.parent}", "make it, or name another file"
        )
    watched: list[Lake] = []
    _WATCHED.set(watched)
    return lambda: _write(file, watched)


def watch(lake: Lake) -> None:
    """Counts what is done through `lake`, if the command has a metrics file."""
    watched = _WATCHED.get()
    if watched is not None:
        watched.append(lake)


def _write(file: Path, watched: list[Lake]) -> None:
    if not watched:
        return
    from headgate.core.prometheus import prometheus_text

    text = "".join(prometheus_text(lake.metrics(), lake.id) for lake in watched[-1:])
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        # In one step: the collector must not read half of it.
        part.write_text(text)
        part.replace(file)
    except OSError as error:
        # What the command did is done; only the counters are lost.
        sys.stderr.write(f"headgate: --metrics-file: {error}\n")
