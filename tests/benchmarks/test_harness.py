"""The harness: processes, turns, limits, and answers that must agree."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.harness.bench import Bench, DifferentAnswersError
from benchmarks.harness.environment import Environment
from benchmarks.harness.record import Run
from benchmarks.harness.sampling import Sampler
from benchmarks.harness.system import System
from benchmarks.harness.workload import Size, Step, Workload

from headgate.system.host import SYSTEM
from tests.servers.maven import Artifact


def adder(name: str, **settings: Any) -> System:
    return System(name, "tests.benchmarks.systems:Adder", "numbers", settings=settings)


def measured(
    place: Path,
    systems: Sequence[System],
    *steps: Step,
    rounds: int = 1,
    warm_up: int = 0,
    limit_seconds: float = 60.0,
) -> Run:
    bench = Bench(Size.TINY, place, quiet=True)
    work = Workload(
        "sums",
        systems,
        {"n": 1},
        lambda _: steps,
        rounds=rounds,
        warm_up=warm_up,
        limit_seconds=limit_seconds,
    )
    return bench.measured(work)


ADD = Step("add", {"left": 2, "right": 3}, "sum")


def test_systems_answer_and_are_timed(tmp_path: Path) -> None:
    run = measured(tmp_path, [adder("one"), adder("two")], ADD, rounds=3, warm_up=1)
    for name in ("one", "two"):
        step = run.systems[name].steps["sum"]
        assert step.answer == 5
        assert len(step.seconds) == len(step.cpu) == 3
        assert run.systems[name].versions == {"adder": "1.0"}
        assert run.systems[name].missing is None


def test_different_answers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DifferentAnswersError, match="sums, sum: one answered 5, and two 6"):
        measured(tmp_path, [adder("one"), adder("two", wrong=1)], ADD)


def test_answers_that_need_not_agree(tmp_path: Path) -> None:
    step = Step("add", {"left": 1, "right": 1}, "sum", compared=False)
    run = measured(tmp_path, [adder("one"), adder("two", wrong=1)], step)
    assert [run.fact(name, "sum", "value") for name in ("one", "two")] == [2, 3]


def test_systems_take_turns_and_the_first_changes(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    systems = [adder(name, signature=name, diary=str(diary)) for name in ("one", "two", "three")]
    measured(tmp_path, systems, ADD, rounds=3)
    order = [line.split()[0] for line in diary.read_text().splitlines()]
    assert order == ["one", "two", "three", "two", "three", "one", "three", "one", "two"]


def test_each_system_has_a_process_unless_it_shares_one(tmp_path: Path) -> None:
    shared = [
        System(name, "tests.benchmarks.systems:Adder", "numbers", process="both") for name in ("one", "two")
    ]
    run = measured(tmp_path, [*shared, adder("three")], Step("several", {"count": 1}, "some"))
    one, two, three = (run.fact(name, "some", "process") for name in ("one", "two", "three"))
    assert one == two != three


def test_a_system_may_tell_the_time_and_the_samples_itself(tmp_path: Path) -> None:
    run = measured(tmp_path, [adder("one")], Step("several", {"count": 4}, "some"), rounds=2)
    step = run.systems["one"].steps["some"]
    assert step.seconds == [2.0, 2.0]
    assert step.samples == [0.5] * 8


def test_what_is_not_offered_is_said_and_the_rest_is_measured(tmp_path: Path) -> None:
    steps = (Step("refuse", {}, "refusing"), Step("juggle", {}, "juggling"), Step("fail", {}, "failing"), ADD)
    run = measured(tmp_path, [adder("one")], *steps)
    known = run.systems["one"].steps
    assert known["refusing"].missing == "adders do not refuse"
    assert known["juggling"].missing == ""
    assert known["failing"].missing == "ValueError: broken"
    assert known["sum"].answer == 5


def test_a_system_whose_preparation_fails_is_out(tmp_path: Path) -> None:
    run = measured(tmp_path, [adder("one")], Step("fail"), ADD)
    assert run.systems["one"].missing == "fail: ValueError: broken"
    assert run.systems["one"].steps == {}


def test_a_step_that_takes_too_long_ends_its_system_only(tmp_path: Path) -> None:
    def steps(number: int) -> list[Step]:
        return [Step("sleep", {"seconds": 60.0}, "sleep") if number == 0 else ADD]

    slow, quick = adder("slow"), adder("quick")
    bench = Bench(Size.TINY, tmp_path, quiet=True)
    work = Workload("sums", [slow], {}, steps, rounds=2, warm_up=0, limit_seconds=0.2)
    run = bench.measured(work)
    assert run.systems["slow"].steps["sleep"].missing == "more than 0.2 s"
    assert "sum" not in run.systems["slow"].steps
    assert measured(tmp_path, [quick], ADD).systems["quick"].steps["sum"].answer == 5


def test_a_process_that_ends_is_told(tmp_path: Path) -> None:
    run = measured(tmp_path, [adder("one"), adder("two")], Step("leave", {}, "leaving"), ADD)
    assert "the process ended" in str(run.systems["one"].steps["leaving"].missing)
    assert "sum" not in run.systems["one"].steps


def test_a_system_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    missing = System("missing", "tests.benchmarks.no_such_module:Nothing", "numbers")
    run = measured(tmp_path, [missing, adder("one")], ADD)
    assert "no_such_module" in str(run.systems["missing"].missing)
    assert run.systems["one"].steps["sum"].answer == 5


def test_an_environment_that_cannot_be_had_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.harness.environment.CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    nowhere = Environment("nowhere", ("no-such-package",), (Artifact("no.such", "artifact", "1"),))
    elsewhere = System("elsewhere", "tests.benchmarks.systems:Adder", "numbers", nowhere)
    run = measured(tmp_path, [elsewhere, adder("one")], ADD)
    assert "no mvn on the PATH that could get no.such:artifact:1" in str(run.systems["elsewhere"].missing)
    assert run.systems["one"].steps["sum"].answer == 5


def test_only_some_systems(tmp_path: Path) -> None:
    bench = Bench(Size.TINY, tmp_path, quiet=True, only=frozenset({"two"}))
    work = Workload("sums", [adder("one"), adder("two")], {}, lambda _: [ADD], rounds=1, warm_up=0)
    assert list(bench.measured(work).systems) == ["two"]


def test_a_profile_sees_the_work_of_other_threads() -> None:
    sampler = Sampler()
    done = threading.Event()

    def spin_in_a_thread() -> None:
        until = time.monotonic() + 10
        # Ends as soon as it was seen. Threads that earlier tests left in this process are seen as well.
        while "spin_in_a_thread" not in sampler.report() and time.monotonic() < until:
            for _ in range(10_000):
                sum(range(100))
        done.set()

    with sampler.watching():
        threading.Thread(target=spin_in_a_thread).start()
        done.wait()
    assert "spin_in_a_thread" in sampler.report()
    assert Sampler().report() == "nothing was seen at work"


def test_a_profile_leaves_out_threads_that_wait() -> None:
    sampler = Sampler()
    with sampler.watching():
        SYSTEM.sleep(0.1)
    assert "system/host.py:sleep" not in sampler.own
