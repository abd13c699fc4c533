"""The page about conflicts, made from the matrix: `python -m headgate.core.matrix_page`."""

from __future__ import annotations

import sys

from headgate.core.isolation import Isolation
from headgate.core.matrix import MATRIX, Elsewhere, Row, Verdict

_INTRODUCTION = """\
# Conflicts

<!-- Made by `python -m headgate.core.matrix_page > docs/conflicts.md` from `headgate/core/matrix.py`. -->

A transaction begins on a version of the lake. If others have committed by the time it commits, each of their
commits is compared with it, by the table below. **A** is the transaction that is about to commit, **B** one
that was committed since A began. Where no row says otherwise, A is committed on top of B.

What counts as a conflict is up to the isolation: that of the table, its property `isolation`, or that of the
transaction, `lake.transaction(isolation="serializable")`, which takes its place.

| isolation | what a commit can rely on |
|---|---|
| `snapshot` | nobody else changed or removed the rows that it changes |
| `write-serializable` | the default. Also: nobody changed rows that it read; new rows do not count |
| `serializable` | also: nobody added rows that it would have read, as if all had run one after the other |

A table that is only read, with `tx.table(name).read(…)` or `read_arrow(…)`, is judged by its own isolation.

## The matrix

| # | A | B | when | {isolations} | then |
|---|---|---|---|{lines}|---|
"""

_ENDING = """
What the words mean:

| | |
|---|---|
| OK | A is committed on top of B |
| FAIL, run again | A raises `ConflictError`, and nothing has changed; on the new head it can succeed |
| FAIL, decide | the same, but running it again does not help; the error says what to do |
| carry, else FAIL | positions are carried to the files that the rows are in now; if that fails: run again |
| the earlier result | A returns what was committed before, and writes nothing |
| as if B | the rows above decide |

A single operation, as `orders.overwrite(…)` or `orders.add_column(…)`, is run again by itself; a `with` block
is not.

## How it is found out

The record of B says which partitions it added files to, and which files it removed, rewrote, compacted, or
changed rows in. Partition values decide first. Only where they meet, the manifest entries of B's new files
are fetched, for the bounds of their columns; and only where both changed rows of one file, B's positions in
it are fetched and compared row by row. A record that touched too many files to name them is taken for the
worst: it can cost a second run, never a wrong result.

The error names the rule:

```text
sales.orders: your overwrite and version 42 (append by ann on etl-7, transaction 5b1f…): it added rows where
you overwrite: …/7c0e….parquet [rule 25: overwrite where p against append]
  next: run the overwrite again in a new transaction, on version 42 or later; …
```
"""


def page() -> str:
    """The whole page."""
    isolations = " | ".join(f"`{isolation.value}`" for isolation in Isolation)
    lines = "|".join("---" for _ in Isolation)
    rows = "".join(f"| {' | '.join(_cells(row))} |\n" for row in MATRIX)
    return _INTRODUCTION.format(isolations=isolations, lines=lines) + rows + _ENDING


def _cells(row: Row) -> list[str]:
    verdicts = [row.verdicts.at(isolation) for isolation in Isolation]
    when = f"{row.when}; otherwise: {row.otherwise}" if row.otherwise else row.when
    values = [verdict.value for verdict in verdicts]
    return [str(row.number), row.mine, row.theirs, when, *values, _then(row, verdicts)]


def _then(row: Row, verdicts: list[Verdict]) -> str:
    steps = [f"seen to by {rule.place}" for rule in row.rules if isinstance(rule, Elsewhere)]
    if Verdict.FAIL in verdicts or Verdict.CARRY in verdicts:
        steps.insert(0, "decide" if row.give_up else "run again")
    return "; ".join(steps)


if __name__ == "__main__":
    sys.stdout.write(page())
