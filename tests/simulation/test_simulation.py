"""Whole writers on a faulty storage: two hundred seeds, others each night. The simulation can fail, too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from headgate.log.conditional import Claiming, ConditionalPublish
from headgate.log.filetracker import Accepted, FileTrackerPublish
from headgate.log.machine import Rejected
from headgate.maintenance import expire
from headgate.maintenance.vacuum import Vacuum
from headgate.model.json_object import encode
from headgate.storage.requests import Failed
from headgate.testing.simulation import PLANNERS, USUAL, Habits, failure_of, simulate
from headgate.transaction import conflicts
from tests.examples import seed_of_tonight

SEEDS = 200
SEEDS_OF_A_NIGHT = 800
SEEDS_PER_TEST = 50
SEEDS_WITH_TABLES = 4
"""Every fourth seed has tables, and what is about them."""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_the_log_agrees_with_everything_that_was_told(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        simulate(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + SEEDS_OF_A_NIGHT, SEEDS_PER_TEST))
def test_it_agrees_with_other_seeds_each_night(first: int) -> None:
    for number in range(first, first + SEEDS_PER_TEST):
        seed = seed_of_tonight(number)
        assert failure_of(seed) is None, f"python -m headgate.testing.simulation --first {seed} --trace"


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    here = simulate(7).trace
    command = [sys.executable, "-m", "headgate.testing.simulation", "--first", "7", "--trace"]
    environment = {**os.environ, "PYTHONHASHSEED": "123"}
    there = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert there.stdout.splitlines() == list(here)


def test_the_seeds_visit_what_they_are_meant_to_visit() -> None:
    seen: Counter[str] = Counter()
    # The later ones have tables, each of them.
    for seed in (*range(16), *range(24, 72, SEEDS_WITH_TABLES)):
        run = simulate(seed)
        seen["crashes"] += run.crashes
        seen["lost answers"] += sum("no answer" in line for line in run.trace)
        seen["late arrivals"] += sum(" late " in line for line in run.trace)
        for entry in run.entries:
            seen[entry.kind] += 1
            seen["vacuum"] += entry.args == ("vacuum",)
            seen[f"then {entry.next_strategy}"] += 1
            seen["rebased"] += entry.attempts > 1
            seen["completed plans"] += "completes" in entry.record
            seen["compacted"] += '"compact"' in encode(dict(entry.record)).decode()
        seen["heartbeats"] += sum("/heartbeat" in line and "timeline/" in line for line in run.trace)
    for what in ("crashes", "lost answers", "late arrivals", "rebased", "switch", "cancel", "plan"):
        assert seen[what] >= 3, seen
    for what in ("completed plans", "compacted", "heartbeats", "expire", "vacuum"):
        assert seen[what] >= 3, seen
    for strategy in ("conditional", "rename", "filetracker"):
        assert seen[f"then {strategy}"] >= 20, seen


def seeds_fail(count: int, step: int = 1, habits: Habits = USUAL) -> bool:
    return any(failure_of(seed, habits) is not None for seed in range(0, count * step, step))


@pytest.mark.slow
def test_plans_that_overlap_all_the_time() -> None:
    for seed in range(0, 8 * SEEDS_WITH_TABLES, SEEDS_WITH_TABLES):
        simulate(seed, PLANNERS)


# With the usual habits, plans that overlap are rare: one seed in hundreds sees it.
@pytest.mark.parametrize("forgotten", ["plan_conflicts", "completion_conflicts"])
def test_plans_that_nobody_compares_are_caught(monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
    monkeypatch.setattr(conflicts, forgotten, lambda *_: ())
    assert seeds_fail(10, SEEDS_WITH_TABLES, PLANNERS)


def test_a_vacuum_that_cancels_nobody_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vacuum, "_cancel", lambda *_: ())
    assert seeds_fail(60, SEEDS_WITH_TABLES)


def test_an_expire_that_keeps_no_files_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expire._Files, "all", lambda _: {})
    assert seeds_fail(60, SEEDS_WITH_TABLES)


def test_a_conditional_write_that_takes_silence_for_failure_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shipped = ConditionalPublish.resume

    def impatient(self: ConditionalPublish, state: object, answers: tuple[object, ...]) -> object:
        if isinstance(state, Claiming) and isinstance(answers[0], Failed):
            from headgate.log.machine import Finish

            return Finish(Rejected(answers[0].error))
        return shipped(self, state, answers)  # type: ignore[arg-type]

    monkeypatch.setattr(ConditionalPublish, "resume", impatient)
    assert seeds_fail(60)


def test_a_filetracker_without_its_second_scan_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = FileTrackerPublish.scan

    def blind(self: FileTrackerPublish, purpose: object, pauses: int = 0) -> object:
        if isinstance(purpose, Accepted):
            return self.mark(purpose.attempt, purpose.value)
        return shipped(self, purpose, pauses)  # type: ignore[arg-type]

    monkeypatch.setattr(FileTrackerPublish, "scan", blind)
    assert seeds_fail(200)


def test_a_settlement_that_forgets_its_doubt_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileTrackerPublish, "doubt", False, raising=False)
    monkeypatch.setattr(ConditionalPublish, "doubt", False, raising=False)
    assert seeds_fail(400)
