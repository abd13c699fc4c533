"""No credential that is given is anywhere in a lake: every call that takes a text, every shape, every byte.

What is refused is not there either.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate import hooks
from headgate.core.conflict.retry import RetryPolicy
from headgate.hooks import Command, Hook, Notify, Python, Replicate, Webhook
from headgate.storage.local import LocalStore
from tests.cli.program import run
from tests.steward.secrets import SECRETS, SHAPES, Attempts, S, require_nowhere

pytestmark = pytest.mark.slow

ONCE = RetryPolicy(attempts=1)
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # some shapes are names of files as well
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"):  # and some are URLs: nothing leaves this machine
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", S)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", S)
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False), divisor=4)
    lake.create_table("a.b", "id BIGINT, name STRING", partition_by=["name"]).append(ROWS)
    return tmp_path / "lake"


def opened(root: Path, *registered: Hook) -> hg.Lake:
    return hg.Lake.open(LocalStore(root, fsync=False), hooks=registered)


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_calls(root: Path, tmp_path: Path, text: str) -> None:
    lake, attempt = opened(root), Attempts()
    table, word = lake.table("a.b"), text.split()
    quoted = text.replace("'", "").replace("\\", "")
    for args in ([text], ["nightly", text], word, ["--password", S], ["-u", f"ann:{S}"]):
        attempt(lambda args=args: table.append(ROWS, args=args))  # type: ignore[misc]
    with lake.transaction(args=[text], properties={"remark": text, text: "x", "db.password": S}) as tx:
        tx.table("a.b").append(ROWS)
    attempt(lambda: lake.transaction(app=(text, 1)))
    attempt(lambda: lake.set_properties({"remark": text}, args=[text]))
    attempt(lambda: lake.set_properties({text: "x"}))
    attempt(lambda: lake.remove_properties(text, args=[text]))
    attempt(lambda: lake.tag(text, args=[text]))
    attempt(lambda: lake.tag("eom", args=[text]))
    attempt(lambda: lake.untag("eom", args=[text]))
    attempt(lambda: lake.create_table("a.c", f"id BIGINT COMMENT '{quoted}'", args=[text]))
    attempt(lambda: lake.create_table("a.d", "id BIGINT", properties={"comment": text}))
    attempt(lambda: lake.create_table("a.e", pa.schema([pa.field(text, pa.int64())])))
    attempt(lambda: lake.create_table("a.f", pa.schema([pa.field("s", pa.struct([(text, pa.int64())]))])))
    attempt(lambda: lake.create_table(f"a.{text}", "id BIGINT"))
    attempt(lambda: lake.rename_table("a.b", f"a.{text}", args=[text]))
    attempt(lambda: table.set_properties({"comment": text}, args=[text]))
    attempt(lambda: table.remove_properties(text))
    attempt(lambda: table.add_column("noted", "STRUCT<x: INT COMMENT '" + quoted + "'>", doc=text))
    attempt(lambda: table.add_column(text, "INT"))
    attempt(lambda: table.rename_column("noted", text))
    attempt(lambda: table.describe_column("name", text))
    attempt(lambda: table.add_partition_field(text))
    attempt(lambda: table.replace_sort_by([text]))
    attempt(lambda: table.delete(f"name = '{quoted}'", args=[text]))
    attempt(lambda: table.update({"id": "id + 1"}, where=f"name != '{quoted}'", args=[text]))
    attempt(lambda: table.overwrite(ROWS, where=f"name != '{quoted}'", args=[text]))
    attempt(lambda: table.upsert(pa.table({**columns(), "noted": [None, None]}), ["id"], args=[text]))
    attempt(lambda: lake.create_view("v.a", f"SELECT '{quoted}' AS x FROM a.b"))
    attempt(lambda: lake.create_view("v.b", f"SELECT id /* {text} */ FROM a.b"))
    attempt(lambda: lake.create_view("v.c", f"SELECT id AS `{text}` FROM a.b"))
    attempt(lambda: lake.create_view(f"v.{text}", "SELECT id FROM a.b"))
    attempt(lambda: lake.rename_object("v.a", f"v.{text}"))
    attempt(lambda: lake.mount_csv("m.a", text))
    attempt(lambda: lake.mount_csv("m.b", tmp_path, schema=f"id INT COMMENT '{quoted}'"))
    attempt(lambda: lake.mount_csv("m.c", tmp_path, schema="id INT", options={"delimiter": text}))
    attempt(lambda: lake.mount_csv("m.d", tmp_path, schema="id INT", options={text: "x"}))
    attempt(lambda: lake.mount_directory("m.e", tmp_path, format=text))
    attempt(lambda: lake.cancel("1" * 32, args=[text]))
    attempt(lambda: planned(lake, text))
    if "http" not in text:
        attempt(lambda: lake.replicate(text))
    attempt(lambda: lake.drop_table("a.c", args=[text]))
    lake.recover()
    lake.rebuild_control()
    assert lake.fsck().ok
    assert attempt.done > 10 and attempt.refused > 10
    require_nowhere(root)


def columns() -> dict[str, Any]:
    return {name: ROWS.column(name) for name in ROWS.column_names}


def planned(lake: hg.Lake, text: str) -> None:
    with lake.transaction(args=[text]) as tx:
        tx.plan("compaction", "a.b", [file.path for file in lake.table("a.b").files()], ["/a/b"], {"x": text})


def raises(text: str) -> Callable[[Any], None]:
    def fail(event: Any) -> None:
        raise RuntimeError(text)

    return fail


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_hooks(root: Path, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They fail in every way, and what they say of it is kept with the version."""
    monkeypatch.setenv("HOOK_KEY", text)
    attempt = Attempts()
    actions: list[Callable[[], Any]] = [
        lambda: Command(["sh", "-c", 'echo "$0" >&2; exit 3', text]),
        lambda: Command([text.replace("\n", " "), text]),
        lambda: Command(["false", *text.split()]),
        lambda: Python(raises(text)),
        lambda: Webhook(f"http://ann:{S}@127.0.0.1:1/{S}?token={S}", key_env="HOOK_KEY"),
        lambda: Webhook(text.replace("https://", "http://127.0.0.1:1/")),
        lambda: Notify(text if "://" in text else tmp_path / "none" / text),
        lambda: Replicate(text.replace("https://", "memory://")),
        lambda: Replicate(tmp_path / "lake" / "inside", options={"x": text}),
    ]
    registered: list[Hook] = []
    for number, action in enumerate(actions):
        attempt(lambda: registered.append(Hook(f"h{number}", action(), retry=ONCE)))  # noqa: B023
    attempt(lambda: opened(root, Hook(text, Python(print)), *registered))
    lake = opened(root, *registered)
    result = lake.table("a.b").append(ROWS, args=[text])
    assert len(result.hook_failures) >= 4
    assert not any(secret in failure for failure in result.hook_failures for secret in SECRETS)
    assert not any(secret in hook.action.describe() for hook in registered for secret in SECRETS)
    lake.run_hooks(retry=True)
    require_nowhere(root)


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_commands(root: Path, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person types them, with hooks of a headgate.toml."""
    monkeypatch.setenv("HOOK_KEY", text)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 1, "name": "a"}\n')
    odd = tmp_path / ("odd.csv" if "/" in text else text)
    odd.write_text("id,name\n1,a\n")
    (tmp_path / "names.csv").write_text(f"{json.dumps(text)}\n1\n")
    (tmp_path / "headgate.toml").write_text(
        f"""
[[hooks]]
name = "tell"
action = "webhook"
url = "http://ann:{S}@127.0.0.1:1/{S}"
key_env = "HOOK_KEY"
retry.attempts = 1

[[hooks]]
name = "shout"
action = "command"
command = ["sh", "-c", "echo $HOOK_KEY >&2; exit 1", {json.dumps(text)}]
retry.attempts = 1
"""
    )
    hooks.load(tmp_path / "headgate.toml")
    codes = [
        run(*command).exit_code
        for command in (
            ("ingest", root, "a.b", rows),
            ("ingest", root, "a.b", odd, "--format", "csv"),
            ("ingest", root, "a.b", text, rows),
            ("ingest", root, "a.n", tmp_path / "names.csv"),
            ("ingest", root, "a.t", rows, "--schema", f"id BIGINT COMMENT '{text}', name STRING"),
            ("ingest", root, "a.b", rows, "--app", text, "--batch", "1"),
            ("ingest", root, f"a.{text}", rows),
            ("ingest", root, "a.b", rows, "--delimiter", text),
            ("ingest", root, "a.b", rows, "--option", text),
            ("view", root, "v.x", "--sql", f"SELECT '{text}' FROM a.b"),
            ("view", root, "v.y", "--sql", f"SELECT id FROM a.b -- {text}"),
            ("mount", root, "m.x", text),
            ("mount", root, "m.y", tmp_path, "--format", "json", "--schema", f"id INT COMMENT '{text}'"),
            ("drop", root, text),
            ("doctor", root, "--resolve", text),
            ("doctor", root, "--switch-to", text),
            ("timeline", root, "--cancel", text),
            ("replicate", root, text.replace("http", "none")),
            ("replicate", root, "s3://none", "--target-option", f"access_key_id={text}"),
            ("init", text.replace("http", "none")),
            ("compact", root, text),
            ("cluster", root, "a.b", "--by", text),
            ("cluster", root, "a.b", "--by", "id", "--where", f"name = '{text}'"),
            ("expire", root, "--keep", text),
            ("vacuum", root, "--older-than", text),
            ("recover", root),
            ("hooks", "retry", root),
        )
    ]
    assert codes[0] == 0, codes
    assert {1, 2} <= set(codes)
    assert opened(root).open_hooks()
    require_nowhere(root)
