"""Many small commits, then compaction: what each commit costs, and what a read gains."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from benchmarks.harness.bench import Bench, slug
from benchmarks.harness.record import Run
from benchmarks.harness.system import (
    HEADGATE,
    HEADGATE_SPARK,
    IN_PROCESS,
    OF_PYTHON,
    OF_SPARK,
    SPARK,
    System,
)
from benchmarks.harness.workload import Size, Step, Workload
from benchmarks.pages.part import Part, Table, behind, engines_of, medians, systems_of
from benchmarks.pages.picture import Bars
from benchmarks.workloads.section import Section

NAME = "compaction"
COMMITS = {
    IN_PROCESS: {Size.TINY: 10, Size.SHORT: 50, Size.FULL: 200},
    SPARK: {Size.TINY: 10, Size.SHORT: 50, Size.FULL: 100},
}
ROUNDS = {Size.TINY: 1, Size.SHORT: 1, Size.FULL: 5}
ROWS = 1000
OURS = {IN_PROCESS: HEADGATE.name, SPARK: HEADGATE_SPARK.name}
APPENDS, COMPACT = "small appends", "compaction"
BEFORE, AFTER = "aggregation before", "aggregation after"


def measure(bench: Bench) -> Run:
    # One engine after the other: on Spark the rows are made by Spark, and are not the same.
    groups = [OF_PYTHON, OF_SPARK] if bench.on_spark else [OF_PYTHON]
    run = reduce(Run.with_engine, [_measured(bench, systems) for systems in groups])
    for name, system in run.systems.items():
        before, after = (system.steps.get(f"rows {when}") for when in ("before", "after"))
        if before is not None and after is not None:
            assert before.answer == after.answer, (name, before.answer, after.answer)
    return run


def _measured(bench: Bench, systems: Sequence[System]) -> Run:
    engine = systems[0].engine
    commits = COMMITS[engine][bench.size]

    def round_(round_number: int) -> list[Step]:
        table = {"table": f"small_{round_number}"}
        return [
            Step("create", table),
            Step("append_rows", {**table, "first": 0, "count": commits, "rows": ROWS}, APPENDS),
            Step("aggregate", table, BEFORE, compared=False),
            Step("files", table, "files before", compared=False),
            Step("totals", table, "rows before"),
            Step("compact", table, COMPACT),
            Step("aggregate", table, AFTER, compared=False),
            Step("files", table, "files after", compared=False),
            Step("totals", table, "rows after"),
        ]

    return bench.measured(
        Workload(
            NAME,
            systems,
            {"commits": {engine: commits}, "rows": ROWS},
            round_,
            rounds=ROUNDS[bench.size],
            warm_up=0 if bench.size is Size.TINY else 1,
        )
    )


def part(run: Run) -> Part:
    shown = (APPENDS, BEFORE, COMPACT, AFTER)
    commits: dict[str, int] = run.parameters["commits"]
    tables = [
        Table(table.columns, [row for row in table.rows if row[0] in shown], table.title)
        for table in medians(run, OURS)
    ]
    files = [
        (name, *(str(_files(run, name, when)) for when in ("before", "after")))
        for name in run.systems
        if _files(run, name, "before") != "–"
    ]
    return Part(
        run=run,
        title="Small commits and compaction",
        text=f"""
{commits[IN_PROCESS]} appends (on Spark {commits.get(SPARK, 0)}) of {run.parameters["rows"]:,} rows each,
one after the other, then a compaction of the table, with an aggregation over all rows before and after it;
warm. Every system compacts in its recommended way: `Lake.compact`, `OPTIMIZE`, `rewrite_data_files`,
`optimize.compact`. The compaction must not change any row.
""",
        tables=[*tables, Table(("", "files before", "files after"), files)],
        pictures={
            f"{NAME}-{slug(engine)}": Bars(
                f"Small commits and compaction, {engine}",
                "s",
                {
                    label: {
                        name: seconds
                        for name in systems_of(run, engine)
                        if (seconds := run.median(name, label)) is not None
                    }
                    for label in shown
                },
            )
            for engine in engines_of(run)
        },
        behind=behind(run, OURS, shown),
    )


def _files(run: Run, name: str, when: str) -> object:
    step = run.systems[name].steps.get(f"files {when}")
    return "–" if step is None or not step.seconds else step.facts.get("value", "–")


SECTION = Section(NAME, measure, part)
