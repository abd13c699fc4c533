"""`headgate hooks`, `headgate recover`, and hooks of a headgate.toml after commands that commit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headgate as hg
from headgate.hooks import CommitEvent, Hook, Python
from tests.cli.program import run, run_json

CONFIG = """
[[hooks]]
name = "log"
action = "notify"
file = "events.jsonl"
after = ["check"]

[[hooks]]
name = "check"
action = "command"
command = ["test", "-e", "{ready}"]
when.tables = ["a.*"]
when.kinds = ["append"]
retry.attempts = 1
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a lake, a file of rows, and a headgate.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADGATE_CONFIG", raising=False)
    hg.Lake.init("lake")
    Path("rows.jsonl").write_text('{"id": 1}\n')
    Path("headgate.toml").write_text(CONFIG.replace("{ready}", str(tmp_path / "ready")))
    return tmp_path


@pytest.mark.parametrize("command", ["list", "status", "run", "retry"])
def test_every_command_teaches(command: str) -> None:
    assert f"Examples: headgate hooks {command} ./lake" in " ".join(
        run("hooks", command, "--help").output.split()
    )


def test_list_shows_hooks_in_their_order(here: Path) -> None:
    shown = [line.split("\t") for line in run("hooks", "list", "lake").output.splitlines()]
    assert shown == [
        ["hook", "does", "when", "after", "attempts", "versions", "undo"],
        ["check", f"runs test -e {here}/ready", "append of a.*", "", "1", "in order", ""],
        ["log", f"writes events to {here}/events.jsonl", "any commit", "check", "3", "in order", ""],
    ]
    check, log = run_json("hooks", "list", "lake")
    assert (check["name"], check["action"], check["when"]) == (
        "check",
        "command",
        {"tables": ["a.*"], "kinds": ["append"], "min_rows": 0, "paths": [], "users": [], "apps": []},
    )
    assert (log["after"], log["attempts"]) == (["check"], 3)


def test_a_failing_hook_is_told_after_the_version_and_retried_later(here: Path) -> None:
    result = run("ingest", "lake", "a.b", "rows.jsonl")
    assert result.exit_code == 0 and result.stdout.startswith("version 1: 1 row")
    assert result.stderr.splitlines()[:2] == [
        "headgate: version 1 is committed, but a hook is not done: check: test failed with exit code 1",
        "headgate: version 1 is committed, but a hook is not done: log: waits for check",
    ]
    assert "hooks retry" in result.stderr
    status = [line.split("\t") for line in run("hooks", "status", "lake").output.splitlines()]
    assert status[1:] == [
        ["1", "check", "failed", "1", "yes", "test failed with exit code 1"],
        ["1", "log", "pending", "0", "yes", "waits for check"],
    ]
    assert [hook["registered"] for hook in run_json("hooks", "status", "lake", "--config", "/dev/null")] == [
        False,
        False,
    ]
    only_pending = run("hooks", "run", "lake")
    assert only_pending.exit_code == 1 and "open: version 1: log (waits for check)" in only_pending.output
    still = run("hooks", "retry", "lake", "--json")
    assert still.exit_code == 1 and len(json.loads(still.stdout)["open"]) == 2
    (here / "ready").touch()
    done = run("hooks", "retry", "lake")
    assert (done.exit_code, done.output) == (0, "done: version 1: check\ndone: version 1: log\n")
    assert json.loads((here / "events.jsonl").read_text())["version"] == 1
    assert run("hooks", "run", "lake").output == "no hook is open\n"
    assert run_json("hooks", "status", "lake") == []


def test_json_of_ingest_has_the_failures(here: Path) -> None:
    assert run_json("ingest", "lake", "a.b", "rows.jsonl")["hook_failures"] == [
        "check: test failed with exit code 1",
        "log: waits for check",
    ]


def test_other_commands_that_commit_run_hooks_too(here: Path) -> None:
    lake = hg.Lake.open("lake")
    lake.create_table("a.b", "id BIGINT")
    with lake.transaction() as tx:
        tx.plan("clustering", "a.b", ["f"], ["/a/b"])
    assert run("timeline", "lake", "--cancel", tx.txid).exit_code == 0
    assert run("doctor", "lake", "--switch-to", "filetracker").exit_code == 0
    assert run("doctor", "lake", "--resolve", "a" * 32).exit_code == 0
    assert run("view", "lake", "a.v", "--sql", "SELECT * FROM a.b").exit_code == 0
    assert run("mount", "lake", "a.m", ".", "--format", "json", "--schema", "id BIGINT").exit_code == 0
    assert run("drop", "lake", "a.v").exit_code == 0
    kinds = [json.loads(line)["kind"] for line in (here / "events.jsonl").read_text().splitlines()]
    assert kinds == ["cancel", "switch", "cancel", "commit", "commit", "commit"]


