"""Changes to a few of many rows: MERGE, upsert and delete, compared with reading and rewriting the table."""

from __future__ import annotations

from benchmarks.harness.bench import Bench, slug
from benchmarks.harness.record import Run
from benchmarks.harness.system import (
    HEADGATE,
    HEADGATE_SPARK,
    IN_PROCESS,
    OF_PYTHON,
    OF_SPARK,
    PARQUET,
    SPARK,
)
from benchmarks.harness.workload import Size, Step, Workload
from benchmarks.pages.part import Bar, Part, Table, behind, engines_of, medians, number, systems_of
from benchmarks.pages.picture import Bars
from benchmarks.workloads.section import Section

NAME = "merges"
ROWS = {Size.TINY: 2_000, Size.SHORT: 1_000_000, Size.FULL: 10_000_000}
PYTHON_ROWS = {Size.TINY: 2_000, Size.SHORT: 200_000, Size.FULL: 1_000_000}
ROUNDS = {Size.TINY: 1, Size.SHORT: 5, Size.FULL: 5}
OURS = {IN_PROCESS: HEADGATE.name, SPARK: HEADGATE_SPARK.name}
READ, WRITE, ANEW = "read the table", "write the changed rows, 1 %", "write the table anew"
MERGE, MERGE_MANY, UPSERT = "merge, 1 %", "merge, 10 %", "upsert, 1 %"
DELETE = "delete, 0.1 %"
AFTER_MERGE, AFTER_UPSERT = "read after the merge", "read after the upsert"
"""Without Spark, not every system has MERGE, but all have upsert."""
COMPARED = (MERGE, MERGE_MANY, UPSERT, DELETE, AFTER_MERGE, AFTER_UPSERT)


def measure(bench: Bench) -> Run:
    """On Spark with many rows; without Spark with fewer, for tables that fit into memory."""
    run = _measured(bench, OF_PYTHON, PYTHON_ROWS[bench.size], on_spark=False)
    if bench.on_spark:
        spark = _measured(bench, (*OF_SPARK, PARQUET), ROWS[bench.size], on_spark=True)
        run.systems.update(spark.systems)
        run.parameters["rows"] = ROWS[bench.size]
    run.parameters["python_rows"] = PYTHON_ROWS[bench.size]
    return run


def _measured(bench: Bench, systems: tuple[object, ...], rows: int, *, on_spark: bool) -> Run:
    one, ten = bench.datasets.changes(rows, 100), bench.datasets.changes(rows, 10)

    def round_(round_number: int) -> list[Step]:
        kinds = ("merged", "many", "upserted", "deleted")
        tables = {kind: f"{kind}_{round_number}" for kind in kinds}
        fresh = [
            Step("copy", {"table": "base", "to": table}) if on_spark else Step("write", {"table": table})
            for table in tables.values()
        ]
        limits = [
            Step("scan", {"table": "base", "columns": ["id"]}, "read the keys"),
            Step("scan", {"table": "base"}, READ),
            Step("write_changes", {"table": f"spare_{round_number}", "changes": one}, WRITE),
            Step("write_anew", {"table": "base", "to": f"anew_{round_number}"}, ANEW),
        ]
        return [
            *fresh,
            *(limits if on_spark else []),
            Step("merge", {"table": tables["merged"], "changes": one}, MERGE),
            Step("merge", {"table": tables["many"], "changes": ten}, MERGE_MANY),
            Step("upsert", {"table": tables["upserted"], "changes": one}, UPSERT),
            Step("delete", {"table": tables["deleted"], "where": "kind = 7"}, DELETE),
            Step("scan", {"table": tables["merged"]}, AFTER_MERGE)
            if on_spark
            else Step("scan", {"table": tables["upserted"]}, AFTER_UPSERT),
        ]

    return bench.measured(
        Workload(
            NAME,
            systems,  # type: ignore[arg-type]
            {"rows": rows},
            round_,
            before=[Step("load", {"rows": bench.datasets.rows(rows)}), Step("write", {"table": "base"})],
            rounds=ROUNDS[bench.size],
        )
    )


def part(run: Run) -> Part:
    ours = HEADGATE_SPARK.name
    read, written = run.median(ours, READ), run.median(ours, WRITE)
    least = None if read is None or written is None else read + written

    def beside(label: str) -> float | None:
        own = run.median(ours, label)
        return None if own is None or least is None else own / least

    def part_of(label: str, other: str) -> str:
        return number(run.ratio(ours, ours, label, other))

    limits = Table(
        (ours, "/ reading the table once", "/ reading it and writing the changed rows", "/ rewriting it"),
        [
            (label, part_of(label, READ), number(beside(label)), part_of(label, ANEW))
            for label in (MERGE, MERGE_MANY, UPSERT, DELETE)
            if run.median(ours, label) is not None
        ],
        "Compared with the unavoidable work",
    )
    return Part(
        run=run,
        title="Merges and deletes",
        text=f"""
{run.parameters["rows"]:,} rows on Spark and {run.parameters["python_rows"]:,} without Spark, with 5
columns, on a local disk, warm; every change runs on a table of its own. One of ten changed rows is new, the
others are spread over all files. The merge sets one column, the upsert all of them; the delete removes one
row in a thousand, also spread. Each system changes rows in the way that rewrites least: Headgate and
Iceberg use merge-on-read, Delta Lake deletion vectors. Any merge has to read the table once and write the
changed rows, so the promises compare with this minimum. Each merge runs a dozen small Spark jobs, so the
ratio improves with the size of the table.
""",
        tables=[*medians(run, OURS), *([limits] if limits.rows else [])],
        bars=(
            Bar("merge, 1 % / one read and a write of the changed rows", beside(MERGE), 1.5),
            Bar("upsert, 1 % / one read and a write of the changed rows", beside(UPSERT), 1.5),
        ),
        pictures={
            f"{NAME}-{slug(engine)}": Bars(
                f"Changing few rows, {engine}",
                "s",
                {
                    label: {
                        name: seconds
                        for name in systems_of(run, engine)
                        if (seconds := run.median(name, label)) is not None
                    }
                    for label in COMPARED
                },
            )
            for engine in engines_of(run)
        },
        behind=behind(run, OURS, COMPARED),
    )


SECTION = Section(NAME, measure, part)
