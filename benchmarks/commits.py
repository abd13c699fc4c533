"""Commits per second and requests per commit, for each strategy and storage, beside the limit of the disk.

The raw limit is one durable file: written, synced, linked to its name, and its directory synced, by hand. A
conditional commit cannot be faster than that; the ratio says what the rest of Headgate costs.

    .venv/bin/python -m benchmarks.commits [--quick]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page import Part, run

import headgate as hg
from headgate.storage.capabilities import Store
from headgate.storage.counting import counted
from headgate.storage.location import open_store
from headgate.storage.memory import MemoryStore
from headgate.testing.s3 import s3_server

THREADS = 16
TEXT = """
Commits of one lake property. `raw / ours`: how many durable files (written, synced, linked, directory synced,
by hand) the disk takes in the time of one commit, measured right before and after; 1 is the limit of a
conditional commit. The S3 API server is a test server in Python on loopback: its figures compare strategies,
nothing else.
"""
STRATEGIES = ("conditional", "rename", "filetracker")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table. `contended` is with 16 threads that share one handle."""

    storage: str
    strategy: str
    commits_per_second: float
    contended_per_second: float
    p99_over_p50: float
    requests: str
    ratio_to_raw: float | None


def raw_durable_files(count: int, size: int = 470) -> float:
    """Durable files per second, written by hand."""
    with tempfile.TemporaryDirectory() as directory:
        return _raw_in(Path(directory), count, size)


def _raw_in(directory: Path, count: int, size: int) -> float:
    data = b"x" * size
    descriptor = os.open(directory, os.O_RDONLY)
    started = time.perf_counter()
    for number in range(count):
        partial = directory / f"{number}.partial"
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, directory / f"{number}.json")
        partial.unlink()
        os.fsync(descriptor)
    elapsed = time.perf_counter() - started
    os.close(descriptor)
    return count / elapsed


def measure(
    name: str, store: Store, strategy: str, commits: int, raw: Callable[[int], float] | None
) -> Measurement:
    """Sequential commits by one warm handle, then the same number from many threads.

    The raw limit is measured right before and right after, since a disk is not equally fast at all times.
    """
    before = None if raw is None else raw(commits)
    counting, tally = counted(store)
    lake = hg.Lake.init(counting, strategy=strategy)
    lake.set_properties({"warm": "up"})
    tally.reset()
    lake.set_properties({"counted": "x"})
    requests = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.counts().items()))
    seconds = [_timed(lambda: lake.set_properties({"n": "x"})) for _ in range(commits)]
    alone = commits / sum(seconds)
    limit = None if raw is None or before is None else (before + raw(commits)) / 2
    quantiles = statistics.quantiles(seconds, n=100)
    return Measurement(
        storage=name,
        strategy=strategy,
        commits_per_second=alone,
        contended_per_second=_contended(lake, commits),
        p99_over_p50=quantiles[98] / quantiles[49],
        requests=requests,
        ratio_to_raw=None if limit is None else limit / alone,
    )


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _contended(lake: hg.Lake, commits: int) -> float:
    each = max(1, commits // THREADS)

    def work(writer: int) -> None:
        for number in range(each):
            lake.set_properties({f"{writer}.{number}": "x"})

    with ThreadPoolExecutor(THREADS) as pool:
        seconds = _timed(lambda: list(pool.map(work, range(THREADS))))
    return THREADS * each / seconds


@contextmanager
def places() -> Iterator[list[tuple[str, Callable[[str], Store], tuple[str, ...]]]]:
    """The storages to measure: a name, a store for each strategy, and the strategies it can carry."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(s3_server())
        yield [
            ("memory", lambda strategy: MemoryStore(strategy), STRATEGIES),
            ("local disk", lambda strategy: open_store(root / strategy), STRATEGIES),
            (
                "local disk, no fsync",
                lambda strategy: open_store(root / f"nosync-{strategy}", {"fsync": "false"}),
                STRATEGIES,
            ),
            (
                "S3 API on loopback",
                lambda strategy: open_store(server.url(strategy), server.options),
                ("conditional", "filetracker"),
            ),
        ]


def measured(commits: int) -> list[Measurement]:
    found = []
    with places() as storages:
        for name, store_for, strategies in storages:
            for strategy in strategies:
                limit = raw_durable_files if name == "local disk" else None
                found.append(measure(name, store_for(strategy), strategy, commits, limit))
    return found


def part(quick: bool) -> Part:
    return Part(
        name="commits",
        title="Commits",
        text=TEXT,
        columns=("storage", "strategy", "commits/s", "16 threads", "p99 / p50", "raw / ours", "requests"),
        rows=[
            (
                line.storage,
                line.strategy,
                f"{line.commits_per_second:,.0f}",
                f"{line.contended_per_second:,.0f}",
                f"{line.p99_over_p50:.1f}",
                "" if line.ratio_to_raw is None else f"{line.ratio_to_raw:.2f}",
                line.requests,
            )
            for line in measured(50 if quick else 200)
        ],
    )


if __name__ == "__main__":
    sys.exit(run(part, __doc__))
