"""Counts the files that an operation passes through: `python -m scripts.trace [append] [compaction]`.

For each operation, prints how many functions of the package it calls, how many files they are in, and how
often a reader who follows them in the order of their first call changes folders. If you name an operation, it
also lists the functions. All threads count. Code that runs when a module is imported does not.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa

import headgate as hg

PACKAGE = Path(hg.__file__).parent
ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "day": ["a", "b"] * 5})
COLUMNS = "id BIGINT, day STRING"


@dataclass(slots=True)
class Trace:
    """The functions of the package that were called, in the order of their first call."""

    seen: dict[CodeType, None] = field(default_factory=dict)

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and _is_function(code):
            self.seen.setdefault(code)

    @property
    def functions(self) -> list[tuple[str, str]]:
        """The file and the name of each function."""
        return [(str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname) for code in self.seen]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(file for file, _ in self.functions))

    @property
    def changes_of_folder(self) -> int:
        folders = [str(Path(file).parent) for file, _ in self.functions]
        return sum(one != other for one, other in itertools.pairwise(folders))


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & 0x2) and code.co_name != "<module>"  # 2: has local variables of its own


def trace(work: Callable[[], object]) -> Trace:
    """Runs `work` and returns the functions that it called."""
    found = Trace()
    threading.setprofile(found.note)
    sys.setprofile(found.note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def trace_append() -> Trace:
    """An append of an Arrow table with a handle that has done one before."""
    with tempfile.TemporaryDirectory() as folder:
        table = hg.Lake.init(Path(folder) / "lake").create_table("shop.orders", COLUMNS, partition_by=["day"])
        table.append(ROWS)
        return trace(lambda: table.append(ROWS))


def trace_compaction() -> Trace:
    """A compaction, in this process, of a table with small files in one window."""
    with tempfile.TemporaryDirectory() as folder:
        lake = hg.Lake.init(Path(folder) / "lake", divisor=4)
        table = lake.create_table("shop.orders", COLUMNS, partition_by=["day"])
        for _ in range(7):
            table.append(ROWS)
        return trace(lake.compact)


WORK: dict[str, Callable[[], Trace]] = {"append": trace_append, "compaction": trace_compaction}


def main() -> None:
    wanted = sys.argv[1:]
    print(f"{'operation':<12}{'functions':>10}{'files':>7}{'folder changes':>19}")
    traces = {name: run() for name, run in WORK.items()}
    for name, found in traces.items():
        print(f"{name:<12}{len(found.functions):>10}{len(found.files):>7}{found.changes_of_folder:>19}")
    for name in wanted:
        print(f"\n{name}:")
        for file, function in traces[name].functions:
            print(f"  {file:<44} {function}")


if __name__ == "__main__":
    main()
