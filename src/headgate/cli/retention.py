"""The commands that delete old versions and unneeded files: expire, vacuum."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.failure import reported
from headgate.cli.options import AsJson, Config, Place, StoreOptions, examples, open_with_hooks
from headgate.cli.progress import counting
from headgate.core.retention.expire_policy import DEFAULT_POLICY, ExpirePolicy
from headgate.model.reports import ExpireReport, VacuumReport

SHOWN = 12
"""How many kept versions are listed."""

Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="TIER",
        help="Which versions to keep, and for how long: all:1d keeps every version for a day, 1:30d keeps "
        "boundaries of level 1 for 30 days, 2:forever keeps those of level 2 forever. Can be given "
        f"several times; one must be all:…. The default is {DEFAULT_POLICY}.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")]


@app.command(
    epilog=examples(
        "headgate expire ./lake --dry-run",
        "headgate expire ./lake --keep all:2d --keep 1:30d --keep 2:forever",
    )
)
def expire(
    place: Place,
    keep: Keep = None,
    dry_run: DryRun = False,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Expire old versions, and delete the files that only they needed.

    A version that is divisible by the divisor of the lake (10 unless you chose another at init) is a boundary
    of level 1; a version divisible by the square of the divisor is a boundary of level 2, and so on. The
    newest version, tagged versions, and versions that plans, running transactions and materialized views need
    are always kept. Kept versions return the same rows as before. You cannot read an expired version, but the
    log keeps its record. Can be interrupted and run again.
    """
    with reported(as_json=json):
        policy = ExpirePolicy.parse(*keep) if keep else DEFAULT_POLICY
        lake = open_with_hooks(place, option, config)
        with counting() as progress:
            report = lake.expire(policy, dry_run=dry_run, progress=progress)
        if json:
            output.print_json(asdict(report))
        else:
            for line in expire_lines(report):
                output.say(line)


@app.command(epilog=examples("headgate vacuum ./lake --dry-run", "headgate vacuum ./lake --older-than 6h"))
def vacuum(
    place: Place,
    older_than: Annotated[
        str, typer.Option(help="Keep objects that are newer than this: 1d, 36h, 90m; 0s ignores their age.")
    ] = "1d",
    dry_run: DryRun = False,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Delete files of transactions that never committed, and leftovers of crashes in tables.

    Deletes only in the directories of tables, and never an object that a readable version needs. First a
    record cancels the transactions that left files, so that one that is only suspended cannot commit later.
    """
    with reported(as_json=json):
        lake = open_with_hooks(place, option, config)
        with counting() as progress:
            report = lake.vacuum(older_than=older_than, dry_run=dry_run, progress=progress)
        if json:
            output.print_json(asdict(report))
        else:
            for line in vacuum_lines(report):
                output.say(line)


def expire_lines(report: ExpireReport) -> list[str]:
    """What an expire did, for people."""
    would = "would expire" if report.dry_run else "expired"
    deleted = "would delete" if report.dry_run else "deleted"
    said = "" if report.version is None else f" (recorded by version {report.version})"
    lines = [
        f"{would} {output.count(report.expired, 'version')}{said}; kept: every version from "
        f"{report.until + 1} on{_kept(report.kept)}",
        f"{deleted} {output.count(report.objects, 'object')}, {report.bytes:,} bytes; "
        f"{output.count(report.data_files, 'data file')} among them",
    ]
    lines += [f"held back by {reason}" for reason in report.held_back]
    return lines + [
        f"skipped {name!r}: a manifest names it, but it is not a file of its table"
        for name in report.left_alone[:SHOWN]
    ]


def _kept(versions: tuple[int, ...]) -> str:
    if not versions:
        return ""
    shown = ", ".join(map(str, versions[-SHOWN:]))
    more = len(versions) - SHOWN
    return f", and {shown}" if more <= 0 else f", and {shown} and {more:,} earlier ones"


def vacuum_lines(report: VacuumReport) -> list[str]:
    """What a vacuum did, for people."""
    deleted = "would delete" if report.dry_run else "deleted"
    cancelled = "would cancel" if report.dry_run else "cancelled"
    lines = [f"{deleted} {output.count(report.objects, 'object')}, {report.bytes:,} bytes"]
    lines += [f"{cancelled} transaction {txid}, which never committed" for txid in report.cancelled]
    if report.spared:
        lines.append(f"kept {output.count(report.spared, 'object')}: too new, or of a running transaction")
    return lines
