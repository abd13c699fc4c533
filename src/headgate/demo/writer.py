"""A writer in a process of its own: `python -m headgate.demo.writer LAKE NAME COMMITS FIRST_ID`.

Says `ready`, waits for a line on standard input, then appends orders through Arrow and prints one line per
acknowledged commit: its version and transaction id. Whoever started it can kill or stop it at any moment,
and knows what it was told. If nobody is there any more to tell, it ends.
"""

from __future__ import annotations

import os
import sys

from headgate.demo.shop import orders
from headgate.lake import Lake

ROWS = 50
"""How many orders a commit adds."""


def main() -> None:
    place, name, commits, first_id = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    table = Lake.open(place).table("sales.orders")
    _say("ready")
    if not sys.stdin.readline():
        return
    for number in range(commits):
        start = first_id + number * ROWS
        result = table.append(orders(range(start, start + ROWS)), args=[name, str(number)])
        _say(f"{result.version} {result.txid}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(1)  # at once: at its end Python would try to write what could not be written
