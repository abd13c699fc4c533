"""Real processes on one lake: some are killed, some are stopped, and nothing is lost or doubled."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

import headgate as hg
from headgate.lake.table import Table
from tests.process.writers import Progress, WriterProcess, check_log
from tests.servers.s3 import s3_server
from tests.servers.s3_gate import Behaviour

WRITERS = 8
COMMITS = 50


def kill_after(count: int, writer: WriterProcess, acknowledged: int) -> None:
    if acknowledged == count:
        writer.send(signal.SIGKILL)


class Nap:
    """Stops a writer after some commits, unless it is too late: once woken, it is not stopped again."""

    def __init__(self, writer: WriterProcess, after: int) -> None:
        self._writer = writer
        self._after = after
        self._woken = False
        self._lock = threading.Lock()
        writer.on_commit = self._on_commit

    def _on_commit(self, writer: WriterProcess, count: int) -> None:
        with self._lock:
            if count == self._after and not self._woken:
                writer.send(signal.SIGSTOP)

    def wake(self) -> None:
        with self._lock:
            self._woken = True
            self._writer.send(signal.SIGCONT)


def run_writers(place: str, options: Mapping[str, str] | None = None) -> list[WriterProcess]:
    """Eight writers: two are killed with SIGKILL, two are stopped until the others have moved on."""
    progress = Progress()
    writers = [
        WriterProcess(place, f"writer-{number}", COMMITS, progress, options or {})
        for number in range(WRITERS)
    ]
    writers[0].on_commit = partial(kill_after, 7)
    writers[1].on_commit = partial(kill_after, 23)
    naps = [Nap(writer, after=10) for writer in writers[2:4]]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.go()
    # Whoever is asleep by then has missed many versions, and holds on to what it had prepared.
    progress.wait_for(WRITERS * COMMITS // 3)
    for nap in naps:
        nap.wake()
    for writer in writers:
        writer.finish()
    return writers


def check_ends(writers: list[WriterProcess]) -> None:
    for writer in writers[:2]:
        assert writer.process.returncode == -signal.SIGKILL
    for writer in writers[2:]:
        assert writer.process.returncode == 0, writer.errors
        assert len(writer.told) == COMMITS


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["conditional", "rename", "filetracker"])
def test_killed_and_stopped_writers_on_a_directory(tmp_path: Path, strategy: str) -> None:
    hg.Lake.init(tmp_path, strategy=strategy)
    writers = run_writers(str(tmp_path))
    check_ends(writers)
    lake = hg.Lake.open(tmp_path)
    check_log(lake, writers)
    assert lake.set_properties({"after": "all"}).version == len(lake.log())


@pytest.mark.slow
def test_every_version_has_both_tables_or_none(tmp_path: Path) -> None:
    """Eight processes with twenty two-table transactions each; four are killed at different moments."""
    lake = hg.Lake.init(tmp_path)
    for name in ("both.one", "both.two"):
        lake.create_table(name, "id STRING")
    program = (str(Path(__file__).parent / "two_tables.py"),)
    progress = Progress()
    writers = [
        WriterProcess(str(tmp_path), f"writer-{number}", 20, progress, program=program) for number in range(8)
    ]
    for number, writer in enumerate(writers[:4]):
        writer.on_commit = partial(kill_after, 3 + 4 * number)
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.go()
    for writer in writers:
        writer.finish()
    check_log(lake, writers, before=2)
    one, two = lake.table("both.one"), lake.table("both.two")
    for version in range(2, lake.version + 1, 9):
        assert rows_of(one, version) == rows_of(two, version)
        assert len(rows_of(one, version)) == version - 2
    told = {f"{writer.name}.{number}" for writer in writers for number in range(len(writer.told))}
    assert told <= set(rows_of(one, lake.version))


def rows_of(table: Table, version: int) -> list[str]:
    return sorted(table.read_arrow(version=version).column("id").to_pylist())


@pytest.mark.slow
def test_killed_and_stopped_writers_on_object_storage() -> None:
    with s3_server() as server:
        lake = hg.Lake.init(server.url("lake"), options=server.options)
        assert lake.strategy == "conditional"
        writers = run_writers(server.url("lake"), server.options)
        check_ends(writers)
        check_log(lake, writers)


@pytest.mark.slow
def test_a_service_that_ignores_preconditions_gets_filetracker_and_loses_nothing() -> None:
    with s3_server() as server, server.behaving(Behaviour(ignore_if_none_match=True)):
        lake = hg.Lake.init(server.url("lake"), options=server.options)
        assert lake.strategy == "filetracker"
        with pytest.raises(hg.UnsupportedError, match="creating an existing object fails"):
            hg.Lake.init(server.url("other"), options=server.options, strategy="conditional")
        writers = run_writers(server.url("lake"), server.options)
        check_ends(writers)
        check_log(lake, writers)
