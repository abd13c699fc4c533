"""The command line: what it prints, in a pipe and as JSON, and the codes it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import headgate as hg
from headgate.cli.app import app
from headgate.cli.failure import exit_code


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lake = hg.Lake.init(tmp_path / "lake")
    lake.set_properties({"owner": "ann"}, args=["first"])
    lake.set_properties({"owner": "bob"}, args=["second"])
    return tmp_path / "lake"


def test_init_shows_what_the_storage_promises(tmp_path: Path) -> None:
    result = run("init", tmp_path / "new")
    assert result.exit_code == 0
    assert "of racing creates exactly one succeeds" in result.output
    assert "with the strategy conditional" in result.output
    assert hg.Lake.open(tmp_path / "new").version == 0


def test_init_takes_a_strategy_and_a_divisor(tmp_path: Path) -> None:
    result = run("init", tmp_path, "--strategy", "filetracker", "--divisor", "4", "--json")
    shown = json.loads(result.output)
    assert (shown["strategy"], shown["divisor"], shown["version"]) == ("filetracker", 4, 0)
    assert {promise["promise"] for promise in shown["promises"]} >= {"whole_put", "create_race"}


def test_log_is_lines_with_tabs_in_a_pipe(place: Path) -> None:
    lines = run("log", place).output.splitlines()
    assert lines[0].split("\t")[:3] == ["version", "committed (UTC)", "kind"]
    assert [line.split("\t")[0] for line in lines[1:]] == ["2", "1"]
    assert lines[1].split("\t")[4:] == ["owner=bob", "second"]


def test_log_pages_backwards(place: Path) -> None:
    assert [entry["version"] for entry in json.loads(run("log", place, "--json", "--limit", "1").output)] == [
        2
    ]
    assert [
        entry["version"] for entry in json.loads(run("log", place, "--json", "--before", "2").output)
    ] == [1]


def test_show_prints_the_lake_and_a_record(place: Path) -> None:
    assert "property owner" in run("show", place).output
    shown = json.loads(run("show", place, "--json").output)
    assert shown["properties"] == {"owner": "bob"}
    assert shown["last_commit"]["version"] == 2
    assert json.loads(run("show", place, "--version", "1").output)["command"]["args"] == ["first"]


def test_doctor_judges_the_strategies_and_switches(place: Path) -> None:
    result = run("doctor", place, "--json")
    assert result.exit_code == 0
    assert json.loads(result.output)["strategies"]["filetracker"] == {
        "safe": True,
        "broken": [],
        "unanswered": [],
    }
    switched = run("doctor", place, "--switch-to", "filetracker")
    assert switched.exit_code == 0
    assert "version 3: from now on filetracker" in switched.output
    assert hg.Lake.open(place).strategy == "filetracker"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["show", "{missing}"], 1, "there is no lake at"),
        (["init", "{lake}"], 1, "there is a lake at"),
        (["init", "{missing}", "--strategy", "psychic"], 1, "choose one of conditional, rename, filetracker"),
        (["init", "{missing}", "--divisor", "1"], 1, "the divisor must be"),
        (["init", "nfs://host/lake"], 1, "no storage is known for nfs://"),
        (["init", "{missing}", "--option", "fsync"], 1, "--option NAME=VALUE"),
        (["init", "{missing}", "--option", "color=red"], 1, "known: fsync"),
        (["show", "{lake}", "--version", "99"], 1, "the newest is 2"),
        (["doctor", "{lake}", "--switch-to", "conditional"], 1, "already"),
        (["log"], 2, "Missing argument"),
        (["log", "{lake}", "--limit", "0"], 2, "--limit"),
        (["frobnicate"], 2, "No such command"),
    ],
)
def test_wrong_input_gets_a_clear_message_and_a_code(
    place: Path, tmp_path: Path, args: list[str], code: int, message: str
) -> None:
    result = run(*(arg.format(lake=place, missing=tmp_path / "nowhere") for arg in args))
    assert result.exit_code == code
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "nowhere").exists()


def test_errors_are_json_for_programs(tmp_path: Path) -> None:
    result = run("show", tmp_path, "--json")
    assert json.loads(result.stderr)["error"]["kind"] == "not-found"


def test_a_corrupt_lake_is_named(place: Path) -> None:
    record = next((place / "control/log").glob("*1.json"))
    record.write_bytes(b"not json")
    result = run("log", place)
    assert result.exit_code == 1
    assert "version 1" in result.output
    assert record.name in result.output


def test_each_kind_of_error_has_its_code() -> None:
    assert exit_code(hg.ConflictError("x")) == 3
    assert exit_code(hg.CommitUnknownError("x")) == 4
    assert exit_code(hg.StorageError("x")) == 1


def test_every_command_teaches() -> None:
    for command in ("init", "tables", "log", "show", "doctor", "demo"):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert "Example: headgate" in result.output


@pytest.mark.slow
def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    result = run("demo", "--dir", tmp_path / "lake")
    assert result.exit_code == 0, result.output
    assert "killed in the middle of its work" in result.output
    assert hg.Lake.open(tmp_path / "lake").version >= 75


def test_tables_are_listed_now_and_as_they_were(place: Path) -> None:
    lake = hg.Lake.open(place)
    orders = lake.create_table("sales.orders", "id BIGINT")
    orders.append(pa.table({"id": [1, 2, 3]}))
    lines = run("tables", place).output.splitlines()
    assert lines[1].split("\t")[:3] == ["sales.orders", "3", "1"]
    (shown,) = json.loads(run("tables", place, "--json", "--version", "3").output)
    assert (shown["rows"], shown["files"]) == (0, 0)
    assert json.loads(run("tables", place, "--json", "--version", "2").output) == []
