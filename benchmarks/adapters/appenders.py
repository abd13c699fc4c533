"""Many writers that append to one table at the same time, in threads of a few processes.

Used by the adapters of all systems. They differ in how a writer is created, and in which errors mean that it
was rejected and must retry.
"""

from __future__ import annotations

import importlib
import multiprocessing as mp
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from benchmarks.harness.outcome import Outcome

Append = Callable[[str], None]


class Appendable(Protocol):
    """What an adapter must provide for concurrent writers."""

    REFUSALS: tuple[type[Exception], ...]

    def writers(self, count: int) -> list[Append]:
        """Creates `count` writers in this process, each a function that appends a file with a given name."""
        ...

    def prepare_appends(self) -> object:
        """Creates the table that they append to."""
        ...

    def commits(self) -> int:
        """The number of appends in the table."""
        ...


def contended(
    adapter: str, settings: Mapping[str, Any], writers: int, appends: int, processes: int, number: int
) -> Outcome:
    """Runs many writers on a table of their own; the answer is the number of appends in it."""
    name = f"contended-{writers}-{number}"
    own = {**settings, "place": str(Path(settings["place"]) / name)}
    if settings.get("url"):
        own["url"] = f"{settings['url']}/{name}"
    side = _made(adapter, own)
    side.prepare_appends()
    seconds, failed = _contend(adapter, own, writers, appends, processes)
    return Outcome(side.commits(), seconds=seconds, facts={"failures": failed})


def _made(adapter: str, settings: Mapping[str, Any]) -> Appendable:
    module, _, name = adapter.partition(":")
    made: Appendable = getattr(importlib.import_module(module), name)(**settings)
    return made


def _contend(
    adapter: str, settings: Mapping[str, Any], writers: int, appends: int, processes: int
) -> tuple[float, int]:
    """The seconds from when all writers are ready until the last has committed, and how many failures."""
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
    system = _made(adapter, settings)
    writers = system.writers(threads)
    ready.wait()
    failures.put(in_threads(writers, appends, system.REFUSALS, str(number)))


def in_threads(
    writers: list[Append], appends: int, refusals: tuple[type[Exception], ...], prefix: str
) -> int:
    """Every writer appends this often. Rejected appends are retried at once. Returns how often that was."""
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
