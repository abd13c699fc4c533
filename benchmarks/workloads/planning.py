"""Finding the files that a read needs, among many: only planning, with a new handle."""

from __future__ import annotations

from benchmarks.harness.bench import Bench, note, refuse_differences
from benchmarks.harness.record import Run
from benchmarks.harness.system import DELTA_RS, HEADGATE, ICEBERG_SPARK, PYICEBERG
from benchmarks.harness.workload import Size, Step
from benchmarks.pages.part import Bar, Part, Table, behind, ms, number
from benchmarks.pages.picture import Bars
from benchmarks.workloads.section import Section

NAME = "planning"
FILES = {Size.TINY: (100,), Size.SHORT: (1_000, 10_000), Size.FULL: (1_000, 10_000, 100_000)}
PARTITIONS = {Size.TINY: 10, Size.SHORT: 100, Size.FULL: 100}
ROUNDS = {Size.TINY: 1, Size.SHORT: 5, Size.FULL: 9}
PREDICATES = ("part = 7", "part = 7 and id > 100", "id = 7")
LIMIT_SECONDS = 300.0
BAR_AT = 10_000


def label(files: int, predicate: str) -> str:
    return f"{files:,} files, {predicate}"


def measure(bench: Bench) -> Run:
    """Iceberg's readers plan the very table that Headgate wrote; delta-rs plans one with the same files."""
    sizes, partitions = FILES[bench.size], PARTITIONS[bench.size]
    run = bench.run_of(NAME, {"files": list(sizes), "partitions": partitions})
    others = (ICEBERG_SPARK,) if bench.on_spark else ()
    with bench.running((HEADGATE, PYICEBERG, DELTA_RS, *others), run) as subjects:
        for files in sizes:
            made = Step("prepare_files", {"files": files, "partitions": partitions})
            metadata = ""
            for subject in subjects:
                bench.show(f"{NAME}: {files:,} files for {subject.name}")
                if subject.name in (HEADGATE.name, DELTA_RS.name):
                    told = subject.ask(made, LIMIT_SECONDS)
                    metadata = told.facts.get("metadata", metadata)
                else:
                    told = subject.ask(Step("open_files", {"files": files, "metadata": metadata}), 60)
                if told.missing:
                    subject.leave(told.missing)
            for number_ in range(ROUNDS[bench.size] + 1):
                for predicate in PREDICATES:
                    step = Step("plan", {"files": files, "where": predicate}, label(files, predicate))
                    bench.show(f"{NAME}: round {number_}, {step.label}")
                    for subject in subjects:
                        if not subject.is_out:
                            reply = subject.ask(step, LIMIT_SECONDS)
                            note(subject.record, step, reply, counted=number_ > 0)
    refuse_differences(run)
    return run


def part(run: Run) -> Part:
    names = list(run.systems)
    labels = run.labels()
    rows = [
        (
            label_,
            str(next((s.steps[label_].answer for s in run.systems.values() if label_ in s.steps), "–")),
            *(ms(run.median(name, label_)) for name in names),
            number(run.ratio(HEADGATE.name, PYICEBERG.name, label_)),
            number(run.ratio(HEADGATE.name, DELTA_RS.name, label_)),
        )
        for label_ in labels
    ]
    ours = {system.engine: HEADGATE.name for system in run.systems.values()}
    bar_at = BAR_AT if BAR_AT in run.parameters["files"] else run.parameters["files"][-1]
    return Part(
        run=run,
        title="Planning",
        text=f"""
Finding the files that a read must open, among {run.parameters["partitions"]} partitions on a local disk.
Cold: the table is opened again each time. pyiceberg and Iceberg's Java API (in the session of Iceberg on
Spark) plan the same table that Headgate wrote; delta-rs plans one with the same files and bounds, and a
checkpoint. The last predicate names no partition, so it depends on the column bounds of every file. Delta
on Spark has no way to plan without reading.
""",
        tables=[
            Table(("ms", "found", *names, "headgate / pyiceberg", "headgate / delta-rs"), rows),
        ],
        bars=[
            Bar(
                f"headgate / pyiceberg, {label(bar_at, predicate)}",
                run.ratio(HEADGATE.name, PYICEBERG.name, label(bar_at, predicate)),
                0.2,
            )
            for predicate in PREDICATES[:2]
        ],
        pictures={
            NAME: Bars(
                "Planning",
                "ms",
                {
                    label_: {
                        name: 1000 * seconds
                        for name in names
                        if (seconds := run.median(name, label_)) is not None
                    }
                    for label_ in labels
                },
            )
        },
        behind=behind(run, ours),
    )


SECTION = Section(NAME, measure, part)
