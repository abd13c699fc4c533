"""Undo: what was done for a commit is taken back, last one first, if a required hook fails for good."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.hooks import CommitEvent, Hook, Python
from headgate.log.layout import entry_key
from headgate.model.identifiers import Version
from headgate.storage.memory import MemoryStore

ONCE = hg.RetryPolicy(attempts=1)


class Steps:
    """What was done and undone, in order; `broken` are the steps that fail."""

    def __init__(self, *broken: str) -> None:
        self.taken: list[str] = []
        self.broken = set(broken)

    def step(self, name: str) -> Python:
        def take(event: CommitEvent) -> None:
            if name in self.broken:
                raise OSError(f"{name} is broken")
            self.taken.append(name)

        return Python(take)

    def hook(self, name: str, *, undo: bool = True, **settings: Any) -> Hook:
        action = self.step(f"-{name}") if undo else None
        return Hook(name, self.step(name), **{"retry": ONCE, "undo": action, **settings})

    def hooks(self) -> list[Hook]:
        return [
            self.hook("a"),
            self.hook("b", undo=False),
            self.hook("c"),
            self.hook("last", undo=False, required=True),
            self.hook("never"),
        ]


def states(store: MemoryStore, version: int = 1) -> dict[str, str]:
    entry = hg.Lake.open(store).control(version)
    assert entry is not None
    return {run.name: run.shown_state for run in entry.hooks}


def commit(store: MemoryStore, steps: Steps) -> hg.CommitResult:
    return hg.Lake.open(store, hooks=steps.hooks()).set_properties({"n": "1"})


def test_what_was_done_is_undone_in_reverse_order_and_the_commit_stands(store: MemoryStore) -> None:
    steps = Steps("last")
    result = commit(store, steps)
    assert steps.taken == ["a", "b", "c", "-c", "-a"]
    assert result.hook_failures == (
        "a: undone",
        "c: undone",
        "last: OSError: last is broken",
        "never: not run: the required hook last failed",
    )
    assert result.version == 1 == hg.Lake.open(store).version
    undone = {"a": "undone", "b": "done", "c": "undone", "last": "failed", "never": "pending"}
    assert states(store) == undone
    # Neither recovery nor a run does anything by itself; nor are later versions held up.
    lake = hg.Lake.open(store, hooks=steps.hooks())
    lake.recover()
    lake.run_hooks()
    assert len(steps.taken) == 5 and states(store) == undone
    assert [each.run.shown_state for each in lake.open_hooks()] == ["undone", "undone", "failed", "pending"]
    steps.broken.clear()
    assert lake.set_properties({"n": "2"}).hook_failures == ()


def test_a_retry_does_all_of_it_again_and_undoes_it_if_it_fails_again(store: MemoryStore) -> None:
    steps = Steps("last")
    commit(store, steps)
    lake = hg.Lake.open(store, hooks=steps.hooks())
    steps.taken.clear()
    assert "1: last (OSError: last is broken)" in lake.run_hooks(retry=True).open
    assert steps.taken == ["a", "c", "-c", "-a"]
    steps.broken.clear()
    steps.taken.clear()
    ran = lake.run_hooks(retry=True)
    assert steps.taken == ["a", "c", "last", "never"] and ran.open == ()
    assert set(states(store).values()) == {"done"} and lake.open_hooks() == ()
    assert lake.fsck().findings == ()


def test_an_undo_that_fails_does_not_stop_the_others_and_is_tried_again_first(store: MemoryStore) -> None:
    steps = Steps("last", "-c")
    assert "c: undo failed: OSError: -c is broken" in commit(store, steps).hook_failures
    assert steps.taken == ["a", "b", "c", "-a"] and states(store)["c"] == "undo failed"
    lake = hg.Lake.open(store, hooks=steps.hooks())
    steps.broken.discard("last")
    steps.taken.clear()
    # As long as something cannot be undone, nothing is done again: it would be done twice.
    assert "1: c (undo failed: OSError: -c is broken)" in lake.run_hooks(retry=True).open
    assert steps.taken == []
    steps.broken.clear()
    assert lake.run_hooks(retry=True).open == ()
    assert steps.taken == ["-c", "a", "c", "last", "never"]


def test_a_hook_that_is_not_required_undoes_nothing(store: MemoryStore) -> None:
    steps = Steps("b")
    hooks = [steps.hook("a"), steps.hook("b"), steps.hook("c")]
    hg.Lake.open(store, hooks=hooks).set_properties({"n": "1"})
    assert steps.taken == ["a", "c"] and states(store) == {"a": "done", "b": "failed", "c": "done"}


class KilledError(BaseException):
    """Ends everything at once, as the death of the process does."""


def test_a_crash_between_two_undo_steps_is_finished_by_recovery(store: MemoryStore) -> None:
    steps = Steps("last")

    class Dying:
        def run(self, event: CommitEvent) -> None:
            raise KilledError

        def describe(self) -> str:
            return "dies"

    hooks = [Hook("a", steps.step("a"), retry=ONCE, undo=Dying()), *steps.hooks()[1:]]
    with pytest.raises(KilledError):
        hg.Lake.open(store, hooks=hooks).set_properties({"n": "1"})
    assert steps.taken == ["a", "b", "c", "-c"]
    assert states(store)["a"] == "undo pending"
    # At least once: what was undone before the crash is undone again.
    report = hg.Lake.open(store, hooks=steps.hooks()).recover()
    assert steps.taken[4:] == ["-c", "-a"]
    assert report.hooks_done == ("1: a (undone)", "1: c (undone)")
    assert states(store) == {"a": "undone", "b": "done", "c": "undone", "last": "failed", "never": "pending"}


def test_giving_up_an_undo(store: MemoryStore) -> None:
    commit(store, Steps("last", "-a"))
    lake = hg.Lake.open(store)
    for name in ("a", "last", "never"):
        assert lake.skip_hooks(name) == (1,)
    assert states(store)["a"] == "undo skipped" and lake.run_hooks().open == ()


def test_fields_of_later_releases_are_kept_when_an_entry_is_written_again(store: MemoryStore) -> None:
    steps = Steps("last")
    commit(store, steps)
    key = entry_key(Version(1))
    fields = json.loads(store.get(key) or b"")
    fields["competitors"] = [{"txid": "x"}]
    fields["hooks"][1]["mood"] = "good"
    store.put(key, json.dumps(fields).encode())
    steps.broken.clear()
    hg.Lake.open(store, hooks=steps.hooks()).run_hooks(retry=True)
    again = json.loads(store.get(key) or b"")
    assert again["competitors"] == [{"txid": "x"}] and again["hooks"][1]["mood"] == "good"
    assert again["hooks"][3]["state"] == "done"


def test_from_a_file(tmp_path: Path) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text(
        f"""
[[hooks]]
name = "copy"
action = "command"
command = ["touch", "{tmp_path}/copied"]
undo.action = "command"
undo.command = ["rm", "{tmp_path}/copied"]
undo.timeout_seconds = 5

[[hooks]]
name = "check"
action = "command"
command = ["false"]
required = true
retry.attempts = 1
"""
    )
    lake = hg.Lake.init(tmp_path / "lake", hooks=hg.hooks.load(config))
    result = lake.set_properties({"n": "1"})
    assert result.hook_failures == ("copy: undone", "check: false failed with exit code 1")
    assert not (tmp_path / "copied").exists()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('undo = "rm"', "undo must be a table"),
        ('undo.action = "remove"', "unknown action 'remove'"),
        ('undo.action = "command"', "command is missing"),
        ('undo.action = "command"\nundo.command = ["rm"]\nundo.x = 1', "unknown field 'x'"),
        ("required = 1", "required must be true or false"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, line: str, problem: str) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text(f'[[hooks]]\nname = "a"\naction = "notify"\nfile = "x"\n{line}\n')
    with pytest.raises(hg.InvalidInputError) as caught:
        hg.hooks.load(config)
    assert problem in str(caught.value) and "hook a" in str(caught.value)
