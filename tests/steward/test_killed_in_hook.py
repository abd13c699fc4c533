"""Processes that are killed or interrupted inside a hook: the version stands, and recovery runs the hook."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headgate as hg
from headgate.hooks import CommitEvent, Hook, Python
from tests.steward import hook_process


def started(place: Path, kind: str, pipe: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, hook_process.__file__, str(place), kind, str(pipe)],
        stdout=subprocess.PIPE,
        text=True,
    )


def hooks(told: list[tuple[str, str]]) -> list[Hook]:
    def noting(name: str) -> Python:
        return Python(lambda event: told.append((name, event.id)))

    return [Hook("first", noting("first")), Hook("second", noting("second"), after=["first"])]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    hg.Lake.init(tmp_path / "lake")
    return tmp_path / "lake"


def test_a_process_that_is_killed_inside_a_hook(place: Path, tmp_path: Path) -> None:
    with started(place, "python", tmp_path / "none") as process:
        assert process.stdout is not None
        event_id = process.stdout.readline().strip()
        process.kill()
    lake = hg.Lake.open(place)
    assert (lake.version, event_id) == (1, f"{lake.id}-1")
    assert lake.control(1) is None
    # Nobody has written down yet what became of the hooks: also that is told.
    left = [(each.run.name, each.registered, each.recorded) for each in lake.open_hooks()]
    assert left == [("first", False, False), ("second", False, False)]
    without = lake.recover()
    assert without.entries == (1,) and without.hooks_done == ()
    assert without.hooks_open == (
        "1: first (not registered here)",
        "1: second (not registered here)",
    )
    assert [(each.run.state.value, each.recorded) for each in lake.open_hooks()] == [("pending", True)] * 2
    told: list[tuple[str, str]] = []
    report = hg.Lake.open(place, hooks=hooks(told)).recover()
    assert (report.hooks_done, report.hooks_open) == (("1: first", "1: second"), ())
    assert told == [("first", event_id), ("second", event_id)]
    assert list(place.glob("control/outbox/*")) == []
    again = hg.Lake.open(place, hooks=hooks(told)).recover()
    assert not again.changed and len(told) == 2


def test_a_ctrl_c_inside_a_python_hook(place: Path, tmp_path: Path) -> None:
    with started(place, "python", tmp_path / "none") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
    assert process.returncode == 130
    assert "was committed as version 1; to complete the work that follows it" in said
    assert "such as hooks, run headgate recover" in said
    told: list[tuple[str, str]] = []
    report = hg.Lake.open(place, hooks=hooks(told)).recover()
    assert report.hooks_done == ("1: first", "1: second") and len(told) == 2


def test_a_ctrl_c_inside_a_command_ends_the_program_too(place: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    with started(place, "command", pipe) as process, pipe.open() as program:
        assert program.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None and "was committed as version 1" in process.stdout.read()
        assert program.read() == ""  # nobody holds the other end any more
    assert process.returncode == 130
    assert hg.Lake.open(place).version == 1
    told: list[tuple[str, str]] = []
    assert hg.Lake.open(place, hooks=hooks(told)).recover().hooks_open == ()


def test_a_hook_that_raises_ctrl_c_in_this_process(place: Path) -> None:
    """As above, but the commit is asked again by the same transaction: it is settled, and commits nothing."""

    class Interrupting:
        def run(self, event: CommitEvent) -> None:
            raise KeyboardInterrupt

        def describe(self) -> str:
            return "interrupts"

    lake = hg.Lake.open(place, hooks=[Hook("a", Interrupting())])
    tx = lake.transaction()
    tx.set_properties({"n": "x"})
    with pytest.raises(KeyboardInterrupt):
        tx.commit()
    assert tx.commit().version == 1 == lake.version
    done = hg.Lake.open(place, hooks=[Hook("a", Python(lambda event: None))]).recover()
    assert done.hooks_done == ("1: a",)
