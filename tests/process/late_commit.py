"""Commits when the main thread has ended: from a thread that outlives it, and when the process exits."""

import atexit
import sys
import threading

import headgate as hg

lake = hg.Lake.open(sys.argv[1])


def commit(name: str) -> None:
    result = lake.set_properties({name: "1"})
    sys.stdout.write(f"{name} {result.version}\n")
    sys.stdout.flush()


def after_main() -> None:
    threading.main_thread().join()
    commit("thread")


atexit.register(commit, "exit")
threading.Thread(target=after_main).start()
