"""headgate.toml: what it can say, every mistake in it, and where it must not lie."""

from __future__ import annotations

import re
from contextlib import chdir
from datetime import timedelta
from pathlib import Path

import pytest

import headgate as hg
from headgate.hooks import Audit, Command, Hook, Notify, Python, Webhook, When, load, register

WHOLE = """
[[hooks]]
name = "tell"
action = "command"
command = ["send", "--all"]
after = ["audit", "log"]
when.tables = ["sales.*"]
when.kinds = ["append", "merge"]
retry.attempts = 5
retry.base_seconds = 0.5
retry.cap_seconds = 8
retry.total_seconds = 60
timeout_seconds = 30

[[hooks]]
name = "post"
action = "webhook"
url = "https://example.org/x"
key_env = "ORDERS_KEY"
timeout_seconds = 2.5

[[hooks]]
name = "log"
action = "notify"
file = "logs/events.jsonl"

[[hooks]]
name = "audit"
action = "audit"
stream = "stderr"

[[hooks]]
name = "call"
action = "python"
function = "builtins:print"
"""


def written(directory: Path, text: str) -> Path:
    file = directory / "headgate.toml"
    file.write_text(text)
    return file


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    hooks = load(written(tmp_path, WHOLE))
    assert hooks == (
        Hook("post", Webhook("https://example.org/x", "ORDERS_KEY", 2.5)),
        Hook("log", Notify(tmp_path / "logs/events.jsonl")),
        Hook("audit", Audit(stream="stderr")),
        Hook(
            "tell",
            Command(["send", "--all"], 30),
            after=["audit", "log"],
            when=When(["sales.*"], ["append", "merge"]),
            retry=hg.RetryPolicy(5, timedelta(seconds=0.5), timedelta(seconds=8), timedelta(seconds=60)),
        ),
        Hook("call", Python(print)),
    )


def test_an_empty_file_has_no_hooks(tmp_path: Path) -> None:
    assert load(written(tmp_path, "")) == () == load("/dev/null")


def hook(*lines: str, name: str = 'name = "tell"', action: str = 'action = "command"') -> str:
    return "\n".join(["[[hooks]]", name, action, *lines])


OK = 'command = ["true"]'
MISTAKES = [
    ("[[hooks]", "is not valid TOML"),
    ("[[hook]]\nname = 'a'", "unknown field 'hook'. did you mean hooks"),
    ("hooks = 'a'", "begin each hook with [[hooks]]"),
    ("[hooks]\nname = 'a'", "begin each hook with [[hooks]]"),
    ("[[hooks]]\naction = 'notify'", "hook number 1: name is missing"),
    (hook(OK, name="name = 3"), "hook number 1: name must be a non-empty string, but is a number"),
    (hook(OK, name='name = "a b"'), "hook a b: 'a b' is not a valid hook name"),
    (hook(OK, action=""), "hook tell: action is missing"),
    (hook(OK, action='action = "comand"'), "unknown action 'comand'. did you mean command"),
    (
        hook(OK, action='action = "xyz"'),
        "actions: audit, command, compact, notify, python, replicate, webhook",
    ),
    (hook(), "hook tell: command is missing"),
    (hook('command = "rm -rf /"'), "hook tell: command must be a list of strings, .* but is a string"),
    (hook("command = [1]"), "hook tell: command must be a list of strings"),
    (hook("command = []"), "hook tell: a command needs a program"),
    (hook(OK, "timeout_seconds = '3'"), "hook tell: timeout_seconds must be a number, but is a string"),
    (hook(OK, "timeout_seconds = true"), "timeout_seconds must be a number, but is a boolean"),
    (hook(OK, "timeout_seconds = 0"), "hook tell: timeout_seconds must be above 0"),
    (hook(OK, "time_out_seconds = 3"), "unknown field 'time_out_seconds'. did you mean timeout_seconds"),
    (hook(OK, "after = 'x'"), "hook tell: after must be a list of strings"),
    (hook(OK, "after = ['x']"), "hook tell must run after x, which is not a hook"),
    (hook(OK, "after = ['tell']"), "hooks wait for each other: tell -> tell"),
    (hook(OK) + "\n" + hook(OK), "two hooks have the name tell"),
    (hook(OK, "when = 'x'"), "hook tell: when must be a table"),
    (hook(OK, "when.tables = 'a.b'"), "hook tell, when: tables must be a list of strings"),
    (hook(OK, "when.tables = ['orders']"), "hook tell: 'orders' is not a table name"),
    (hook(OK, "when.kinds = ['apend']"), "hook tell: 'apend' is not a kind of commit. did you mean append"),
    (hook(OK, "when.kind = ['append']"), "hook tell, when: unknown field 'kind'. did you mean kinds"),
    (hook(OK, "retry.attempts = 0"), "hook tell: attempts of a retry policy must be a positive integer"),
    (hook(OK, "retry.attempts = 1.5"), "hook tell, retry: attempts must be an integer"),
    (hook(OK, "retry.base_seconds = -1"), "hook tell: base of a retry policy must not be negative"),
    (hook(OK, "retry.total_seconds = nan"), "total_seconds must be a valid number of seconds, but is nan"),
    (
        hook(OK, "retry.total_seconds = 1e300"),
        "total_seconds must be a valid number of seconds, but is 1e.300",
    ),
    (hook(OK, "retry.tries = 3"), "hook tell, retry: unknown field 'tries'"),
    (
        hook("url = 'x'", action="action = 'webhook'"),
        "hook tell: the url of the webhook must begin with http",
    ),
    (
        hook("url = 'https://h'", "key = 'hunter2'", action="action = 'webhook'"),
        "unknown field 'key'. did you mean key_env",
    ),
    (
        hook("file = 'x'", "stream = 'stdout'", action="action = 'notify'"),
        "hook tell: file and stream cannot be combined",
    ),
    (
        hook("file = ''", action="action = 'audit'"),
        "hook tell: file must be a non-empty string, but is empty",
    ),
    (hook(action="action = 'replicate'"), "hook tell: target is missing"),
    (hook("target = 'nope://x'", action="action = 'replicate'"), "the scheme nope:// is not supported"),
    (hook("target = 's3://b/x'", "options = 3", action="action = 'replicate'"), "options must be a table"),
    (
        hook("target = 's3://b/x'", "options.secret_access_key = 'hunter2'", action="action = 'replicate'"),
        "hook tell: the option secret_access_key looks like a credential",
    ),
    (hook("function = 'print'", action="action = 'python'"), "package.module:name"),
    (
        hook("function = 'no_such_module:f'", action="action = 'python'"),
        "cannot load no_such_module:f: ModuleNotFound",
    ),
    (hook("function = 'os:no_such'", action="action = 'python'"), "cannot load os:no_such: AttributeError"),
    (
        hook("function = 'os:sep'", action="action = 'python'"),
        "hook tell: function must be callable, but is a str",
    ),
]


