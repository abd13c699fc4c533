"""Clustering of tables through Arrow: rows stay, files tell more of them, and ingestion comes first."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.arrow.rewrite import ArrowRewriter
from headgate.iceberg.format.directories import Target
from headgate.iceberg.scan.engine import Clustering, Content, RewriteGroup, Rewritten
from headgate.maintenance.clustering import Clusterer
from headgate.model.reports import ClusteringReport, CompactionProgress
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector

DIVISOR = 4
SIDE = 128
"""Rows are the points of a square of so many by so many."""


def points(start: int, step: int) -> pa.Table:
    numbers = range(start, SIDE * SIDE, step)
    return pa.table(
        {
            "id": list(numbers),
            "x": [n % SIDE for n in numbers],
            "y": [f"y{n // SIDE:04}" for n in numbers],
            "part": ["ab"[n % 2] for n in numbers],
        }
    )


def made(
    store: MemoryStore | Path, partition_by: Sequence[str] = (), file_bytes: int = 1500, appends: int = 3
) -> hg.Lake:
    """A table of four versions, a complete window, unless there are fewer appends."""
    lake = hg.Lake.init(store, divisor=DIVISOR)
    lake.create_table(
        "t.t",
        "id BIGINT, x BIGINT, y STRING, part STRING",
        partition_by=partition_by,
    )
    for number in range(appends):
        with lake.transaction() as tx:
            tx.table("t.t").append(points(number, appends))
            if number == appends - 1:  # not before: every append is one file of a partition
                tx.table("t.t").set_properties({"write.target-file-size-bytes": str(file_bytes)})
    return lake


@pytest.fixture(params=[[], ["part"]], ids=["whole", "partitioned"])
def lake(request: pytest.FixtureRequest) -> hg.Lake:
    return made(MemoryStore(), list(request.param))


def other(lake: hg.Lake) -> hg.Lake:
    return hg.Lake.open(Inspector(lake).store)


def ids(lake: hg.Lake, version: int | None = None) -> list[int]:
    found: list[int] = other(lake).table("t.t").read_arrow(version=version).column("id").to_pylist()
    return sorted(found)


def without(*gone: int) -> list[int]:
    return [number for number in range(SIDE * SIDE) if number not in gone]


def planned(lake: hg.Lake, where: str) -> int:
    return len(other(lake).table("t.t").plan(where).files)


# --- what it does -----------------------------------------------------------------------------------------


def test_a_z_order_lets_reads_by_either_column_pass_over_files(lake: hg.Lake) -> None:
    report = other(lake).table("t.t").cluster(None, ["x", "y"], zorder=True)
    files = len(other(lake).table("t.t").files())
    assert files == report.files_out >= 8
    assert planned(lake, "x = 5") <= files * 3 // 4
    assert planned(lake, "y = 'y0007'") <= files * 3 // 4
    assert planned(lake, "x = 5 and y = 'y0007'") <= files // 2
    assert ids(lake) == without()


def test_sorted_by_a_column_a_read_by_it_opens_few_files(lake: hg.Lake) -> None:
    paths = 2 if lake.table("t.t").partition_by else 1
    everything = planned(lake, "y = 'y0007'")
    assert everything == len(lake.table("t.t").files())
    lake.table("t.t").cluster(None, ["y"])
    assert planned(lake, "y = 'y0007'") <= 2 * paths < len(other(lake).table("t.t").files())
    assert ids(lake) == without()
    for file in lake.table("t.t").files():
        assert "/L1-1-4-" in file.path
        assert file.version == 4


def test_the_report_tells_what_was_done(lake: hg.Lake) -> None:
    told: list[CompactionProgress] = []
    before = lake.table("t.t").files()
    lake.table("t.t").delete("id < 10")
    # Version 5, after the window: these rows are carried, not dropped.
    report = other(lake).table("t.t").cluster(None, ["x"], progress=told.append)
    paths = 2 if lake.table("t.t").partition_by else 1
    assert (report.table, report.by, report.zorder) == ("t.t", ("x",), False)
    assert (report.files_in, report.rows, report.rows_dropped) == (len(before), SIDE * SIDE, 0)
    assert (report.groups, report.files_recent, report.files_pending) == (paths, 0, 0)
    assert report.versions == (6, 7)
    assert other(lake).version == 7
    assert told[-1].files_done == told[-1].files == len(before)
    assert ids(lake) == without(*range(10))


def test_what_is_so_clustered_is_left(lake: hg.Lake) -> None:
    first = lake.table("t.t").cluster(None, ["x"])
    again = other(lake).table("t.t").cluster(None, ["x"])
    assert not again.changed
    assert again.files_clustered == first.files_out
    assert other(lake).table("t.t").cluster(None, ["x", "y"], zorder=True).files_in == first.files_out


def test_files_of_the_last_window_are_left_until_it_is_complete(lake: hg.Lake) -> None:
    table = lake.table("t.t")
    table.append(pa.table({"id": [50_000], "x": [1], "y": ["y"], "part": ["a"]}))
    first = other(lake).table("t.t").cluster(None, ["x"])
    assert (first.files_recent, first.complete_at) == (1, 8)
    assert other(lake).version == 7
    other(lake).table("t.t").delete("id = 0")
    second = other(lake).table("t.t").cluster(None, ["x"])
    # Version 8 completes the window 5 to 8; the older one is so clustered already.
    assert (second.files_in, second.files_recent, second.files_clustered) == (1, 0, first.files_out)
    assert ids(lake) == sorted([*without(0), 50_000])


def test_nothing_is_done_before_a_window_is_complete() -> None:
    lake = made(MemoryStore(), appends=2)
    report = lake.table("t.t").cluster(None, ["x"])
    assert report == ClusteringReport("t.t", ("x",), False, files_recent=2, complete_at=4)
    assert lake.version == 3


def test_a_predicate_chooses_paths() -> None:
    lake = made(MemoryStore(), ["part"])
    report = lake.table("t.t").cluster(None, ["x"], where="part = 'a' and x < 3")
    assert report.groups == 1
    assert {file.partition["part"] for file in lake.table("t.t").files() if "/L1-" in file.path} == {"a"}
    assert {file.partition["part"] for file in lake.table("t.t").files() if "/L0-" in file.path} == {"b"}
    with pytest.raises(hg.InvalidInputError, match="nosuch"):
        lake.table("t.t").cluster(None, ["x"], where="nosuch = 1")


def test_files_of_an_old_spec_stay_in_it() -> None:
    lake = made(MemoryStore(), ["part"])
    lake.table("t.t").replace_partition_by(["bucket(2, id)"])
    for number in range(3):
        lake.table("t.t").append(pa.table({"id": [number], "x": [1], "y": ["y"], "part": ["a"]}))
    report = lake.table("t.t").cluster(None, ["x"])
    assert report.files_recent == 0
    assert {tuple(file.partition) for file in lake.table("t.t").files()} == {("part",), ("id_bucket",)}
    assert ids(lake) == sorted([*without(), 0, 1, 2])


@pytest.mark.parametrize("by", [["nosuch"], []])
def test_columns_that_are_not_there_are_refused_and_nothing_is_planned(lake: hg.Lake, by: list[str]) -> None:
    with pytest.raises(hg.InvalidInputError, match="cluster"):
        lake.table("t.t").cluster(None, by)
    assert other(lake).version == 4


def test_tables_with_types_that_spark_has_not_are_clustered() -> None:
    lake = hg.Lake.init(MemoryStore(), divisor=2)
    table = lake.create_table("t.t", "id UUID, at TIME")
    numbers = [uuid.UUID(int=n) for n in range(9, 0, -1)]
    table.append(pa.table({"id": pa.array([n.bytes for n in numbers], pa.uuid()), "at": pa.nulls(9)}))
    table.cluster(None, ["id"])
    assert table.read_arrow().column("id").to_pylist() == sorted(numbers)


# --- row changes before and meanwhile ---------------------------------------------------------------------


def test_deletes_of_the_window_are_applied_and_later_ones_carried() -> None:
    lake = made(MemoryStore(), appends=2)
    lake.table("t.t").delete("x = 3")
    later = lake.table("t.t").delete("x = 4").version
    assert (later, lake.version) == (5, 5)
    report = lake.table("t.t").cluster(None, ["x", "y"], zorder=True)
    assert report.rows_dropped == SIDE
    assert ids(lake) == [n for n in range(SIDE * SIDE) if n % SIDE not in (3, 4)]
    view = other(lake).table("t.t")._view()
    assert {at for planned in view.files() for at in planned.deleted_at} == {later}
    # What went is told once, by the versions that deleted it.
    assert other(lake).table("t.t").changes_arrow(later).num_rows == 0


class Meanwhile:
    """A rewriter that lets something happen before it ends."""

    def __init__(self, act: object) -> None:
        self.act = act

    def rewrite(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        yield from ArrowRewriter().rewrite(target, groups, clustering)
        assert callable(self.act)
        self.act()


def clustered_while(lake: hg.Lake, act: object) -> ClusteringReport:
    clusterer = Clusterer(
        Inspector(other(lake)).handle, "t.t", rewriter=lambda _target, _spark: Meanwhile(act)
    )
    return clusterer.run(["x", "y"], True, None)


def test_a_delete_that_began_before_finds_its_rows_in_the_clustered_files(lake: hg.Lake) -> None:
    tx = other(lake).transaction()
    tx.table("t.t").delete("id IN (1, 6, 11)")
    tx.table("t.t").update({"x": "1000"}, where="id = 2")
    lake.table("t.t").cluster(None, ["x", "y"], zorder=True)
    tx.commit()
    assert ids(lake) == without(1, 6, 11)
    assert other(lake).table("t.t").read_arrow(where="x = 1000").column("id").to_pylist() == [2]


def test_appends_go_on_while_a_table_is_clustered(lake: hg.Lake) -> None:
    def append() -> None:
        other(lake).table("t.t").append(pa.table({"id": [50_000], "x": [1], "y": ["y"], "part": ["a"]}))

    report = clustered_while(lake, append)
    assert report.changed
    assert ids(lake) == [*without(), 50_000]


def test_row_changes_are_refused_while_their_files_are_clustered(lake: hg.Lake) -> None:
    refused: list[str] = []

    def delete() -> None:
        with pytest.raises(hg.ConflictError, match="rule 32") as caught:
            other(lake).table("t.t").delete("id = 7")
        refused.append(str(caught.value))

    clustered_while(lake, delete)
    assert "clustering.allow_updates = true" in refused[0]
    assert ids(lake) == without()
    other(lake).table("t.t").delete("id = 7")
    assert ids(lake) == without(7)


def test_row_changes_win_where_updates_are_allowed(lake: hg.Lake) -> None:
    lake.table("t.t").set_properties({"clustering.allow_updates": "true"})
    with pytest.raises(hg.ConflictError, match="was cancelled"):
        clustered_while(lake, lambda: other(lake).table("t.t").delete("id = 7"))
    assert ids(lake) == without(7)
    assert not other(lake).timeline(pending=True)
    assert not [file for file in other(lake).table("t.t").files() if "/L1-" in file.path]
    # It can be done again.
    assert other(lake).table("t.t").cluster(None, ["x"]).changed
    assert ids(lake) == without(7)


def test_a_clustering_makes_way_for_announced_ingestion(lake: hg.Lake) -> None:
    lake.table("t.t").set_properties({"clustering.allow_updates": "true"})
    tx = other(lake).transaction()
    with pytest.raises(hg.ConflictError, match="rule 34"):
        clustered_while(lake, lambda: tx.table("t.t").delete("id = 7"))
    assert not [one for one in other(lake).timeline(pending=True) if one.kind == "clustering"]
    tx.commit()
    assert ids(lake) == without(7)


def test_files_that_another_service_is_about_to_rewrite_are_left(lake: hg.Lake) -> None:
    files = [file.path for file in lake.table("t.t").files()]
    with other(lake).transaction() as tx:
        tx.plan("compaction", "t.t", files[:2], ["/t/t"])
    report = other(lake).table("t.t").cluster(None, ["x"])
    assert report.files_pending == 2
    assert report.files_in == len(files) - 2


def test_one_that_somebody_cancelled_is_not_completed(lake: hg.Lake) -> None:
    def cancel() -> None:
        (plan,) = Inspector(other(lake)).refresh().plans
        other(lake).cancel(plan.text)

    with pytest.raises(hg.ConflictError, match="was cancelled"):
        clustered_while(lake, cancel)
    assert ids(lake) == without()


# --- what goes wrong --------------------------------------------------------------------------------------


class Lossy:
    """A rewriter that says its rows are others than they were."""

    def rewrite(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        for done in ArrowRewriter().rewrite(target, groups, clustering):
            yield Rewritten(done.files, done.before, Content(done.after.rows, done.after.hash ^ 1))


def test_content_that_would_change_is_refused_and_the_plan_cancelled(lake: hg.Lake) -> None:
    with pytest.raises(hg.InternalError, match="would change it"):
        Clusterer(Inspector(other(lake)).handle, "t.t", rewriter=lambda _target, _spark: Lossy()).run(
            ["x"], False, None
        )
    assert ids(lake) == without()
    assert not other(lake).timeline(pending=True)


def test_an_interrupted_one_is_cancelled(lake: hg.Lake) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clustered_while(lake, interrupt)
    assert not other(lake).timeline(pending=True)
    assert ids(lake) == without()


KILLED = """
import os, sys
import headgate as hg
from headgate.maintenance.clustering import Clusterer
from tests.maintenance.test_clustering import Meanwhile

