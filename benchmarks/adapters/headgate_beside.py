"""Headgate with many writers while compactors run, each a process: how much ingestion slows down."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness.outcome import Outcome
from tests.process.ingesting import COLUMNS, TABLE, left_by

import headgate as hg


class HeadgateBeside:
    """Lakes on a local disk, one for each run. Writers append, delete, update and upsert."""

    def __init__(self, place: str, cores: int = 2) -> None:  # noqa: ARG002 - as all systems are made
        self._place = Path(place)

    def versions(self) -> dict[str, str]:
        return {"headgate": hg.__version__}

    def ingest(self, writers: int, commits: int, compactors: int, number: int) -> Outcome:
        """Runs until the last writer has finished. Every row must be as its writer left it."""
        where = self._place / f"beside-{compactors}-{number}"
        lake = hg.Lake.init(where)
        lake.create_table(TABLE, COLUMNS, partition_by=["part"])
        with (
            _started("ingesting", where, writers, commits) as ingesting,
            _started("compacting", where, compactors, 0) as compacting,
        ):
            for process in (*ingesting, *compacting):
                _tell(process, "go")
            began = time.perf_counter()
            # A writer that gets a conflict error ends.
            failures = sum(_ended(process) != 0 for process in ingesting)
            seconds = time.perf_counter() - began
            for process in compacting:
                _tell(process, "stop")
            failures += sum(_ended(process) != 0 for process in compacting)
        rows = lake.table(TABLE).read_arrow()
        found = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
        expected = {key: n for own in range(writers) for key, n in left_by(own, commits).items()}
        compactions = len(lake.log(kind="compact"))
        return Outcome(
            {"exact": found == expected and len(found) == rows.num_rows, "failures": failures},
            seconds=seconds,
            facts={"compactions": compactions, "files": len(lake.table(TABLE).files())},
        )


@contextmanager
def _started(program: str, lake: Path, count: int, commits: int) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, "-m", f"tests.process.{program}", str(lake)]
    processes = [
        subprocess.Popen(
            [*command, f"{program}-{number}", str(commits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _ended(process: subprocess.Popen[str]) -> int:
    """Reads all output, so that the process never waits for a reader, and waits for its end."""
    assert process.stdout is not None
    for _ in process.stdout:
        pass
    return process.wait()
