"""Opening a table with a long history: a new handle reads the current state."""

from __future__ import annotations

from benchmarks.harness.bench import Bench, note
from benchmarks.harness.record import Run
from benchmarks.harness.system import DELTA_RS, HEADGATE, IN_PROCESS, PYICEBERG
from benchmarks.harness.workload import Size, Step
from benchmarks.pages.part import Bar, Part, Table, behind, ms, number
from benchmarks.workloads.section import Section

NAME = "opening"
SYSTEMS = (HEADGATE, DELTA_RS, PYICEBERG)
VERSIONS = {Size.TINY: (10, 30), Size.SHORT: (100, 1_000), Size.FULL: (100, 10_000)}
LIMIT_SECONDS = {Size.TINY: 30.0, Size.SHORT: 60.0, Size.FULL: 300.0}
ROUNDS = {Size.TINY: 1, Size.SHORT: 9, Size.FULL: 9}
OURS = {IN_PROCESS: HEADGATE.name}


def label(versions: int) -> str:
    return f"{versions:,} versions"


def measure(bench: Bench) -> Run:
    """Commit by commit. A system that needs too long makes fewer commits, and the page says how many."""
    few, many = VERSIONS[bench.size]
    limit = LIMIT_SECONDS[bench.size]
    run = bench.run_of(NAME, {"versions": [few, many], "limit_seconds": limit})
    with bench.running(SYSTEMS, run) as subjects:
        for subject in subjects:
            subject.ask(Step("prepare_appends"), limit)
        reached = dict.fromkeys((subject.name for subject in subjects), 0)
        for wanted in (few, many):
            for subject in subjects:
                bench.show(f"{NAME}: {wanted:,} versions of {subject.name}")
                more = {"first": reached[subject.name], "count": wanted - reached[subject.name]}
                told = subject.ask(Step("append_files", {**more, "limit_seconds": limit}), limit)
                if told.missing is not None:
                    subject.leave(told.missing)
                reached[subject.name] += len(told.samples)
            step = Step("open_again", {}, label(wanted), compared=False)
            for number_ in range(ROUNDS[bench.size] + 1):
                for subject in subjects:
                    if subject.is_out:
                        continue
                    reply = subject.ask(step, limit)
                    # A thousand rows in each file, and the first one.
                    expected = 1000 * (reached[subject.name] + 1)
                    assert reply.facts["rows"] == expected, (subject.name, reply, expected)
                    note(subject.record, step, reply, counted=number_ > 0)
                    subject.record.step(label(wanted)).facts["versions"] = reached[subject.name]
    return run


def part(run: Run) -> Part:
    few, many = run.parameters["versions"]
    rows = []
    for name in run.systems:
        early, late = run.median(name, label(few)), run.median(name, label(many))
        growth = None if not early or late is None else late / early
        reached = run.fact(name, label(many), "versions")
        ours = run.ratio(HEADGATE.name, name, label(many))
        rows.append((name, ms(early), ms(late), f"{reached or 0:,}", number(growth), number(ours)))
    early, late = (run.median(HEADGATE.name, label(versions)) for versions in (few, many))
    return Part(
        run=run,
        title="Opening a long history",
        text=f"""
A new handle in a warm process opens a table on a local disk and reports its number of rows. The versions
are commits of one file each. A system that needed more than {run.parameters["limit_seconds"]:g} s to make
them has fewer, as `versions` shows; with all of them its time would be longer.
""",
        tables=[
            Table(
                ("ms", label(few), label(many), "versions", "growth", "headgate / this"),
                rows,
            )
        ],
        bars=(Bar("headgate, growth", None if not early or late is None else late / early, 1.2),),
        behind=behind(run, OURS),
    )


SECTION = Section(NAME, measure, part)
