"""The commands that look after a lake: fsck, rebuild-control."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.failure import REFUSED, reported
from headgate.cli.options import AsJson, Place, StoreOptions, open_lake, store_options
from headgate.examination import fsck as examine
from headgate.lake import Lake
from headgate.model.fsck import Finding, FsckReport

FINDING_COLUMNS = ("", "kind", "where", "what is wrong", "what to do")


@app.command(epilog="Examples: headgate fsck ./lake --- headgate fsck s3://bucket/lake --deep --json")
def fsck(
    place: Place,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Tables at every version, not only at the newest.")
    ] = False,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also into data files: their footers, and all delete files. At every version."
        ),
    ] = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Look for damage, from the log down to the files, and change nothing.

    Says what is wrong, where, and what to do. Works on a lake that does not open any more, and beside
    writers. Exits with 1 if anything is damaged; notes are no damage.
    """
    with reported(as_json=json):
        with progress_bars() as progress:
            report = examine(
                place,
                all_versions=all_versions,
                deep=deep,
                options=store_options(option),
                progress=progress,
            )
        if json:
            output.print_json(report_json(report))
        else:
            _print_report(report)
    if not report.ok:
        raise typer.Exit(REFUSED)


@app.command("rebuild-control", epilog="Example: headgate rebuild-control ./lake")
def rebuild_control(place: Place, option: StoreOptions = None, json: AsJson = False) -> None:
    """Make everything anew that is derived from the log: control entries, checkpoints, announcements.

    Reads the whole log. Writers may go on. What is known of hooks is kept where it fits its record.
    """
    with reported(as_json=json):
        print_rebuilt(open_lake(place, option), json=json)


def print_rebuilt(lake: Lake, *, json: bool) -> None:
    """Rebuilds what is derived, with a bar, and prints what was done."""
    with progress_bars() as progress:
        report = lake.rebuild_control(progress=lambda done, of: progress("versions", done, of))
    if json:
        output.print_json(asdict(report))
        return
    made = (
        f"{report.entries:,} control {'entry' if report.entries == 1 else 'entries'}",
        output.count(report.checkpoints, "checkpoint"),
        f"{output.count(report.published, 'table')} published",
    )
    output.say(f"up to version {report.until}: {', '.join(made)}")
    for key in report.removed:
        output.say(f"removed {key}")
    for problem in report.not_published:
        output.say(f"not published: {problem}")


def finding_json(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "severity": finding.severity.value}


def report_json(report: FsckReport) -> dict[str, Any]:
    """A report for programs."""
    return {
        "place": report.place,
        "version": report.version,
        "ok": report.ok,
        "findings": [finding_json(finding) for finding in report.findings],
        "checked": dict(report.checked),
    }


def _print_report(report: FsckReport) -> None:
    rows = [(one.severity.value, one.kind, one.where, one.problem, one.next_step) for one in report.findings]
    if rows:
        output.print_rows(f"{report.place}, version {report.version}", FINDING_COLUMNS, rows)
    looked = ", ".join(f"{count:,} {what}" for what, count in report.checked.items() if count)
    verdict = "no damage" if report.ok else f"{len(report.damage):,} damaged"
    output.say(f"version {report.version}: {verdict}, {output.count(len(report.notes), 'note')}; {looked}")


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal, on standard error; nothing in a pipe."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def on_progress(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=of)
            bars.update(tasks[what], completed=done, total=of)

        yield on_progress
