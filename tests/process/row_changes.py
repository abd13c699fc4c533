"""A writer that changes rows of a table: run with WHICH LAKE NAME COMMITS, where NAME ends with a number.

WHICH is `own`: it updates and deletes rows of its own, in files that all writers change; or `same`: it adds 1
to a row that all of them change. Says what it was told like `properties.py`.
"""

import sys
from datetime import timedelta

import headgate as hg

WRITERS = 16
PATIENT = hg.RetryPolicy(attempts=1000, total=timedelta(minutes=10))


def main() -> None:
    which, place, name, commits = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    lake = hg.Lake.open(place) if which == "own" else hg.Lake.open(place, retry=PATIENT)
    table = lake.table("shared.rows")
    say("ready")
    sys.stdin.readline()
    own = int(name.rsplit("-", 1)[1])
    for number in range(commits):
        row = own + WRITERS * number if which == "own" else 0
        if which == "own" and number % 2:
            result = table.delete(f"id = {row}", args=[name])
        else:
            result = table.update({"n": "n + 1"}, where=f"id = {row}", args=[name])
        assert result.rows, "the row is there"
        say(f"{result.version} {result.txid}")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
