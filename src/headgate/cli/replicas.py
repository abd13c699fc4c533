"""The command that keeps replicas: replicate."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.failure import reported
from headgate.cli.options import AsJson, Place, StoreOptions, examples, open_lake, store_options
from headgate.cli.progress import counting
from headgate.errors import InvalidInputError

if TYPE_CHECKING:
    from headgate.lake.lake import Lake
    from headgate.model.replica import ReplicaReport

TargetOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--target-option",
        metavar="NAME=VALUE",
        help="An option of the storage of TARGET, like --option for LAKE. Can be given several times.",
    ),
]


@app.command(
    epilog=examples("headgate replicate ./lake s3://backup/lake", "headgate replicate ./replica --promote")
)
def replicate(
    place: Place,
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help="The location of the replica, or of a new one.")
    ] = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="Turn a promoted lake back into a replica, if it has no versions of its own."
        ),
    ] = False,
    promote: Annotated[
        bool,
        typer.Option(
            "--promote", help="LAKE is a replica: turn it into an independent lake that accepts commits."
        ),
    ] = False,
    option: StoreOptions = None,
    target_option: TargetOptions = None,
    json: AsJson = False,
) -> None:
    """Bring a replica of the lake up to date, or create it. Can be interrupted and run again.

    A replica is the same lake at another location: you can open it like any lake, with all versions, and
    other engines can read it. A target that is not a replica of this lake is rejected.
    """
    with reported(as_json=json):
        if promote == (target is not None):
            raise InvalidInputError(
                "replicate needs either a target or --promote",
                "write headgate replicate LAKE TARGET, or headgate replicate REPLICA --promote",
            )
        if promote and adopt:
            raise InvalidInputError("--promote and --adopt cannot be combined", "leave one of them out")
        lake = open_lake(place, option)
        if target is None:
            _promote(lake, json=json)
            return
        options = store_options(target_option, "--target-option")
        with counting("versions") as progress:
            bar = partial(progress, "replicating")
            report = lake.replicate(target, options=options, adopt=adopt, progress=bar)
        if json:
            output.print_json(_report_json(report))
        else:
            output.say(_report_text(report))


def _promote(lake: Lake, *, json: bool) -> None:
    mark = lake.promote()
    if json:
        output.print_json({"promoted": lake.place, "was_replica_of": mark.source, "version": lake.version})
    else:
        output.say(f"{lake.place} is now an independent lake, at version {lake.version}")


def _report_json(report: ReplicaReport) -> dict[str, Any]:
    return {**asdict(report), "versions": report.versions}


def _report_text(report: ReplicaReport) -> str:
    if not report.versions:
        done = "created, without any version yet" if report.created else "up to date"
        return f"{report.target} is {done}, at version {report.until}"
    files = output.count(report.files, "file")
    made = "made" if report.created else "brought"
    lost = f"; {output.count(len(report.expired), 'expired object')} left out" if report.expired else ""
    return (
        f"{report.target} was {made} from version {report.since} to {report.until}: "
        f"{files} of {report.bytes:,} bytes{lost}"
    )
