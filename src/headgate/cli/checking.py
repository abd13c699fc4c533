"""The commands that check and repair a lake: fsck, rebuild-control."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.failure import REFUSED, reported
from headgate.cli.options import AsJson, Place, StoreOptions, examples, open_lake, store_options
from headgate.cli.progress import counting

if TYPE_CHECKING:
    from headgate.lake.lake import Lake
    from headgate.model.fsck import CutOut, Finding, FsckReport, RepairReport

FINDING_COLUMNS = ("", "kind", "where", "what is wrong", "what to do")


@app.command(
    epilog=examples(
        "headgate fsck ./lake",
        "headgate fsck s3://bucket/lake --deep --json",
        "headgate fsck ./lake --repair",
    )
)
def fsck(
    place: Place,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Check tables at every version, not only at the newest.")
    ] = False,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Also read all data and delete files completely, at every version."),
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Rebuild records that are missing from the log from their control entries. "
            "Stop all writers first.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="With --repair: give up versions at the end of the log that cannot be rebuilt.",
        ),
    ] = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Check the lake for damage, from the log down to the files. Changes nothing.

    Reports what is wrong, where, and what to do. Works on a lake that no longer opens, and while writers are
    running. Exits with 1 if anything is damaged; notes are not damage.

    With --repair, it changes the log: it rebuilds missing records, and sets aside transactions that were
    committed under their numbers meanwhile. Run fsck again afterwards to check for damage. Exits with 1 if
    versions are still missing, or if metadata is published for versions that the log does not have.
    """
    if accept_loss and not repair:
        raise typer.BadParameter("it needs --repair", param_hint="--accept-loss")
    if repair:
        _repair(place, accept_loss, option, json=json)
        return
    with reported(as_json=json):
        from headgate.lake.fsck import fsck as examine

        with counting() as progress:
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


def _repair(place: str, accept_loss: bool, option: list[str] | None, *, json: bool) -> None:
    with reported(as_json=json):
        from headgate.lake.fsck import repair

        report = repair(place, accept_loss=accept_loss, options=store_options(option))
        if json:
            output.print_json({**asdict(report), "ok": report.ok})
        else:
            _print_repair(report, accept_loss)
    if not report.ok:
        raise typer.Exit(REFUSED)


def _print_repair(report: RepairReport, accept_loss: bool) -> None:
    for done, versions in (("rebuilt", report.rebuilt), ("gave up", report.lost)):
        if versions:
            output.say(f"{done} {_range(versions)}")
    for cut in report.divergent:
        output.say(
            f"set aside {_named(cut)}: another transaction had this version; its rows are not in the lake"
        )
    for cut in report.given_up:
        output.say(f"{'gave up' if accept_loss else 'would give up'} {_named(cut)}")
    for key in report.unpublished:
        output.say(f"no longer published: {key}")
    if report.missing:
        _print_missing(report.missing, accept_loss)
    if report.stale:
        output.say(
            f"{output.count(len(report.stale), 'published file')} of versions that the log does not have"
        )
        output.say("next: restore control/ from a newer backup, or add --accept-loss to remove them")
    if not (report.rebuilt or report.lost or report.missing or report.stale or report.unpublished):
        output.say("no record is missing")
    output.say(f"the newest version is {report.version}")


def _print_missing(missing: tuple[int, ...], accept_loss: bool) -> None:
    output.say(f"{_range(missing)} cannot be rebuilt: no control entry has a matching copy")
    if accept_loss:
        output.say("a later checkpoint stands in for them: the lake opens, but their history is lost")
        output.say("next: restore control/log/ from a backup if you need it")
    else:
        output.say("next: restore control/log/ from a backup, or add --accept-loss to give them up")


def _named(cut: CutOut) -> str:
    kept = "" if cut.kept_as is None else f", kept as {cut.kept_as}"
    return f"version {cut.version}, transaction {cut.transaction or 'unknown'}{kept}"


def _range(versions: tuple[int, ...]) -> str:
    first, last = versions[0], versions[-1]
    return f"version {first}" if first == last else f"{len(versions)} versions, {first} to {last}"


@app.command("rebuild-control", epilog=examples("headgate rebuild-control ./lake"))
def rebuild_control(place: Place, option: StoreOptions = None, json: AsJson = False) -> None:
    """Rebuild what is derived from the log: control entries, the outbox, checkpoints, published metadata.

    Reads the whole log. Writers may keep running. The state of hooks is kept where it matches its record.
    """
    with reported(as_json=json):
        print_rebuilt(open_lake(place, option), json=json)


def print_rebuilt(lake: Lake, *, json: bool) -> None:
    """Rebuilds the derived objects with a progress bar, and prints what was done."""
    with counting() as progress:
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
