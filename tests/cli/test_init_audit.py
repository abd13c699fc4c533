"""`log` and `show` with version 0, which `init` made."""

from __future__ import annotations

import json
from pathlib import Path

from headgate.log.layout import IDENTITY, TRACKER
from headgate.model.identifiers import GENESIS
from tests.cli.program import run
from tests.cli.test_terminal import on_a_terminal


def test_log_and_show_have_version_0(tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    assert run("init", place, "--strategy", "conditional").exit_code == 0
    (shown,) = json.loads(run("log", place, "--json").output)
    assert shown["command"]["args"] == ["headgate", "init", place, "--strategy", "conditional"]
    assert shown["command"]["user"] and shown["command"]["host"]
    assert json.loads(run("show", place, "--version", "0").output) == shown
    line = run("log", place).output.splitlines()[-1]
    assert line.startswith("0\t") and "init" in line


def test_options_of_the_storage_which_may_be_credentials_are_not_kept(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    assert run("init", place, "--divisor", "20", "--option", "fsync=false").exit_code == 0
    stored = json.loads((place / IDENTITY).read_text())
    assert stored["command"]["args"] == ["headgate", "init", str(place), "--divisor", "20"]


def test_who_made_a_lake_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    assert run("init", place).exit_code == 0
    fields = json.loads((place / IDENTITY).read_text())
    fields["command"] |= {"user": "\x1b]0;owned\x07", "host": "\x9b31m", "args": ["\x1b[2J"]}
    for key in (IDENTITY, TRACKER.record_key(GENESIS)):
        (place / key).write_text(json.dumps(fields))
    for command in (["log"], ["show", "--version", "0"]):
        code, said = on_a_terminal(command[0], place, *command[1:], TERM="dumb")
        assert code == 0 and "owned" in said
        assert not {"\x1b", "\x07", "\x9b"} & set(said)


def test_a_lake_is_not_opened_if_what_made_it_cannot_be_read(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    assert run("init", place).exit_code == 0
    fields = json.loads((place / IDENTITY).read_text())
    fields["command"] = {"user": 7}
    (place / IDENTITY).write_text(json.dumps(fields))
    failed = run("log", place)
    assert failed.exit_code == 1 and IDENTITY in failed.output
