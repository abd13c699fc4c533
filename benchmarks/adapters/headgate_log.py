"""Only the log of Headgate: commits of one property by strategy and storage, and the limit of the disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.harness.outcome import Outcome, seconds_of

import headgate as hg
from headgate.storage.location import open_store
from headgate.storage.memory import MemoryStore
from headgate.testing.intercept import counted


class LogCommits:
    """A lake without tables; in memory, unless it has a `url` or is on the `disk`."""

    def __init__(
        self,
        place: str,
        strategy: str,
        cores: int = 2,
        disk: bool = False,
        fsync: bool = True,
        url: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        del cores
        store = MemoryStore(strategy)
        if url is not None:
            store = open_store(url, options or {})  # type: ignore[assignment]
        elif disk:
            store = open_store(Path(place) / "lake", {"fsync": str(fsync).lower()})  # type: ignore[assignment]
        counting, self._tally = counted(store)
        self._lake = hg.Lake.init(counting, strategy=strategy)

    def versions(self) -> dict[str, str]:
        return {"headgate": hg.__version__}

    def commit(self, count: int) -> Outcome:
        """One after the other, by a warm handle."""
        self._tally.reset()
        self._lake.set_properties({"counted": "x"})
        requests = ", ".join(f"{n} {kind}" for kind, n in sorted(self._tally.counts().items()))
        samples = [seconds_of(lambda: self._lake.set_properties({"n": "x"})) for _ in range(count)]
        return Outcome(samples=tuple(samples), seconds=sum(samples) / count, facts={"requests": requests})

    def commit_together(self, count: int, threads: int) -> Outcome:
        """From threads that share the handle."""
        each = max(1, count // threads)

        def work(writer: int) -> None:
            for number in range(each):
                self._lake.set_properties({f"{writer}.{number}": "x"})

        with ThreadPoolExecutor(threads) as pool:
            seconds = seconds_of(lambda: list(pool.map(work, range(threads))))
        return Outcome(seconds=seconds / (each * threads))


class DurableFiles:
    """Files written by hand: written, synced, linked to their name, and their directory synced.

    A conditional commit cannot be faster than that.
    """

    def __init__(self, place: str, cores: int = 2) -> None:
        del cores
        self._directory = Path(place)
        self._written = 0

    def versions(self) -> dict[str, str]:
        return {}

    def commit(self, count: int) -> Outcome:
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            samples = [seconds_of(lambda: self._write(descriptor)) for _ in range(count)]
        finally:
            os.close(descriptor)
        return Outcome(samples=tuple(samples), seconds=sum(samples) / count)

    def _write(self, descriptor: int) -> None:
        self._written += 1
        partial = self._directory / f"{self._written}.partial"
        with partial.open("wb") as file:
            file.write(b"x" * 470)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, self._directory / f"{self._written}.json")
        partial.unlink()
        os.fsync(descriptor)
