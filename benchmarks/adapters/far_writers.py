"""Writers on far storage: each a process of its own that appends ten rows again and again.

Used by the adapters of all systems. They differ in how a writer is created, and in which errors mean that it
was rejected and must try again.
"""

from __future__ import annotations

import importlib
import multiprocessing as mp
import queue
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

import pyarrow as pa
from benchmarks.harness.outcome import Outcome

WARM_UP = 3
"""How many appends a writer makes before it is measured."""
ROWS = 10
PATIENCE_SECONDS = 300.0
"""How long starting all writers, or the last append of each, may take."""

AppendRows = Callable[[pa.Table], object]


class FarAdapter(Protocol):
    """What an adapter must provide for writers in processes of their own."""

    REFUSALS: tuple[type[Exception], ...]

    def make_far_tables(self, count: int) -> None:
        """Creates tables with the numbers below `count`, with a column `id`."""
        ...

    def far_writer(self, number: int) -> AppendRows:
        """A writer with a handle of its own that appends rows to the table of that number."""
        ...

    def far_rows(self, number: int) -> int:
        """How many rows a reader finds in the table of that number."""
        ...


@dataclass(frozen=True, slots=True)
class Told:
    """What one writer has done: the seconds of each append that it began in the time that was measured.

    `in_time` of them also ended in it. `in_all` counts those that warmed it up, too.
    """

    seconds: list[float]
    in_time: int
    failures: int
    processor_seconds: float
    in_all: int
    problem: str | None = None


@dataclass
class FarWriters:
    """Processes that are started, warmed up, and wait for the signal to run."""

    adapter: str
    settings: Mapping[str, Any]
    writers: int
    tables: int
    name: str
    _processes: list[SpawnProcess] = field(default_factory=list)

    def start(self) -> None:
        """Returns when all writers are ready."""
        settings = {**self.settings, "place": f"{self.settings['place']}/{self.name}"}
        settings["url"] = f"{self.settings['url']}/{self.name}"
        self._settings = settings
        made(self.adapter, settings).make_far_tables(self.tables)
        context = mp.get_context("spawn")
        self._ready: Any = context.Barrier(self.writers + 1)
        self._told: Any = context.Queue()
        self._until: Any = context.Value("d", 0.0)
        for number in range(self.writers):
            work = (
                self.adapter,
                settings,
                number,
                number % self.tables,
                self._ready,
                self._until,
                self._told,
            )
            process = context.Process(target=_write, args=work)
            process.start()
            self._processes.append(process)
        self._wait()

    def run(self, seconds: float) -> Outcome:
        """Lets all append for that long; returns when the last one has ended its process."""
        self._until.value = time.monotonic() + seconds
        self._wait()
        told: list[Told] = [self._next() for _ in self._processes]
        for process in self._processes:
            process.join(PATIENCE_SECONDS)
        problems = [one.problem for one in told if one.problem is not None]
        if problems:
            raise RuntimeError(f"{len(problems)} of {self.writers} writers failed: {problems[0]}")
        self._refuse_loss(told)
        return _outcome(told, seconds)

    def _wait(self) -> None:
        try:
            self._ready.wait(PATIENCE_SECONDS)
        except Exception as error:
            problem = self._next().problem if not self._told.empty() else "a writer did not become ready"
            for process in self._processes:
                process.kill()
            raise RuntimeError(problem) from error

    def _next(self) -> Told:
        try:
            told: Told = self._told.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            return Told([], 0, 0, 0.0, 0, "a writer did not end")
        return told

    def _refuse_loss(self, told: list[Told]) -> None:
        """Raises unless readers find exactly the rows whose appends were reported."""
        reader = made(self.adapter, self._settings)
        found = sum(reader.far_rows(number) for number in range(self.tables))
        expected = ROWS * sum(one.in_all for one in told)
        if found != expected:
            raise AssertionError(f"readers find {found} rows, and writers were told of {expected}")


def made(adapter: str, settings: Mapping[str, Any]) -> FarAdapter:
    module, _, name = adapter.partition(":")
    side: FarAdapter = getattr(importlib.import_module(module), name)(**settings)
    return side


def _write(
    adapter: str, settings: Mapping[str, Any], writer: int, table: int, ready: Any, until: Any, told: Any
) -> None:
    """The life of a writer process."""
    try:
        side = made(adapter, settings)
        append = side.far_writer(table)
        done = 0

        def appended() -> int:
            """Appends new rows, again after each rejection; returns how many there were."""
            nonlocal done
            first = (writer * 1_000_000 + done) * ROWS
            rows = pa.table({"id": pa.array(range(first, first + ROWS), pa.int64())})
            failures = 0
            while True:
                try:
                    append(rows)
                except side.REFUSALS:
                    failures += 1
                    continue
                done += 1
                return failures

        for _ in range(WARM_UP):
            appended()
        ready.wait(PATIENCE_SECONDS)
        ready.wait(PATIENCE_SECONDS)
        samples, in_time, failures, spent = [], 0, 0, _processor_seconds()
        while (started := time.monotonic()) < until.value:
            failures += appended()
            ended = time.monotonic()
            samples.append(ended - started)
            in_time += ended <= until.value
        told.put(Told(samples, in_time, failures, _processor_seconds() - spent, done))
    except Exception as error:  # noqa: BLE001 — reported to the process that waits
        told.put(Told([], 0, 0, 0.0, 0, f"{type(error).__name__}: {error}"))
        ready.abort()


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _outcome(told: list[Told], seconds: float) -> Outcome:
    samples = sorted(sample for one in told for sample in one.seconds)
    counts = [one.in_time for one in told]
    commits = len(samples)
    quantiles = statistics.quantiles(samples, n=20, method="inclusive") if len(samples) > 1 else samples * 19
    return Outcome(
        seconds=seconds / max(1, sum(counts)),
        facts={
            "commits": commits,
            "per_second": sum(counts) / seconds,
            "most": max(counts),
            "least": min(counts),
            "p50": quantiles[9],
            "p95": quantiles[18],
            "longest": samples[-1],
            "failures": sum(one.failures for one in told),
            "processor": sum(one.processor_seconds for one in told) / commits,
        },
    )
