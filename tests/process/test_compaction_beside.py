"""Compactors beside writers: nobody who ingests is refused because of them, and no row is lost or doubled.

`HEADGATE_SOAK_COMMITS=300 pytest tests/process/test_compaction_beside.py` lets it go on for long.
"""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest

import headgate as hg
from tests.process.ingesting import COLUMNS, TABLE, left_by
from tests.process.writers import Progress, WriterProcess

WRITERS = 8
COMMITS = int(os.environ.get("HEADGATE_SOAK_COMMITS", "10"))
DEADLINE_SECONDS = 240.0 + 4.0 * COMMITS
"""However long it is to go on, a writer that hangs is found."""


def make_lake(place: Path) -> hg.Lake:
    # Small windows, so that a short run meets many of them.
    lake = hg.Lake.init(place, divisor=4)
    lake.create_table(TABLE, COLUMNS, partition_by=["part"])
    return lake


def started(place: Path, program: str, count: int, progress: Progress) -> list[WriterProcess]:
    module = ("-m", f"tests.process.{program}")
    processes = [
        WriterProcess(str(place), f"{program}-{n}", COMMITS, progress, program=module) for n in range(count)
    ]
    for process in processes:
        process.start()
    return processes


def stop(compactors: list[WriterProcess]) -> None:
    for compactor in compactors:
        assert compactor.process.stdin is not None
        compactor.process.stdin.write("stop\n")
        compactor.process.stdin.flush()


def check_rows(lake: hg.Lake) -> None:
    rows = lake.table(TABLE).read_arrow()
    found = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
    assert rows.num_rows == len(found) == len(pc.unique(rows["id"]))
    assert found == {key: n for own in range(WRITERS) for key, n in left_by(own, COMMITS).items()}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_compactors_beside_eight_writers(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    writers = started(tmp_path, "ingesting", WRITERS, Progress())
    compactors = started(tmp_path, "compacting", 2, Progress())
    for process in (*writers, *compactors):
        process.go()
    for writer in writers:
        # A conflict that its caller sees ends a writer.
        assert writer.finish(DEADLINE_SECONDS) == 0, writer.errors
        assert len(writer.told) == COMMITS
    stop(compactors)
    for compactor in compactors:
        assert compactor.finish() == 0, compactor.errors
    assert any(compactor.told for compactor in compactors), "nothing was compacted"
    check_rows(lake)
    lake.compact(patience=timedelta(0))
    check_rows(lake)
    assert not any(table.due for table in lake.compaction_outlook())
    assert lake.fsck(deep=True).ok


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_compactor_that_is_killed_leaves_its_work_to_others(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    writers = started(tmp_path, "ingesting", WRITERS, Progress())
    progress = Progress()
    killed = started(tmp_path, "compacting", 2, progress)
    for process in (*writers, *killed):
        process.go()
    progress.wait_for(1)
    for compactor in killed:
        compactor.send(signal.SIGKILL)
    for writer in writers:
        assert writer.finish(DEADLINE_SECONDS) == 0, writer.errors
    for compactor in killed:
        assert compactor.finish() == -signal.SIGKILL
    check_rows(lake)
    lake.compact(patience=timedelta(0))
    check_rows(lake)
    lake.recover()
    assert lake.fsck(deep=True).ok
