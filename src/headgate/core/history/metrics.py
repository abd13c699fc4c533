"""Metrics of a lake: sums over control entries and listings.

Also writes them in the text format of Prometheus, as a file for the collector of the node exporter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from headgate.model.control_entry import NONE_FAILED, ControlEntry, HookState
from headgate.model.identifiers import MAX_NUMBER
from headgate.model.json_object import Json
from headgate.model.metrics import Activity, HookTotals, LakeMetrics, Metrics, Size, TableSize

CONTROL = "control/"


def activity(entries: Iterable[ControlEntry | None]) -> Activity:
    """What was done in some versions, from their entries; None stands for a missing entry.

    Entries are derived from the log. A value that should be a number and is not, which only vandalism
    produces, counts as zero, and `fsck` reports it.
    """
    given = list(entries)
    found = [entry for entry in given if entry is not None]
    failed = sum(map(attrgetter("failed"), found), NONE_FAILED)

    def changed(count: str) -> int:
        return sum(_number(_changed(entry), count) for entry in found)

    return Activity(
        commits=len(given),
        attempts=sum(_number(entry.descriptor, "attempts") for entry in found),
        recovered=sum(entry.recovered for entry in found),
        without_entry=len(given) - len(found),
        failures=failed.failures,
        unknown_outcomes=failed.unknown_outcomes,
        kinds=dict(Counter(kind for kind in map(_kind, found) if isinstance(kind, str))),
        commit_seconds=sum(entry.timings.get("commit", 0.0) for entry in found),
        waited_seconds=sum(entry.timings.get("waited", 0.0) for entry in found),
        rows_added=changed("rows_added"),
        rows_removed=changed("rows_removed"),
        bytes_added=changed("bytes_added"),
        bytes_removed=changed("bytes_removed"),
        hooks=_hooks(found),
    )


def _hooks(entries: Iterable[ControlEntry]) -> dict[str, HookTotals]:
    totals: dict[str, HookTotals] = {}
    for entry in entries:
        for run in entry.hooks:
            before = totals.get(run.name, HookTotals())
            totals[run.name] = HookTotals(
                done=before.done + (run.state is HookState.DONE),
                failed=before.failed + (run.state is HookState.FAILED),
                attempts=before.attempts + run.attempts,
                seconds=before.seconds + run.seconds,
            )
    return totals


def _kind(entry: ControlEntry) -> Json:
    return entry.descriptor.get("kind")


def _changed(entry: ControlEntry) -> Mapping[str, Json]:
    changed = entry.descriptor.get("changed")
    return changed if isinstance(changed, dict) else {}


def _number(fields: Mapping[str, Json], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value <= MAX_NUMBER else 0


def lake_metrics(
    version: int, done: Activity, tables: Mapping[str, TableSize], sizes: Mapping[str, int | None]
) -> LakeMetrics:
    """The metrics of a lake, from the sizes of all its objects."""
    known = {key: size for key, size in sizes.items() if size is not None}
    if len(known) < len(sizes):
        return LakeMetrics(version, done, tables)
    lake = Size(len(known), sum(known.values()))
    control = [size for key, size in known.items() if key.startswith(CONTROL)]
    log = Size(len(control), sum(control))
    live = Size(
        sum(table.files + table.delete_files for table in tables.values()),
        sum(table.bytes for table in tables.values()),
    )
    return LakeMetrics(version, done, tables, lake, log, lake.without(log, live))


Samples = Sequence[tuple[Mapping[str, str], float]]


def prometheus_text(metrics: Metrics, lake: str) -> str:
    """All counters, each with its description. `lake` is the id of the lake, a label of every sample."""
    return _text(_families(metrics), "counter", lake)


def lake_prometheus_text(metrics: LakeMetrics, lake: str) -> str:
    """The sizes of a lake and the sums of its newest control entries.

    They are gauges, since they may fall.
    """
    return _text([*_sizes(metrics), *_activity(metrics.activity)], "gauge", lake)


def _text(families: Iterable[tuple[str, str, Samples]], kind: str, lake: str) -> str:
    lines: list[str] = []
    for name, meaning, samples in families:
        lines += [f"# HELP headgate_{name} {meaning}", f"# TYPE headgate_{name} {kind}"]
        lines += [
            f"headgate_{name}{_labels({'lake': lake, **labels})} {value!r}" for labels, value in samples
        ]
    return "\n".join(lines) + "\n"


def _families(metrics: Metrics) -> Iterator[tuple[str, str, Samples]]:
    yield "commits_total", "Versions that were committed.", _one(metrics.commits)
    yield "commit_attempts_total", "Attempts to commit a version.", _one(metrics.attempts)
    yield "commit_seconds_total", "Time from the first attempt to the outcome.", _one(metrics.commit_seconds)
    yield "commit_waited_seconds_total", "Time spent waiting for other writers.", _one(metrics.waited_seconds)
    yield "postponed_total", "Steps after commits that were left to recovery.", _one(metrics.postponed)
    yield "conflicts_total", "Commits that were rejected, by rule.", _by("rule", metrics.conflicts)
    yield "commit_failures_total", "Commits that failed with an error.", _by("kind", metrics.failures)
    yield (
        "commit_unknown_outcomes_total",
        "Commits whose outcome was unknown.",
        _one(metrics.unknown_outcomes),
    )
    yield "rows_added_total", "Rows of data files that were added.", _one(metrics.rows_added)
    yield "rows_removed_total", "Rows that were removed.", _one(metrics.rows_removed)
    yield "data_bytes_added_total", "Bytes of data files that were added.", _one(metrics.data_bytes_added)
    hooks = metrics.hooks
    yield "hook_done_total", "Hook runs that succeeded.", _by("hook", {n: h.done for n, h in hooks.items()})
    yield "hook_failed_total", "Hook runs that failed.", _by("hook", {n: h.failed for n, h in hooks.items()})
    yield (
        "hook_attempts_total",
        "Attempts to run hooks.",
        _by("hook", {n: h.attempts for n, h in hooks.items()}),
    )
    yield "hook_seconds_total", "Time spent in hooks.", _by("hook", {n: h.seconds for n, h in hooks.items()})
    yield "recoveries_total", "Recoveries.", _one(metrics.recoveries)
    yield "recovered_entries_total", "Control entries that were backfilled.", _one(metrics.recovered_entries)
    yield "requests_total", "Requests to the storage, by kind.", _by("kind", metrics.requests)
    yield "bytes_read_total", "Bytes that requests read.", _one(metrics.bytes_read)
    yield "bytes_written_total", "Bytes that requests wrote.", _one(metrics.bytes_written)


def _sizes(metrics: LakeMetrics) -> Iterator[tuple[str, str, Samples]]:
    yield "lake_version", "The newest version.", _one(metrics.version)
    parts = {"lake": metrics.lake, "log": metrics.log, "history": metrics.history}
    for name, size in parts.items():
        if size is not None:
            yield f"{name}_objects", f"Objects on storage: {name}.", _one(size.objects)
            yield f"{name}_bytes", f"Bytes on storage: {name}.", _one(size.bytes)
    tables = metrics.tables
    yield "table_rows", "Rows of a table.", _by("table", {n: t.rows for n, t in tables.items()})
    yield "table_files", "Data files of a table.", _by("table", {n: t.files for n, t in tables.items()})
    deletes = {name: table.delete_files for name, table in tables.items()}
    yield "table_delete_files", "Delete files of a table.", _by("table", deletes)
    yield "table_bytes", "Bytes of a table.", _by("table", {n: t.bytes for n, t in tables.items()})


def _activity(done: Activity) -> Iterator[tuple[str, str, Samples]]:
    yield "lake_commits", "Versions that were examined.", _one(done.commits)
    yield "lake_commit_attempts", "Attempts to commit these versions.", _one(done.attempts)
    yield "lake_commit_failures", "Commits that failed with an error.", _by("kind", done.failures)
    yield "lake_commit_unknown_outcomes", "Commits whose outcome was unknown.", _one(done.unknown_outcomes)
    yield "lake_recovered", "Versions whose writers died after the commit.", _one(done.recovered)
    yield "lake_without_entry", "Versions without a control entry.", _one(done.without_entry)
    yield "lake_commit_seconds", "Time from the first attempt to the outcome.", _one(done.commit_seconds)
    yield "lake_commit_waited_seconds", "Time spent waiting for other writers.", _one(done.waited_seconds)
    yield "lake_rows_added", "Rows of data files that were added.", _one(done.rows_added)
    yield "lake_rows_removed", "Rows that were removed.", _one(done.rows_removed)
    yield "lake_data_bytes_added", "Bytes of data files that were added.", _one(done.bytes_added)
    yield "lake_data_bytes_removed", "Bytes of data files that were removed.", _one(done.bytes_removed)
    hooks = done.hooks
    yield "lake_hook_done", "Hook runs that succeeded.", _by("hook", {n: h.done for n, h in hooks.items()})
    yield "lake_hook_failed", "Hook runs that failed.", _by("hook", {n: h.failed for n, h in hooks.items()})
    yield "lake_hook_seconds", "Time spent in hooks.", _by("hook", {n: h.seconds for n, h in hooks.items()})


def _one(value: float) -> Samples:
    return [({}, value)]


def _by(label: str, values: Mapping[str, float]) -> Samples:
    return [({label: name}, value) for name, value in sorted(values.items())]


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
