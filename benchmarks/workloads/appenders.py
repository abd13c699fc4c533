"""Many writers that append to one table at the same time, until all have committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from benchmarks.harness.bench import Bench, slug
from benchmarks.harness.object_storage import ON_S3, on_server
from benchmarks.harness.record import Run
from benchmarks.harness.system import (
    DELTA_RS,
    DELTA_SPARK,
    HEADGATE,
    HEADGATE_SPARK,
    HEADGATE_UNSYNCED,
    ICEBERG_SPARK,
    IN_PROCESS,
    OF_PYTHON,
    PYICEBERG,
    SPARK,
    System,
)
from benchmarks.harness.workload import Size, Step, Workload
from benchmarks.pages.part import Bar, Part, Table, behind, number
from benchmarks.pages.picture import Bars
from benchmarks.workloads.section import Section
from tests.servers.s3 import S3Server, s3_server

NAME = "appenders"
WRITERS = {Size.TINY: (2,), Size.SHORT: (1, 4, 16, 32), Size.FULL: (1, 4, 16, 32)}
COMMITS = {
    IN_PROCESS: {Size.TINY: 2, Size.SHORT: 160, Size.FULL: 160},
    ON_S3: {Size.TINY: 2, Size.SHORT: 32, Size.FULL: 64},
    SPARK: {Size.TINY: 2, Size.SHORT: 32, Size.FULL: 32},
}
"""The total number of commits, whatever the number of writers: as many as the slowest system can finish."""
ROUNDS = {Size.TINY: 1, Size.SHORT: 1, Size.FULL: 5}
PROCESSES = 4
HANDLES = HEADGATE.also("handles of their own", shared=False)


def far(system: System) -> str:
    """The name of the system when it is also measured on the server."""
    return f"{system.name}, {ON_S3}"


OURS = {IN_PROCESS: HEADGATE.name, ON_S3: far(HEADGATE), SPARK: HEADGATE_SPARK.name}


def label(writers: int) -> str:
    return f"{writers} writer{'s' if writers > 1 else ''}"


def _on_s3(server: S3Server) -> tuple[System, ...]:
    return tuple(
        replace(on_server(system, server, slug(system.name)), name=far(system)) for system in OF_PYTHON
    )


def measure(bench: Bench) -> Run:
    with s3_server() as server:
        groups = [(HEADGATE, HANDLES, HEADGATE_UNSYNCED, DELTA_RS, PYICEBERG), _on_s3(server)]
        if bench.on_spark:
            groups.append((HEADGATE_SPARK, DELTA_SPARK, ICEBERG_SPARK))
        # One engine after the other: only systems of the same engine are compared.
        return reduce(Run.with_engine, [_measured(bench, systems) for systems in groups])


def _measured(bench: Bench, systems: Sequence[System]) -> Run:
    engine = systems[0].engine
    writers, commits = WRITERS[bench.size], COMMITS[engine][bench.size]

    def round_(round_number: int) -> list[Step]:
        return [
            Step(
                "contend",
                {
                    "writers": count,
                    "appends": commits // count,
                    "processes": min(PROCESSES, count),
                    "number": round_number,
                },
                label(count),
            )
            for count in writers
        ]

    return bench.measured(
        Workload(
            NAME,
            systems,
            {"writers": list(writers), "commits": {engine: commits}, "processes": PROCESSES},
            round_,
            rounds=ROUNDS[bench.size],
            # Every round has processes and tables of its own, so no warm-up is needed.
            warm_up=0,
            limit_seconds=900,
        )
    )


def per_second(run: Run, system: str, writers: int) -> float | None:
    """Commits per second, of a median round."""
    seconds = run.median(system, label(writers))
    return None if seconds is None else run.parameters["commits"][run.systems[system].engine] / seconds


def part(run: Run) -> Part:
    counts: list[int] = run.parameters["writers"]
    commits: dict[str, int] = run.parameters["commits"]
    most = counts[-1]
    rows = []
    for name in run.systems:
        for count in counts:
            speed = per_second(run, name, count)
            if speed is None:
                continue
            failures = run.fact(name, label(count), "failures")
            ours = run.ratio(OURS[run.systems[name].engine], name, label(count))
            rows.append((name, str(count), number(speed, 1), str(failures), number(ours)))
    pictures = {
        f"{NAME}-{slug(engine)}": Bars(
            f"Commits per second, {engine}: longer is better",
            "commits/s",
            {
                label(count): {
                    name: speed
                    for name, system in run.systems.items()
                    if system.engine == engine and (speed := per_second(run, name, count)) is not None
                }
                for count in counts
            },
        )
        for engine in dict.fromkeys(system.engine for system in run.systems.values())
    }
    return Part(
        run=run,
        title="Many writers",
        text=f"""
Writers append to one table at the same time. Each makes the same number of commits, until they have made
{commits[IN_PROCESS]} in all on a local disk, {commits[ON_S3]} on an S3 API server of this machine, and
{commits.get(SPARK, 0)} on Spark. Without Spark, the writers are threads of up to
{run.parameters["processes"]} processes, and the data file exists already. On Spark, they are threads of one
session, and each append writes ten rows. Every system uses its default retries (unlimited until the timeout
in Headgate, 15 in delta-rs, 4 in pyiceberg). A writer that is still rejected counts a failure and tries
again, until all rows are committed. The threads of a process share a Headgate handle, as is usual. With
handles of their own they still take turns, and share what the others have read.
""",
        tables=[Table(("", "writers", "commits/s", "failures", "headgate / this"), rows)],
        bars=[
            Bar(f"{ours} / {peer}, {label(most)}", run.ratio(ours, peer, label(most)), 1 / 3)
            for ours, peer in (
                (HEADGATE.name, DELTA_RS.name),
                (HEADGATE.name, PYICEBERG.name),
                (HANDLES.name, DELTA_RS.name),
                (HANDLES.name, PYICEBERG.name),
                (far(HEADGATE), far(DELTA_RS)),
                (far(HEADGATE), far(PYICEBERG)),
            )
        ],
        pictures=pictures,
        behind=behind(run, OURS),
    )


SECTION = Section(NAME, measure, part)