def test_a_replica_is_kept_by_a_hook_of_the_file(here: Path) -> None:
    (here / "headgate.toml").write_text(
        "[[hooks]]\nname = 'copy'\naction = 'replicate'\ntarget = 'replica'\n"
    )
    result = run("ingest", "lake", "a.b", "rows.jsonl")
    assert (result.exit_code, result.stderr) == (0, "")
    assert hg.Lake.open("replica").table("a.b").read_arrow().to_pylist() == [{"id": 1}]
    assert run_json("hooks", "list", "lake")[0]["does"] == f"replicate to {here}/replica"


def test_the_file_is_that_of_the_option_then_of_the_environment_then_the_one_here(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(name: str) -> str:
        (here / f"{name}.toml").write_text(f"[[hooks]]\nname = '{name}'\naction = 'notify'\n")
        return f"{name}.toml"

    def names(*args: str) -> list[str]:
        return [hook["name"] for hook in run_json("hooks", "list", "lake", *args)]

    assert names() == ["check", "log"]
    monkeypatch.setenv("HEADGATE_CONFIG", named("environment"))
    assert names() == ["environment"]
    assert names("--config", named("option")) == ["option"]
    (here / "headgate.toml").unlink()
    monkeypatch.delenv("HEADGATE_CONFIG")
    assert names() == []


def test_mistakes_are_wrong_usage_and_nothing_is_committed(here: Path) -> None:
    (here / "headgate.toml").write_text("[[hooks]]\nname = 'a'\naction = 'command'\ncommand = 'ls'\n")
    result = run("ingest", "lake", "a.b", "rows.jsonl")
    assert (
        result.exit_code == 2 and "headgate.toml, hook a: command must be a list of strings" in result.stderr
    )
    missing = run("hooks", "list", "lake", "--config", "none.toml")
    assert missing.exit_code == 2 and "cannot read none.toml" in missing.stderr
    (here / "headgate.toml").unlink()
    (here / "headgate.toml").symlink_to("nowhere")
    assert run("recover", "lake").exit_code == 2
    assert hg.Lake.open("lake").version == 0
    # Commands that only look need no hooks.
    assert run("log", "lake").exit_code == run("timeline", "lake").exit_code == 0


@pytest.mark.parametrize(
    "command", [("ingest", ".", "a.b", "../rows.jsonl"), ("recover", "."), ("hooks", "run", ".")]
)
def test_a_file_in_the_lake_is_refused_where_one_stands_in_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (here / "headgate.toml").rename(here / "lake" / "headgate.toml")
    monkeypatch.chdir(here / "lake")
    result = run(*command)
    assert result.exit_code == 2 and "Headgate never reads hooks from a lake" in result.stderr
    assert hg.Lake.open(".").version == 0
    assert run(*command, "--config", "/dev/null").exit_code == 0


def test_a_link_into_the_lake_is_refused(here: Path) -> None:
    (here / "headgate.toml").rename(here / "lake" / "headgate.toml")
    (here / "headgate.toml").symlink_to("lake/headgate.toml")
    result = run("recover", "lake", "--json")
    assert result.exit_code == 2
    assert "never reads hooks from a lake" in json.loads(result.stderr)["error"]["problem"]


def unfinished(here: Path) -> None:
    """A commit whose writer was interrupted in its hook."""

    class Interrupting:
        def run(self, event: CommitEvent) -> None:
            raise KeyboardInterrupt

        def describe(self) -> str:
            return "interrupts"

    lake = hg.Lake.open(here / "lake", hooks=[Hook("log", Interrupting())])
    with pytest.raises(KeyboardInterrupt):
        lake.create_table("a.b", "id BIGINT")


def test_recover_says_in_plain_words_what_it_did(here: Path) -> None:
    unfinished(here)
    assert run("hooks", "status", "lake").output.splitlines()[1].split("\t") == [
        *("1", "log", "pending", "0", "yes"),
        "its writer is still running, or died: run headgate recover",
    ]
    assert run("recover", "lake", "--config", "/dev/null").output.splitlines() == [
        "checked versions 1 to 1",
        "wrote the missing control entries of versions 1",
        "published a.b",
        "hook open: version 1: log (not registered here)",
    ]
    assert run("recover", "lake").output.splitlines() == [
        "no new versions: everything up to version 1 is already recovered",
        "hook done: version 1: log",
    ]
    assert run("recover", "lake").output.splitlines() == [
        "no new versions: everything up to version 1 is already recovered",
        "nothing to do",
    ]


def test_recover_as_json(here: Path) -> None:
    unfinished(here)
    report = run_json("recover", "lake")
    assert (report["until"], report["entries"], report["hooks_done"], report["changed"]) == (
        1,
        [1],
        ["1: log"],
        True,
    )
    assert set(report) == {*hg.Lake.open("lake").recover().__dataclass_fields__, "changed"}


def test_a_hook_of_a_process_is_shown_by_status_of_another(here: Path) -> None:
    def fail(event: CommitEvent) -> None:
        raise OSError("no \x1b[31m way")

    hook = Hook("own", Python(fail), retry=hg.RetryPolicy(attempts=1))
    hg.Lake.open("lake", hooks=[hook]).set_properties({"a": "1"})
    (line,) = run("hooks", "status", "lake").output.splitlines()[1:]
    assert line.split("\t") == ["1", "own", "failed", "1", "no", "OSError: no \\x1b[31m way"]


FAILING = """
[[hooks]]
name = "never"
action = "command"
command = ["false"]
retry.attempts = 1
"""


@pytest.mark.parametrize(
    "command",
    [
        ("doctor", "lake", "--resolve", "0" * 32),
        ("timeline", "lake", "--cancel", "1" * 32),
        ("doctor", "lake", "--switch-to", "filetracker"),
        ("view", "lake", "a.v", "--sql", "SELECT 1"),
        ("mount", "lake", "a.m", ".", "--format", "json"),
        ("ingest", "lake", "a.b", "rows.jsonl"),
    ],
    ids=lambda command: "-".join(part for part in command if part.strip("01-")),
)
def test_every_command_that_commits_says_which_hooks_are_not_done(
    here: Path, command: tuple[str, ...]
) -> None:
    Path("headgate.toml").write_text(FAILING)
    shown = run(*command, "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["hook_failures"] == ["never: false failed with exit code 1"]
    version = hg.Lake.open("lake").version
    assert f"version {version} is committed, but a hook is not done: never" in shown.stderr
    assert "hooks retry" in shown.stderr


def test_dropping_says_so_too(here: Path) -> None:
    run_json("ingest", "lake", "a.b", "rows.jsonl", "--config", "/dev/null")
    Path("headgate.toml").write_text(FAILING)
    shown = run("drop", "lake", "a.b", "--json")
    assert json.loads(shown.stdout)["hook_failures"] == ["never: false failed with exit code 1"]


def test_what_was_settled_before_ran_no_hook(here: Path) -> None:
    Path("headgate.toml").write_text(FAILING)
    for _ in range(2):
        shown = run("doctor", "lake", "--resolve", "0" * 32, "--json")
    assert json.loads(shown.stdout) == {
        "txid": "0" * 32,
        "committed": False,
        "version": None,
        "cancelled_by": None,
        "hook_failures": [],
    }


def test_ctrl_c_inside_a_hook_ends_as_any_other_and_says_what_stands(here: Path, tmp_path: Path) -> None:
    os.mkfifo("begun")
    script = f"echo begun > {tmp_path / 'begun'}; sleep 600"
    Path("headgate.toml").write_text(FAILING.replace('["false"]', json.dumps(["sh", "-c", script])))
    program = (sys.executable, "-c", "from headgate.cli import main; main()")
    args = ("ingest", "lake", "a.b", "rows.jsonl")
    with subprocess.Popen([*program, *args], stderr=subprocess.PIPE, text=True) as process:
        with Path("begun").open() as begun:
            assert begun.read() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert "was committed as version 1; to complete the work that follows it" in said
    assert "such as hooks, run headgate recover" in said
    assert [hook.run.name for hook in hg.Lake.open("lake").open_hooks()] == ["never"]


def test_a_hook_is_given_up(here: Path) -> None:
    Path("headgate.toml").write_text(FAILING)
    run("ingest", "lake", "a.b", "rows.jsonl")
    assert run_json("hooks", "skip", "lake", "never") == {"hook": "never", "versions": [1]}
    assert run("hooks", "skip", "lake", "never").output == "skipped never for 0 versions\n"
    assert run("hooks", "retry", "lake").exit_code == 0
