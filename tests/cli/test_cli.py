"""The command line: what it prints, in a pipe and as JSON, and the codes it ends with."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from typer.testing import Result

import headgate as hg
from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.demo.story import LOOK_FURTHER
from headgate.cli.failure import error_json, exit_code
from headgate.errors import NoAnswerError
from headgate.log.layout import PLAIN
from headgate.model.identifiers import Version
from headgate.storage.location import SCHEMES
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Failed, Get, Missing, Request
from headgate.testing.intercept import intercepted
from tests.cli.program import run, run_json

COMMANDS = sorted(typer.main.get_group(app).commands)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lake = hg.Lake.init(tmp_path / "lake")
    lake.set_properties({"owner": "ann"}, args=["first"])
    lake.set_properties({"owner": "bob"}, args=["second"])
    return tmp_path / "lake"


def test_init_shows_what_the_storage_promises(tmp_path: Path) -> None:
    result = run("init", tmp_path / "new")
    assert result.exit_code == 0
    assert "exactly one of several concurrent creates succeeds" in result.output
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
    assert [line.split("\t")[0] for line in lines[1:]] == ["2", "1", "0"]
    assert lines[1].split("\t")[4:] == ["owner=bob", "second"]


def test_log_pages_backwards(place: Path) -> None:
    assert [entry["version"] for entry in json.loads(run("log", place, "--json", "--limit", "1").output)] == [
        2
    ]
    assert [
        entry["version"] for entry in json.loads(run("log", place, "--json", "--before", "2").output)
    ] == [1, 0]


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
    assert "version 3: switched the lake to filetracker" in switched.output
    assert hg.Lake.open(place).strategy == "filetracker"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["show", "{missing}"], 1, "there is no lake at"),
        (["init", "{lake}"], 1, "a lake already exists at"),
        (["init", "{missing}", "--strategy", "psychic"], 2, "choose one of conditional, rename, filetracker"),
        (["init", "{missing}", "--divisor", "1"], 2, "the divisor must be"),
        (["init", "nfs://host/lake"], 1, "the scheme nfs:// is not supported"),
        (["init", "{missing}", "--option", "fsync"], 2, "--option NAME=VALUE"),
        (["init", "{missing}", "--option", "color=red"], 2, "known: fsync"),
        (["init", "{missing}", "--divisor", "1001"], 2, "the divisor must be"),
        (["init", "{missing}", "--divisor", "many"], 2, "--divisor"),
        (["init", "{missing}\n"], 2, "control characters"),
        (["show", "{lake}", "--version", "99"], 1, "the newest is 2"),
        (["show", "{lake}", "--version", "1" * 21], 2, "a version must be an integer"),
        (["tables", "{lake}", "--version", "1" * 21], 2, "a version must be an integer"),
        (["doctor", "{lake}", "--switch-to", "psychic"], 2, "choose one of"),
        (["doctor", "{lake}", "--resolve", "psychic"], 2, "not a transaction id"),
        (["doctor", "{lake}", "--resolve", "0" * 32, "--switch-to", "rename"], 2, "cannot be combined"),
        (["doctor", "{lake}", "--switch-to", "conditional"], 2, "already"),
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
    assert exit_code(hg.InvalidInputError("x")) == 2
    assert exit_code(hg.StorageError("x")) == 1


def test_every_command_teaches() -> None:
    for command in COMMANDS:
        result = run(command, "--help")
        assert result.exit_code == 0
        assert re.search(r"Examples:\s+headgate ", result.output), command


def test_help_texts_have_no_line_breaks_inside_of_a_paragraph() -> None:
    """Typer would print them, however wide the terminal is."""
    root: Any = typer.main.get_group(app)
    for command in (*root.commands.values(), *root.commands["hooks"].commands.values()):
        assert "\n" not in command.help.replace("\n\n", ""), command.name


@pytest.mark.slow
def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    result = run("demo", "--dir", tmp_path / "lake", "--json")
    assert result.exit_code == 0, result.output
    assert "killed" in result.stderr
    told = json.loads(result.stdout)
    lake = hg.Lake.open(tmp_path / "lake")
    assert lake.version >= 28
    assert (told["place"], told["version"]) == (lake.place, lake.version)
    assert told["tables"] == list(lake.tables()) == ["sales.customers", "sales.orders"]
    assert all(lake.log(kind=kind) for kind in ("merge", "update", "compact"))
    assert "the error that Bob gets" in result.stderr
    assert "the same as Spark" in result.stderr
    assert lake.fsck(deep=True).ok
    for words in LOOK_FURTHER:
        if words[0] != "sql":
            assert run(words[0], tmp_path / "lake", *words[1:]).exit_code == 0


def test_the_demo_needs_java_and_says_so_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = run("demo", "--dir", tmp_path / "lake")
    assert result.exit_code == 1
    assert result.output.startswith("headgate: Spark needs Java")
    assert not (tmp_path / "lake").exists()


def test_tables_are_listed_now_and_as_they_were(place: Path) -> None:
    lake = hg.Lake.open(place)
    orders = lake.create_table("sales.orders", "id BIGINT")
    orders.append(pa.table({"id": [1, 2, 3]}))
    lines = run("tables", place).output.splitlines()
    assert lines[1].split("\t")[:3] == ["sales.orders", "table", "3"]
    (shown,) = json.loads(run("tables", place, "--json", "--version", "3").output)
    assert (shown["rows"], shown["files"]) == (0, 0)
    assert json.loads(run("tables", place, "--json", "--version", "2").output) == []


def test_a_table_is_shown_with_all_that_is_known_of_it(place: Path) -> None:
    lake = hg.Lake.open(place)
    orders = lake.create_table(
        "sales.orders",
        "id BIGINT NOT NULL COMMENT 'of the order', ts TIMESTAMP",
        partition_by=["day(ts)"],
        sort_by=["id desc"],
        properties={"owner": "ann"},
    )
    orders.append(pa.table({"id": [1, 2, 3]}))
    orders.overwrite(pa.table({"id": [4]}))
    (file,) = orders.files()
    shown = run_json("show", place, "sales.orders")
    assert shown["metadata"] == orders.metadata_location
    assert Path(shown["metadata"].removeprefix("file://")).exists()
    assert shown["columns"][0] == {
        "id": 1,
        "name": "id",
        "type": "long",
        "required": True,
        "doc": "of the order",
    }
    assert (shown["partition_by"], shown["sort_by"]) == (["day(ts)"], ["id desc nulls last"])
    assert (shown["rows"], shown["files"], shown["bytes"]) == (1, 1, file.size_bytes)
    assert [(each["version"], each["operation"], each["rows"]) for each in shown["history"]] == [
        (5, "overwrite", 1),
        (4, "append", 3),
    ]
    assert run_json("show", place, "sales.orders", "--version", "4")["rows"] == 3
    text = run("show", place, "sales.orders").output
    for part in ("day(ts)", "property owner", "of the order", orders.metadata_location, "overwrite"):
        assert part in text


def test_no_data_file_is_opened_to_list_and_show(
    store: MemoryStore, scripted: Callable[[Script], str]
) -> None:
    hg.Lake.open(store).table("sales.orders").append(pa.table({"id": [1]}))

    def watched(request: Request, proceed: Callable[[Request], Answer]) -> Answer:
        key = getattr(request, "key", "")
        assert not key.endswith((".parquet", ".avro")), key
        return proceed(request)

    (listed,) = run_json("tables", scripted(watched))
    assert (listed["rows"], listed["files"]) == (1, 1)
    assert run_json("show", scripted(watched), "sales.orders")["bytes"] == listed["bytes"] > 0


def test_tags_are_shown_by_log_and_show(place: Path) -> None:
    lake = hg.Lake.open(place)
    lake.tag("eom", 1)
    lake.tag("gone")
    lake.untag("gone")
    lines = [line.split("\t")[4] for line in run("log", place).output.splitlines()[1:4]]
    assert lines == ["untag gone", "tag gone = 3", "tag eom = 1"]
    assert run_json("show", place)["tags"] == {"eom": 1}
    assert re.search(r"tag eom +version 1", run("show", place).output)
    assert json.loads(run("show", place, "--tag", "eom").output)["version"] == 1


# What comes from storage.


def test_control_characters_of_storage_are_escaped(place: Path) -> None:
    hg.Lake.open(place).set_properties({"x\x1b[2J": "a\r\x07\tb\n\u202ec\x9b"}, args=["\x1b]0;title\x07"])
    for command in ("log", "show"):
        shown = run(command, place).output
        assert r"\x1b[2J" in shown
        assert r"a\r\x07\tb\n\u202ec\x9b" in shown
        assert not set("\x1b\r\x07\u202e\x9b") & set(shown)


def test_what_is_printable_stays_as_it_is() -> None:
    assert output.visible("änn 👩\u200d👧 a\\b [red]") == "änn 👩\u200d👧 a\\b [red]"


def test_an_error_cannot_control_the_terminal(place: Path) -> None:
    record = place / PLAIN.record_key(Version(2))
    record.write_bytes(record.read_bytes().replace(b'"format":1', b'"format":2,"x":1', 1))
    record.write_bytes(
        record.read_bytes().replace(b'"needs_release":"0.1.0"', b'"needs_release":"\\u001b[2J"')
    )
    result = run("log", place)
    assert result.exit_code == 1
    assert r"\x1b[2J" in result.output
    assert "\x1b" not in result.output


@pytest.fixture
def store() -> MemoryStore:
    """A lake in memory with two commits. `scripted` makes a URL for it."""
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy="conditional")
    lake.create_table("sales.orders", "id BIGINT")
    lake.set_properties({"n": "2"})
    return store


@pytest.fixture
def scripted(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], str]:
    def url(script: Script) -> str:
        monkeypatch.setitem(SCHEMES, "scripted", lambda url, options: intercepted(store, script))
        return "scripted://lake"

    return url


def test_show_is_of_one_version(store: MemoryStore, scripted: Callable[[Script], str]) -> None:
    writer = hg.Lake.open(store)

    def busy(request: Request, proceed: Callable[[Request], Answer]) -> Answer:
        answer = proceed(request)
        if isinstance(request, Get) and isinstance(answer, Missing):
            # Whoever has just seen the end of the log is behind.
            writer.set_properties({"n": str(writer.version + 1)})
        return answer

    shown = json.loads(run("show", scripted(busy), "--json").output)
    assert shown["version"] == shown["last_commit"]["version"]
    assert shown["properties"]["n"] == shown["last_commit"]["lake_properties"]["set"]["n"]
    assert "property n" in run("show", scripted(busy)).output


def test_tables_are_of_one_version(store: MemoryStore, scripted: Callable[[Script], str]) -> None:
    writer, turn = hg.Lake.open(store), threading.Lock()

    def busy(request: Request, proceed: Callable[[Request], Answer]) -> Answer:
        with turn:
            answer = proceed(request)
            if isinstance(answer, Missing) and request == Get(PLAIN.record_key(Version(writer.version + 1))):
                # Whoever has just seen the end of the log is wrong about the table.
                if writer.tables():
                    writer.drop_table("sales.orders")
                else:
                    writer.create_table("sales.orders", "id BIGINT")
            return answer

    shown = [run("tables", scripted(busy)) for _ in range(8)]
    assert {result.exit_code for result in shown} == {0}
    assert {len(result.output.splitlines()) for result in shown} <= {1, 2}


# When the outcome is not known.

Script = Callable[[Request, Callable[[Request], Answer]], Answer]
DECIDING = PLAIN.record_key(Version(3))


def settle(said: str, store: MemoryStore, scripted: Callable[[Script], str]) -> Result:
    """Runs the command that a message names."""
    words = said[said.rindex("headgate doctor ") :].split()
    assert words[:3] == ["headgate", "doctor", store.describe()]
    assert words[3] == "--resolve"
    return run("doctor", scripted(lambda request, proceed: proceed(request)), "--resolve", words[4], "--json")


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_names_the_command_that_settles_it(
    store: MemoryStore, scripted: Callable[[Script], str], landed: bool
) -> None:
    silent = False

    def no_answer(request: Request, proceed: Callable[[Request], Answer]) -> Answer:
        nonlocal silent
        if getattr(request, "key", "") != DECIDING:
            return proceed(request)
        if isinstance(request, Create) and landed:
            proceed(request)
        silent = silent or isinstance(request, Create)
        return Failed(NoAnswerError("gone")) if silent else proceed(request)

    result = run("doctor", scripted(no_answer), "--switch-to", "filetracker")
    assert result.exit_code == 4, result.output
    settled = settle(result.output, store, scripted)
    assert json.loads(settled.output)["committed"] is landed


def test_ctrl_c_while_switching_says_that_the_outcome_is_unknown(
    store: MemoryStore, scripted: Callable[[Script], str]
) -> None:
    def interrupt(request: Request, proceed: Callable[[Request], Answer]) -> Answer:
        answer = proceed(request)
        if isinstance(request, Create) and request.key == DECIDING:
            raise KeyboardInterrupt
        return answer

    result = run("doctor", scripted(interrupt), "--switch-to", "filetracker")
    assert result.exit_code == 4
    assert "may have been committed" in result.output
    assert json.loads(settle(result.output, store, scripted).output)["version"] == 3


def test_what_became_of_a_transaction_is_said_to_people(place: Path) -> None:
    txid = hg.Lake.open(place).log(limit=1)[0].txid
    assert "was committed as version 2" in run("doctor", place, "--resolve", txid).output
    assert "never will be" in run("doctor", place, "--resolve", "0" * 32).output


def test_versions_in_errors_are_numbers() -> None:
    error = hg.CommitUnknownError("x", "y", 7, "0" * 32)
    assert json.loads(error_json(error))["error"]["version"] == 7


# Commands that are suggested.


def test_a_suggested_command_is_one_that_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "headgate"
    script.parent.mkdir()
    script.write_text("")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script), "demo"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert output.command_line("log", "a b") == f"{script} log 'a b'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert output.command_line("log", "lake") == "headgate log lake"


def test_who_competed_for_a_version(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake", strategy="filetracker")
    txid = lake.set_properties({"a": "1"}).txid
    place = str(tmp_path / "lake")
    (row,) = run("show", place, "--version", "1", "--attempts").stdout.splitlines()[1:]
    cells = row.split("\t")
    assert (cells[0], cells[2], cells[3], cells[4]) == ("1", txid, txid, "won")
    found = json.loads(run("show", place, "--version", "1", "--attempts", "--json").stdout)
    assert found == lake.attempts(1).to_json()
    for wrong in ((), ("a.b", "--version", "1"), ("--version", "0"), ("--version", "9")):
        assert run("show", place, *wrong, "--attempts").exit_code != 0


def test_a_version_that_no_writers_competed_for(tmp_path: Path) -> None:
    """The message names only versions that exist."""
    place = str(tmp_path / "lake")
    lake = hg.Lake.init(place)

    def said(version: int) -> str:
        return run("show", place, "--version", str(version), "--attempts").stderr

    creation = "version 0 is the creation of the lake, without competing writers"
    assert creation in said(0)
    assert "nothing has been committed to this lake yet; its first commit is version 1" in said(0)
    assert "choose version 0\n" in said(1)
    lake.set_properties({"a": "1"})
    assert creation in said(0) and "choose version 1\n" in said(0)
    lake.set_properties({"a": "2"})
    assert "choose a version from 1 to 2\n" in said(0)
    for version, step in ((0, "from 1 to 2"), (9, "from 1 to 2")):
        with pytest.raises(hg.InvalidInputError) as error:
            lake.attempts(version)
        assert str(error.value.next_step) == f"choose a version {step}"
