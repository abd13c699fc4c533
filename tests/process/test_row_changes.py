"""Sixteen processes that change rows of the same files, or one row: nothing is lost, nobody is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.lake.table import Table
from tests.process.row_changes import WRITERS
from tests.process.writers import Progress, WriterProcess, check_log

PROGRAM = str(Path(__file__).parent / "row_changes.py")


def shared_rows(place: Path, count: int, mode: str = "merge-on-read") -> Table:
    """Rows 0, 1, … in three files."""
    lake = hg.Lake.init(place)
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update")}
    table = lake.create_table("shared.rows", "id BIGINT, n BIGINT", properties=properties)
    for part in range(3):
        ids = range(part, count, 3)
        table.append(pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([0] * len(ids), pa.int64())}))
    return table


def run(which: str, place: Path, commits: int) -> list[WriterProcess]:
    progress = Progress()
    writers = [
        WriterProcess(str(place), f"writer-{number}", commits, progress, program=(PROGRAM, which))
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.go()
    for writer in writers:
        assert writer.finish() == 0, writer.errors
        assert len(writer.told) == commits
    return writers


def content(table: Table) -> dict[int, int]:
    found = table.read_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["n"] for row in found}


@pytest.mark.slow
def test_different_rows_of_the_same_files(tmp_path: Path) -> None:
    commits = 4
    count = WRITERS * (commits + 1)
    table = shared_rows(tmp_path, count)
    writers = run("own", tmp_path, commits)
    # Even rounds were updated, odd ones deleted, and the last one nobody touched.
    rounds = {number: number // WRITERS for number in range(count)}
    expected = {
        number: int(turn < commits) for number, turn in rounds.items() if turn == commits or turn % 2 == 0
    }
    assert content(table) == expected
    check_log(hg.Lake.open(tmp_path), writers, before=4)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_one_row(tmp_path: Path, mode: str) -> None:
    commits = 3
    table = shared_rows(tmp_path, 9, mode)
    writers = run("same", tmp_path, commits)
    assert content(table) == {0: WRITERS * commits, **dict.fromkeys(range(1, 9), 0)}
    lake = hg.Lake.open(tmp_path)
    check_log(lake, writers, before=4)
    # Each version is one increment of what the version before left.
    for version in range(4, lake.version + 1):
        assert table.read_arrow(where="id = 0", version=version)["n"].to_pylist() == [version - 4]
