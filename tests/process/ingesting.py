"""A writer beside compactors: run with LAKE NAME COMMITS, where NAME ends with a number.

It appends, deletes, updates and upserts rows of its own, in partitions and files that all writers share, with
the settings that everybody has. What it leaves is a function of its number and of COMMITS: see `left_by`.
Says `ready`, waits for a line, and tells for each of its commits the version, 0 if there is none, and the
transaction.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

import headgate as hg

ROWS = 20
"""How many rows each append adds."""
PARTITIONS = 4
TABLE = "shared.events"
COLUMNS = "id BIGINT, part INT, n BIGINT"


def first_id(own: int, number: int) -> int:
    """The first of the rows that writer `own` adds with its append `number`; no two have one in common."""
    return own * 1_000_000_000 + number * ROWS


def batch(own: int, number: int) -> dict[int, int]:
    return {first_id(own, number) + row: 0 for row in range(ROWS)}


def steps(commits: int) -> Iterator[tuple[str, int, int]]:
    """What a writer does, in its order: the verb, the append whose rows it is about, and the row of it."""
    appends = 0
    for number in range(commits):
        match number % 5:
            case 0 | 2:
                yield "append", appends, 0
                appends += 1
            case 1:
                yield "delete", appends - 1, number % ROWS
            case 3:
                yield "update", (appends - 1) // 2, (number + 7) % ROWS
            case _:
                yield "upsert", appends - 1, (number + 3) % ROWS


def left_by(own: int, commits: int) -> dict[int, int]:
    """The rows of a writer after all that it does."""
    rows: dict[int, int] = {}
    for verb, append, row in steps(commits):
        chosen = first_id(own, append) + row
        match verb:
            case "append":
                rows |= batch(own, append)
            case "delete":
                rows.pop(chosen, None)
            case "update":
                rows |= {chosen: rows[chosen] + 1} if chosen in rows else {}
            case _:
                rows[chosen] = 100
    return rows


def as_table(rows: dict[int, int]) -> pa.Table:
    ids = list(rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "part": pa.array([number % PARTITIONS for number in ids], pa.int32()),
            "n": pa.array(list(rows.values()), pa.int64()),
        }
    )


def main() -> None:
    place, name, commits = sys.argv[1], sys.argv[2], int(sys.argv[3])
    table = hg.Lake.open(place).table(TABLE)
    say("ready")
    sys.stdin.readline()
    own = int(name.rsplit("-", 1)[1])
    for verb, append, row in steps(commits):
        chosen = first_id(own, append) + row
        where = f"id = {chosen} AND part = {chosen % PARTITIONS}"
        match verb:
            case "append":
                result = table.append(as_table(batch(own, append)), args=[name])
            case "delete":
                result = table.delete(where, args=[name])
            case "update":
                result = table.update({"n": "n + 1"}, where=where, args=[name])
            case _:
                result = table.upsert(as_table({chosen: 100}), ["id", "part"], args=[name])
        # A change that finds no row makes no version.
        say(f"{result.version} {result.txid}" if result.changed else "0 " + result.txid)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
