"""Writers in processes of their own, on storage as far away as real S3: what users feel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.harness.bench import Bench, Subject, note, slug
from benchmarks.harness.far_storage import FarStorage, far_storage
from benchmarks.harness.object_storage import on_server
from benchmarks.harness.record import Run
from benchmarks.harness.system import DELTA_RS, HEADGATE, PYICEBERG, System
from benchmarks.harness.workload import Size, Step
from benchmarks.pages.part import Part, Table, ms, number
from benchmarks.pages.picture import Bars
from benchmarks.workloads.section import Section

NAME = "far-storage"
LATENCY_SECONDS = 0.030
WRITERS = {Size.TINY: (1,), Size.SHORT: (1, 8), Size.FULL: (1, 8, 16, 32)}
SECONDS = {Size.TINY: 1.0, Size.SHORT: 6.0, Size.FULL: 20.0}
ROUNDS = {Size.TINY: 1, Size.SHORT: 1, Size.FULL: 3}
LIMIT_SECONDS = 900.0
FAR = "far storage"
ONE, MANY = "one table", "a table each"
CONDITIONAL, FILETRACKER = "headgate, conditional", "headgate, filetracker"


def label(writers: int, tables: str) -> str:
    return "1 writer" if writers == 1 else f"{writers} writers, {tables}"


def cases(writers: Sequence[int]) -> list[tuple[int, str]]:
    """How many writers, and on which tables. One writer has one table."""
    return [(count, tables) for count in writers for tables in ((ONE,) if count == 1 else (ONE, MANY))]


def systems(server: FarStorage) -> tuple[System, ...]:
    """S3 has no rename, so that strategy is left out."""
    ours = [
        replace(on_server(HEADGATE, server, strategy, FAR, strategy=strategy), name=f"headgate, {strategy}")
        for strategy in ("conditional", "filetracker")
    ]
    peers = [on_server(system, server, slug(system.name), FAR) for system in (DELTA_RS, PYICEBERG)]
    return (*ours, *peers)


def measure(bench: Bench) -> Run:
    writers, rounds = WRITERS[bench.size], ROUNDS[bench.size]
    build = bench.size is not Size.TINY
    with far_storage(bench.place / "server", LATENCY_SECONDS, build=build) as server:
        parameters = {
            "latency_ms": round(1000 * LATENCY_SECONDS),
            "server": server.kind,
            "writers": list(writers),
            "seconds": SECONDS[bench.size],
            "rounds": rounds,
        }
        run = bench.run_of(NAME, parameters)
        with bench.running(systems(server), run) as subjects:
            for round_ in range(rounds):
                for count, tables in cases(writers):
                    bench.show(f"{NAME}: round {round_ + 1} of {rounds}, {label(count, tables)}")
                    turn = round_ % len(subjects) if subjects else 0
                    for subject in [*subjects[turn:], *subjects[:turn]]:
                        if not subject.is_out:
                            _append(server, subject, count, tables, round_, SECONDS[bench.size])
    return run


def _append(
    server: FarStorage, subject: Subject, writers: int, tables: str, round_: int, seconds: float
) -> None:
    known = subject.record.steps.get(label(writers, tables))
    if known is not None and known.missing is not None:
        return
    run = Step("far_run", {"seconds": seconds}, label(writers, tables), compared=False)
    name = f"{slug(label(writers, tables))}-{round_}"
    arguments = {"writers": writers, "tables": 1 if tables == ONE else writers, "name": name}
    started = subject.ask(Step("far_start", arguments), LIMIT_SECONDS)
    if started.missing is not None:
        note(subject.record, run, started)
        return
    before = server.requests()
    reply = subject.ask(run, LIMIT_SECONDS)
    if reply.missing is None:
        facts = dict(reply.facts)
        facts["requests"] = (server.requests() - before) / facts["commits"]
        # Every round of them: the page shows medians.
        seen = [] if known is None else known.facts["rounds"]
        reply = replace(reply, facts={"rounds": [*seen, facts]})
    note(subject.record, run, reply)


def middle(run: Run, system: str, step: str, fact: str) -> float | None:
    """The median of the rounds."""
    seen = sorted(each[fact] for each in run.fact(system, step, "rounds") or ())
    return seen[len(seen) // 2] if seen else None


def part(run: Run) -> Part:
    steps = [label(*case) for case in cases(run.parameters["writers"])]
    rows = [
        (
            step,
            name,
            number(middle(run, name, step, "per_second"), 1),
            f"{middle(run, name, step, 'least'):.0f} – {middle(run, name, step, 'most'):.0f}",
            ms(middle(run, name, step, "p50"), 0),
            ms(middle(run, name, step, "p95"), 0),
            f"{middle(run, name, step, 'failures'):.0f}",
            number(middle(run, name, step, "requests"), 1),
            ms(middle(run, name, step, "processor"), 0),
        )
        for step in steps
        for name in run.systems
        if middle(run, name, step, "per_second") is not None
    ]
    speeds = {
        step: {
            name: speed
            for name in run.systems
            if (speed := middle(run, name, step, "per_second")) is not None
        }
        for step in steps
    }
    return Part(
        run=run,
        title="Far storage",
        text=f"""
What several jobs feel that write to object storage. Every writer is a process of its own, which has already
made a few commits; it appends ten rows at a time, one append after the other, for
{run.parameters["seconds"]:g} s. The storage is {run.parameters["server"]} behind a proxy that adds
{run.parameters["latency_ms"]} ms to every request, about the latency of S3 in the same region. Afterwards a
reader must find exactly the rows whose appends succeeded. *Each*: the fewest and the most commits of one
writer. *Failures*: appends that were rejected although the system had retried by itself; the writer then
tried again. *Requests* and *processor*: for each commit, over all writers. The catalog of pyiceberg is a
local file, which has no latency.
""",
        tables=[
            Table(
                (
                    "",
                    "system",
                    "commits/s",
                    "each",
                    "p50 ms",
                    "p95 ms",
                    "failures",
                    "requests",
                    "processor ms",
                ),
                rows,
            )
        ],
        pictures={NAME: Bars("Commits per second on far storage: longer is better", "commits/s", speeds)},
    )


SECTION = Section(NAME, measure, part)
