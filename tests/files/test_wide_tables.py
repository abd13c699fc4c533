"""Tables of thousands of columns: the work grows with the columns, not with their square."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.lake.ingest.load import IngestOptions, ingest
from headgate.storage.memory import MemoryStore

FEW, MANY = 400, 1600
MOST = 8.0
"""How many times the work may grow with four times the columns. Linear work grows four times; the work that
this notices grew twelve times and more."""


def wide(columns: int) -> pa.Table:
    values = [pa.array([1, 2, 3]), pa.array(["a", "b", "c"]), pa.array([1.5, 2.5, 3.5])]
    return pa.table({f"c{number}": values[number % 3] for number in range(columns)})


def seconds(work: Callable[[], object]) -> float:
    """The time of this thread's processor, which other processes do not lengthen much; the better of two."""

    def once() -> float:
        started = time.thread_time()
        work()
        return time.thread_time() - started

    return min(once() for _ in range(2))


def appending(columns: int) -> Callable[[], object]:
    rows = wide(columns)
    table = hg.Lake.init(MemoryStore()).create_table("a.wide", rows.schema)
    return lambda: table.append(rows)


def ingesting(columns: int, directory: Path) -> Callable[[], object]:
    rows = wide(columns)
    lines = [",".join(map(str, row.values())) for row in rows.to_pylist()]
    file = directory / f"{columns}.csv"
    file.write_text("\n".join([",".join(rows.column_names), *lines]))
    return lambda: ingest(hg.Lake.init(MemoryStore()), "a.wide", [str(file)], IngestOptions())


def changing(columns: int) -> Callable[[], object]:
    rows = wide(columns)
    table = hg.Lake.init(MemoryStore()).create_table("a.wide", rows.schema)
    table.append(rows)

    def change() -> None:
        table.update({"c1": "'x'"}, where="c0 = 2")
        table.upsert(rows, keys=["c0"])
        table.read_arrow()

    return change


@pytest.mark.parametrize("kind", ["append", "ingest", "change"])
def test_work_grows_with_the_columns(kind: str, tmp_path: Path) -> None:
    def of(columns: int) -> Callable[[], object]:
        if kind == "ingest":
            return ingesting(columns, tmp_path)
        return appending(columns) if kind == "append" else changing(columns)

    of(10)()  # what is loaded and compiled once
    few, many = seconds(of(FEW)), seconds(of(MANY))
    assert many < MOST * few, f"{FEW} columns took {few:.2f} s, {MANY} took {many:.2f} s"