@pytest.mark.parametrize(("text", "told"), MISTAKES)
def test_every_mistake_names_the_file_and_the_hook(tmp_path: Path, text: str, told: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(hg.InvalidInputError) as caught:
        load(file)
    said = str(caught.value)
    assert said.startswith(str(file)) and said.count(str(file)) == 1 and "hunter2" not in said
    assert re.search(told.replace("[[", r"\[\["), said.replace("\n  next: ", ". "))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(hg.InvalidInputError, match="No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(hg.InvalidInputError, match="Is a directory"):
        load(tmp_path)
    file = tmp_path / "latin.toml"
    file.write_bytes(b"name = '\xff'")
    with pytest.raises(hg.InvalidInputError, match="is not valid TOML"):
        load(file)
    for wrong in ("", None, "a\0b"):
        with pytest.raises(hg.InvalidInputError, match="is not a file name"):
            load(wrong)  # type: ignore[arg-type]


# --- never in a lake -------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> hg.Lake:
    return hg.Lake.init(tmp_path / "lake")


def refused(path: Path | str) -> str:
    with pytest.raises(hg.InvalidInputError) as caught:
        load(path)
    assert "Headgate never reads hooks from a lake" in str(caught.value)
    return str(caught.value)


def test_a_file_in_a_lake_is_refused(lake: hg.Lake) -> None:
    inside = Path(lake.place)
    assert f"is inside the lake {lake.place}" in refused(written(inside, WHOLE))
    deep = inside / "data" / "a"
    deep.mkdir(parents=True)
    refused(written(deep, WHOLE))
    with chdir(deep):
        refused("headgate.toml")
        refused("../../headgate.toml")


def test_links_into_a_lake_and_through_it_are_refused(lake: hg.Lake, tmp_path: Path) -> None:
    inside = Path(lake.place)
    written(inside, WHOLE)
    outside = written(tmp_path, WHOLE)
    (tmp_path / "to-file.toml").symlink_to("lake/headgate.toml")
    refused(tmp_path / "to-file.toml")
    (tmp_path / "to-directory").symlink_to(inside)
    refused(tmp_path / "to-directory" / "headgate.toml")
    # The file is outside, but the lake says which one it is.
    (inside / "link.toml").symlink_to(outside)
    assert "leads through the lake" in refused(inside / "link.toml")
    (inside / "elsewhere").symlink_to(tmp_path)
    (tmp_path / "over").symlink_to(inside / "elsewhere")
    assert "leads through the lake" in refused(tmp_path / "over" / "headgate.toml")


def test_a_file_beside_a_lake_is_read_also_by_a_winding_path(lake: hg.Lake, tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    (tmp_path / "link.toml").symlink_to(file)
    for path in (file, tmp_path / "link.toml", Path(lake.place) / ".." / "headgate.toml"):
        assert len(load(path)) == 5
    with chdir(lake.place):
        assert len(load("../headgate.toml")) == 5


def test_a_circle_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(hg.InvalidInputError, match="too many symbolic links"):
        load(tmp_path / "a")


def test_register_knows_the_lake_also_if_nothing_in_it_says_that_it_is_one(
    lake: hg.Lake, tmp_path: Path
) -> None:
    file = written(Path(lake.place), WHOLE)
    (Path(lake.place) / "headgate.json").unlink()
    (Path(lake.place) / "control" / "log").rename(tmp_path / "log")
    with pytest.raises(hg.InvalidInputError, match="never reads hooks from a lake"):
        register(lake, file)
    register(lake, written(tmp_path, WHOLE))
    assert [hook.name for hook in lake.hooks] == ["post", "log", "audit", "tell", "call"]


def test_all_conditions_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(
        """
[[hooks]]
name = "a"
action = "notify"
file = "x"
concurrent = true
wait_seconds = 5
when.min_rows = 1000
when.paths = ["/sales/orders/day=*"]
when.users = ["etl"]
when.apps = ["loader-*"]
"""
    )
    (hook,) = hg.hooks.load(file)
    assert hook.when == When((), (), 1000, ("/sales/orders/day=*",), ("etl",), ("loader-*",))
    assert (hook.concurrent, hook.wait.total_seconds()) == (True, 5)
    for wrong in ('when.min_rows = "many"', "when.min_rows = -1", 'when.paths = ["sales"]', "concurrent = 1"):
        file.write_text(f'[[hooks]]\nname = "a"\naction = "notify"\nfile = "x"\n{wrong}\n')
        with pytest.raises(hg.InvalidInputError, match="hook a"):
            hg.hooks.load(file)
