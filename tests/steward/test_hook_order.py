"""Hooks of different versions: in the order of versions, one at a time for each hook of a lake."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.hooks import CommitEvent, Hook, Python
from headgate.log.layout import entry_key, outbox_key
from headgate.model.identifiers import Version
from headgate.storage.memory import MemoryStore
from headgate.system.host import SystemHost
from tests.steward import ordering_process

ONCE = hg.RetryPolicy(attempts=1)
SHORT = timedelta(milliseconds=20)


class Clock(SystemHost):
    """A host whose time passes only by waiting, so that waiting for another process costs no time here."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def elapsed(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def hook(name: str, function: Callable[[CommitEvent], object], **settings: Any) -> Hook:
    return Hook(name, Python(function), **{"retry": ONCE, **settings})


def noted(versions: list[int]) -> Callable[[CommitEvent], None]:
    return lambda event: versions.append(event.version)


def in_threads(*work: Callable[[], object]) -> None:
    failures: list[BaseException] = []

    def guarded(each: Callable[[], object]) -> None:
        try:
            each()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def states(lake: hg.Lake, version: int) -> dict[str, str]:
    entry = lake.control(version)
    assert entry is not None
    return {run.name: run.state.value for run in entry.hooks}


def die_after_commit(store: MemoryStore, *names: str) -> int:
    """A version whose writer asked for hooks and died before it wrote its receipt."""
    lake = hg.Lake.open(store, hooks=[hook(name, lambda event: None) for name in names])
    version = lake.set_properties({"died": "yes"}).version
    store.delete(entry_key(Version(version)))
    return version


def test_a_hook_does_not_begin_before_it_has_ended_for_the_version_before(tmp_path: Path) -> None:
    first_begun, second_begun = threading.Event(), threading.Event()
    overlaps: list[int] = []
    ended: list[int] = []

    def slow(event: CommitEvent) -> None:
        if event.version == 1:
            first_begun.set()
            if second_begun.wait(1):  # must not happen: given a second to do so
                overlaps.append(event.version)
        else:
            second_begun.set()
        ended.append(event.version)

    lake = hg.Lake.init(tmp_path / "lake", hooks=[hook("slow", slow)])

    def second() -> None:
        assert first_begun.wait(30)
        # Another handle of the same process: what is shared belongs to the lake.
        other = hg.Lake.open(tmp_path / "lake", hooks=[hook("slow", slow)])
        assert other.set_properties({"b": "2"}).hook_failures == ()

    in_threads(lambda: lake.set_properties({"a": "1"}), second)
    assert overlaps == [] and ended == [1, 2]


def test_events_of_many_threads_are_in_the_order_of_versions(tmp_path: Path) -> None:
    path = tmp_path / "events"
    lake = hg.Lake.init(tmp_path / "lake", hooks=[ordering_process.noting(str(path))])

    def commits(name: str) -> None:
        for number in range(3):
            assert lake.set_properties({name: str(number)}).hook_failures == ()

    in_threads(*(lambda name=name: commits(name) for name in "abc"))
    assert path.read_text().split("\n")[:-1] == in_turn(9)


def in_turn(last: int) -> list[str]:
    return [f"{what} {version}" for version in range(1, last + 1) for what in ("begin", "end")]


