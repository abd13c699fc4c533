"""The command that compacts tables: compact."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import output
from headgate.cli.app import app
from headgate.cli.engine import engine
from headgate.cli.failure import reported
from headgate.cli.options import AsJson, Config, Place, StoreOptions, examples, open_with_hooks
from headgate.cli.progress import rewriting
from headgate.cli.streams import INTERRUPTED
from headgate.errors import ConflictError, InvalidInputError, StorageError
from headgate.system.host import SYSTEM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.text import Text
    from rich.tree import Tree

    from headgate.core.compaction.eligible import Group
    from headgate.core.compaction.outlook import PathOutlook, TableOutlook
    from headgate.lake.lake import Lake
    from headgate.model.reports import CompactionReport

USUAL_INTERVAL_SECONDS = 30.0


@app.command(
    epilog=examples(
        "headgate compact ./lake",
        "headgate compact ./lake sales.orders --dry-run",
        "headgate compact ./lake --watch --interval 60",
    )
)
def compact(
    place: Place,
    table: Annotated[
        str | None,
        typer.Argument(metavar="[TABLE]", help="A table, such as sales.orders; without it, all tables."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the files per level and what is ready to compact. Changes nothing."
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep compacting what becomes ready, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="SECONDS", help="How often --watch checks; 30 if not given."),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Use Spark. The default is Arrow, without a JVM.")
    ] = False,
    config: Config = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Merge small files and apply row deletes in tables that are ready to compact. Writers may keep running.

    No row changes. Any number of compactions may run at once: they share the work, and take over the plans of
    those that died.
    """
    with reported(as_json=json):
        if dry_run and (watch or spark):
            raise InvalidInputError(
                "--dry-run cannot be combined with --watch or --spark", "leave --dry-run out"
            )
        if interval is not None and not watch:
            raise InvalidInputError("--interval needs --watch", "add --watch")
        lake = open_with_hooks(place, option, config)
        if dry_run:
            _show(lake, table, json=json)
            return
        with engine(alive=False) if spark else nullcontext() as session:
            _run(lake, table, session, USUAL_INTERVAL_SECONDS if interval is None else interval, watch, json)


def _run(
    lake: Lake, table: str | None, spark: SparkSession | None, interval: float, watch: bool, json: bool
) -> None:
    try:
        if watch:
            _watch(lake, table, spark, interval, json=json)
        else:
            report = _compact(lake, table, spark)
            if json:
                output.print_json(asdict(report))
            else:
                _say(report)
    except KeyboardInterrupt as interrupt:
        left = getattr(interrupt, "left", None)
        if left is None and getattr(interrupt, "__notes__", None):
            raise  # the outcome of the last commit is unknown; the notes say how to find out
        what = left or "it left no pending plan"
        sys.stderr.write(f"\nheadgate: stopped; {output.visible(what)}\n")
        raise SystemExit(INTERRUPTED) from interrupt


def _watch(lake: Lake, table: str | None, spark: SparkSession | None, interval: float, *, json: bool) -> None:
    """Compacts what is ready, again and again. Keeps running while the storage fails temporarily."""
    while True:
        try:
            report = _compact(lake, table, spark)
        except (StorageError, ConflictError) as error:
            sys.stderr.write(f"headgate: {output.visible(error.problem)}; trying again\n")
        else:
            if report.changed and json:
                sys.stdout.write(json_text.dumps(asdict(report)) + "\n")
            elif report.changed:
                _say(report)
            sys.stdout.flush()
        SYSTEM.sleep(interval)


def _compact(lake: Lake, table: str | None, spark: SparkSession | None) -> CompactionReport:
    with rewriting("compacting") as progress:
        return lake.compact(spark, table=table, progress=progress)


def _say(report: CompactionReport) -> None:
    for line in report_lines(report):
        output.say(line)


def report_lines(report: CompactionReport) -> Iterator[str]:
    """What a compaction did, for people."""
    if not report.changed:
        yield f"nothing is ready to compact at version {report.until}"
        return
    if report.completed:
        became = f"{output.count(report.files_out, 'file')} of {report.bytes_out:,} bytes"
        dropped = output.count(report.rows_dropped, "deleted row")
        yield (
            f"{', '.join(report.tables)}: {output.count(report.files_in, 'file')} of {report.bytes_in:,} "
            f"bytes became {became}, with {output.count(report.rows, 'row')}"
            + (f", {dropped} dropped" if report.rows_dropped else "")
        )
    taken = f", {len(report.taken_over)} taken over" if report.taken_over else ""
    yield (
        f"{output.count(len(report.planned), 'plan')} made{taken}, {len(report.completed)} completed, "
        f"{len(report.cancelled)} cancelled; the lake is at version {report.until}"
    )
    for plan, reason in zip(report.cancelled, report.reasons, strict=True):
        yield f"cancelled {plan}: {reason}"


# --- what is ready ------------------------------------------------------------------------------------------


def _show(lake: Lake, table: str | None, *, json: bool) -> None:
    from rich.tree import Tree

    tables = lake.compaction_outlook(table)
    if json:
        output.print_json([_outlook_json(shown) for shown in tables])
        return
    version = tables[0].version if tables else lake.version
    due = sum(len(shown.due) for shown in tables)
    tree = Tree(_text(f"/  version {version}, {output.count(due, 'group')} ready"))
    for shown in tables:
        _add_table(tree, shown)
    output.console().print(tree)


def _add_table(tree: Tree, shown: TableOutlook) -> None:
    pending = f", {output.count(shown.pending, 'file')} in pending plans" if shown.pending else ""
    root = "/" + shown.table.replace(".", "/")
    branch = tree.add(_text(f"{root}  {output.count(shown.manifests, 'manifest')}{pending}"))
    for path in shown.paths:
        below = path.path.removeprefix(root).removeprefix("/")
        _add_path(branch.add(_text(below)) if below else branch, path)


def _add_path(branch: Tree, path: PathOutlook) -> None:
    for level in path.levels:
        deleted = f", {output.count(level.rows_deleted, 'row')} deleted" if level.rows_deleted else ""
        branch.add(
            _text(
                f"level {level.level}: {output.count(level.segments, 'segment')}, {level.small:,} small, "
                f"{level.size_bytes:,} bytes{deleted}"
            )
        )
    for group in path.due:
        branch.add(
            _text(
                f"ready: level {group.window.level}, versions {group.window}: "
                f"{output.count(len(group.segments), 'file')}, {group.size_bytes:,} bytes"
            )
        )


def _text(line: str) -> Text:
    from rich.text import Text

    return Text(output.visible(line))


def _outlook_json(shown: TableOutlook) -> dict[str, Any]:
    return {
        "table": shown.table,
        "version": shown.version,
        "manifests": shown.manifests,
        "pending": shown.pending,
        "paths": [
            {
                "path": path.path,
                "levels": [asdict(level) for level in path.levels],
                "due": [_group_json(group) for group in path.due],
            }
            for path in shown.paths
        ],
    }


def _group_json(group: Group) -> dict[str, Any]:
    return {
        "level": group.window.level,
        "first": group.window.first,
        "last": group.window.last,
        "files": [segment.file for segment in group.segments],
        "bytes": group.size_bytes,
        "rows": group.rows,
        "rows_deleted": group.dead,
    }
