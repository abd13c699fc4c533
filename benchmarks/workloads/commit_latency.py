"""One writer that appends prepared data files one after the other: only metadata and commit."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.harness.bench import Bench
from benchmarks.harness.record import Run
from benchmarks.harness.system import DELTA_RS, HEADGATE, HEADGATE_UNSYNCED, IN_PROCESS, PYICEBERG
from benchmarks.harness.workload import Size, Step
from benchmarks.pages.part import Bar, Behind, Part, Table, ms, number
from benchmarks.pages.picture import Lines
from benchmarks.workloads.section import Section

NAME = "commit-latency"
LABEL = "commit"
SYSTEMS = (HEADGATE, HEADGATE_UNSYNCED, DELTA_RS, PYICEBERG)
COMMITS = {Size.TINY: 40, Size.SHORT: 500, Size.FULL: 5000}
LIMIT_SECONDS = {Size.TINY: 30.0, Size.SHORT: 60.0, Size.FULL: 300.0}
TURN = 20
POINTS = 50
DURABLE = {
    HEADGATE.name: "record, metadata and manifests synced",
    HEADGATE_UNSYNCED.name: "nothing synced",
    DELTA_RS.name: "nothing synced",
    PYICEBERG.name: "catalog synced by SQLite, files not",
}


def measure(bench: Bench) -> Run:
    """In turns of a few commits. A system that has used up its time takes no further part."""
    commits, limit = COMMITS[bench.size], LIMIT_SECONDS[bench.size]
    run = bench.run_of(NAME, {"commits": commits, "turn": TURN, "limit_seconds": limit})
    with bench.running(SYSTEMS, run) as subjects:
        for subject in subjects:
            subject.ask(Step("prepare_appends"), limit)
        samples: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        for first in range(0, commits, TURN):
            bench.show(f"{NAME}: {first:,} of {commits:,} commits")
            for subject in subjects:
                left = limit - sum(samples[subject.name])
                if left <= 0 or subject.is_out:
                    continue
                turn = {"first": first, "count": min(TURN, commits - first), "limit_seconds": left}
                reply = subject.ask(Step("append_files", turn, LABEL), limit + 60)
                if reply.missing is not None:
                    subject.leave(reply.missing)
                samples[subject.name] += reply.samples
        for subject in subjects:
            _keep(subject.record.step(LABEL), samples[subject.name])
            # The table itself reports the number of commits.
            counted = subject.ask(Step("commits"), limit)
            assert counted.answer == len(samples[subject.name]), (subject.name, counted)
    return run


def _keep(step: object, samples: list[float]) -> None:
    """Keeps what the page shows: of thousands of times, some numbers and a line."""
    if not samples:
        return
    some = min(100, max(1, len(samples) // 10))
    step.seconds = [statistics.median(samples)]  # type: ignore[attr-defined]
    step.facts = {  # type: ignore[attr-defined]
        "commits": len(samples),
        "p50": statistics.median(samples),
        "p99": _quantile(samples, 0.99),
        "some": some,
        "first": statistics.median(samples[:some]),
        "last": statistics.median(samples[-some:]),
        "line": _line(samples),
    }


def _quantile(samples: Sequence[float], share: float) -> float:
    return sorted(samples)[min(len(samples) - 1, round(share * len(samples)))]


def _line(samples: Sequence[float]) -> list[tuple[int, float]]:
    """The medians of equal intervals, each at its end."""
    size = max(1, len(samples) // POINTS)
    return [
        (end, statistics.median(samples[end - size : end])) for end in range(size, len(samples) + 1, size)
    ]


def at(run: Run, system: str, commits: int) -> float | None:
    """How long a commit of a system took after this many commits."""
    line = run.fact(system, LABEL, "line")
    known = [seconds for end, seconds in line or () if end <= commits]
    return known[-1] if known else None


def ratio(run: Run, ours: str, theirs: str) -> float | None:
    """Our time divided by theirs, at the largest number of commits that both reached."""
    reached = [run.fact(name, LABEL, "commits") for name in (ours, theirs)]
    if None in reached:
        return None
    mine, other = (at(run, name, min(reached)) for name in (ours, theirs))
    return None if mine is None or not other else mine / other


def part(run: Run) -> Part:
    names = [name for name in run.systems if run.median(name, LABEL) is not None]
    facts = {name: run.systems[name].steps[LABEL].facts for name in names}
    ours = facts.get(HEADGATE.name)
    growth = None if ours is None else ours["last"] / ours["first"]
    behind = [
        Behind("a commit", IN_PROCESS, found, name, 1.0)
        for name in names
        if name not in (HEADGATE.name, HEADGATE_UNSYNCED.name)
        and (found := ratio(run, HEADGATE.name, name) or 0) > 1.05
    ]
    return Part(
        run=run,
        title="Commit latency",
        text=f"""
One writer with a warm handle appends prepared data files, one after the other, to one table on a local
disk. This measures metadata and commit only. There are {run.parameters["commits"]:,} commits, and the
systems take turns of {run.parameters["turn"]}. A system stops after it has used
{run.parameters["limit_seconds"]:g} s; `commits` shows how far it got. `first` and `last`: median of the
first and the last 100 commits (a tenth, if there are fewer than 1,000). `growth`: last / first. `headgate /
this`: measured at the largest number of commits that both reached.
""",
        tables=[
            Table(
                (
                    "",
                    "on disk when it returns",
                    "commits",
                    "p50 ms",
                    "p99 ms",
                    "first ms",
                    "last ms",
                    "growth",
                    "headgate / this",
                ),
                [
                    (
                        name,
                        DURABLE.get(name, ""),
                        f"{known['commits']:,}",
                        ms(known["p50"]),
                        ms(known["p99"]),
                        ms(known["first"]),
                        ms(known["last"]),
                        number(known["last"] / known["first"]),
                        number(ratio(run, HEADGATE.name, name)),
                    )
                    for name, known in facts.items()
                ],
            )
        ],
        bars=(
            Bar("headgate / delta-rs", ratio(run, HEADGATE.name, DELTA_RS.name), 1.0),
            Bar("headgate, fsync off / delta-rs", ratio(run, HEADGATE_UNSYNCED.name, DELTA_RS.name), 1.0),
            Bar("headgate / pyiceberg", ratio(run, HEADGATE.name, PYICEBERG.name), 0.2),
            Bar("headgate, growth of p50 from the first 100 commits to the last 100", growth, 1.2),
        ),
        pictures={
            NAME: Lines(
                "A commit, by the number of commits before",
                "ms",
                "commits",
                {
                    name: [(end, 1000 * seconds) for end, seconds in known["line"]]
                    for name, known in facts.items()
                },
                log=True,
            )
        },
        behind=behind,
    )


SECTION = Section(NAME, measure, part)
