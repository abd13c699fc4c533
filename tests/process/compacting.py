"""A compactor: run with LAKE NAME ROUNDS. Compacts what is due, over and over, until it is told to stop.

A line on its standard input, or the end of it, says so. Tells for every completed plan the newest version
that it made and the plan.
"""

from __future__ import annotations

import select
import sys

import headgate as hg


def main() -> None:
    lake = hg.Lake.open(sys.argv[1])
    say("ready")
    sys.stdin.readline()
    while True:
        told_to_stop, _, _ = select.select([sys.stdin], [], [], 0.2)
        report = lake.compact()
        for plan in report.completed:
            say(f"{report.versions[-1]} {plan}")
        if told_to_stop:
            return


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
