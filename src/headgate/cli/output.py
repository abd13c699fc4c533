"""What commands print: tables for people on a terminal, plain lines in a pipe, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headgate.lake import Diagnosis, Lake, LogEntry
from headgate.model.probe import ProbeReport


def console() -> Console:
    """Colours and boxes on a terminal only; no wrapping in a pipe."""
    return Console(soft_wrap=not sys.stdout.isatty(), highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal; lines with tabs in a pipe, headed by the column names."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            sys.stdout.write("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in row) + "\n")
        return
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold cyan")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def print_fields(title: str, fields: Mapping[str, str]) -> None:
    """Names and values, one a line."""
    out = console()
    out.print(Text(title, style="bold"))
    width = max(map(len, fields))
    for name, value in fields.items():
        out.print(Text.assemble("  ", (name.ljust(width), "cyan"), "  ", value))


def log_row(entry: LogEntry) -> tuple[str, ...]:
    """A commit as a line of `headgate log`."""
    return (
        str(entry.version),
        f"{entry.committed_at:%Y-%m-%d %H:%M:%S}",
        entry.kind,
        f"{entry.user}@{entry.host}",
        _change_text(entry),
        " ".join(entry.args),
    )


def _change_text(entry: LogEntry) -> str:
    parts = [
        f"-{name}" if value is None else f"{name}={value}" for name, value in entry.lake_properties.items()
    ]
    parts += entry.tables
    parts += [f"cancels {txid}" for txid in entry.cancels]
    if entry.kind == "switch":
        parts.append(f"next strategy: {entry.next_strategy}")
    if entry.app is not None:
        parts.append(f"app {entry.app[0]} batch {entry.app[1]}")
    return ", ".join(parts)


LOG_COLUMNS = ("version", "committed (UTC)", "kind", "by", "change", "args")


def table_json(lake: Lake, name: str, version: int | None) -> dict[str, Any]:
    """A table for programs."""
    table = lake.table(name) if version is None else lake.table(name, version=version)
    files = table.files()
    return {
        "name": name,
        "rows": sum(file.rows for file in files),
        "files": len(files),
        "bytes": sum(file.size_bytes for file in files),
        "location": table.location,
        "metadata": table.metadata_location,
        "columns": [f"{field.name} {field.field_type}" for field in table.schema.fields],
    }


TABLE_COLUMNS = ("table", "rows", "files", "bytes", "columns")


def table_row(table: dict[str, Any]) -> tuple[str, ...]:
    """A table as a line of `headgate tables`."""
    numbers = (f"{table[name]:,}" for name in ("rows", "files", "bytes"))
    return (table["name"], *numbers, ", ".join(table["columns"]))


def lake_json(lake: Lake) -> dict[str, Any]:
    """The lake for programs."""
    last = lake.log(limit=1)
    return {
        "place": lake.place,
        "id": lake.id,
        "created_at": lake.created_at,
        "version": lake.version,
        "strategy": lake.strategy,
        "divisor": lake.divisor,
        "properties": dict(lake.properties),
        "last_commit": last[0].record if last else None,
    }


def lake_fields(lake: Lake) -> dict[str, str]:
    """The lake for people."""
    last = lake.log(limit=1)
    fields = {
        "place": lake.place,
        "id": lake.id,
        "created": f"{lake.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "version": str(lake.version),
        "strategy": lake.strategy,
        "divisor": str(lake.divisor),
    }
    if last:
        fields["last commit"] = (
            f"{last[0].committed_at:%Y-%m-%d %H:%M:%S} UTC by {last[0].user}@{last[0].host}"
        )
    return fields | {f"property {name}": value for name, value in sorted(lake.properties.items())}


def report_rows(report: ProbeReport) -> list[tuple[str, ...]]:
    """What a probe found, a line per promise."""
    return [(finding.seen.value, finding.promise.value, finding.detail) for finding in report.findings]


REPORT_COLUMNS = ("kept", "promise of the storage", "what was seen")


def report_json(report: ProbeReport) -> list[dict[str, Any]]:
    return [
        {
            "promise": finding.promise.name.lower(),
            "held": finding.held,
            "seen": finding.seen.name.lower(),
            "detail": finding.detail,
        }
        for finding in report.findings
    ]


def print_report(report: ProbeReport) -> None:
    """What a probe found, and what it could not remove."""
    print_rows("What the storage promises", REPORT_COLUMNS, report_rows(report))
    if report.left:
        console().print(
            f"{len(report.left)} objects of the probe could not be removed; they do no harm and may be "
            f"deleted: {report.left[0]}{', …' if len(report.left) > 1 else ''}"
        )


def verdict_rows(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """What each strategy would be worth, a line each."""
    return [
        (
            str(verdict.strategy),
            "safe" if verdict.safe else "UNSAFE" if verdict.broken else "not known",
            "in use" if verdict.strategy.value == diagnosis.strategy else "",
            "; ".join(
                [f"not seen: {promise.value}" for promise in verdict.broken]
                + [f"no answer: {promise.value}" for promise in verdict.unanswered]
            ),
        )
        for verdict in diagnosis.verdicts
    ]


VERDICT_COLUMNS = ("strategy", "here", "", "why")


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "place": diagnosis.place,
        "strategy": diagnosis.strategy,
        "safe": diagnosis.safe,
        "promises": report_json(diagnosis.report),
        "left_by_probe": list(diagnosis.report.left),
        "strategies": {
            str(verdict.strategy): {
                "safe": verdict.safe,
                "broken": [promise.name.lower() for promise in verdict.broken],
                "unanswered": [promise.name.lower() for promise in verdict.unanswered],
            }
            for verdict in diagnosis.verdicts
        },
    }
