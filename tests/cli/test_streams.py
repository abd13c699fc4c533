"""The command as a process: full disks, closed pipes, narrow encodings, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headgate as hg

PROGRAM = (sys.executable, "-c", "from headgate.cli import main; main()")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    hg.Lake.init(tmp_path / "lake").set_properties({"owner": "änn 👩‍👧"})
    return tmp_path / "lake"


def in_shell(redirected: str, *args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command with a redirection, as a shell does."""
    command = ["bash", "-c", f'"$@" {redirected}', "bash", *PROGRAM, *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("args", [("log",), ("show",), ("show", "--json")])
def test_a_full_disk_is_said_in_one_line(place: Path, args: tuple[str, ...]) -> None:
    result = in_shell("> /dev/full", args[0], place, *args[1:])
    assert result.returncode == 1
    assert result.stderr == "headgate: cannot write the output: No space left on device\n"


def test_help_on_a_full_disk() -> None:
    result = in_shell("> /dev/full", "--help")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("args", [("show",), ("log", "--json")])
def test_a_closed_pipe_is_no_failure(place: Path, args: tuple[str, ...]) -> None:
    result = in_shell("| true; exit ${PIPESTATUS[0]}", args[0], place, *args[1:])
    assert (result.returncode, result.stderr) == (0, "")


def test_help_into_a_closed_pipe() -> None:
    result = in_shell("| true; exit ${PIPESTATUS[0]}", "--help")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_code_of_the_command_survives_a_closed_pipe(tmp_path: Path) -> None:
    result = in_shell("| true; exit ${PIPESTATUS[0]}", "show", tmp_path)
    assert result.returncode == 1
    assert "there is no lake" in result.stderr


def test_a_closed_standard_output(place: Path) -> None:
    assert in_shell(">&-", "show", place).returncode == 0


@pytest.mark.parametrize("command", ["--help", "init", "show"])
def test_an_output_that_knows_ascii_only(place: Path, command: str) -> None:
    args = (
        (command,) if command == "--help" else (command, place) if command == "show" else (command, "--help")
    )
    result = in_shell("", *args, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.isascii()
    if command == "show":
        assert "\\xe4nn" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("commits", [0, 6])
def test_ctrl_c_in_the_demo_ends_all_its_processes_without_a_traceback(tmp_path: Path, commits: int) -> None:
    place = tmp_path / "lake"
    process = subprocess.Popen(
        [*PROGRAM, "demo", "--dir", str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    said = ""
    while "3. " not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    lake = hg.Lake.open(place)
    while lake.version < commits:
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    said += process.communicate(timeout=120)[0]
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    ended_at = lake.version
    assert hg.Lake.open(place).version == ended_at < 30


@pytest.mark.slow
def test_a_writer_of_the_demo_ends_silently_when_nobody_is_there(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    command = [sys.executable, "-m", "headgate.cli.demo.writer", str(tmp_path / "lake"), "writer", "3", "1"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        deaf = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=nobody, stderr=subprocess.PIPE, text=True
        )
    assert "Traceback" not in deaf.stderr
    unasked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (unasked.returncode, unasked.stdout) == (0, "ready\n"), unasked.stderr
    assert lake.version == 0
