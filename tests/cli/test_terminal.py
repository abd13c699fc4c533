"""The command on a terminal and beside one: colours, signs of life, completion, Ctrl-C."""

from __future__ import annotations

import errno
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg

PROGRAM = (
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'headgate'; from headgate.cli import main; main()",
)
COLOUR = "\x1b["


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("terminal") / "lake"
    hg.Lake.init(directory).set_properties({"owner": "ann"})
    return directory


def on_a_terminal(*args: str | Path, **environment: str) -> tuple[int, str]:
    """What a command shows on a terminal, and the code that it ends with."""
    ours, theirs = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [*PROGRAM, *map(str, args)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**inherited, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017  # Linux tells so that nobody writes any more
            break
        if not part:
            break
        said += part
    os.close(ours)
    return process.wait(60), said.decode()


def in_a_pipe(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_rows_do_nothing_to_a_terminal_and_are_themselves_in_a_pipe(tmp_path: Path) -> None:
    """Whoever can write rows could otherwise clear the screen, or set the title, of whoever reads them."""
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    lake = hg.Lake.init(tmp_path / "lake")
    lake.create_table("t.t", "v STRING").append(pa.table({"v": [evil]}))
    read = ("read", tmp_path / "lake", "t.t", "--output")
    for wanted in ("csv", "jsonl", "table"):
        code, said = on_a_terminal(*read, wanted, TERM="dumb")
        assert code == 0
        assert not {"\x1b", "\x07", "\x9b"} & set(said)
        assert "owned" in said
    assert in_a_pipe(*read, "csv").stdout == f"v\n{evil}\n"


def test_a_terminal_gets_colours_and_a_box(place: Path) -> None:
    code, said = on_a_terminal("log", place)
    assert code == 0
    assert COLOUR in said
    assert "│" in said


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_no_colours_where_they_are_not_wanted(place: Path, environment: dict[str, str]) -> None:
    _, said = on_a_terminal("show", place, **environment)
    assert "owner" in said
    # Bold is no colour; codes 30 to 49 and 90 to 107 are.
    assert not [code for code in ("36", "32", "31", "35", "33") if f"{COLOUR}{code}m" in said]


def test_a_pipe_gets_neither_colours_nor_signs_of_life(place: Path) -> None:
    for args in (("log", place), ("show", place), ("doctor", place), ("fsck", place), ("--help",)):
        result = in_a_pipe(*args)
        assert COLOUR not in result.stdout + result.stderr
        assert result.stderr == ""


def test_a_terminal_sees_that_work_is_done(place: Path) -> None:
    code, said = on_a_terminal("fsck", place)
    assert code == 0
    assert "\x1b[?25l" in said  # a bar hides the cursor
    assert said.rindex("\x1b[?25h") > said.rindex("\x1b[?25l")  # and shows it again


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown_for_a_shell_that_does_not_run(shell: str) -> None:
    result = in_a_pipe("--show-completion", shell)
    assert result.returncode == 0, result.stderr
    assert f"complete_{shell}" in result.stdout


def test_completion_knows_commands_and_options() -> None:
    def completed(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        return in_a_pipe(_HEADGATE_COMPLETE="complete_bash", **words).stdout.split()

    assert {"read", "recover", "replicate"} <= {*completed("headgate re")}
    assert "--strategy" in completed("headgate init --")
    assert {"list", "status", "run", "retry"} <= {*completed("headgate hooks ")}


_SLOW_INGEST = """\
import os, signal, sys
import headgate.lake.ingest.load as load
from headgate.cli import main
original = load.ingest
def interrupted(*args, on_progress=None, **kwargs):
    def progress(done, total, rows):
        on_progress(done, total, rows)
        os.kill(os.getpid(), signal.SIGINT)
    return original(*args, on_progress=progress, **kwargs)
load.ingest = interrupted
main()
"""


def test_ctrl_c_in_a_load_leaves_the_lake_as_it_was_and_says_so(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    file = tmp_path / "orders.csv"
    file.write_text("id\n" + "\n".join(map(str, range(100_000))))
    result = subprocess.run(
        [sys.executable, "-c", _SLOW_INGEST, "ingest", str(lake.place), "sales.orders", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 128 + signal.SIGINT, result.stderr
    assert "interrupted; nothing that was not yet committed is visible" in result.stderr
    assert "Traceback" not in result.stderr
    assert lake.tables() == ()
    assert hg.Lake.open(lake.place).version == 0
    assert lake.fsck().ok
