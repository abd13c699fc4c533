"""Commits of the log only: each strategy on each storage, compared with the limit of the disk."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.harness.bench import Bench
from benchmarks.harness.record import Run
from benchmarks.harness.system import IN_PROCESS, System
from benchmarks.harness.workload import Size, Step, Workload
from benchmarks.pages.part import Part, Table, number
from benchmarks.workloads.section import Section
from tests.servers.s3 import s3_server

NAME = "strategies"
COMMITS = {Size.TINY: 10, Size.SHORT: 20, Size.FULL: 100}
ROUNDS = {Size.TINY: 1, Size.SHORT: 5, Size.FULL: 5}
THREADS = 16
ALONE, TOGETHER = "alone", "16 threads"
STRATEGIES = ("conditional", "rename", "filetracker")
STORAGES: dict[str, dict[str, Any]] = {
    "memory": {},
    "local disk": {"disk": True},
    "local disk, no fsync": {"disk": True, "fsync": False},
}
ON_S3 = "S3 API on loopback"
DURABLE = System("durable files by hand", "benchmarks.adapters.headgate_log:DurableFiles", IN_PROCESS)


def _system(storage: str, strategy: str, **settings: Any) -> System:
    # One process for all systems: it is the same code, and they take turns.
    return System(
        f"{storage}: {strategy}",
        "benchmarks.adapters.headgate_log:LogCommits",
        IN_PROCESS,
        settings={"strategy": strategy, **settings},
        process="log",
    )


def measure(bench: Bench) -> Run:
    with s3_server() as server:
        systems = [
            *(_system(name, each, **settings) for name, settings in STORAGES.items() for each in STRATEGIES),
            *(
                _system(ON_S3, each, url=server.url(each), options=dict(server.options))
                for each in ("conditional", "filetracker")
            ),
            DURABLE,
        ]
        commits = COMMITS[bench.size]
        steps = [
            Step("commit", {"count": commits}, ALONE),
            Step("commit_together", {"count": commits, "threads": THREADS}, TOGETHER),
        ]
        return bench.measured(
            Workload(NAME, systems, {"commits": commits}, lambda _: steps, rounds=ROUNDS[bench.size])
        )


def part(run: Run) -> Part:
    limit = run.median(DURABLE.name, ALONE)
    rows = []
    for name, system in run.systems.items():
        alone, together = run.median(name, ALONE), run.median(name, TOGETHER)
        if name == DURABLE.name or alone is None:
            continue
        storage, _, strategy = name.partition(": ")
        quantiles = statistics.quantiles(system.steps[ALONE].samples, n=100)
        rows.append(
            (
                storage,
                strategy,
                number(1 / alone, 0),
                "–" if together is None else number(1 / together, 0),
                f"{quantiles[98] / quantiles[49]:.1f}",
                number(alone / limit) if limit and storage == "local disk" else "–",
                str(run.fact(name, ALONE, "requests")),
            )
        )
    return Part(
        run=run,
        title="Commit strategies",
        text="""
Commits of one lake property, without tables; warm. `of a durable file`: how many durable files (written,
synced, linked to a name, directory synced, by hand) the disk takes in the time of one commit; 1 is the
limit of a conditional commit. The S3 API server is a test server in Python on loopback: its figures are
only for comparing strategies.
""",
        tables=[
            Table(
                ("storage", "strategy", "commits/s", TOGETHER, "p99 / p50", "of a durable file", "requests"),
                rows,
            )
        ],
    )


SECTION = Section(NAME, measure, part)
