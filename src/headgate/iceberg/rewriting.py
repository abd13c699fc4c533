"""Removing rows by predicate: what goes as a whole, what is written anew without them.

Which files are whole and which are partial is the plan's decision (`Plan.whole`, `Plan.partial`). How partial
ones are written anew is a `Rewrite`, so that another engine can do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import InvalidInputError
from headgate.iceberg.arrow_files import read_rows, write_rows
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role
from headgate.iceberg.planning import Plan, PlannedFile
from headgate.iceberg.row_filter import selected
from headgate.iceberg.target import Target

SHOWN_ROWS = 3
FILES_AT_ONCE = 16
"""How many files are in memory together."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Files that are to go, and files that hold the rows of them that stay."""

    removed: tuple[DataFile, ...] = ()
    added: tuple[DataFile, ...] = ()

    def __add__(self, other: Rewritten) -> Rewritten:
        return Rewritten((*self.removed, *other.removed), (*self.added, *other.added))


class Rewrite(Protocol):
    """Writes files anew, without the rows that match and those that are deleted.

    Files without a row that matches may be left as they are.
    """

    def __call__(self, files: Sequence[PlannedFile], matching: Bound) -> Rewritten: ...


def without_matching(plan: Plan, matching: Bound, rewrite: Rewrite) -> Rewritten:
    """What becomes of the files of a plan when exactly the rows that match are removed."""
    whole = Rewritten(removed=tuple(planned.file for planned in plan.whole))
    return whole + rewrite(plan.partial, matching) if plan.partial else whole


@dataclass(frozen=True, slots=True)
class ArrowRewrite:
    """A `Rewrite` through Arrow. New files are unreferenced until a commit names them."""

    target: Target

    def __call__(self, files: Sequence[PlannedFile], matching: Bound) -> Rewritten:
        done = Rewritten()
        carried = replace(self.target, role=Role.CARRIED)
        for start in range(0, len(files), FILES_AT_ONCE):
            group = files[start : start + FILES_AT_ONCE]
            kept = self.target.driver.host.together([partial(self._kept, file, matching) for file in group])
            for planned, rows in zip(group, kept, strict=True):
                if rows is not None:
                    done += Rewritten((planned.file,), write_rows(carried, rows))
        return done

    def _kept(self, planned: PlannedFile, matching: Bound) -> pa.Table | None:
        """The rows of a file that stay; None if all do."""
        rows = read_rows(self.target.driver, self.target.loader, [planned], self.target.metadata.schema)
        going = selected(rows, matching)
        return rows.filter(pc.invert(going)) if pc.any(going).as_py() else None


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
