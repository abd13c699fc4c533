"""Runs workloads: systems take turns in processes of their own, and their answers are compared."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.dataset import Datasets
from benchmarks.harness.environment import CACHE
from benchmarks.harness.process import Process, Reply, StoppedError
from benchmarks.harness.record import Run, SystemRun
from benchmarks.harness.system import System
from benchmarks.harness.workload import Size, Step, Workload

from headgate.errors import UnsupportedError

PREPARATION_SECONDS = 1800.0
"""The time limit of a step that is not measured."""


class DifferentAnswersError(Exception):
    """Two systems did the same work but gave different answers, so the figures mean nothing."""


@dataclass
class Subject:
    """A running system, and its measurements."""

    system: System
    process: Process
    record: SystemRun
    is_out: bool = False

    @property
    def name(self) -> str:
        return self.system.name

    def leave(self, reason: str) -> None:
        """The system takes no further part."""
        self.is_out = True
        if self.record.missing is None:
            self.record.missing = reason

    def ask(self, step: Step, limit_seconds: float) -> Reply:
        """Runs a step; an error is in `missing`, and a system whose process has ended leaves."""
        timed = step.label is not None
        limit = limit_seconds if timed else PREPARATION_SECONDS
        if timed:
            # First write what others have left in memory to disk: it would slow down the next system.
            os.sync()
        try:
            return self.process.call(self.name, step.operation, step.arguments, limit, timed=timed)
        except StoppedError as error:
            self.is_out = True
            return Reply(missing=str(error))


@dataclass
class Bench:
    """The context in which a section is measured: the size, a directory, and the output of progress."""

    size: Size
    place: Path
    command: str = "make bench"
    cores: int = os.cpu_count() or 1
    only: frozenset[str] | None = None
    profile: str | None = None
    quiet: bool = False
    on_spark: bool = True
    datasets: Datasets = field(init=False)

    def __post_init__(self) -> None:
        self.datasets = Datasets(self.place / "data", self.cores)

    def run_of(self, section: str, parameters: Mapping[str, Any]) -> Run:
        return Run(section, self.size.value, machine(), self.command, dict(parameters))

    @contextmanager
    def running(self, systems: Sequence[System], run: Run) -> Iterator[list[Subject]]:
        """The systems, each in its process. The run lists those that fail to start, with the reason."""
        processes: dict[str, Process] = {}
        subjects: list[Subject] = []
        try:
            for system in systems:
                if self.only is not None and system.name not in self.only:
                    continue
                record = run.systems.setdefault(system.name, SystemRun(system.engine))
                self.show(f"{run.section}: starting {system.name}")
                try:
                    subjects.append(self.started(system, record, processes))
                except (StoppedError, UnsupportedError) as error:
                    record.missing = error.problem if isinstance(error, UnsupportedError) else str(error)
            yield subjects
        except BaseException:
            for process in processes.values():
                process.kill()
            raise
        for process in processes.values():
            process.end()

    def started(self, system: System, record: SystemRun, processes: dict[str, Process]) -> Subject:
        environment = system.environment.made()
        key = f"{system.environment.name}/{system.process or system.name}"
        if key not in processes:
            profile = CACHE / f"{slug(system.name)}.profile" if self.profile == system.name else None
            log = CACHE / "logs" / f"{slug(system.name)}.log"
            processes[key] = Process(environment.python, log, profile)
        place = self.place / slug(system.name)
        place.mkdir(parents=True, exist_ok=True)
        arguments = {**system.settings, "place": str(place), "cores": self.cores}
        if environment.jars:
            arguments["jars"] = list(environment.jars)
        record.versions = processes[key].make(system.name, system.adapter, arguments)
        return Subject(system, processes[key], record)

    def measured(self, workload: Workload) -> Run:
        """Measures the workload on all its systems, which take turns in each step."""
        run = self.run_of(workload.name, {**workload.parameters, "rounds": workload.rounds})
        with self.running(workload.systems, run) as subjects:
            for step in workload.before:
                self._step(workload, subjects, step, counted=step.label is not None)
            for number in range(workload.warm_up + workload.rounds):
                kind = "warm-up" if number < workload.warm_up else f"round {number - workload.warm_up + 1}"
                for step in workload.round(number):
                    self.show(f"{workload.name}: {kind}, {step.label or step.operation}")
                    # The first system of this round is the last of the next.
                    turn = number % len(subjects) if subjects else 0
                    order = [*subjects[turn:], *subjects[:turn]]
                    self._step(workload, order, step, counted=number >= workload.warm_up)
        refuse_differences(run)
        return run

    def _step(self, workload: Workload, subjects: Sequence[Subject], step: Step, *, counted: bool) -> None:
        for subject in subjects:
            if subject.is_out or _is_known_missing(subject, step):
                continue
            reply = subject.ask(step, workload.limit_seconds)
            if step.label is None:
                if reply.missing is not None:
                    subject.leave(f"{step.operation}: {reply.missing}")
                continue
            note(subject.record, step, reply, counted=counted)

    def show(self, text: str) -> None:
        """Shows progress, on one line of a terminal, or line by line."""
        if self.quiet:
            return
        end = "\r" if sys.stderr.isatty() else "\n"
        print(f"\x1b[2K{text}" if sys.stderr.isatty() else text, end=end, file=sys.stderr, flush=True)


def note(record: SystemRun, step: Step, reply: Reply, *, counted: bool = True) -> None:
    """Saves the result of a timed step. Results of warm-ups are not saved, except if there is no result."""
    assert step.label is not None
    if reply.missing is None and not counted:
        return
    measured = record.step(step.label)
    if reply.missing is not None:
        measured.missing = reply.missing
        return
    measured.seconds.append(reply.seconds)
    measured.cpu.append(reply.cpu)
    measured.samples.extend(reply.samples)
    measured.facts = dict(reply.facts)
    if step.compared:
        measured.answer = reply.answer
    elif isinstance(reply.answer, int):
        measured.facts["value"] = reply.answer


def refuse_differences(run: Run) -> None:
    """Raises unless all systems gave the same answer to a step."""
    for label in run.labels():
        given = {
            name: system.steps[label].answer
            for name, system in run.systems.items()
            if label in system.steps and system.steps[label].answer is not None
        }
        (first, expected), *others = given.items() or [("", None)]
        for name, answer in others:
            if answer != expected:
                raise DifferentAnswersError(
                    f"{run.section}, {label}: {first} answered {str(expected)[:200]}, "
                    f"and {name} {str(answer)[:200]}"
                )


def _is_known_missing(subject: Subject, step: Step) -> bool:
    if step.label is None:
        return False
    known = subject.record.steps.get(step.label)
    return known is not None and known.missing is not None


def slug(name: str) -> str:
    """A name for a directory."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def machine() -> str:
    """A description of the machine."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores and {memory_gib:.0f} GiB of memory"
