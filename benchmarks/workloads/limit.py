"""Headgate on Spark beside the plain files that Spark itself writes and reads: what transactions cost."""

from __future__ import annotations

from benchmarks.harness.bench import Bench
from benchmarks.harness.record import Run
from benchmarks.harness.system import HEADGATE_SPARK, PARQUET, PARQUET_WITH_IDS
from benchmarks.harness.workload import Size, Step, Workload
from benchmarks.pages.part import Bar, Part, Table, number
from benchmarks.workloads.section import Section

NAME = "limit"
ROWS = {Size.TINY: 2_000, Size.SHORT: 1_000_000, Size.FULL: 10_000_000}
ROUNDS = {Size.TINY: 1, Size.SHORT: 5, Size.FULL: 15}
WRITE, SCAN, AGGREGATION = "write", "full scan", "aggregation"
BARS = {WRITE: 1.15, SCAN: 1.05, AGGREGATION: 1.05}


def measure(bench: Bench) -> Run:
    rows = ROWS[bench.size]

    def round_(round_number: int) -> list[Step]:
        return [
            Step("write", {"table": f"write_{round_number}"}, WRITE),
            Step("scan", {"table": "base"}, SCAN),
            Step("aggregate", {"table": "base"}, AGGREGATION),
        ]

    return bench.measured(
        Workload(
            NAME,
            (HEADGATE_SPARK, PARQUET, PARQUET_WITH_IDS) if bench.on_spark else (),
            {"rows": rows},
            round_,
            before=[Step("load", {"rows": bench.datasets.rows(rows)}), Step("write", {"table": "base"})],
            rounds=ROUNDS[bench.size],
            # Spark compiles what it runs often: the first rounds of a session are no measure of it.
            warm_up=2,
        )
    )


def part(run: Run) -> Part:
    ours, limit = HEADGATE_SPARK.name, PARQUET.name
    systems = (ours, limit, PARQUET_WITH_IDS.name)
    return Part(
        run=run,
        title="Beside plain Parquet",
        text=f"""
{run.parameters["rows"]:,} rows of 5 columns (long, int, double, string, timestamp) on a local disk, warm;
the rows to be written are kept in memory by Spark, and the full scan goes to the `noop` sink. Plain Parquet
has no transactions and syncs nothing: it is the limit of what Spark can do. All are in one session, and one
is measured right after the other, each time another one first. A ratio is of a round; shown is the median of
all rounds, with the quarter below and above it. Rounds of one system differ by more than what is promised, so
medians of each system alone would not tell. With field ids: plain Parquet whose columns are written with
numbers, as Iceberg wants it; Spark has no other way to give a column one than to project it anew.
""",
        tables=[
            Table(
                ("s", *systems, "headgate / Parquet", "a quarter is below", "a quarter is above"),
                [
                    (
                        label,
                        *(number(run.median(system, label)) for system in systems),
                        *(number(ratio) for ratio in run.paired_quartiles(ours, limit, label)),
                    )
                    for label in run.labels()
                ],
            )
        ],
        bars=[
            Bar(f"{label}, headgate on Spark / Parquet", run.paired_quartiles(ours, limit, label)[0], most)
            for label, most in BARS.items()
        ],
    )


SECTION = Section(NAME, measure, part)
