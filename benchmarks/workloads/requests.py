"""What a small append costs on storage that is far away: requests, and how many wait for one another."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from benchmarks.harness.bench import Bench, Subject, note
from benchmarks.harness.record import Run
from benchmarks.harness.system import DELTA_RS, HEADGATE, PYICEBERG, System
from benchmarks.harness.workload import Size, Step
from benchmarks.pages.part import Bar, Part, Table, ms
from benchmarks.workloads.section import Section
from headgate.testing.s3 import Behaviour, S3Server, TracedRequest, round_trips, s3_server

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
"""The requests of which the last one to be answered makes the commit a fact."""


def systems(server: S3Server) -> tuple[System, ...]:
    """Each with the options by which it finds the server. A rename does not exist on S3."""
    known = dict(server.options)
    ours = {"url": server.url("headgate"), "options": known}
    delta = {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": known["region"],
        "AWS_ACCESS_KEY_ID": known["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": known["secret_access_key"],
    }
    iceberg = {
        "s3.endpoint": server.endpoint,
        "s3.region": known["region"],
        "s3.access-key-id": known["access_key_id"],
        "s3.secret-access-key": known["secret_access_key"],
    }
    return (
        *(
            replace(
                HEADGATE,
                name=f"headgate, {strategy}",
                settings={**ours, "url": server.url(strategy), "strategy": strategy},
            )
            for strategy in ("conditional", "filetracker")
        ),
        replace(DELTA_RS, settings={"url": server.url("delta"), "options": delta}),
        replace(PYICEBERG, settings={"url": server.url("pyiceberg"), "options": iceberg}),
    )


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
    return run


def _append(server: S3Server, subject: Subject, number_: int) -> None:
    """The first one warms up. Every tenth version of a lake does more; the trace is of the median one."""
    server.reset_counts()
    step = Step("append_small", {"number": number_ + 1}, LABEL, compared=False)
    reply = subject.ask(step, LIMIT_SECONDS)
    trace = server.trace()
    if reply.missing is None and number_ > 1 and trace:
        start = min(request.began for request in trace)
        decision = _decision(subject.name, trace)
        facts = {
            "requests": dict(Counter(request.kind for request in trace)),
            "trips": round_trips(trace),
            "decided": None if decision is None else decision - start,
            "trips_to_decision": None
            if decision is None
            else round_trips(request for request in trace if request.ended <= decision),
            "trace": [
                f"{1000 * (request.began - start):4.0f}–{1000 * (request.ended - start):4.0f} ms  "
                f"{request.kind:4} {_short(request)}"
                for request in sorted(trace, key=lambda one: one.began)
            ],
        }
        reply = replace(reply, facts=facts)
    known = subject.record.steps.get(LABEL)
    before = None if known is None else known.facts.get("all", [])
    note(subject.record, step, reply, counted=number_ > 1)
    if reply.missing is None and number_ > 1:
        facts = subject.record.steps[LABEL].facts
        everything = [*(before or []), dict(facts)]
        usual = min(everything, key=lambda one: (one["trips"], len(one["trace"])))
        kept = [{name: one[name] for name in one if name not in ("trace", "all")} for one in everything]
        # The usual one: those that end a window also write a checkpoint.
        subject.record.steps[LABEL].facts = {**usual, "all": [{**one, "trace": []} for one in kept]}


def _decision(system: str, trace: Sequence[TracedRequest]) -> float | None:
    """When the request was answered that made the commit a fact; None if it was none of this storage."""
    is_deciding = DECISIONS.get(system)
    if is_deciding is None:
        return None
    # Before what follows the decision: markers of the log are written with it, checkpoints after it.
    deciding = [one.ended for one in trace if one.kind in ("PUT", "POST") and is_deciding(one.path)]
    return max(deciding, default=None)


def _short(request: TracedRequest) -> str:
    """The key, without what is the same for all."""
    path = request.path.removeprefix("/lakes/").partition("/")[2]
    if request.kind == "LIST":
        return f"?{request.query[:80]}"
    return path


def part(run: Run) -> Part:
    rows, traces = [], []
    for name, system in run.systems.items():
        step = system.steps.get(LABEL)
        if step is None or not step.facts:
            continue
        facts, every = step.facts, step.facts["all"]
        decided = [one["decided"] for one in every if one["decided"] is not None]
        rows.append(
            (
                name,
                ", ".join(f"{count} {kind}" for kind, count in sorted(facts["requests"].items())),
                str(facts["trips_to_decision"] or "–"),
                ms(statistics.median(decided) if decided else None, 0),
                str(facts["trips"]),
                ms(step.median, 0),
            )
        )
        traces.append((name, facts["trace"]))
    return Part(
        run=run,
        title="Requests to storage that is far away",
        text=f"""
An append of 1,000 rows by a warm handle, on an S3 API server on loopback that adds {run.parameters["latency_ms"]} ms to
every request; medians of {run.parameters["rounds"]}. *Round trips* are requests that wait for one another; those that
are sent at once count as one. *Until decided*: from the first request until the commit is a fact that no crash can undo;
*until it returns*: with all that follows, such as publishing the table for other engines. The requests are of a usual
commit; every tenth version writes a checkpoint besides. The catalog of pyiceberg is a local file and costs no request.

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
    facts = run.systems[system].steps[LABEL].facts if LABEL in run.systems[system].steps else {}
    decided = [one["decided"] for one in facts.get("all", ()) if one["decided"] is not None]
    bars = [Bar(f"{system}, round trips until decided", facts.get("trips_to_decision"), trips)]
    if milliseconds is not None:
        took = 1000 * statistics.median(decided) if decided else None
        bars.append(Bar(f"{system}, until decided", took, milliseconds, "ms"))
    return bars


def _traces(traces: Sequence[tuple[str, Sequence[str]]]) -> str:
    return "\n\n".join(
        f"<details><summary>{name}: the requests in order</summary>\n\n```\n{chr(10).join(lines)}\n```\n</details>"
        for name, lines in traces
    )


SECTION = Section(NAME, measure, part)