lake = hg.Lake.open(sys.argv[1])
Clusterer(lake._handle, "t.t", rewriter=lambda target, spark: Meanwhile(lambda: os._exit(9))).run(
    ["x"], False, None
)
"""


def test_a_killed_one_leaves_nothing_to_be_seen(tmp_path: Path) -> None:
    lake = made(tmp_path / "lake", file_bytes=100_000)
    before = [file.path for file in lake.table("t.t").files()]
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "lake")], check=False, timeout=120)
    assert done.returncode == 9
    assert list((tmp_path / "lake").glob("data/t/t/data/L1-*/**/*.parquet"))
    opened = hg.Lake.open(tmp_path / "lake")
    assert [file.path for file in opened.table("t.t").files()] == before
    assert sorted(opened.table("t.t").read_arrow().column("id").to_pylist()) == without()
    assert opened.table("t.t").cluster(None, ["x"]).files_pending == len(before)
    (plan,) = Inspector(opened).refresh().plans
    opened.cancel(plan.text)
    assert opened.table("t.t").cluster(None, ["x"]).changed
    # What was written in vain takes space, until it is vacuumed; nothing else is found.
    assert {found.kind for found in opened.fsck(deep=True).findings} == {"files-unreferenced"}


def test_a_target_that_is_shorter_than_any_file_does_not_give_a_file_for_each_row() -> None:
    lake = made(MemoryStore(), file_bytes=1)
    report = lake.table("t.t").cluster(None, ["x"])
    assert report.files_out < SIDE * SIDE
    lake = made(MemoryStore(), file_bytes=1000)
    assert lake.table("t.t").cluster(None, ["x"]).files_out < SIDE
    assert ids(lake) == without()
