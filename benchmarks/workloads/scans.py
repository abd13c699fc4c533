"""Writing and reading many rows: all, some, and aggregated."""

from __future__ import annotations

from benchmarks.harness.bench import Bench, slug
from benchmarks.harness.record import Run
from benchmarks.harness.system import (
    HEADGATE,
    HEADGATE_SPARK,
    HEADGATE_SPARK_UNSYNCED,
    IN_PROCESS,
    LIMITS,
    OF_PYTHON,
    OF_SPARK,
    SPARK,
)
from benchmarks.harness.workload import Size, Step, Workload
from benchmarks.pages.part import Part, behind, engines_of, medians, systems_of
from benchmarks.pages.picture import Bars
from benchmarks.workloads.section import Section

NAME = "scans"
ROWS = {Size.TINY: 2_000, Size.SHORT: 1_000_000, Size.FULL: 10_000_000}
ROUNDS = {Size.TINY: 1, Size.SHORT: 5, Size.FULL: 5}
READS = 3
"""The number of reads per round: reads are short, and vary."""
OURS = {IN_PROCESS: HEADGATE.name, SPARK: HEADGATE_SPARK.name}
WRITE = "write"
BY_DAY = "write, partitioned by day"


def measure(bench: Bench) -> Run:
    rows = ROWS[bench.size]
    last = rows // 100

    def round_(round_number: int) -> list[Step]:
        writes = [
            Step("write", {"table": f"write_{round_number}"}, WRITE),
            Step("write_by_day", {"table": f"by_day_{round_number}"}, BY_DAY),
        ]
        reads = [
            Step("scan", {"table": "base"}, "full scan"),
            Step("filtered", {"table": "base", "where": f"id < {last}"}, "filtered scan, 1 % by range"),
            Step("filtered", {"table": "base", "where": "kind < 10"}, "filtered scan, 1 % spread"),
            Step("aggregate", {"table": "base"}, "aggregation"),
        ]
        return [*writes, *reads * READS]

    spark = (*OF_SPARK, HEADGATE_SPARK_UNSYNCED, *LIMITS) if bench.on_spark else ()
    return bench.measured(
        Workload(
            NAME,
            (*OF_PYTHON, *spark),
            {"rows": rows},
            round_,
            before=[Step("load", {"rows": bench.datasets.rows(rows)}), Step("write", {"table": "base"})],
            rounds=ROUNDS[bench.size],
        )
    )


def part(run: Run) -> Part:
    return Part(
        run=run,
        title="Writing and reading",
        text=f"""
{run.parameters["rows"]:,} rows of 5 columns (long, int, double, string, timestamp) on a local disk, warm.
The rows to be written are in memory, as cached by Spark or as Arrow. On Spark, the full scan goes to the
`noop` sink; without Spark, it produces an Arrow table. A round writes once and reads {READS} times.
Headgate on Spark and plain Parquet share a session. Plain Parquet on the other systems' releases of Spark
shows how much of a difference is due to the Spark release. The write partitioned by day is for information:
Headgate first brings the rows of a day together and makes fewer files.
""",
        tables=medians(run, OURS),
        pictures={
            f"{NAME}-{slug(engine)}": Bars(
                f"Writing and reading, {engine}",
                "s",
                {
                    label: {
                        name: seconds
                        for name in systems_of(run, engine)
                        if (seconds := run.median(name, label)) is not None
                    }
                    for label in run.labels()
                },
            )
            for engine in engines_of(run)
        },
        behind=behind(run, OURS),
    )


SECTION = Section(NAME, measure, part)
