"""One lake in several hands: threads, forked children, and the last ones of a process that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.storage.memory import MemoryStore
from headgate.system.host import SystemHost
from headgate.testing.inspector import Inspector

STRATEGIES = ("conditional", "rename", "filetracker")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_transaction_that_is_open_during_a_fork_is_committed_once(tmp_path: Path, strategy: str) -> None:
    script = Path(__file__).parent / "forked_transaction.py"
    for attempt in range(5):
        place = tmp_path / str(attempt)
        hg.Lake.init(place, strategy=strategy)
        result = subprocess.run([sys.executable, script, place], capture_output=True, text=True, check=True)
        told = {tuple(line.split()) for line in result.stdout.splitlines()}
        ((version, txid),) = told
        lake = hg.Lake.open(place)
        assert [(str(entry.version), entry.txid) for entry in lake.log()] == [(version, txid)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_child_forked_during_a_commit_can_commit(tmp_path: Path, strategy: str) -> None:
    hg.Lake.init(tmp_path, strategy=strategy).create_table("forked.rows", "id BIGINT")
    script = Path(__file__).parent / "forked_commit.py"
    result = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    # Both processes had the transaction, and both are told of the one commit that there is.
    ((version, txid),) = {tuple(line.split()) for line in result.stdout.splitlines()}
    lake = hg.Lake.open(tmp_path)
    assert [str(entry.version) for entry in lake.log() if entry.txid == txid] == [version]
    assert dict(lake.properties) == {"child": "1", "parent": "1"}
    assert sorted(lake.table("forked.rows").read_arrow()["id"].to_pylist()) == [0, 1]


def test_locks_that_are_taken_during_a_fork_are_free_in_the_child(tmp_path: Path) -> None:
    """For locks that are held too shortly for another thread to be stopped while it has them."""
    lake = hg.Lake.init(tmp_path)
    lake.create_table("forked.rows", "id BIGINT")
    loader = Inspector(lake).loader()
    with (
        Inspector(lake).handle.announcements._lock,
        Inspector(lake).handle.log._memory.lock,
        loader._metadata._lock,
        loader._lists._lock,
        loader._entries._lock,
    ):
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                lake.table("forked.rows").append(pa.table({"id": [1]}))
                os._exit(0)
            finally:
                os._exit(1)  # the rest of the tests is the parent's
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert lake.table("forked.rows").read_arrow()["id"].to_pylist() == [1]


def test_commits_after_the_main_thread_has_ended(tmp_path: Path) -> None:
    hg.Lake.init(tmp_path, strategy="filetracker")  # its requests are sent by several threads
    script = Path(__file__).parent / "late_commit.py"
    result = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.stdout.splitlines() == ["thread 1", "exit 2"], result.stderr
    assert result.returncode == 0


def test_a_system_that_starts_no_threads_is_slower_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python does at the end of a process from 3.12 on, and a system at the limit of its threads."""

    def refuse_to_start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    host = SystemHost()
    lake = hg.Lake.init(MemoryStore(), strategy="filetracker", host=host)
    monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
    monkeypatch.setattr(host, "_workers", type(host._workers)())
    assert lake.set_properties({"a": "1"}).version == 1
    with pytest.raises(ZeroDivisionError):
        host.together([lambda: 1, lambda: 1 // 0])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_threads_that_commit_one_transaction_get_one_result(strategy: str) -> None:
    lake = hg.Lake.init(MemoryStore(), strategy=strategy)
    tx = lake.transaction()
    tx.set_properties({"a": "1"})
    with ThreadPoolExecutor(4) as pool:
        results = set(pool.map(lambda _: tx.commit(), range(4)))
    assert results == {tx.result}
    assert lake.version == 1
