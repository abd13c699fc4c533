"""A process that commits, with a hook that says that it has begun and then never comes to an end."""

from __future__ import annotations

import sys
import threading

import headgate as hg
from headgate.hooks import Command, CommitEvent, Hook, Python


def hang(event: CommitEvent) -> None:
    sys.stdout.write(f"{event.id}\n")
    sys.stdout.flush()
    threading.Event().wait()


def main(place: str, kind: str, pipe: str) -> None:
    program = Command(["sh", "-c", f'exec 3>"{pipe}"; echo begun >&3; exec sleep 600'])
    action = Python(hang) if kind == "python" else program
    hooks = [Hook("first", Python(lambda event: None)), Hook("second", action, after=["first"])]
    lake = hg.Lake.open(place, hooks=hooks)
    try:
        lake.set_properties({"n": "x"})
    except KeyboardInterrupt as interrupt:
        sys.stdout.write(f"interrupted: {interrupt.__notes__[0]}\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main(*sys.argv[1:])
