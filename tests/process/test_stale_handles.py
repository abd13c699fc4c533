"""Processes that hold their handles while others commit: what they do acts on the newest rows.

One process acts at a time, so there is one right answer: that of a list of rows. When a process last looked
at the lake plays no part.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from tests.examples import seed_of_tonight
from tests.process import stale_handle

pytestmark = pytest.mark.slow

PROCESSES, STEPS = 3, 60
Pair = tuple[int, int]


class Handle:
    """A process with a handle on the lake."""

    def __init__(self, place: Path) -> None:
        command = [sys.executable, "-m", "tests.process.stale_handle", str(place)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, operation: Sequence[Any]) -> int | None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(operation) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the process ended at {operation}"
        version: int | None = json.loads(answer)
        return version


@contextmanager
def handles(place: Path) -> Iterator[list[Handle]]:
    started = [Handle(place) for _ in range(PROCESSES)]
    try:
        yield started
    finally:
        for handle in started:
            handle.process.communicate(timeout=60)  # closes its input, on which it ends


class Model:
    """The rows, and the newest batch."""

    def __init__(self) -> None:
        self.rows: list[Pair] = []
        self.batch = 0

    def apply(self, name: str, *given: Any) -> None:
        getattr(self, name)(*given)

    def append(self, pairs: list[Pair]) -> None:
        self.rows += pairs

    def overwrite(self, pairs: list[Pair]) -> None:
        self.rows = list(pairs)

    create_again = overwrite

    def overwrite_where(self, low: int, pairs: list[Pair]) -> None:
        self.rows = [row for row in self.rows if row[0] < low] + pairs

    def delete(self, low: int) -> None:
        self.rows = [row for row in self.rows if row[0] < low]

    def update(self, low: int) -> None:
        self.rows = [(one, n + (one >= low)) for one, n in self.rows]

    def upsert(self, pairs: list[Pair]) -> None:
        new = dict(pairs)
        self.rows = [(one, new.pop(one, n)) for one, n in self.rows] + list(new.items())

    def append_count(self) -> None:
        self.rows.append((1000, len(self.rows)))

    def batch_(self, number: int, below: int) -> None:
        if number > self.batch:
            self.batch = number
            self.rows = [row for row in self.rows if row[0] >= below]


def chosen(dice: random.Random, model: Model) -> list[Any]:
    """An operation that can be done now."""
    ids = dice.sample(range(20), dice.randint(1, 4))
    pairs = [[one, dice.randint(0, 9)] for one in ids]
    low = dice.randint(0, 20)
    once = len({one for one, _ in model.rows}) == len(model.rows)  # an upsert wants each key once
    return dice.choice(
        [
            ["append", pairs],
            ["overwrite", pairs],
            ["overwrite_where", 10, [[10 + one % 10, n] for one, n in pairs]],
            ["delete", low],
            ["update", low],
            *([["upsert", pairs]] if once else []),
            ["append_count"],
            ["create_again", pairs],
            ["batch", dice.randint(1, 12), low],
        ]
    )


@pytest.mark.parametrize("strategy", ["conditional", "filetracker"])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 8))]
)
def test_operations_on_stale_handles_act_on_the_newest_rows(tmp_path: Path, seed: int, strategy: str) -> None:
    dice, model = random.Random(seed_of_tonight(seed)), Model()
    lake = hg.Lake.init(tmp_path / "lake", strategy=strategy)
    lake.create_table(stale_handle.TABLE, stale_handle.COLUMNS)
    done = []
    with handles(tmp_path / "lake") as processes:
        for _ in range(STEPS):
            who, operation = dice.randrange(PROCESSES), chosen(dice, model)
            done.append((who, operation, processes[who].ask(operation)))
            name, *given = operation
            model.apply("batch_" if name == "batch" else name, *given)
            found = hg.Lake.open(tmp_path / "lake").table(stale_handle.TABLE).read_arrow()
            rows = sorted(zip(*found.select(["id", "n"]).to_pydict().values(), strict=True))
            assert rows == sorted(map(tuple, model.rows)), done[-6:]
    versions = [version for _, _, version in done if version is not None]
    assert versions == sorted(set(versions)), "each commit is a later version"
