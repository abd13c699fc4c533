"""What commits ended in, how large a lake is, and what its control entries add up to."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.history.metrics import lake_prometheus_text, prometheus_text
from headgate.hooks import CommitEvent, Hook, Python
from headgate.log.layout import entry_key
from headgate.model.control_entry import FailedCommits
from headgate.model.identifiers import Version
from headgate.model.metrics import Metrics
from headgate.storage.memory import MemoryStore
from tests.cli.program import run, run_json
from tests.cli.test_terminal import on_a_terminal

ONCE = hg.RetryPolicy(attempts=1)


def test_failed_commits_are_counted_by_the_kind_of_their_error() -> None:
    lake = hg.Lake.init(MemoryStore())
    table = lake.create_table("a.b", "id BIGINT")
    table.append(pa.table({"id": [1]}))
    first, second = lake.transaction(), lake.transaction()
    for tx in (first, second):
        tx.table("a.b").overwrite(pa.table({"id": [9]}))
    first.commit()
    with pytest.raises(hg.ConflictError) as caught:
        second.commit()
    with pytest.raises(hg.InvalidInputError):
        lake.transaction().commit()
    metrics = lake.metrics()
    assert metrics.failures == {caught.value.kind: 1, "invalid-input": 1}
    assert metrics.unknown_outcomes == 0
    assert 'headgate_commit_failures_total{lake="x",kind="invalid-input"} 1' in prometheus_text(metrics, "x")


def test_unknown_outcomes_are_counted() -> None:
    store = Unanswering()
    lake = hg.Lake.init(store, strategy="conditional")
    tx = lake.transaction()
    tx.set_properties({"n": "1"})
    store.is_silent = True
    with pytest.raises(hg.CommitUnknownError):
        tx.commit()
    assert (lake.metrics().unknown_outcomes, lake.metrics().failures) == (1, {})
    store.is_silent = False
    assert tx.commit().version == 1
    assert lake.metrics().to_json()["unknown_outcomes"] == 1
    assert 'headgate_commit_unknown_outcomes_total{lake="x"} 1' in prometheus_text(lake.metrics(), "x")


class Unanswering(MemoryStore):
    """Loses every answer while it is silent, of writes that have landed, too."""

    is_silent = False

    def put_if_absent(self, key: str, data: bytes) -> bool:
        is_new = super().put_if_absent(key, data)
        self._answer()
        return is_new

    def get(self, key: str) -> bytes | None:
        self._answer()
        return super().get(key)

    def _answer(self) -> None:
        if self.is_silent:
            raise hg.StorageError("no answer")


def failing(event: CommitEvent) -> None:
    raise OSError("no")


@pytest.fixture
def lake(tmp_path: Path) -> hg.Lake:
    hooks = [Hook("works", Python(lambda event: None)), Hook("fails", Python(failing), retry=ONCE)]
    lake = hg.Lake.init(tmp_path / "lake", hooks=hooks, divisor=4)
    table = lake.create_table("a.b", "id BIGINT")
    table.append(pa.table({"id": [1, 2, 3]}))
    table.append(pa.table({"id": [4]}))
    table.overwrite(pa.table({"id": [7, 8]}))
    lake.create_table("a.empty", "id BIGINT")
    return lake


def test_sizes_are_those_of_the_files(lake: hg.Lake) -> None:
    measured = lake.measure()
    assert measured.version == 5
    table, empty = measured.tables["a.b"], measured.tables["a.empty"]
    live = lake.table("a.b").files()
    assert (table.rows, table.files, table.bytes) == (2, len(live), sum(file.size_bytes for file in live))
    assert (empty.rows, empty.files, empty.bytes) == (0, 0, 0)
    objects = [path for path in Path(lake.place).rglob("*") if path.is_file()]
    control = [path for path in objects if "control" in path.parts]
    assert measured.lake is not None and measured.log is not None and measured.history is not None
    assert (measured.lake.objects, measured.lake.bytes) == size(objects)
    assert (measured.log.objects, measured.log.bytes) == size(control)
    assert measured.history.bytes == measured.lake.bytes - measured.log.bytes - table.bytes
    assert measured.history.objects == measured.lake.objects - measured.log.objects - len(live)


def size(paths: list[Path]) -> tuple[int, int]:
    return len(paths), sum(path.stat().st_size for path in paths)


def test_control_entries_of_all_writers_add_up(lake: hg.Lake) -> None:
    other = hg.Lake.open(lake.place)
    other.table("a.b").append(pa.table({"id": [9]}))
    activity = other.measure().activity
    assert (activity.commits, activity.attempts, activity.recovered, activity.without_entry) == (6, 6, 0, 0)
    assert (activity.rows_added, activity.rows_removed) == (3 + 1 + 2 + 1, 4)
    assert activity.kinds == {"commit": 6}
    works, fails = activity.hooks["works"], activity.hooks["fails"]
    assert (works.done, works.failed, works.attempts) == (5, 0, 5)
    assert (fails.done, fails.failed, fails.attempts) == (0, 5, 5)
    (Path(lake.place) / entry_key(Version(6))).unlink()
    assert other.measure().activity.without_entry == 1
    other.recover()
    assert other.measure().activity.recovered == 1
    assert other.measure(versions=2).activity.commits == 2
    assert other.measure(versions=0).activity.commits == 0
    with pytest.raises(hg.InvalidInputError):
        other.measure(versions=-1)


def test_failed_commits_of_a_handle_are_in_the_entry_of_its_next_version() -> None:
    """A commit that failed has no version of its own, so it is kept with the next one."""
    store = Unanswering()
    lake = hg.Lake.init(store, strategy="conditional")
    lake.create_table("a.b", "id BIGINT").append(pa.table({"id": [1]}))
    fail_with_a_conflict(lake)  # and commits version 3
    other = hg.Lake.open(store)
    assert other.measure().activity.failures == {}
    tx = lake.transaction()
    tx.set_properties({"n": "1"})
    store.is_silent = True
    with pytest.raises(hg.CommitUnknownError):
        tx.commit()
    store.is_silent = False
    assert tx.commit().version == 4
    activity = other.measure().activity
    assert (activity.failures, activity.unknown_outcomes) == ({"conflict": 1}, 1)
    lake.set_properties({"n": "2"})  # each is written once
    other.set_properties({"m": "3"})
    entry = other.control(4)
    assert entry is not None and entry.failed == FailedCommits({"conflict": 1}, 1)
    other.rebuild_control()
    activity = other.measure().activity
    assert (activity.commits, activity.failures, activity.unknown_outcomes) == (6, {"conflict": 1}, 1)
    text = lake_prometheus_text(other.measure(), "x")
    assert 'headgate_lake_commit_failures{lake="x",kind="conflict"} 1' in text
    assert 'headgate_lake_commit_unknown_outcomes{lake="x"} 1' in text


def fail_with_a_conflict(lake: hg.Lake) -> None:
    first, second = lake.transaction(), lake.transaction()
    for tx in (first, second):
        tx.table("a.b").overwrite(pa.table({"id": [9]}))
    first.commit()
    with pytest.raises(hg.ConflictError):
        second.commit()


def test_what_could_not_be_written_is_in_a_later_entry() -> None:
    store = WithoutEntries()
    lake = hg.Lake.init(store, strategy="conditional")
    lake.create_table("a.b", "id BIGINT")
    fail_with_a_conflict(lake)  # commits version 2
    store.is_refusing = True
    assert lake.set_properties({"n": "1"}).postponed
    store.is_refusing = False
    lake.set_properties({"n": "2"})
    entry = lake.control(4)
    assert entry is not None and entry.failed.failures == {"conflict": 1}


class WithoutEntries(MemoryStore):
    """Takes no control entries while it refuses."""

    is_refusing = False

    def put_if_absent(self, key: str, data: bytes) -> bool:
        if self.is_refusing and key.startswith("control/txn/"):
            raise hg.StorageError("the disk is full")
        return super().put_if_absent(key, data)


def test_fields_of_later_releases_outlast_a_rebuild(lake: hg.Lake) -> None:
    edit_entry(lake, 2, {"weather": "fine"})
    lake.rebuild_control()
    entry = lake.control(2)
    assert entry is not None and entry.unknown == {"weather": "fine"}


def edit_entry(lake: hg.Lake, version: int, fields: dict[str, object]) -> None:
    file = Path(lake.place) / entry_key(Version(version))
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


WRONG = [
    {"timings": {"commit": 10**400, "waited": float("inf")}},
    {"descriptor": {"kind": ["x"], "attempts": True, "changed": {"rows_added": -7, "rows_removed": 10**400}}},
    {"descriptor": {"attempts": "many", "changed": "all"}},
    {"hooks": [{"name": "a", "state": "done", "attempts": 1, "seconds": 10**400}]},
    {"failures": {"conflict": -1}},
    {"unknown_outcomes": "many"},
]


@pytest.mark.parametrize("fields", WRONG)
def test_what_is_no_number_in_an_entry_counts_as_none(lake: hg.Lake, fields: dict[str, object]) -> None:
    edit_entry(lake, 3, fields)
    done = lake.measure().activity
    assert done.commits == 5 and done.rows_added in (5, 6) and done.rows_removed in (0, 4)
    assert 4 <= done.attempts <= 5 and done.failures == {} and done.unknown_outcomes == 0
    assert 0 <= done.commit_seconds + done.waited_seconds < 600
    run_json("metrics", lake.place)


def test_names_in_entries_do_nothing_to_a_terminal(lake: hg.Lake) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    hook = {"name": evil, "state": "done", "attempts": 1, "seconds": 1}
    edit_entry(lake, 2, {"failures": {evil: 1}, "hooks": [hook]})
    for command in (["metrics"], ["metrics", "--prometheus"], ["metrics", "--json"]):
        code, said = on_a_terminal(*command, lake.place, TERM="dumb")
        assert code == 0 and "owned" in said
        assert not {"\x1b", "\x07", "\x9b"} & set(said)


def test_prometheus_gets_gauges(lake: hg.Lake) -> None:
    text = lake_prometheus_text(lake.measure(), lake.id)
    assert "# TYPE headgate_table_rows gauge" in text
    assert f'headgate_table_rows{{lake="{lake.id}",table="a.b"}} 2' in text
    assert f'headgate_lake_hook_failed{{lake="{lake.id}",hook="fails"}} 5' in text
    assert f'headgate_lake_version{{lake="{lake.id}"}} 5' in text
    names = [line.split("{")[0] for line in text.splitlines() if not line.startswith("#")]
    process = prometheus_text(Metrics(), "x")
    assert all(f"# TYPE {name} " not in process for name in names)  # both can be in one file


def test_the_command(lake: hg.Lake, tmp_path: Path) -> None:
    shown = run("metrics", lake.place)
    assert shown.exit_code == 0 and "a.b" in shown.output
    fields = run_json("metrics", lake.place, "--versions", "2")
    assert fields["tables"]["a.b"]["rows"] == 2 and fields["activity"]["commits"] == 2
    assert fields["activity"]["failures"] == {} and fields["activity"]["unknown_outcomes"] == 0
    assert fields["lake"]["bytes"] > fields["log"]["bytes"] > 0 and fields["history"]["objects"] > 0
    text = run("metrics", lake.place, "--prometheus").output
    assert "headgate_table_bytes" in text
    assert run("metrics", lake.place, "--versions", "-1").exit_code == 2


def test_a_storage_without_sizes_has_tables_and_activity() -> None:
    lake = hg.Lake.init(NoSizes(MemoryStore()), strategy="conditional")
    lake.create_table("a.b", "id BIGINT").append(pa.table({"id": [1, 2]}))
    measured = lake.measure()
    assert (measured.lake, measured.log, measured.history) == (None, None, None)
    assert measured.tables["a.b"].rows == 2 and measured.activity.commits == 2
    text = lake_prometheus_text(measured, "x")
    assert "headgate_lake_bytes" not in text and "headgate_table_rows" in text


class NoSizes:
    """A storage that lists keys alone."""

    def __init__(self, inner: MemoryStore) -> None:
        self.describe, self.uri = inner.describe, inner.uri
        self.get, self.put, self.delete, self.list_page = inner.get, inner.put, inner.delete, inner.list_page
        self.put_if_absent = inner.put_if_absent
