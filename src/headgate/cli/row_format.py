"""How rows can be printed.

Separate from `rows`, which loads Arrow: `headgate --help` must not wait for it.
"""

from __future__ import annotations

import sys
from enum import StrEnum


class RowFormat(StrEnum):
    """The values of `--output`."""

    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"


SHOWN_ROWS = 50
"""How many rows a terminal shows by default."""


def default_format() -> RowFormat:
    """A table on a terminal, CSV in a pipe."""
    return RowFormat.TABLE if sys.stdout.isatty() else RowFormat.CSV
