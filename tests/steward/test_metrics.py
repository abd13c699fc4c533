"""What a handle counts, and how Prometheus is told."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.history.metrics import prometheus_text
from headgate.errors import ConflictError
from headgate.model.commit_event import CommitEvent
from headgate.model.metrics import HookTotals, Metrics
from headgate.steward.hooks.hook import Hook
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import counted
from tests.cli.program import run
from tests.steward.test_crash_sweep import Told, rows


class Fails:
    def run(self, event: CommitEvent) -> None:
        raise OSError("no")

    def describe(self) -> str:
        return "fails"


def test_every_request_is_counted_once() -> None:
    store, tally = counted(MemoryStore())
    lake = hg.Lake.init(store, divisor=4)
    reopened = hg.Lake.open(store)
    tally.reset()
    before = reopened.metrics()
    table = reopened.create_table("a.b", "id BIGINT, name STRING")
    for number in range(9):
        table.append(rows(number))
    table.delete("id = 3")
    table.read_arrow(where="id > 2")
    reopened.recover()
    reopened.timeline()
    after = reopened.metrics()
    counts = {kind: after.requests[kind] - before.requests.get(kind, 0) for kind in after.requests}
    assert counts == tally.counts()
    assert after.bytes_written - before.bytes_written == tally.bytes_written
    assert after.bytes_read - before.bytes_read == tally.bytes_read
    assert lake.metrics().commits == 0


def test_commits_rows_conflicts_hooks_and_recoveries_are_counted() -> None:
    lake = hg.Lake.init(MemoryStore(), hooks=[Hook("told", Told()), Hook("fails", Fails())])
    table = lake.create_table("a.b", "id BIGINT, name STRING")
    table.append(rows(1, 2, 3))
    table.delete("id = 1")
    first, second = lake.transaction(), lake.transaction()
    for tx in (first, second):
        tx.table("a.b").overwrite(pa.table({"id": [9], "name": ["x"]}))
    first.commit()
    with pytest.raises(ConflictError):
        second.commit()
    lake.recover()
    metrics = lake.metrics()
    assert (metrics.commits, metrics.attempts) == (4, 4)
    assert (metrics.rows_added, metrics.rows_removed) == (4, 1 + 2)
    assert sum(metrics.conflicts.values()) == 1
    assert (metrics.hooks["told"].done, metrics.hooks["told"].failed) == (4, 0)
    assert (metrics.hooks["fails"].failed, metrics.hooks["fails"].attempts) == (4, 12)
    assert metrics.recoveries == 1
    assert metrics.commit_seconds > 0


def test_prometheus_reads_the_text() -> None:
    metrics = Metrics(
        commits=3,
        conflicts={'odd "name"\n\\': 2},
        hooks={"h": HookTotals(1, 2, 5, 0.25)},
        requests={"get": 7},
    )
    text = prometheus_text(metrics, "lake-1")
    sample = re.compile(r'headgate_\w+_total\{(\w+="(?:[^"\\\n]|\\["\\n])*",?)+\} [0-9.e+-]+')
    lines = text.splitlines()
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines), text
    assert 'headgate_commits_total{lake="lake-1"} 3' in lines
    assert 'headgate_requests_total{lake="lake-1",kind="get"} 7' in lines
    assert 'headgate_conflicts_total{lake="lake-1",rule="odd \\"name\\"\\n\\\\"} 2' in lines
    named = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(named) == len(set(named))


def test_a_child_counts_its_own(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    lake.set_properties({"a": "1"})
    Inspector(lake).handle.steward.ledger.after_fork()
    Inspector(lake).driver.meter.after_fork()
    assert lake.metrics() == Metrics()


def test_a_command_writes_its_counters(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    (tmp_path / "rows.csv").write_text("id,name\n1,a\n2,b\n")
    file = tmp_path / "headgate.prom"
    done = run("--metrics-file", file, "ingest", tmp_path / "lake", "a.b", tmp_path / "rows.csv")
    assert done.exit_code == 0, done.output
    text = file.read_text()
    assert f'headgate_rows_added_total{{lake="{lake.id}"}} 2' in text
    assert f'headgate_commits_total{{lake="{lake.id}"}} 1' in text
    assert [path.name for path in tmp_path.iterdir() if "prom" in path.name] == ["headgate.prom"]
    refused = run("--metrics-file", tmp_path / "none" / "f", "tables", tmp_path / "lake")
    assert refused.exit_code == 2
    # Also of a command that fails.
    file.unlink()
    assert run("--metrics-file", file, "read", tmp_path / "lake", "a.c").exit_code == 1
    assert "headgate_requests_total" in file.read_text()
