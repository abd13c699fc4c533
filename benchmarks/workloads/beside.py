"""Many writers while compactors run, and without: no writer gets a conflict, ingestion hardly slows down."""

from __future__ import annotations

from benchmarks.harness.bench import Bench
from benchmarks.harness.record import Run
from benchmarks.harness.system import HEADGATE_BESIDE
from benchmarks.harness.workload import Size, Step, Workload
from benchmarks.pages.part import Bar, Part, Table, number
from benchmarks.workloads.section import Section

NAME = "beside"
COMMITS = {Size.TINY: 6, Size.SHORT: 25, Size.FULL: 200}
ROUNDS = {Size.TINY: 1, Size.SHORT: 1, Size.FULL: 1}
WRITERS, COMPACTORS = 8, 2
ALONE, BESIDE = "without compactors", f"with {COMPACTORS} compactors"
SLOWER = 1.3


def measure(bench: Bench) -> Run:
    commits = COMMITS[bench.size]

    def round_(round_number: int) -> list[Step]:
        work = {"writers": WRITERS, "commits": commits, "number": round_number}
        return [
            Step("ingest", {**work, "compactors": compactors}, label)
            for label, compactors in ((BESIDE, COMPACTORS), (ALONE, 0))
        ]

    run = bench.measured(
        Workload(
            NAME,
            (HEADGATE_BESIDE,),
            {"writers": WRITERS, "compactors": COMPACTORS, "commits": commits},
            round_,
            rounds=ROUNDS[bench.size],
            # Every round has processes and a lake of its own, so no warm-up is needed.
            warm_up=0,
            limit_seconds=3600,
        )
    )
    for label, step in run.systems[HEADGATE_BESIDE.name].steps.items():
        assert step.missing is None, step.missing
        assert step.answer == {"exact": True, "failures": 0}, (label, step.answer)
    return run


def part(run: Run) -> Part:
    name = HEADGATE_BESIDE.name
    rows = [
        (
            label,
            number(run.median(name, label), 1),
            number(WRITERS * run.parameters["commits"] / (run.median(name, label) or 1.0), 1),
            str(run.fact(name, label, "compactions")),
            str(run.fact(name, label, "files")),
        )
        for label in (BESIDE, ALONE)
    ]
    return Part(
        run=run,
        title="Writers and compactors at the same time",
        text=f"""
{run.parameters["writers"]} processes append, delete, update and upsert rows in the same partitions of one
table on a local disk, {run.parameters["commits"]} commits each, with default settings. They run once with
{run.parameters["compactors"]} other processes that compact continuously, and once without. No writer may
get a conflict, and in the end every row must be as its writer left it.
""",
        tables=[Table(("", "seconds", "commits/s", "compactions", "files at the end"), rows)],
        bars=(Bar("ingestion with compactors / without", run.ratio(name, name, BESIDE, ALONE), SLOWER),),
    )


SECTION = Section(NAME, measure, part)
