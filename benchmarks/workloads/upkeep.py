"""Thousands of commits of one small file each, with compaction on: how the table keeps its shape."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.harness.bench import Bench, Subject
from benchmarks.harness.record import Run
from benchmarks.harness.system import HEADGATE_UPKEEP
from benchmarks.harness.workload import Size, Step
from benchmarks.pages.part import Bar, Part, Table, ms, number
from benchmarks.pages.picture import Lines
from benchmarks.workloads.section import Section

NAME = "upkeep"
NEAR_ONE_WRITE = 1.1
"""How much longer a read may take than a read of the same rows written at once."""
COMMITS = {Size.TINY: 40, Size.SHORT: 1000, Size.FULL: 10_000}
POINTS = {Size.TINY: 2, Size.SHORT: 10, Size.FULL: 20}
SCANS = {Size.TINY: 1, Size.SHORT: 5, Size.FULL: 9}
PARTITIONS = 8
ROWS = 1000
LIMIT_SECONDS = 1800.0
COMMIT, SHAPE = "commit", "shape"
SCAN, SCAN_AT_ONCE = "scan", "scan, written at once"
DIVISOR = 10


def measure(bench: Bench) -> Run:
    commits = COMMITS[bench.size]
    parameters = {"commits": commits, "rows": ROWS, "partitions": PARTITIONS, "divisor": DIVISOR}
    run = bench.run_of(NAME, parameters)
    with bench.running((HEADGATE_UPKEEP,), run) as subjects:
        for subject in subjects:
            _asked(subject, Step("create", {"partitions": PARTITIONS}))
            _ingest(bench, subject, commits)
            _compare_scans(bench, subject, commits)
    return run


def _ingest(bench: Bench, subject: Subject, commits: int) -> None:
    """Makes the commits in turns, and checks the table after each turn."""
    turn = commits // POINTS[bench.size]
    points: list[dict[str, Any]] = []
    for first in range(0, commits, turn):
        bench.show(f"{NAME}: {first:,} of {commits:,} commits")
        told = _asked(subject, Step("ingest", {"first": first, "count": turn, "rows": ROWS}, COMMIT))
        shape = _asked(subject, Step("shape", {}, SHAPE)).facts
        scanned = median(_asked(subject, Step("scan", {}, SCAN)).seconds for _ in range(3))
        points.append(
            {
                "commits": first + turn,
                "commit": median(told.samples),
                "compacting": told.facts["compacting"],
                "scan": scanned,
                **shape,
            }
        )
    subject.record.step(SHAPE).facts = {"points": points}


def _compare_scans(bench: Bench, subject: Subject, commits: int) -> None:
    """Scans the table, and another one that a single commit has written, in turns."""
    _asked(subject, Step("write_at_once", {"commits": commits, "rows": ROWS}))
    for turn in range(SCANS[bench.size] + 1):
        bench.show(f"{NAME}: scan {turn} of {SCANS[bench.size]}")
        replies = {
            label: _asked(subject, Step("scan", {"at_once": at_once}, label))
            for label, at_once in ((SCAN, False), (SCAN_AT_ONCE, True))
        }
        assert replies[SCAN].answer == replies[SCAN_AT_ONCE].answer, replies
        for label, reply in replies.items():
            if turn:  # the first one warms up
                subject.record.step(label).seconds.append(reply.seconds)


def _asked(subject: Subject, step: Step) -> Any:
    reply = subject.ask(step, LIMIT_SECONDS)
    if reply.missing is not None:
        raise RuntimeError(f"{step.operation}: {reply.missing}")
    return reply


def part(run: Run) -> Part:
    name = HEADGATE_UPKEEP.name
    points: list[dict[str, Any]] = run.fact(name, SHAPE, "points")
    last, divisor = points[-1], run.parameters["divisor"]
    most_small = (divisor - 1) * last["levels"]
    rows = [
        (
            f"{point['commits']:,}",
            str(point["files"]),
            str(point["small"]),
            str(point["manifests"]),
            number(point["amplification"]),
            ms(point["commit"]),
            ms(point["open"]),
            ms(point["plan"]),
            ms(point["scan"], 0),
        )
        for point in points
    ]
    return Part(
        run=run,
        title="Regular compaction",
        text=f"""
{run.parameters["commits"]:,} commits of one file with {run.parameters["rows"]:,} rows each, to
{run.parameters["partitions"]} partitions in turn, on a local disk with default settings. The writer calls
`Lake.compact` whenever the version is a multiple of the divisor, {divisor}; this is not part of `commit`.
`small`: the number of small segments in the partition that has most of them. `rewritten`: bytes that
compaction has read, divided by bytes that were ingested. `open`, `plan` and `scan` use a new handle; the
scan reads all rows with all columns. There are {last["levels"]} levels at the end, so a partition may have
({divisor} - 1) × {last["levels"]} small segments, and there may be as many manifests.
""",
        tables=[
            Table(
                (
                    "commits",
                    "files",
                    "small",
                    "manifests",
                    "rewritten",
                    "commit ms",
                    "open ms",
                    "plan ms",
                    "scan ms",
                ),
                rows,
            )
        ],
        bars=(
            Bar("small segments of a partition", max(point["small"] for point in points), most_small),
            Bar("manifests of the table", max(point["manifests"] for point in points), most_small),
            Bar("bytes rewritten / bytes ingested", last["amplification"], last["levels"]),
            Bar(
                "scan / scan of the same rows written at once",
                run.ratio(name, name, SCAN, SCAN_AT_ONCE),
                NEAR_ONE_WRITE,
            ),
        ),
        pictures={
            NAME: Lines(
                "A table with compaction on",
                "log scale",
                "commits",
                {
                    title: [(point["commits"], factor * point[fact]) for point in points]
                    for title, fact, factor in (
                        ("files", "files", 1),
                        ("manifests", "manifests", 1),
                        ("open, ms", "open", 1000),
                        ("scan, ms", "scan", 1000),
                    )
                },
                log=True,
            )
        },
    )


SECTION = Section(NAME, measure, part)
