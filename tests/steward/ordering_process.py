"""A process that commits a few times, with a hook that writes down when it begins and when it ends."""

from __future__ import annotations

import os
import random
import sys
import time

import headgate as hg
from headgate.hooks import CommitEvent, Hook, Python


def write_line(path: str, line: str) -> None:
    """Appends in one write, so that lines of several processes do not mix."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def noting(path: str) -> Hook:
    def note(event: CommitEvent) -> None:
        write_line(path, f"begin {event.version}")
        time.sleep(random.random() / 50)  # work that takes a different time for each version
        write_line(path, f"end {event.version}")

    return Hook("note", Python(note))


def main(place: str, path: str, commits: str) -> None:
    lake = hg.Lake.open(place, hooks=[noting(path)])
    for number in range(int(commits)):
        result = lake.set_properties({f"p{os.getpid()}": str(number)})
        assert result.hook_failures == (), result.hook_failures


if __name__ == "__main__":
    main(*sys.argv[1:])
