"""The command that clusters a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.engine import engine
from headgate.cli.failure import reported
from headgate.cli.options import AsJson, Config, Place, StoreOptions, TableName, examples, open_with_hooks
from headgate.cli.progress import rewriting

if TYPE_CHECKING:
    from headgate.model.reports import ClusteringReport


@app.command(
    epilog=examples(
        "headgate cluster ./lake sales.orders --by customer",
        "headgate cluster ./lake sales.orders --by customer,ts --zorder --where \"ts >= '2026-01-01'\"",
    )
)
def cluster(
    place: Place,
    table: TableName,
    by: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMNS",
            help="The columns that queries filter by, such as customer,ts. Can be given several times.",
        ),
    ],
    zorder: Annotated[
        bool,
        typer.Option(
            "--zorder",
            help="Cluster along a Z-order curve of 2 to 8 columns instead of sorting by one after the other: "
            "for queries that filter by any of them.",
        ),
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(metavar="PREDICATE", help="Cluster only paths that can contain matching rows."),
    ] = None,
    spark: Annotated[
        bool,
        typer.Option(help="Rewrite files with Spark, or (for paths that fit into memory) without a JVM."),
    ] = True,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Cluster a table so that queries filtering by the given columns open fewer files.

    No row changes. Each path is clustered within its complete windows of versions. Newer files are left to a
    later run, and files that are already clustered this way are skipped. Appends continue meanwhile. Changes
    to rows in these files are rejected. With the property clustering.allow_updates = true, such changes win
    and end the clustering.
    """
    with reported(as_json=json):
        names = [name.strip() for given in by for name in given.split(",") if name.strip()]
        lake = open_with_hooks(place, option, config)
        chosen = lake.table(table)
        args = ["headgate", "cluster", table, "--by", ",".join(names), *(["--zorder"] if zorder else [])]
        with (
            engine(alive=False) if spark else nullcontext() as session,
            rewriting(output.visible(table)) as progress,
        ):
            report = chosen.cluster(session, names, zorder=zorder, where=where, progress=progress, args=args)
        if json:
            output.print_json({**asdict(report), "changed": report.changed})
        else:
            for line in _lines(report):
                output.say(line)


def _lines(report: ClusteringReport) -> Iterator[str]:
    how = f"{'in Z-order of' if report.zorder else 'by'} {', '.join(report.by)}"
    if report.changed:
        dropped = f", {report.rows_dropped:,} deleted rows dropped" if report.rows_dropped else ""
        yield (
            f"clustered {report.table} {how}: {report.files_in:,} files became {report.files_out:,}, "
            f"{report.rows:,} rows{dropped} (versions {', '.join(map(str, report.versions))})"
        )
    else:
        yield f"nothing to cluster in {report.table}"
    if report.files_clustered:
        yield f"{report.files_clustered:,} files are already clustered {how}"
    if report.files_pending:
        yield f"{report.files_pending:,} files are skipped: another table service is about to rewrite them"
    if report.files_recent:
        yield (
            f"{report.files_recent:,} files are skipped: their window of versions is complete at version "
            f"{report.complete_at}"
        )
