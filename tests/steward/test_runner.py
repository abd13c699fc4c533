"""Running hooks: order, patience, and that no failure gets in the way of anything but what depends on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

import headgate as hg
from headgate.errors import InvalidInputError
from headgate.model.commit_event import CommitEvent
from headgate.model.control_entry import HookRun, HookState
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.runner import MAX_ERROR, HookRunner
from headgate.system.host import SystemHost

EVENT = CommitEvent("lake-1", "lake", "/lake", 1, "tx", "commit")


@dataclass
class Clock(SystemHost):
    """A host whose time passes only by waiting, and whose dice always shows the highest number."""

    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)

    def elapsed(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds

    def chance(self) -> float:
        return 1.0 - 2**-53


@dataclass
class Scripted:
    """An action that raises what it is told to, time after time, and then works."""

    failures: list[BaseException] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    def run(self, event: CommitEvent) -> None:
        self.events.append(event.id)
        self.before()
        if self.failures:
            raise self.failures.pop(0)

    def describe(self) -> str:
        return "does as it is told"


def pending(*names: str) -> list[HookRun]:
    return [HookRun(name) for name in names]


def states(runs: tuple[HookRun, ...]) -> dict[str, str]:
    return {run.name: run.state.value for run in runs}


def policy(attempts: int, **times: float) -> hg.RetryPolicy:
    return hg.RetryPolicy(attempts, **{name: timedelta(seconds=time) for name, time in times.items()})


def test_a_hook_that_fails_twice_is_done_at_the_third_attempt() -> None:
    clock, action = Clock(), Scripted([ValueError("one"), ValueError("two")])
    (run,) = HookRunner(clock, [Hook("a", action)]).run(EVENT, pending("a"))
    assert (run.state, run.attempts, run.error) == (HookState.DONE, 3, None)
    assert action.events == ["lake-1"] * 3
    assert clock.waits == pytest.approx([0.2, 0.4])
    assert run.seconds == pytest.approx(0.6)


def test_waits_grow_to_the_cap_and_end_with_the_total() -> None:
    clock, action = Clock(), Scripted([OSError("x")] * 20)
    hook = Hook("a", action, retry=policy(20, base=1, cap=4, total=12))
    (run,) = HookRunner(clock, [hook]).run(EVENT, pending("a"))
    assert clock.waits == pytest.approx([1, 2, 4, 4, 1])
    assert (run.state, run.attempts) == (HookState.FAILED, 6)


def test_attempts_and_seconds_count_over_all_runs() -> None:
    clock = Clock()
    runner = HookRunner(clock, [Hook("a", Scripted([OSError("x")] * 4), retry=policy(2, base=1))])
    runs = runner.run(EVENT, pending("a"))
    assert [(run.state.value, run.attempts) for run in runs] == [("failed", 2)]
    assert runner.run(EVENT, runs) == runs  # failed ones are tried again only on demand
    (again,) = runner.run(EVENT, runs, retry=True)
    assert (again.state, again.attempts) == (HookState.FAILED, 4) and again.seconds == pytest.approx(2.0)
    (done,) = runner.run(EVENT, [again], retry=True)
    assert (done.state, done.attempts, done.error) == (HookState.DONE, 5, None)


def test_only_what_depends_on_a_failed_hook_waits() -> None:
    first, second, third, other = Scripted([OSError("no")]), Scripted(), Scripted(), Scripted()
    hooks = [
        Hook("first", first, retry=policy(1)),
        Hook("second", second, after=["first"]),
        Hook("third", third, after=["second"]),
        Hook("other", other),
    ]
    runner = HookRunner(Clock(), hooks)
    runs = runner.run(EVENT, pending("first", "second", "third", "other"))
    assert states(runs) == {"first": "failed", "second": "pending", "third": "pending", "other": "done"}
    assert [run.error for run in runs] == ["OSError: no", "waits for first", "waits for second", None]
    assert (second.events, third.events) == ([], [])
    again = runner.run(EVENT, runs, retry=True)
    assert set(states(again).values()) == {"done"} and [run.error for run in again] == [None] * 4
    assert (first.events, second.events, other.events) == (["lake-1"] * 2, ["lake-1"], ["lake-1"])


def test_what_is_not_registered_stays_as_it_is() -> None:
    runs = [HookRun("elsewhere"), HookRun("here")]
    elsewhere, here = HookRunner(Clock(), [Hook("here", Scripted())]).run(EVENT, runs)
    assert elsewhere == runs[0] and here.state is HookState.DONE


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot even say what it is")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyError(), "KeyError"),
        (MuteError(), "MuteError"),
        (hg.StorageError("gone"), "StorageError: gone"),
        (hg.HookFailedError("exit code 3"), "exit code 3"),
        (OSError("bad name \udc80"), "OSError: bad name \\udc80"),
        (OSError("password=hunter2"), "OSError: password=***"),
        (OSError("POST https://ann:hunter2@host/x"), "OSError: POST https://***@host/x"),
    ],
)
def test_whatever_is_raised_is_a_failure_that_can_be_kept(error: BaseException, told: str) -> None:
    (run,) = HookRunner(Clock(), [Hook("a", Scripted([error]), retry=policy(1))]).run(EVENT, pending("a"))
    assert (run.state, run.error) == (HookState.FAILED, told)


def test_long_errors_are_cut_after_secrets_were_removed() -> None:
    error = OSError("x" * (MAX_ERROR - 20) + " password=" + "s" * 40)
    (run,) = HookRunner(Clock(), [Hook("a", Scripted([error]), retry=policy(1))]).run(EVENT, pending("a"))
    assert run.error is not None and len(run.error) <= MAX_ERROR and "sss" not in run.error


def test_a_ctrl_c_gets_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        HookRunner(Clock(), [Hook("a", Scripted([KeyboardInterrupt()]))]).run(EVENT, pending("a"))


def test_registering_refuses_what_could_not_run() -> None:
    runner = HookRunner(Clock(), [Hook("a", Scripted())])
    with pytest.raises(InvalidInputError, match="two hooks"):
        runner.with_hook(Hook("a", Scripted()))
    with pytest.raises(InvalidInputError, match="is not a hook"):
        runner.with_hook(Hook("b", Scripted(), after=["c"]))
    with pytest.raises(InvalidInputError, match="wait for each other"):
        HookRunner(Clock(), [Hook("a", Scripted(), after=["b"]), Hook("b", Scripted(), after=["a"])])
    with pytest.raises(InvalidInputError, match="must be Hook objects"):
        HookRunner(Clock(), [print])  # type: ignore[list-item]
    assert [hook.name for hook in runner.with_hook(Hook("b", Scripted(), after=["a"])).hooks] == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"action": sys.exit}, "is not an action"),
        ({"action": Scripted}, "the class Scripted is not an action"),
        ({"after": "b"}, "not a string"),
        ({"after": [3]}, "non-empty strings"),
        ({"when": {"tables": []}}, "when must be a When"),
        ({"retry": 3}, "retry a RetryPolicy"),
    ],
)
def test_a_hook_is_checked_when_it_is_made(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Hook(**{"name": "a", "action": Scripted(), **given})
    assert told in str(caught.value)
