"""Many writers that append to one table at the same moment, in threads of a few processes.

Used by the adapters of all systems: what differs is how a writer is made, and which errors mean that it was
refused and must try again.
"""

from __future__ import annotations

import importlib
import multiprocessing as mp
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

Append = Callable[[str], None]


class Appendable(Protocol):
    """What a system must offer to be written by many."""

    REFUSALS: tuple[type[Exception], ...]

    def writers(self, count: int) -> list[Append]:
        """So many ways to append a file under a name, made by this process."""
        ...


def contend(adapter: str, settings: Mapping[str, Any], writers: int, appends: int, processes: int) -> Any:
    """Seconds from the moment when all are ready until the last has committed, and how often one failed."""
    context = mp.get_context("spawn")
    ready = context.Barrier(processes + 1)
    failures = context.Queue()
    each = writers // processes
    children = [
        context.Process(
            target=_one_process, args=(adapter, dict(settings), number, each, appends, ready, failures)
        )
        for number in range(processes)
    ]
    for child in children:
        child.start()
    ready.wait()
    started = time.perf_counter()
    failed = sum(failures.get() for _ in children)
    seconds = time.perf_counter() - started
    for child in children:
        child.join()
    return seconds, failed


def _one_process(
    adapter: str,
    settings: dict[str, Any],
    number: int,
    threads: int,
    appends: int,
    ready: Any,
    failures: Any,
) -> None:
    module, _, name = adapter.partition(":")
    system = getattr(importlib.import_module(module), name)(**settings)
    writers = system.writers(threads)
    ready.wait()
    failures.put(in_threads(writers, appends, system.REFUSALS, str(number)))


def in_threads(
    writers: list[Append], appends: int, refusals: tuple[type[Exception], ...], prefix: str
) -> int:
    """Every writer appends so often. A refused one tries again at once; returns how often that was."""
    lock, failed = threading.Lock(), 0

    def all_of(thread: int) -> None:
        nonlocal failed
        for turn in range(appends):
            while True:
                try:
                    writers[thread](f"{prefix}-{thread}-{turn}")
                except refusals:
                    with lock:
                        failed += 1
                    continue
                break

    with ThreadPoolExecutor(len(writers)) as threads:
        list(threads.map(all_of, range(len(writers))))
    return failed
