"""A writer is killed while it appends: how long until the next commit, and is anything lost?"""

from __future__ import annotations

import random
import time
from pathlib import Path

from benchmarks.harness.bench import Bench, note, slug
from benchmarks.harness.process import Process, StoppedError
from benchmarks.harness.record import Run, SystemRun
from benchmarks.harness.system import DELTA_RS, HEADGATE, IN_PROCESS, PYICEBERG, System
from benchmarks.harness.workload import Size, Step
from benchmarks.pages.part import Bar, Part, Table, behind, ms, number
from benchmarks.workloads.section import Section

NAME = "recovery"
SYSTEMS = (HEADGATE, DELTA_RS, PYICEBERG)
ROUNDS = {Size.TINY: 1, Size.SHORT: 5, Size.FULL: 15}
COMMITS = {Size.TINY: 3, Size.SHORT: 20, Size.FULL: 20}
LABEL = "open, recover, append"
PATIENCE_SECONDS = 120.0
OURS = {IN_PROCESS: HEADGATE.name}


def measure(bench: Bench) -> Run:
    """Every round uses new processes: one is killed at a random time, the other recovers."""
    rounds, commits = ROUNDS[bench.size], COMMITS[bench.size]
    chance = random.Random(7)
    run = bench.run_of(NAME, {"rounds": rounds, "commits": commits})
    chosen = [system for system in SYSTEMS if bench.only is None or system.name in bench.only]
    for system in chosen:
        record = run.systems.setdefault(system.name, SystemRun(system.engine))
        record.step(LABEL).facts.update(lost=0, doubled=0, unacknowledged=0)
    for number_ in range(rounds):
        for system in chosen:
            record = run.systems[system.name]
            if record.missing is not None:
                continue
            bench.show(f"{NAME}: round {number_ + 1}, {system.name}")
            try:
                _one(bench, system, record, f"{number_}", commits, chance.random())
            except StoppedError as error:
                record.missing = str(error)
    return run


def _one(bench: Bench, system: System, record: SystemRun, name: str, commits: int, share: float) -> None:
    place = bench.place / f"{slug(system.name)}-{name}"
    place.mkdir(parents=True)
    told = _killed(system, place, commits, share)
    with _process(system, place) as process:
        record.versions = process.make(system.name, system.adapter, {**system.settings, "place": str(place)})
        step = Step("recover", {"number": 1_000_000}, LABEL)
        reply = process.call(system.name, step.operation, step.arguments, PATIENCE_SECONDS)
    known = dict(record.step(LABEL).facts)
    note(record, step, reply)
    numbers = reply.facts.get("numbers", [])
    found = [number_ for number_ in numbers if number_ != 1_000_000]
    record.step(LABEL).facts = {
        "lost": known["lost"] + len(set(told) - set(found)),
        "doubled": known["doubled"] + len(found) - len(set(found)),
        # Committed, but the writer died before it received the result.
        "unacknowledged": known["unacknowledged"] + len(set(found) - set(told)),
    }


def _killed(system: System, place: Path, commits: int, share: float) -> list[int]:
    """The numbers whose commits were reported to a writer before it was killed during the next one."""
    told = place / "told"
    process = _process(system, place)
    try:
        process.make(system.name, system.adapter, {**system.settings, "place": str(place)})
        process.begin(system.name, "append_until_killed", {"told": str(told)})
        until, moments = time.monotonic() + PATIENCE_SECONDS, [time.monotonic()]
        while len(_lines(told)) < commits and time.monotonic() < until and process.is_running:
            time.sleep(0.005)
        moments.append(time.monotonic())
        # At a random time within the next commit, whose length is estimated here.
        time.sleep(share * (moments[1] - moments[0]) / commits)
    finally:
        process.kill()
    return [int(line) for line in _lines(told)]


def _lines(told: Path) -> list[str]:
    """The complete lines: the last one may be cut."""
    return told.read_text().rpartition("\n")[0].split() if told.exists() else []


def _process(system: System, place: Path) -> Process:
    return Process(system.environment.made().python, place / "log")


def part(run: Run) -> Part:
    facts = {name: system.steps[LABEL].facts for name, system in run.systems.items()}
    return Part(
        run=run,
        title="Recovery after a crash",
        text=f"""
A process that appends row after row is killed with SIGKILL at a random time, {run.parameters["rounds"]}
times. A new process opens the table, runs the system's recovery (`Lake.recover`; the others have none, or
none that applies), and appends one more row; cold, without the time for imports. `lost`: rows whose commit
was reported to the dead writer and that are gone. `doubled`: rows that exist twice. `unannounced`: rows
that exist although their writer died before their commit was reported to it. Headgate's recovery also
publishes the table for other engines and completes the audit trail.
""",
        tables=[
            Table(
                ("", "ms", "lost", "doubled", "unannounced", "headgate / this"),
                [
                    (
                        name,
                        ms(run.median(name, LABEL)),
                        str(known["lost"]),
                        str(known["doubled"]),
                        str(known["unacknowledged"]),
                        number(run.ratio(HEADGATE.name, name, LABEL)),
                    )
                    for name, known in facts.items()
                ],
            )
        ],
        bars=[
            Bar(f"headgate, rows {what}", float(facts[HEADGATE.name][what]), 0.0)
            for what in ("lost", "doubled")
            if HEADGATE.name in facts
        ],
        behind=behind(run, OURS),
    )


SECTION = Section(NAME, measure, part)
