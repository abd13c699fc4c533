"""Spark drivers that are killed at random moments, Python and JVM alike; then the lake is recovered."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import headgate as hg
from tests.spark.killed_driver import noting
from tests.steward.test_crash_sweep import require_whole

AT_ONCE = 2


@dataclass
class Driver:
    """A process group of its own: the driver and its JVM."""

    number: int
    process: subprocess.Popen[str]
    begun: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def follow(self, steps: int) -> None:
        """Reads what it says until it has begun so many steps."""
        assert self.process.stdout is not None
        while len(self.begun) < steps:
            line = self.process.stdout.readline()
            assert line, self.process.returncode
            self._note(line)

    def kill(self) -> None:
        """Ends all of it at once, and reads what it had still said."""
        os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._note(line)
        self.process.stdout.close()
        self.process.wait()

    def _note(self, line: str) -> None:
        match line.split():
            case ["begin", key]:
                self.begun.append(int(key))
            case ["done", key]:
                self.done.append(int(key))


@contextmanager
def drivers(place: Path, numbers: range) -> Iterator[list[Driver]]:
    command = [sys.executable, "-m", "tests.spark.killed_driver", str(place)]
    started = [
        Driver(
            number,
            subprocess.Popen(
                [*command, str(number)], stdout=subprocess.PIPE, text=True, start_new_session=True
            ),
        )
        for number in numbers
    ]
    try:
        yield started
    finally:
        for driver in started:
            if driver.process.poll() is None:
                driver.kill()


def require_exact(lake: hg.Lake, all_drivers: list[Driver]) -> None:
    """What was told to be done is there, once; what was begun is there as a whole or not at all."""
    rows = lake.table("sales.orders").read_arrow().to_pylist()
    states = {row["id"]: row["state"] for row in rows}
    assert len(states) == len(rows)
    counts = lake.table("sales.counts").read_arrow().column("id").to_pylist()
    assert len(set(counts)) == len(counts)
    done = {key for driver in all_drivers for key in driver.done}
    begun = {key for driver in all_drivers for key in driver.begun}
    assert done <= set(states) <= begun
    # Both tables of a transaction; a merge that came without it would have inserted into one.
    assert set(counts) == set(states)
    assert all(states[key] == "seen" for key in done)


def killed(tmp_path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    place = tmp_path / "lake"
    lake = hg.Lake.init(place, divisor=4)
    lake.create_table("sales.orders", "id BIGINT, driver INT, state STRING")
    lake.create_table("sales.counts", "id BIGINT")
    ended: list[Driver] = []
    for first in range(0, kills, AT_ONCE):
        with drivers(place, range(first, min(first + AT_ONCE, kills))) as running:
            for driver in running:
                # Somewhere in a later step: nothing but chance tells where it is when the signal comes.
                driver.follow(chance.randint(1, 3))
            for driver in running:
                driver.follow(len(driver.begun) + chance.randint(0, 1))
                driver.kill()
        ended += running
        recovering = hg.Lake.open(place, hooks=[noting(str(place))])
        recovering.recover()
        require_whole(recovering)
        require_exact(recovering, ended)
        assert recovering.fsck().damage == ()
        assert recovering.open_hooks() == ()
    told = set((tmp_path / "events.txt").read_text().split())
    due = {f"{lake.id}-{entry.version}" for entry in lake.log() if entry.record.get("hooks")}
    assert due <= told
    assert all(driver.process.returncode == -signal.SIGKILL for driver in ended)


@pytest.mark.slow
def test_drivers_that_are_killed(tmp_path: Path) -> None:
    killed(tmp_path, kills=4, seed=1)


@pytest.mark.slow
@pytest.mark.places
@pytest.mark.timeout(3600)
def test_fifty_drivers_that_are_killed(tmp_path: Path) -> None:
    killed(tmp_path, kills=50, seed=2)
