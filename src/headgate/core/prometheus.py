"""Metrics as Prometheus reads them: its text format, as a file for the collector of the node exporter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headgate.model.metrics import Metrics

Samples = Sequence[tuple[Mapping[str, str], float]]


def prometheus_text(metrics: Metrics, lake: str) -> str:
    """All counters, each with what it means. `lake` is the id of the lake, which every sample carries."""
    lines: list[str] = []
    for name, meaning, samples in _families(metrics):
        lines += [f"# HELP headgate_{name} {meaning}", f"# TYPE headgate_{name} counter"]
        lines += [
            f"headgate_{name}{_labels({'lake': lake, **labels})} {value!r}" for labels, value in samples
        ]
    return "\n".join(lines) + "\n"


def _families(metrics: Metrics) -> Iterator[tuple[str, str, Samples]]:
    yield "commits_total", "Versions that were committed.", _one(metrics.commits)
    yield "commit_attempts_total", "Versions that were tried.", _one(metrics.attempts)
    yield "commit_seconds_total", "Time from the first try to the decision.", _one(metrics.commit_seconds)
    yield "commit_waited_seconds_total", "Time spent to let others pass.", _one(metrics.waited_seconds)
    yield "postponed_total", "Work after commits that was left to recovery.", _one(metrics.postponed)
    yield "conflicts_total", "Commits that were refused, by rule.", _by("rule", metrics.conflicts)
    yield "rows_added_total", "Rows of data files that were added.", _one(metrics.rows_added)
    yield "rows_removed_total", "Rows that were removed.", _one(metrics.rows_removed)
    yield "data_bytes_added_total", "Bytes of data files that were added.", _one(metrics.data_bytes_added)
    hooks = metrics.hooks
    yield "hook_done_total", "Hooks that were done.", _by("hook", {n: h.done for n, h in hooks.items()})
    yield "hook_failed_total", "Hooks that failed.", _by("hook", {n: h.failed for n, h in hooks.items()})
    yield "hook_attempts_total", "Tries of hooks.", _by("hook", {n: h.attempts for n, h in hooks.items()})
    yield "hook_seconds_total", "Time of hooks.", _by("hook", {n: h.seconds for n, h in hooks.items()})
    yield "recoveries_total", "Recoveries.", _one(metrics.recoveries)
    yield "recovered_entries_total", "Versions that were made up for.", _one(metrics.recovered_entries)
    yield "requests_total", "Requests to the storage, by kind.", _by("kind", metrics.requests)
    yield "bytes_read_total", "Bytes that requests brought.", _one(metrics.bytes_read)
    yield "bytes_written_total", "Bytes that requests took.", _one(metrics.bytes_written)


def _one(value: float) -> Samples:
    return [({}, value)]


def _by(label: str, values: Mapping[str, float]) -> Samples:
    return [({label: name}, value) for name, value in sorted(values.items())]


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
