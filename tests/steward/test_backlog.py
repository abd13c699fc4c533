"""Work after commits that is done behind the callers: `follow_up="background"`."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.errors import InvalidInputError, StorageRefusedError
from headgate.log.layout import entry_key, entry_version
from headgate.log.lost_end import LostEndError
from headgate.model.commit_event import CommitEvent
from headgate.model.identifiers import Version
from headgate.steward.backlog import MOST_WAITING, OF_THE_PARENT
from headgate.steward.hooks.hook import Hook
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Failed, Put, Request
from headgate.testing.intercept import Proceed, intercepted

PATIENCE_SECONDS = 30.0


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


class Gate:
    """Holds back every write after a commit until it is opened, and counts them by their keys."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.refuses = False
        self.writes: Counter[str] = Counter()

    def intercept(self, request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Put | Create) and _follows_a_commit(request.key):
            assert self.opened.wait(PATIENCE_SECONDS)
            self.writes[request.key] += 1
            if self.refuses:
                return Failed(StorageRefusedError("no rights"))
        return proceed(request)


def _follows_a_commit(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name == "version-hint.text" or name.startswith("v") or entry_version(key) is not None


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    hg.Lake.init(store).create_table("a.b", "id BIGINT")
    return store


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


def opened(store: MemoryStore, gate: Gate, **options: object) -> hg.Lake:
    return hg.Lake.open(intercepted(store, gate.intercept), follow_up="background", **options)  # type: ignore[arg-type]


def entries(store: MemoryStore) -> set[int]:
    keys = store.list_page("control/txn/").keys
    return {version.number for key in keys if (version := entry_version(key)) is not None}


def hint(store: MemoryStore) -> bytes | None:
    return store.get("data/a/b/metadata/version-hint.text")


def test_a_commit_returns_before_its_table_is_published(store: MemoryStore, gate: Gate) -> None:
    result = opened(store, gate).table("a.b").append(rows(1))
    assert hg.Lake.open(store).table("a.b").read_arrow()["id"].to_pylist() == [1]
    assert (hint(store), entries(store), result.postponed) == (b"1", {1}, ())
    gate.opened.set()
    done = result.wait()
    assert (hint(store), entries(store), done) == (b"2", {1, 2}, result)
    assert done.wait() is done


def test_what_it_leaves_is_what_a_commit_leaves_that_does_it_first(store: MemoryStore, gate: Gate) -> None:
    gate.opened.set()
    lake = opened(store, gate)
    for number in range(25):
        lake.table("a.b").append(rows(number))
    assert lake.recovery_needed().entries == ()
    assert entries(store) == set(range(1, 27))
    assert hint(store) == b"26"
    assert store.get("control/checkpoint/last.json") is not None
    assert lake.metrics().commits == 25
    assert hg.fsck(store).ok


def test_a_table_is_published_once_for_all_that_wait(store: MemoryStore, gate: Gate) -> None:
    lake = opened(store, gate)
    results = [lake.table("a.b").append(rows(number)) for number in range(9)]
    gate.opened.set()
    for result in results:
        assert result.wait().postponed == ()
    # The first was under way, the others waited behind it.
    assert gate.writes["data/a/b/metadata/version-hint.text"] == 2
    assert hint(store) == b"10"
    assert entries(store) == set(range(1, 11))


def test_with_too_many_waiting_a_writer_does_the_work_itself(store: MemoryStore, gate: Gate) -> None:
    lake = opened(store, gate)
    table = lake.table("a.b")
    for number in range(MOST_WAITING):
        table.append(rows(number))
    last = threading.Thread(target=table.append, args=(rows(MOST_WAITING),))
    last.start()
    last.join(0.2)
    assert last.is_alive()
    gate.opened.set()
    last.join(PATIENCE_SECONDS)
    assert not last.is_alive()
    assert lake.recovery_needed().entries == ()


def test_what_fails_is_told_to_who_waits_and_recovered_later(store: MemoryStore, gate: Gate) -> None:
    gate.refuses = True
    gate.opened.set()
    lake = opened(store, gate)
    result = lake.table("a.b").append(rows(1))
    (problem,) = result.wait().postponed
    assert problem.startswith("publishing a.b: ") and "no rights" in problem
    assert [*lake.recovery_needed().entries] == [2]
    gate.refuses = False
    hg.Lake.open(store).recover()
    assert (hint(store), entries(store)) == (b"2", {1, 2})


def test_hooks_are_waited_for(store: MemoryStore, gate: Gate) -> None:
    class Notes:
        seen: list[int] = []  # noqa: RUF012 — one test

        def run(self, event: CommitEvent) -> None:
            self.seen.append(event.version)

        def describe(self) -> str:
            return "notes"

    gate.opened.set()
    lake = opened(store, gate, hooks=[Hook("notes", Notes())])
    result = lake.table("a.b").append(rows(1))
    assert Notes.seen == [2]
    assert entries(store) == {1, 2}
    assert result.wait() is result


def test_the_lake_says_when_and_the_handle_knows_better(store: MemoryStore, gate: Gate) -> None:
    hg.Lake.open(store).set_properties({"commit.follow-up": "background"})
    behind = hg.Lake.open(intercepted(store, gate.intercept)).table("a.b").append(rows(1))
    gate.opened.set()
    assert behind.wait() == behind
    first = hg.Lake.open(store, follow_up="inline").table("a.b").append(rows(2))
    assert first.wait() is first


@pytest.mark.parametrize("wrong", ["later", True, 0, b"inline"])
def test_other_ways_are_refused(store: MemoryStore, wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="follow_up cannot be"):
        hg.Lake.open(store, follow_up=wrong)  # type: ignore[arg-type]


def test_a_lost_end_that_is_found_behind_stops_the_next_commit(store: MemoryStore, gate: Gate) -> None:
    gate.opened.set()
    lake = opened(store, gate)
    lake.table("a.b").append(rows(1)).wait()
    # Version 3 was committed before by somebody else, and its record is lost.
    store.put("data/a/b/metadata/v3.metadata.json", b"{}")
    result = lake.table("a.b").append(rows(2))
    with pytest.raises(LostEndError, match="another one was committed as version 3 before"):
        result.wait()
    with pytest.raises(LostEndError, match="another one was committed as version 3 before"):
        lake.table("a.b").append(rows(3))
    assert hg.Lake.open(store).version == 3


def test_a_forked_child_does_not_wait_for_the_thread_of_its_parent(store: MemoryStore, gate: Gate) -> None:
    lake = opened(store, gate)
    result = lake.table("a.b").append(rows(1))
    receiver, sender = mp.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        sender.send((result.wait().postponed, lake.recovery_needed().entries))
        os._exit(0)
    assert receiver.poll(PATIENCE_SECONDS)
    postponed, missing = receiver.recv()
    os.waitpid(child, 0)
    assert postponed == (OF_THE_PARENT,)
    assert missing == (2,)
    gate.opened.set()
    assert result.wait().postponed == ()


WRITER = """
import sys, time
import pyarrow as pa
import headgate as hg
from headgate.steward import publishing
lake = hg.Lake.open(sys.argv[1], follow_up="background")
if sys.argv[2] == "stuck":
    publishing.publish.__globals__["_publish_first"] = lambda *_: time.sleep(3600)
for number in range(5):
    lake.table("a.b").append(pa.table({"id": pa.array([number], pa.int64())}))
print("done", flush=True)
"""


def writer(place: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(place), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    hg.Lake.init(tmp_path / "lake").create_table("a.b", "id BIGINT")
    return tmp_path / "lake"


def test_the_end_of_the_process_waits_for_the_work(place: Path) -> None:
    process = writer(place, "ends")
    assert process.communicate(timeout=PATIENCE_SECONDS)[0] == "done\n"
    assert process.returncode == 0
    assert all((place / entry_key(Version(number))).exists() for number in range(1, 7))
    assert (place / "data/a/b/metadata/version-hint.text").read_text() == "6"


def test_recovery_does_the_work_of_a_process_that_was_killed(place: Path) -> None:
    process = writer(place, "stuck")
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_SECONDS)
    lake = hg.Lake.open(place)
    assert lake.table("a.b").read_arrow().num_rows == 5
    assert [*lake.recovery_needed().entries] == [2, 3, 4, 5, 6]
    lake.recover()
    assert (place / "data/a/b/metadata/version-hint.text").read_text() == "6"
    assert hg.fsck(place).ok
