"""What commands print: tables for people on a terminal, plain lines in a pipe, JSON for programs."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from headgate.core.history.log_entry import LogEntry
    from headgate.lake.lake import Lake
    from headgate.lake.lake_view import LakeView
    from headgate.model.probe import ProbeReport
    from headgate.transaction.result import Diagnosis, Resolution


def console(*, stderr: bool = False) -> Console:
    """Colours and boxes on a terminal only; no wrapping in a pipe."""
    from rich.console import Console  # imported late: a pipe does not need it

    stream = sys.stderr if stderr else sys.stdout
    return Console(soft_wrap=not stream.isatty(), highlight=False, stderr=stderr)


_BIDIRECTIONAL = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that make a terminal reorder the text."""


def visible(text: str) -> str:
    """`text` as one line that is safe to print on a terminal: control characters are escaped.

    The text may come from storage, where anybody with write access to the lake can put anything.
    """
    return "".join(_escaped(character) if _controls(character) else character for character in text)


def _controls(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _BIDIRECTIONAL


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def say(text: str) -> None:
    """Prints one line for people."""
    if not sys.stdout.isatty():
        sys.stdout.write(visible(text) + "\n")
        return
    from rich.text import Text

    console().print(Text(visible(text)))


def print_text(text: str) -> None:
    """Prints lines for programs: unchanged in a pipe, escaped on a terminal."""
    if sys.stdout.isatty():
        text = "\n".join(map(visible, text.split("\n")))
    sys.stdout.write(text)


def count(number: int, noun: str) -> str:
    """A number with its noun, such as `1 row` or `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def command_line(*words: str) -> str:
    """A command of this program for people to type: its name if it is on the PATH, else its path."""
    started_by = Path(sys.argv[0])
    found = shutil.which("headgate")
    by_name = found is not None and Path(found).resolve() == started_by.resolve()
    # Not started by the script (but from Python, for example): only the name is known.
    program = "headgate" if by_name or not started_by.is_file() else str(started_by)
    return shlex.join([program, *words])


def print_json(value: Any) -> None:
    """Prints one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table on a terminal, and tab-separated lines with a header line in a pipe."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            sys.stdout.write("\t".join(map(visible, row)) + "\n")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(visible(title)), title_justify="left", title_style="bold", header_style="bold cyan"
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    console().print(table)


def print_fields(title: str, fields: Mapping[str, str]) -> None:
    """Prints names and values, one pair per line."""
    shown = {visible(name): visible(value) for name, value in fields.items()}
    width = max(map(len, shown))
    if not sys.stdout.isatty():
        lines = (f"  {name.ljust(width)}  {value}" for name, value in shown.items())
        sys.stdout.write("\n".join((visible(title), *lines)) + "\n")
        return
    from rich.text import Text

    out = console()
    out.print(Text(title, style="bold"))
    for name, value in shown.items():
        out.print(Text.assemble("  ", (name.ljust(width), "cyan"), "  ", value))


def log_row(entry: LogEntry) -> tuple[str, ...]:
    """A commit as a line of `headgate log`."""
    return (
        str(entry.version),
        f"{entry.committed_at:%Y-%m-%d %H:%M:%S}",
        entry.kind,
        f"{entry.user}@{entry.host}" if entry.user else "",
        _change_text(entry),
        " ".join(entry.args),
    )


def _change_text(entry: LogEntry) -> str:
    parts = [
        f"-{name}" if value is None else f"{name}={value}" for name, value in entry.lake_properties.items()
    ]
    parts += (*entry.tables, *entry.objects)
    parts += [
        f"untag {name}" if version is None else f"tag {name} = {version}"
        for name, version in entry.tags.items()
    ]
    parts += entry.plans
    parts += [f"cancels {txid}" for txid in entry.cancels]
    if entry.kind == "switch":
        parts.append(f"next strategy: {entry.next_strategy}")
    if entry.app is not None:
        parts.append(f"app {entry.app[0]} batch {entry.app[1]}")
    return ", ".join(parts)


LOG_COLUMNS = ("version", "committed (UTC)", "kind", "by", "change", "args")


def lake_json(lake: Lake) -> dict[str, Any]:
    """The lake for programs, all at one version."""
    (last, view), mark = _newest(lake), lake.replica_of
    return {
        "place": lake.place,
        "id": lake.id,
        "created_at": lake.created_at,
        "version": view.version,
        "strategy": view.strategy,
        "divisor": lake.divisor,
        "tables": list(view.tables()),
        "objects": {name: found.to_json() for name, found in view.objects.items()},
        "tags": dict(view.tags),
        "properties": dict(view.properties),
        "last_commit": None if last is None else last.record,
        "replica_of": None if mark is None else mark.source,
    }


def lake_fields(lake: Lake) -> dict[str, str]:
    """The lake for people, all at one version."""
    last, view = _newest(lake)
    fields = {
        "location": lake.place,
        "id": lake.id,
        "created": f"{lake.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "version": str(view.version),
        "strategy": view.strategy,
        "divisor": str(lake.divisor),
        "tables": f"{len(view.tables()):,}",
        "views and mounts": f"{len(view.objects):,}",
    }
    mark = lake.replica_of
    if mark is not None:
        fields["replica of"] = f"{mark.source}, since {mark.since:%Y-%m-%d %H:%M:%S} UTC"
    if last is not None:
        fields["last commit"] = f"{last.committed_at:%Y-%m-%d %H:%M:%S} UTC by {last.user}@{last.host}"
    fields |= {f"tag {name}": f"version {version}" for name, version in view.tags.items()}
    return fields | {f"property {name}": value for name, value in sorted(view.properties.items())}


def _newest(lake: Lake) -> tuple[LogEntry | None, LakeView]:
    """The newest commit, and the lake as of that commit, whatever others commit meanwhile."""
    entries = lake.log(limit=1)
    last = entries[0] if entries else None
    return last, lake.at(0 if last is None else last.version)


def resolution_text(resolution: Resolution) -> str:
    """The outcome of a transaction, for people."""
    if resolution.committed:
        return f"transaction {resolution.txid} was committed as version {resolution.version}"
    return f"transaction {resolution.txid} was not committed and never will be; you can run the work again"


def resolution_json(resolution: Resolution) -> dict[str, Any]:
    return {
        "txid": resolution.txid,
        "committed": resolution.committed,
        "version": resolution.version,
        "cancelled_by": resolution.cancelled_by,
        "hook_failures": list(resolution.hook_failures),
    }


def report_rows(report: ProbeReport) -> list[tuple[str, ...]]:
    """What a probe found, one line per promise."""
    return [(finding.seen.value, finding.promise.value, finding.detail) for finding in report.findings]


REPORT_COLUMNS = ("holds", "guarantee", "observed")


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
    """Prints what a probe found, and what it could not remove."""
    print_rows("Guarantees of the storage", REPORT_COLUMNS, report_rows(report))
    if report.left:
        say(
            f"{len(report.left)} objects of the probe could not be removed; they are harmless, and you can "
            f"delete them: {report.left[0]}{', …' if len(report.left) > 1 else ''}"
        )


def verdict_rows(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """Whether each strategy is safe, one line per strategy."""
    return [
        (
            str(verdict.strategy),
            "safe" if verdict.safe else "UNSAFE" if verdict.broken else "unknown",
            "in use" if verdict.strategy.value == diagnosis.strategy else "",
            "; ".join(
                [f"broken: {promise.value}" for promise in verdict.broken]
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
        "clock_warning": diagnosis.clock_warning,
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
