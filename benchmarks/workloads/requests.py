"""The cost of a small append on remote storage: requests, and how many wait for one another."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.harness.bench import Bench, Subject, note
from benchmarks.harness.object_storage import on_server
from benchmarks.harness.record import Run
from benchmarks.harness.system import DELTA_RS, HEADGATE, PYICEBERG, System
from benchmarks.harness.workload import Size, Step
from benchmarks.pages.part import Bar, Part, Table, ms
from benchmarks.workloads.section import Section
from tests.servers.s3 import Behaviour, S3Server, TracedRequest, round_trips, s3_server

NAME = "requests"
LABEL = "append of 1,000 rows"
ROUNDS = {Size.TINY: 2, Size.SHORT: 9, Size.FULL: 25}
LATENCY_SECONDS = 0.030
CONDITIONAL, FILETRACKER = "headgate, conditional", "headgate, filetracker"
LIMIT_SECONDS = 120.0

DECISIONS: Mapping[str, Callable[[str], bool]] = {
    CONDITIONAL: lambda path: "/control/log/" in path,
    FILETRACKER: lambda path: "/control/log/" in path,
    DELTA_RS.name: lambda path: "/_delta_log/" in path and path.endswith(".json"),
}
"""The request of each system after which the commit is decided."""


def systems(server: S3Server) -> tuple[System, ...]:
    """S3 has no rename, so that strategy is left out."""
    ours = [
        replace(
            on_server(HEADGATE, server, strategy, strategy=strategy),
            name=f"headgate, {strategy}",
        )
        for strategy in ("conditional", "filetracker")
    ]
    return (*ours, on_server(DELTA_RS, server, "delta"), on_server(PYICEBERG, server, "pyiceberg"))


def measure(bench: Bench) -> Run:
    rounds = ROUNDS[bench.size]
    run = bench.run_of(NAME, {"latency_ms": round(1000 * LATENCY_SECONDS), "rounds": rounds})
    with s3_server() as server, bench.running(systems(server), run) as subjects:
        for subject in subjects:
            told = subject.ask(Step("prepare_rows"), LIMIT_SECONDS)
            if told.missing is not None:
                subject.leave(told.missing)
        with server.behaving(Behaviour(latency_seconds=LATENCY_SECONDS)):
            for number_ in range(1, rounds + 2):
                bench.show(f"{NAME}: round {number_} of {rounds + 1}")
                for subject in (each for each in subjects if not each.is_out):
                    _append(server, subject, number_)
    for name in run.systems:
        one = usual(run, name)
        for other in run.fact(name, LABEL, "seen") or ():
            # One listing is enough to show which request waits for which.
            if other is not one:
                other["trace"] = []
    return run


def _append(server: S3Server, subject: Subject, number_: int) -> None:
    """One append, and the requests that the server received. The first one warms up."""
    server.reset_counts()
    step = Step("append_small", {"number": number_ + 1}, LABEL, compared=False)
    reply = subject.ask(step, LIMIT_SECONDS)
    seen = [*subject.record.steps[LABEL].facts["seen"]] if LABEL in subject.record.steps else []
    if number_ > 1 and reply.missing is None:
        seen.append(_seen(subject.name, server.trace()))
    note(subject.record, step, replace(reply, facts={"seen": seen}), counted=number_ > 1)


def _seen(system: str, trace: Sequence[TracedRequest]) -> dict[str, Any]:
    """An append as the server saw it."""
    start = min(request.began for request in trace)
    decision = _decision(system, trace)
    before = [request for request in trace if decision is None or request.ended <= decision]
    return {
        "requests": dict(Counter(request.kind for request in trace)),
        "trips": round_trips(trace),
        "decided": None if decision is None else decision - start,
        "trips_to_decision": None if decision is None else round_trips(before),
        "trace": [_line(one, start) for one in sorted(trace, key=lambda one: one.began)],
    }


def usual(run: Run, system: str) -> dict[str, Any] | None:
    """The append with the fewest requests: the one that ends a window also writes a checkpoint."""
    seen = run.fact(system, LABEL, "seen")
    listed = [one for one in seen or () if one["trace"]]
    return min(listed, key=lambda one: len(one["trace"]), default=None)


def decided(run: Run, system: str) -> float | None:
    """The median of the seconds until the commit is decided."""
    seen = [one["decided"] for one in run.fact(system, LABEL, "seen") or () if one["decided"] is not None]
    return statistics.median(seen) if seen else None


def _decision(system: str, trace: Sequence[TracedRequest]) -> float | None:
    """When the deciding request was answered; None if it did not go to this storage."""
    is_deciding = DECISIONS.get(system)
    if is_deciding is None:
        return None
    # Ignore what follows the decision: markers of the log are written with it, checkpoints after it.
    deciding = [one.ended for one in trace if one.kind in ("PUT", "POST") and is_deciding(one.path)]
    return max(deciding, default=None)


def _line(request: TracedRequest, start: float) -> str:
    began, ended = (1000 * (moment - start) for moment in (request.began, request.ended))
    return f"{began:4.0f} –{ended:4.0f} ms  {request.kind:4} {_short(request)}"


def _short(request: TracedRequest) -> str:
    """The key, without the part that is the same for all."""
    path = request.path.removeprefix("/lakes/").partition("/")[2]
    if request.kind == "LIST":
        return f"?{request.query[:80]}"
    return path


def part(run: Run) -> Part:
    rows, traces = [], []
    for name in run.systems:
        one = usual(run, name)
        if one is None:
            continue
        rows.append(
            (
                name,
                ", ".join(f"{count} {kind}" for kind, count in sorted(one["requests"].items())),
                str(one["trips_to_decision"] or "–"),
                ms(decided(run, name), 0),
                str(one["trips"]),
                ms(run.median(name, LABEL), 0),
            )
        )
        traces.append((name, one["trace"]))
    return Part(
        run=run,
        title="Requests to remote storage",
        text=f"""
An append of 1,000 rows by a warm handle, on an S3 API server on loopback that adds
{run.parameters["latency_ms"]} ms to every request; medians of {run.parameters["rounds"]}. *Round trips* are
requests that wait for one another; requests that are sent at the same time count as one. *Until decided*:
from the first request until no crash can undo the commit. *Until it returns*: with everything that follows,
such as publishing the table for other engines. The requests are those of a usual commit; every tenth
version also writes a checkpoint. The catalog of pyiceberg is a local file and costs no request.

{_traces(traces)}
""",
        tables=[
            Table(
                (
                    "",
                    "requests",
                    "round trips until decided",
                    "ms until decided",
                    "round trips until it returns",
                    "ms until it returns",
                ),
                rows,
            )
        ],
        bars=(
            *_bars(run, CONDITIONAL, 3, 110),
            *_bars(run, FILETRACKER, 7, None),
        ),
    )


def _bars(run: Run, system: str, trips: int, milliseconds: float | None) -> list[Bar]:
    one, took = usual(run, system), decided(run, system)
    bars = [
        Bar(f"{system}, round trips until decided", None if one is None else one["trips_to_decision"], trips)
    ]
    if milliseconds is not None:
        took_ms = None if took is None else 1000 * took
        bars.append(Bar(f"{system}, until decided", took_ms, milliseconds, "ms"))
    return bars


def _traces(traces: Sequence[tuple[str, Sequence[str]]]) -> str:
    shown = []
    for name, lines in traces:
        listing = "\n".join(lines)
        title = f"<details><summary>{name}: the requests in order</summary>"
        shown.append(f"{title}\n\n```text\n{listing}\n```\n</details>")
    return "\n\n".join(shown)


SECTION = Section(NAME, measure, part)