def test_events_of_many_processes_are_in_the_order_of_versions(tmp_path: Path) -> None:
    path = tmp_path / "events"
    hg.Lake.init(tmp_path / "lake")
    arguments = [sys.executable, ordering_process.__file__, str(tmp_path / "lake"), str(path), "4"]
    processes = [subprocess.Popen(arguments) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert path.read_text().split("\n")[:-1] == in_turn(12)


def test_a_concurrent_hook_waits_for_nobody(tmp_path: Path) -> None:
    begun = threading.Barrier(2)
    hooks = [hook("both", lambda event: begun.wait(30), concurrent=True)]
    lake = hg.Lake.init(tmp_path / "lake", hooks=hooks)

    def commit(name: str) -> None:
        assert lake.set_properties({name: "x"}).hook_failures == ()

    # Each waits inside of its hook until the other is there, too.
    in_threads(lambda: commit("a"), lambda: commit("b"))


def test_a_version_whose_writer_died_holds_up_later_ones_for_a_time_and_recovery_runs_them_in_order(
    store: MemoryStore,
) -> None:
    died = die_after_commit(store, "note")
    clock, versions = Clock(), list[int]()
    lake = hg.Lake.open(store, hooks=[hook("note", noted(versions))], host=clock)
    result = lake.set_properties({"n": "2"})
    assert result.hook_failures == (
        f"note: waits for version {died}, whose writer is still running or died: run headgate recover",
    )
    assert clock.seconds == pytest.approx(30)
    assert versions == [] and states(lake, 2) == {"note": "pending"}
    # The next one need not wait: nobody is at work on what is recorded as pending.
    assert lake.set_properties({"n": "3"}).hook_failures == ("note: waits for version 2",)
    assert clock.seconds == pytest.approx(30)
    report = lake.recover()
    assert versions == [1, 2, 3]
    assert (report.hooks_done, report.hooks_open) == (("1: note", "2: note", "3: note"), ())
    assert lake.set_properties({"n": "4"}).hook_failures == () and versions == [1, 2, 3, 4]


def test_how_long_a_hook_waits_is_its_own_setting(store: MemoryStore) -> None:
    die_after_commit(store, "note", "other")
    clock = Clock()
    hooks = [
        hook("note", lambda event: None, wait=timedelta(seconds=7)),
        hook("other", lambda event: None, wait=timedelta(seconds=5)),
        hook("new", lambda event: None),
    ]
    lake = hg.Lake.open(store, hooks=hooks, host=clock)
    lake.set_properties({"n": "2"})
    # From the same beginning: hooks of one version do not add up their waits.
    assert clock.seconds == pytest.approx(7)
    assert states(lake, 2) == {"note": "pending", "other": "pending", "new": "done"}


def test_a_predecessor_that_did_not_ask_for_the_hook_is_not_waited_for(store: MemoryStore) -> None:
    die_after_commit(store, "other")
    clock, versions = Clock(), list[int]()
    lake = hg.Lake.open(store, hooks=[hook("note", noted(versions))], host=clock)
    assert lake.set_properties({"n": "2"}).hook_failures == ()
    assert versions == [2] and clock.seconds == 0


def test_a_hook_that_failed_for_good_does_not_hold_up_later_versions(store: MemoryStore) -> None:
    versions: list[int] = []

    def failing_first(event: CommitEvent) -> None:
        if event.version == 1:
            raise OSError("not today")
        versions.append(event.version)

    hooks = [hook("note", failing_first), hook("then", noted(versions), after=["note"])]
    lake = hg.Lake.open(store, hooks=hooks)
    lake.set_properties({"n": "1"})
    assert states(lake, 1) == {"note": "failed", "then": "pending"}
    other = hg.Lake.open(store, hooks=hooks)
    assert other.set_properties({"n": "2"}).hook_failures == ()
    assert versions == [2, 2]


def test_a_hook_that_commits_does_not_wait_for_itself(store: MemoryStore) -> None:
    versions: list[int] = []
    clock = Clock()

    def commit(event: CommitEvent) -> None:
        lake.set_properties({"of": str(event.version)})

    lake = hg.Lake.open(store, hooks=[hook("commit", commit), hook("note", noted(versions))], host=clock)
    assert lake.set_properties({"n": "1"}).hook_failures == ()
    # The inner commit leaves its hook to the outer one, which runs it after its own.
    assert versions == [1, 2] and clock.seconds == 0 and lake.open_hooks() == ()


def test_who_ends_late_runs_what_gave_up_waiting_for_it(store: MemoryStore) -> None:
    """No recovery is needed where nobody died."""
    versions: list[int] = []

    def slow(event: CommitEvent) -> None:
        if event.version == 1:
            other = hg.Lake.open(store, hooks=[hook("slow", noted(versions), wait=SHORT)])
            in_threads(lambda: others.append(other.set_properties({"n": "2"})))
        versions.append(event.version)

    others: list[hg.CommitResult] = []
    lake = hg.Lake.open(store, hooks=[hook("slow", slow)])
    assert lake.set_properties({"n": "1"}).hook_failures == ()
    assert len(others[0].hook_failures) == 1
    assert versions == [1, 2] and lake.open_hooks() == ()
    assert store.get(outbox_key(Version(2))) is None


def test_writers_at_a_boundary_run_what_was_abandoned(store: MemoryStore) -> None:
    """Once its entry was made up for: nobody has to call recover, though it takes longer without."""
    die_after_commit(store, "note")
    versions: list[int] = []
    aged = Aged()
    lake = hg.Lake.open(store, hooks=[hook("note", noted(versions), wait=timedelta(0))], host=aged)
    for number in range(2, 9):
        lake.set_properties({"n": str(number)})
    assert versions == [1, 2, 3, 4, 5, 6, 7, 8] and lake.open_hooks() == ()


class Aged(SystemHost):
    """A host whose clock is an hour ahead: what others committed is old."""

    def now(self) -> Any:
        return super().now() + timedelta(hours=1)


def requests_of_a_warm_commit(*hooks: Hook) -> Counter[str]:
    lake = hg.Lake.init(MemoryStore(), strategy="conditional", hooks=hooks)
    lake.set_properties({"n": "1"})
    before = Counter(lake.metrics().requests)
    lake.set_properties({"n": "2"})
    return Counter(lake.metrics().requests) - before


def test_a_warm_commit_costs_one_read_more_with_hooks_in_order_and_nothing_without() -> None:
    plain = requests_of_a_warm_commit()
    assert requests_of_a_warm_commit(hook("a", noted([])), hook("b", noted([]))) - plain == Counter(get=1)
    assert requests_of_a_warm_commit(hook("a", noted([]), concurrent=True)) == plain


def test_recovery_beside_a_writer_of_the_same_process_does_not_run_what_it_runs(tmp_path: Path) -> None:
    versions: list[int] = []

    def slow(event: CommitEvent) -> None:
        versions.append(event.version)
        in_threads(lambda: hg.Lake.open(lake.place, hooks=[hook("slow", noted(versions))]).recover())

    lake = hg.Lake.init(tmp_path / "lake", hooks=[hook("slow", slow)])
    assert lake.set_properties({"n": "1"}).hook_failures == ()
    assert versions == [1] and states(lake, 1) == {"slow": "done"}


def test_a_hook_that_recovers_does_not_run_itself(store: MemoryStore) -> None:
    versions: list[int] = []

    def recovering(event: CommitEvent) -> None:
        versions.append(event.version)
        hg.Lake.open(store, hooks=[hook("heal", recovering)]).recover()

    lake = hg.Lake.open(store, hooks=[hook("heal", recovering, concurrent=True)])
    assert lake.set_properties({"n": "1"}).hook_failures == () and versions == [1]


@pytest.mark.parametrize("given", [{"concurrent": 1}, {"wait": 5}, {"wait": timedelta(seconds=-1)}])
def test_settings_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(hg.InvalidInputError, match="hook a: "):
        hook("a", noted([]), **given)
