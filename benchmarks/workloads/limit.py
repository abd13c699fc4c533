"""Headgate on Spark compared with plain files that Spark writes and reads: the cost of transactions."""

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
            # Spark compiles code that runs often, so the first rounds of a session are not representative.
            warm_up=2,
        )
    )


def part(run: Run) -> Part:
    ours, limit = HEADGATE_SPARK.name, PARQUET.name
    systems = (ours, limit, PARQUET_WITH_IDS.name)
    return Part(
        run=run,
        title="Comparison with plain Parquet",
        text=f"""
{run.parameters["rows"]:,} rows of 5 columns (long, int, double, string, timestamp) on a local disk, warm.
Spark keeps the rows to be written in memory, and the full scan goes to the `noop` sink. Plain Parquet has
no transactions and syncs nothing: it is the limit of what Spark can do. All systems run in one session, one
right after the other, and each round starts with another one. Each ratio is computed within a round; the
table shows the median of all rounds with its quartiles. Medians of each system alone would not show the
difference, because the rounds of one system differ by more than the promised limits. `with field ids`:
plain Parquet whose columns are written with ids, as Iceberg requires. Spark's only way to give a column an
id is another projection.
""",
        tables=[
            Table(
                ("s", *systems, "headgate / Parquet", "lower quartile", "upper quartile"),
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
