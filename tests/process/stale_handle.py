"""A process that opens a lake once and then does what it is asked, on the handles it has: run with LAKE.

A line of JSON on standard input is an operation; the answer is the version that it committed, or null.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

import pyarrow as pa

import headgate as hg

TABLE = "a.b"
COLUMNS = "id BIGINT, n BIGINT"


def rows(pairs: Sequence[Sequence[int]]) -> pa.Table:
    ids, numbers = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array(numbers, pa.int64())})


def append_count(lake: hg.Lake) -> hg.CommitResult:
    """Appends a row that says how many rows there were: reads, and then appends."""
    with lake.transaction() as tx:
        table = tx.table(TABLE)
        table.append(rows([(1000, table.read_arrow().num_rows)]))
    return tx.result


def create_again(lake: hg.Lake, pairs: Sequence[Sequence[int]]) -> hg.CommitResult:
    """Drops the table, and makes another one of that name, in one version."""
    with lake.transaction() as tx:
        tx.drop_table(TABLE)
        tx.create_table(TABLE, COLUMNS).append(rows(pairs))
    return tx.result


def batch(lake: hg.Lake, number: int, below: int) -> hg.CommitResult:
    """A batch that deletes small rows, or finds none; a batch that ran before does nothing."""
    with lake.transaction(app=("cleaner", number)) as tx:
        tx.table(TABLE).delete(f"id < {below}")
    return tx.result


def operations(lake: hg.Lake) -> dict[str, Callable[..., hg.CommitResult]]:
    table = lake.table(TABLE)  # held for as long as the process lives
    return {
        "append": lambda pairs: table.append(rows(pairs)),
        "overwrite": lambda pairs: table.overwrite(rows(pairs)),
        "overwrite_where": lambda low, pairs: table.overwrite(rows(pairs), where=f"id >= {low}"),
        "delete": lambda low: table.delete(f"id >= {low}"),
        "update": lambda low: table.update({"n": "n + 1"}, where=f"id >= {low}"),
        "upsert": lambda pairs: table.upsert(rows(pairs), keys=["id"]),
        "append_count": lambda: append_count(lake),
        "create_again": lambda pairs: create_again(lake, pairs),
        "batch": lambda number, below: batch(lake, number, below),
    }


def main() -> None:
    known = operations(hg.Lake.open(sys.argv[1]))
    for line in sys.stdin:
        name, *given = json.loads(line)
        result = known[name](*given)
        sys.stdout.write(
            json.dumps(None if result.already_committed or not result.changed else result.version) + "\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
