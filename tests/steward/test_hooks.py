"""Hooks through the lake: the commit is decided first, states are kept, and what is open is made up for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.hooks import Audit, Command, CommitEvent, Hook, Notify, Python, Webhook, When
from headgate.log.layout import OUTBOX, entry_key, outbox_key
from headgate.model.identifiers import Version
from headgate.steward.hooks.nesting import VARIABLE
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import all_keys
from tests.steward.http_server import WebServer, web_server

ONCE = hg.RetryPolicy(attempts=1)


class Flaky:
    """A function that fails a number of times, and remembers the ids of the events that it got."""

    def __init__(self, failures: int = 0, error: str = "not today") -> None:
        self.failures, self.error, self.events = failures, error, list[str]()

    def __call__(self, event: CommitEvent) -> None:
        self.events.append(event.id)
        if len(self.events) <= self.failures:
            raise OSError(self.error)


def hook(name: str, function: Callable[[CommitEvent], object], **settings: Any) -> Hook:
    return Hook(name, Python(function), **{"retry": ONCE, **settings})


def entry(store: MemoryStore, version: int) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(store.get(entry_key(Version(version))) or b"")
    return fields


def hooks_of(store: MemoryStore, version: int) -> list[tuple[str, str, int, str | None]]:
    return [
        (each["name"], each["state"], each["attempts"], each.get("error"))
        for each in entry(store, version)["hooks"]
    ]


def outbox(store: MemoryStore) -> dict[str, Any]:
    return {key: json.loads(store.get(key) or b"") for key in all_keys(store, OUTBOX)}


def commit(lake: hg.Lake, value: str = "x") -> hg.CommitResult:
    return lake.set_properties({"n": value})


def test_a_hook_runs_when_its_version_can_be_read(store: MemoryStore) -> None:
    seen: list[tuple[int, int, str]] = []

    def look(event: CommitEvent) -> None:
        reader = hg.Lake.open(store)
        seen.append((event.version, reader.version, reader.properties["n"]))

    lake = hg.Lake.open(store, hooks=[hook("look", look)])
    for value in "abc":
        assert commit(lake, value).hook_failures == ()
    assert seen == [(1, 1, "a"), (2, 2, "b"), (3, 3, "c")]
    assert hooks_of(store, 3) == [("look", "done", 1, None)] and outbox(store) == {}
    assert entry(store, 3)["timings"]["hooks"] >= 0


def test_a_commit_never_fails_because_of_a_hook(store: MemoryStore) -> None:
    hang, other = threading.Event(), Flaky()
    hooks = [
        hook("failing", Flaky(9)),
        Hook("hanging", Python(lambda event: hang.wait(), timeout_seconds=0.05), retry=ONCE),
        hook("dependent", Flaky(), after=["failing"]),
        Hook("program", Command(["no-such-program-1"]), retry=ONCE),
        hook("other", other),
    ]
    lake = hg.Lake.open(store, hooks=hooks)
    result = commit(lake)
    hang.set()
    assert (result.version, result.postponed) == (1, ())
    assert result.hook_failures == (
        "failing: OSError: not today",
        "hanging: gave up after 0.05 s; it may still be running",
        "dependent: waits for failing",
        "program: the program no-such-program-1 does not exist",
    )
    assert other.events == [f"{lake.id}-1"]
    assert [(name, state) for name, state, _, _ in hooks_of(store, 1)] == [
        ("failing", "failed"),
        ("hanging", "failed"),
        ("dependent", "pending"),
        ("program", "failed"),
        ("other", "done"),
    ]
    assert outbox(store) == {
        outbox_key(Version(1)): {"hooks": ["failing", "hanging", "dependent", "program"]}
    }


def test_the_event_id_is_the_same_over_attempts_retries_and_recovery(store: MemoryStore) -> None:
    flaky = Flaky(4)
    policy = hg.RetryPolicy(attempts=2)
    lake = hg.Lake.open(store, hooks=[hook("flaky", flaky, retry=policy)])
    commit(lake)
    assert hooks_of(store, 1) == [("flaky", "failed", 2, "OSError: not today")]
    assert lake.recover().hooks_open == ("1: flaky (OSError: not today)",)  # failed is not pending
    assert lake.run_hooks().open == ("1: flaky (OSError: not today)",)
    assert len(flaky.events) == 2
    assert lake.run_hooks(retry=True).open == ("1: flaky (OSError: not today)",)
    later = hg.Lake.open(store, hooks=[hook("flaky", flaky, retry=policy)])
    assert later.run_hooks(retry=True).done == ("1: flaky",)
    assert flaky.events == [f"{lake.id}-1"] * 5
    assert hooks_of(store, 1) == [("flaky", "done", 5, None)]
    assert outbox(store) == {} and later.open_hooks() == ()


def test_what_waited_runs_after_what_it_waited_for(store: MemoryStore) -> None:
    order: list[str] = []
    first = Flaky(1)

    def noted(name: str) -> Callable[[CommitEvent], None]:
        return lambda event: order.append(name)

    def failing_once(event: CommitEvent) -> None:
        first(event)
        order.append("first")

    hooks = [
        hook("third", noted("third"), after=["second"]),
        hook("second", noted("second"), after=["first"]),
        hook("first", failing_once),
    ]
    lake = hg.Lake.open(store, hooks=hooks)
    commit(lake)
    assert order == [] and lake.run_hooks(retry=True).open == ()
    assert order == ["first", "second", "third"]


def test_a_cycle_is_refused_when_hooks_are_registered(store: MemoryStore) -> None:
    circle = [hook("a", Flaky(), after=["b"]), hook("b", Flaky(), after=["a"])]
    with pytest.raises(hg.InvalidInputError, match="wait for each other"):
        hg.Lake.open(store, hooks=circle)
    lake = hg.Lake.open(store, hooks=[hook("a", Flaky())])
    with pytest.raises(hg.InvalidInputError, match="two hooks have the name a"):
        lake.add_hook(hook("a", Flaky(), after=["a"]))
    assert [each.name for each in lake.hooks] == ["a"]
    lake.add_hook(hook("b", Flaky(), after=["a"]))
    assert commit(lake).hook_failures == () and len(hooks_of(store, 1)) == 2


def test_conditions_choose_the_commits(store: MemoryStore) -> None:
    orders, drops = Flaky(), Flaky()
    hooks = [
        hook("orders", orders, when=When(["sales.orders"], ["append"])),
        hook("drops", drops, when=When(kinds=["drop"])),
    ]
    lake = hg.Lake.open(store, hooks=hooks)
    for name in ("sales.orders", "sales.totals"):
        lake.create_table(name, "id BIGINT").append(pa.table({"id": [1]}))
    lake.drop_table("sales.orders")
    assert orders.events == [f"{lake.id}-2"] and drops.events == [f"{lake.id}-5"]
    assert [record.record.get("hooks") for record in lake.log()][::-1] == [
        None,
        ["orders"],
        None,
        None,
        ["drops"],
    ]


def test_a_process_without_the_hook_leaves_it_pending_and_says_so(store: MemoryStore) -> None:
    commit(hg.Lake.open(store, hooks=[hook("first", Flaky(1)), hook("second", Flaky(), after=["first"])]))
    stranger = hg.Lake.open(store)
    before = {key: store.get(key) for key in all_keys(store, "")}
    assert stranger.run_hooks(retry=True).open == (
        "1: first (OSError: not today; not registered here)",
        "1: second (waits for first; not registered here)",
    )
    assert {key: store.get(key) for key in all_keys(store, "")} == before
    opened = stranger.open_hooks()
    assert [(each.version, each.run.name, each.registered, each.recorded) for each in opened] == [
        (1, "first", False, True),
        (1, "second", False, True),
    ]


def test_an_outbox_that_is_not_needed_is_emptied_and_a_foreign_one_is_passed_over(store: MemoryStore) -> None:
    lake = hg.Lake.open(store, hooks=[hook("a", Flaky())])
    commit(lake)
    store.put(outbox_key(Version(1)), b"{}")  # as of a writer that died before it removed it
    store.put(outbox_key(Version(99)), b"{}")
    assert lake.run_hooks() == type(lake.run_hooks())()
    assert list(outbox(store)) == [outbox_key(Version(99))]
    assert lake.open_hooks() == ()


def test_secrets_of_hooks_are_not_on_storage(store: MemoryStore) -> None:
    def fail(event: CommitEvent) -> None:
        raise OSError("cannot reach postgres://ann:hunter2@db/x?password=hunter2 with token=hunter2")

    hooks = [
        hook("python", fail),
        Hook(
            "command",
            Command(["sh", "-c", "echo api_key=hunter2; exit 3", "--password", "hunter2"]),
            retry=ONCE,
        ),
        Hook("webhook", Webhook("http://ann:hunter2@127.0.0.1:1/hunter2?k=hunter2"), retry=ONCE),
    ]
    result = commit(hg.Lake.open(store, hooks=hooks))
    assert len(result.hook_failures) == 3
    assert "hunter2" not in str(result.hook_failures)
    assert all(b"hunter2" not in (store.get(key) or b"") for key in all_keys(store, ""))


def test_an_error_that_is_not_unicode_is_kept(store: MemoryStore) -> None:
    commit(hg.Lake.open(store, hooks=[hook("a", Flaky(1, "file \udcff"))]))
    assert hooks_of(store, 1) == [("a", "failed", 1, "OSError: file \\udcff")]


def test_a_hook_that_commits_is_not_run_for_its_own_commits(store: MemoryStore) -> None:
    watcher = Flaky()

    def count(event: CommitEvent) -> None:
        lake.set_properties({"commits": str(event.version)})

    lake = hg.Lake.open(store, hooks=[hook("count", count), hook("watch", watcher)])
    assert commit(lake).hook_failures == ()
    assert lake.version == 2 and lake.properties["commits"] == "1"
    # The other hook gets both, in the order of versions, although the inner commit was made first.
    assert watcher.events == [f"{lake.id}-1", f"{lake.id}-2"]
    assert [name for name, *_ in hooks_of(store, 2)] == ["watch"]


def test_nor_for_those_of_a_program_that_it_started(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = hg.Lake.open(store, hooks=[hook("a", Flaky()), hook("b", Flaky())])
    monkeypatch.setenv(VARIABLE, f"another-lake/b,{lake.id}/a")
    commit(lake)
    assert [name for name, *_ in hooks_of(store, 1)] == ["b"]


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with web_server() as server:
        yield server


def test_all_actions_together(tmp_path: Path, web: WebServer) -> None:
    hg.Lake.init(tmp_path / "lake")
    got = tmp_path / "stdin.json"
    hooks = [
        Hook("notify", Notify(tmp_path / "events.jsonl")),
        Hook("audit", Audit(tmp_path / "audit.jsonl")),
        Hook("webhook", Webhook(web.url("/once-unwell"))),
        Hook("command", Command(["sh", "-c", f"cat > {got}"])),
    ]
    lake = hg.Lake.open(tmp_path / "lake", hooks=hooks, retry=hg.RetryPolicy())
    table = lake.create_table("a.b", "id BIGINT, p BIGINT", partition_by=["p"])
    table.append(pa.table({"id": [1, 2, 3], "p": [1, 1, 2]}))
    created, appended = (json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines())
    assert (created["version"], appended["version"], appended["id"]) == (1, 2, f"{lake.id}-2")
    assert json.loads(got.read_text()) == appended == json.loads(web.received[-1].body)
    assert [each.headers["X-Headgate-Event"] for each in web.received] == [
        f"{lake.id}-1",
        f"{lake.id}-1",
        f"{lake.id}-2",
    ]
    audit = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["version"], line["table"], line["path"], line["rows_added"]) for line in audit] == [
        (1, "a.b", "/a/b", 0),
        (2, "a.b", "/a/b/p=1", 2),
        (2, "a.b", "/a/b/p=2", 1),
    ]
    assert all(line["files_added"] == 1 and line["bytes_added"] > 0 for line in audit[1:])
    assert hg.Lake.open(tmp_path / "lake").open_hooks() == ()
