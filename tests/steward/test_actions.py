"""The actions python, command, notify and audit: what they do, and how they fail."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import HookFailedError, InvalidInputError
from headgate.hooks import Audit, Command, CommitEvent, Notify, Python
from headgate.steward.hooks.nesting import VARIABLE, running

EVENT = CommitEvent("lake-1", "lake", "/lake", 1, "tx", "commit", tables=({"name": "a.b", "uuid": "u"},))


def failure(act: Callable[[], object]) -> str:
    with pytest.raises(HookFailedError) as caught:
        act()
    return caught.value.problem


# --- python --------------------------------------------------------------------------------------------


def test_a_function_gets_the_event() -> None:
    told: list[CommitEvent] = []
    Python(told.append).run(EVENT)
    assert told == [EVENT]


def test_what_a_function_raises_is_raised() -> None:
    def fail(event: CommitEvent) -> None:
        raise ValueError(event.id)

    with pytest.raises(ValueError, match="lake-1"):
        Python(fail).run(EVENT)


def test_a_function_that_hangs_is_given_up_and_its_thread_keeps_nobody_waiting() -> None:
    release, threads = threading.Event(), list[threading.Thread]()

    def hang(event: CommitEvent) -> None:
        threads.append(threading.current_thread())
        release.wait()

    told = failure(lambda: Python(hang, timeout_seconds=0.05).run(EVENT))
    assert told == "gave up after 0.05 s; it may still be running"
    assert threads[0].is_alive() and threads[0].daemon
    release.set()
    threads[0].join()


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()])
def test_a_function_cannot_end_the_process(ending: BaseException) -> None:
    def end(event: CommitEvent) -> None:
        raise ending

    assert failure(lambda: Python(end).run(EVENT)).startswith(f"ended with {type(ending).__name__}")


async def later(event: CommitEvent) -> None:
    raise AssertionError


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"function": "print"}, "must be callable"),
        ({"function": later}, "asynchronous"),
        *[
            ({"timeout_seconds": seconds}, "timeout_seconds must be")
            for seconds in (0, -1, True, float("nan"), float("inf"), "3", None)
        ],
    ],
)
def test_python_is_checked_when_it_is_made(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Python(**{"function": print, **given})
    assert told in str(caught.value)


def test_python_says_which_function() -> None:
    assert Python(print).describe() == "calls builtins.print"
    assert Python(list[CommitEvent]().append).describe() == "calls list.append"
    assert Python(partial(print, "secret")).describe() == "calls functools.partial"


# --- command -------------------------------------------------------------------------------------------


def python(code: str, *args: str, timeout_seconds: float = 60) -> Command:
    return Command([sys.executable, "-c", code, *args], timeout_seconds)


def test_a_program_gets_the_event_as_json_on_standard_input(tmp_path: Path) -> None:
    python("import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())", str(tmp_path / "got")).run(
        EVENT
    )
    assert (tmp_path / "got").read_bytes() == EVENT.encode() + b"\n"


def test_no_shell_takes_arguments_apart(tmp_path: Path) -> None:
    Command(["touch", str(tmp_path / "a b; $(echo c) *")]).run(EVENT)
    assert [path.name for path in tmp_path.iterdir()] == ["a b; $(echo c) *"]


def test_a_program_need_not_read_what_it_is_told() -> None:
    large = CommitEvent("e", "l", "/l", 1, "t", "commit", descriptor={"x": "y" * 1_000_000})
    Command(["true"]).run(large)


def test_a_failure_has_the_exit_code_and_the_end_of_what_was_said() -> None:
    code = (
        "import sys; print('x' * 5000); print('out', flush=True); sys.stderr.write('wrong\\n'); sys.exit(7)"
    )
    told = failure(lambda: python(code).run(EVENT))
    assert "failed with exit code 7: …x" in told and told.endswith("x\nout\nwrong")
    assert len(told) < 1000


def test_a_failure_has_no_secrets_also_where_the_output_is_cut() -> None:
    code = "import sys; print('password=' + 'hunter2' * 200); sys.exit(1)"
    assert "hunter2" not in failure(lambda: python(code).run(EVENT))


def test_output_that_is_not_text_is_no_obstacle() -> None:
    code = "import sys; sys.stdout.buffer.write(b'\\xff\\x00'); sys.exit(1)"
    assert failure(lambda: python(code).run(EVENT)).endswith(": \\xff\x00")


def test_a_program_that_a_signal_ended() -> None:
    told = failure(lambda: Command(["sh", "-c", "kill -9 $$"]).run(EVENT))
    assert told == "sh was killed by signal 9"


def test_a_program_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    listening = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    # Both hold the pipe open: it ends when both are gone.
    script = f'exec 3>"{pipe}"; echo begun >&3; sleep 600 & sleep 600'
    told = failure(lambda: Command(["sh", "-c", script], timeout_seconds=0.5).run(EVENT))
    assert told == "gave up after 0.5 s; sh was killed"
    os.set_blocking(listening, True)
    with os.fdopen(listening, "rb") as stream:
        assert stream.read() == b"begun\n"


def test_what_a_program_leaves_behind_on_purpose_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "release"
    os.mkfifo(pipe)
    Command(["sh", "-c", f'cat "{pipe}" & echo started'], timeout_seconds=30).run(EVENT)
    with pipe.open("w"):  # its reader is still there, and ends now
        pass


def test_a_program_that_does_not_exist_or_cannot_be_run(tmp_path: Path) -> None:
    assert (
        failure(lambda: Command(["no-such-program-1"]).run(EVENT))
        == "the program no-such-program-1 does not exist"
    )
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert f"cannot run {plain}: Permission denied" in failure(lambda: Command([str(plain)]).run(EVENT))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("rm -rf /", "not a string"),
        ([], "needs a program"),
        ([""], "needs a program"),
        (["a", 3], "a list of strings"),
        (b"ls", "a list of strings"),
        (None, "a list of strings"),
        (["a\0b"], "NUL"),
    ],
)
def test_commands_are_checked_when_they_are_made(arguments: Any, told: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Command(arguments)
    assert told in str(caught.value)


def test_a_command_shows_itself_without_secrets() -> None:
    assert Command(["send", "--token", "hunter2", ""]).describe() == "runs send --token *** "


def test_a_program_knows_which_hooks_are_around_it(tmp_path: Path) -> None:
    with running("lake", "outer"), running("lake", "inner"):
        Command(["sh", "-c", f'echo "${VARIABLE}" > {tmp_path}/got']).run(EVENT)
    assert (tmp_path / "got").read_text() == "lake/inner,lake/outer\n"


# --- notify, audit -------------------------------------------------------------------------------------


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_are_appended_as_lines(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    Notify(file).run(EVENT)
    Notify(str(file)).run(EVENT)
    assert lines(file) == [EVENT.to_json()] * 2
    assert stat.S_IMODE(file.stat().st_mode) & 0o111 == 0


def test_a_line_that_was_cut_does_not_spoil_the_next(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"id": "cu')
    Notify(file).run(EVENT)
    cut, whole = file.read_text().splitlines()
    assert cut == '{"id": "cu' and json.loads(whole)["id"] == "lake-1"


def test_writers_do_not_write_into_each_others_lines(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    large = CommitEvent("e", "l", "/l", 1, "t", "commit", descriptor={"x": "y" * 100_000})

    def write() -> None:
        for _ in range(5):
            Notify(file).run(large)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert lines(file) == [large.to_json()] * 20


def test_a_relative_file_stays_where_it_was_named(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with chdir(tmp_path):
        action = Notify("events.jsonl")
        with chdir("elsewhere"):
            action.run(EVENT)
    assert lines(tmp_path / "events.jsonl") == [EVENT.to_json()]


def test_what_is_no_file_is_a_failure_and_waits_for_nobody(tmp_path: Path) -> None:
    assert "No such file or directory" in failure(lambda: Notify(tmp_path / "a" / "b").run(EVENT))
    assert "Is a directory" in failure(lambda: Notify(tmp_path).run(EVENT))
    os.mkfifo(tmp_path / "pipe")
    assert "is not a file" in failure(lambda: Notify(tmp_path / "pipe").run(EVENT))


def test_events_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Notify().run(EVENT)
    Notify(stream="stderr").run(EVENT)
    said = capsys.readouterr()
    assert json.loads(said.out) == json.loads(said.err) == EVENT.to_json()


@pytest.mark.parametrize("kind", [Notify, Audit])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"file": "a", "stream": "stdout"}, "give only one of them"),
        ({"stream": "stdin"}, "is not a stream"),
        ({"file": ""}, "is not a file name"),
        ({"file": 3}, "is not a file name"),
    ],
)
def test_destinations_are_checked(kind: Any, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        kind(**given)
    assert told in str(caught.value)


def test_an_audit_is_lines_per_table(tmp_path: Path) -> None:
    action = Audit(tmp_path / "audit.jsonl")
    action.run(EVENT)
    (line,) = lines(tmp_path / "audit.jsonl")
    assert (line["event"], line["table"], line["path"], line["rows_added"]) == ("lake-1", "a.b", "/a/b", 0)
    assert action.describe() == f"writes changes to {tmp_path}/audit.jsonl"
