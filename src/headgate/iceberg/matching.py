"""Rows that an overwrite by predicate may add: exactly those that its own predicate selects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import InvalidInputError
from headgate.iceberg.bound import Bound
from headgate.iceberg.row_filter import selected

SHOWN_ROWS = 3


def require_matching(rows: pa.Table, matching: Bound, table: str, where: str) -> None:
    """Refuses rows that an overwrite would add, but that its own predicate does not select."""
    astray = rows.filter(pc.invert(selected(rows, matching)))
    if astray.num_rows == 0:
        return
    shown = "\n".join(f"  - {_shown(row)}" for row in astray.slice(0, SHOWN_ROWS).to_pylist())
    raise InvalidInputError(
        f"{table}: {astray.num_rows} of the rows to be added do not match {where!r}:\n{shown}",
        "leave them out, or overwrite with a predicate that selects them",
    )


def _shown(row: dict[str, Any]) -> str:
    text = ", ".join(f"{name}: {value!r}" for name, value in row.items())
    return text if len(text) <= 300 else f"{text[:300]}…"
